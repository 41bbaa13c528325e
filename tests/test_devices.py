"""A device that is not there is one sentence wherever it is given."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import naq
from damaged_files import small_graph
from naq.device import checked_device
from naq.errors import OptionError
from naq.neighbors import vector_neighbors

ABSENT = f"cuda:{torch.cuda.device_count() + 7}"


@pytest.mark.parametrize("device", [ABSENT, "meta", "mps", "abacus", "", "cpu:x"])
def test_a_device_that_is_not_there_is_one_sentence(device: str) -> None:
    with pytest.raises(OptionError, match=rf"^device is '{device}', which cannot be used here; choose 'cpu'"):
        checked_device(device)


def test_what_is_there_is_taken() -> None:
    assert checked_device("cpu") == checked_device(torch.device("cpu")) == torch.device("cpu")


@pytest.mark.parametrize(
    "use",
    [
        lambda graph: naq.FewShotNodeClassifier(device=ABSENT).fit(graph),
        lambda graph: naq.feature_neighbors(graph, 3, device=ABSENT),
        lambda graph: naq.diffusion_neighbors(graph, 3, method="push", device=ABSENT),
        lambda graph: vector_neighbors(np.eye(5), 2, device=ABSENT),
        lambda graph: naq.embed(graph, "naq-plus", device=ABSENT),
        lambda graph: naq.embed(graph, "bgrl", device=ABSENT),
        lambda graph: naq.embed(graph, "smooth", device=ABSENT, out="never.npy"),
        lambda graph: naq.run(graph, method="naq-feat/protonet", way=2, device=ABSENT),
    ],
)
def test_in_python(use, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match="cannot be used here"):
        use(small_graph())
    assert not list(tmp_path.iterdir())
