"""The check for label peeking catches methods that peek, wherever they do it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import methods_under_test as suite
import naq
from label_peeking import check_no_label_peeking
from naq.embedders.smooth import Smooth
from naq.learners import Learner
from naq.learners.glitter import Glitter
from naq.learners.protonet import ProtoNet
from naq.learners.tent import TENT
from naq.methods import get_method
from naq_paper.rivals.bgrl import BGRL

Patch = tuple[type, str, Callable[..., Any]]


def reading(graph: naq.Graph) -> float:
    """A number that the labels of test classes change."""
    return float(np.flatnonzero(graph.labels == 5).sum()) / 1000


def in_loss(kind: type, of: Callable[[Any], float] = lambda self: reading(self.graph)) -> Patch:
    plain = kind.loss
    return kind, "loss", lambda self, *given, **more: plain(self, *given, **more) * (1 + of(self))


def in_build(read: Callable[[naq.Graph], float]) -> Patch:
    plain = ProtoNet.build

    def build(self: Learner) -> None:
        plain(self)
        with torch.no_grad():
            self.encoder.bias2 += read(self.graph)

    return ProtoNet, "build", build


def in_vectors(kind: type, name: str) -> Patch:
    plain = getattr(kind, name)
    return kind, name, lambda self, *given: plain(self, *given) + reading(self.graph)


def from_file(graph: naq.Graph) -> float:
    return reading(naq.load(graph.source))


def from_class_names(graph: naq.Graph) -> float:
    return float(sum(map(ord, "".join(graph.class_names)))) / 1000


def all_labelled_nodes(self: TENT) -> None:
    """TENT's first loss term over whatever the graph has labels of."""
    self.base_nodes = np.flatnonzero(self.graph.labels >= 0)
    self.base_classes, targets = np.unique(self.graph.labels[self.base_nodes], return_inverse=True)
    self._base_targets = torch.from_numpy(targets)


def answers(self: Learner, tasks: naq.Tasks) -> np.ndarray:
    return self.graph.labels[tasks.query] % 2


PATCHES: dict[str, tuple[str, Patch]] = {
    "loss": ("protonet", in_loss(ProtoNet)),
    "build": ("protonet", in_build(reading)),
    "source": ("protonet", in_build(from_file)),
    "class names": ("protonet", in_build(from_class_names)),
    "put back": ("protonet", in_build(lambda graph: reading(graph.with_labels(np.full(graph.num_nodes, -1))))),
    "encode": ("protonet", in_vectors(ProtoNet, "encode")),
    "encode_all": ("protonet", in_vectors(ProtoNet, "encode_all")),
    "labelled nodes": ("tent", (TENT, "_find_base_nodes", all_labelled_nodes)),
    "answers": ("glitter", (Glitter, "solve", answers)),
}


@pytest.mark.parametrize("episodes", ["naq-feat", "supervised"])
@pytest.mark.parametrize("place", PATCHES)
def test_a_learner_that_peeks_is_caught(
    place: str, episodes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, patch = PATCHES[place]
    method = get_method(f"{episodes}/{learner}")
    monkeypatch.setattr(*patch)
    with pytest.raises(AssertionError, match="labels that it may not read"):
        check_no_label_peeking(method, tmp_path)


@pytest.mark.parametrize(
    ("name", "patch"), [("smooth", in_vectors(Smooth, "embed")), ("bgrl", in_loss(BGRL))], ids=["smooth", "bgrl"]
)
def test_an_embedder_that_peeks_is_caught(
    name: str, patch: Patch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*patch)
    with pytest.raises(AssertionError, match="labels that it may not read"):
        check_no_label_peeking(get_method(name), tmp_path)


def test_answers_read_from_the_order_of_queries_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries of a task stand class by class."""
    monkeypatch.setattr(Glitter, "solve", lambda self, tasks: np.tile(tasks.query_slots, (len(tasks), 1)))
    with pytest.raises(AssertionError, match="the order of queries"):
        suite.check_solves(get_method("naq-feat/glitter"))


def test_labels_of_base_classes_may_be_read_when_supervised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*in_loss(ProtoNet, lambda self: 0.0 if self.base_labels is None else self.base_labels.mean()))
    for episodes in ("naq-feat", "supervised"):
        check_no_label_peeking(get_method(f"{episodes}/protonet"), tmp_path)
