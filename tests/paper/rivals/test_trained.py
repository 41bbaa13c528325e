"""What all trained embedders share."""

import pytest
import torch

import methods_under_test as suite
from naq.training import EpochTraining, loop
from naq_paper.rivals.bgrl import BGRL
from naq_paper.rivals.vnt import VNT

SMALL = {"hidden": 12, "latent": 6, "epochs": 4}


def test_only_a_training_on_the_whole_graph_changes_how_memory_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bool] = []
    monkeypatch.setattr(loop, "keep_pages", lambda: calls.append(True))
    monkeypatch.setattr("naq.device.keep_pages", lambda: calls.append(True))
    whole, batched = (BGRL(suite.community_graph(), batch=batch, **SMALL) for batch in (0, 64))
    whole.embed()
    EpochTraining(batched)
    assert not calls and "freed memory" not in batched.plan()
    EpochTraining(whole)
    assert calls == [True] and whole.plan().endswith("; freed memory stays with the process")


def test_progress_of_a_long_build_is_told() -> None:
    seen: list[tuple[int, int]] = []
    graph = suite.community_graph()
    VNT(graph, latent=8, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (graph.num_nodes, graph.num_nodes)


def test_decay_is_an_option_or_the_methods_own() -> None:
    graph = suite.community_graph()
    for model, decay in ((BGRL(graph, **SMALL), 1e-5), (VNT(graph, latent=8, weight_decay=0.25), 0.25)):
        assert model.optimizer().defaults["weight_decay"] == decay
    assert isinstance(BGRL(graph, **SMALL).optimizer(), torch.optim.AdamW)
