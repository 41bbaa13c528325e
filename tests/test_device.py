"""Devices: those that are not there are named wherever they are given; memory that is free."""

import numpy as np
import pytest
import torch

import naq
from file_formats import small_graph
from naq import device as machine
from naq.errors import OptionError

ABSENT = f"cuda:{torch.cuda.device_count() + 7}"


@pytest.mark.parametrize("device", [ABSENT, "meta", "mps", "abacus", "", "cpu:x"])
def test_a_device_that_is_not_there_is_one_sentence(device):
    with pytest.raises(OptionError, match="device"):
        machine.checked_device(device)


def test_what_is_there_is_taken():
    assert machine.checked_device("cpu") == machine.checked_device(torch.device("cpu")) == torch.device("cpu")


@pytest.mark.parametrize("use", [
    lambda graph: naq.FewShotNodeClassifier(device=ABSENT).fit(graph),
    lambda graph: naq.feature_neighbors(graph, 3, device=ABSENT),
    lambda graph: naq.diffusion_neighbors(graph, 3, method="push", device=ABSENT),
    lambda graph: naq.vector_neighbors(np.eye(5), 2, device=ABSENT),
    lambda graph: naq.embed(graph, "naq-plus", device=ABSENT), lambda graph: naq.embed(graph, "bgrl", device=ABSENT),
    lambda graph: naq.embed(graph, "smooth", device=ABSENT, out="never.npy"),
    lambda graph: naq.run(graph, method="naq-feat/protonet", way=2, device=ABSENT),
])  # fmt: skip
def test_in_python(use, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match="device"):
        use(small_graph())
    assert not list(tmp_path.iterdir())


def test_a_share_of_what_is_free(monkeypatch):
    monkeypatch.setattr(machine, "_machine", lambda: 10e9)
    monkeypatch.setattr(machine, "_group", lambda: float("inf"))
    assert machine.free_bytes(torch.device("cpu")) == machine.SHARE * 10e9
    monkeypatch.setattr(machine, "_group", lambda: 4e9)
    assert machine.free_bytes(torch.device("cpu")) == machine.SHARE * 4e9


def test_limits_of_a_container(tmp_path):
    assert machine._group(str(tmp_path)) == float("inf"), "no files, no limit"
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert machine._group(str(tmp_path)) == float("inf")
    (tmp_path / "memory.max").write_text("5000\n")
    assert machine._group(str(tmp_path)) == 4000


def test_this_machine_has_some():
    assert 1e7 < machine._machine() < 1e14


def test_pages_are_kept_and_arithmetic_stays_the_same():
    before = torch.ones(1 << 21).cumsum(0)
    kept = machine.keep_pages()
    assert kept or not machine.Path("/proc/meminfo").exists()
    assert torch.equal(torch.ones(1 << 21).cumsum(0), before)
