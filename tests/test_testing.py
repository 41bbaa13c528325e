"""The checks of ``naq.testing`` over the whole registry; and each of them notices what it is there for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import naq
from naq import testing
from naq.embedders.smooth import Smooth
from naq.heads import HEADS
from naq.heads.prototype import PrototypeHead
from naq.heads.transductive import TransductiveHead
from naq.learners import Learner
from naq.learners.glitter import Glitter
from naq.learners.protonet import ProtoNet
from naq.learners.tent import TENT
from naq.methods import Method, get_method, methods
from naq_paper.rivals.bgrl import BGRL
from naq_paper.rivals.sugrl import SUGRL

Patch = tuple[type, str, Callable[..., Any]]
ALL = list(methods())
each_check = pytest.mark.parametrize("check", testing.METHOD_CHECKS, ids=lambda check: check.__name__)


@each_check
@pytest.mark.parametrize("name", ALL)
def test_methods(name: str, check: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "naq-plus/sugrl":  # some nodes have the vectors of SUGRL alone, by which validation tasks choose
        monkeypatch.setattr(get_method(name).model, "encode_all", SUGRL.encode_all)
    check(get_method(name), {})


@each_check
@pytest.mark.parametrize("name", ["naq-feat/glitter", "supervised/glitter"])
def test_glitter_with_learned_edges(name: str, check: Callable[..., None]) -> None:
    check(get_method(name), {"k_keep": 3})


@pytest.mark.parametrize("name", HEADS)
def test_heads(name: str) -> None:
    testing.check_head(name)


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


def all_labelled_nodes(self: TENT) -> None:
    """TENT's first loss term over whatever the graph has labels of."""
    self.base_nodes = np.flatnonzero(self.graph.labels >= 0)
    self.base_classes, targets = np.unique(self.graph.labels[self.base_nodes], return_inverse=True)
    self._base_targets = torch.from_numpy(targets)


PEEKING: dict[str, tuple[str, Patch]] = {
    "loss": ("*/protonet", in_loss(ProtoNet)), "build": ("*/protonet", in_build(reading)),
    "source": ("*/protonet", in_build(lambda graph: reading(naq.load(graph.source)))),
    "class names": ("*/protonet", in_build(lambda g: float(sum(map(ord, "".join(g.class_names)))) / 1000)),
    "put back": ("*/protonet", in_build(lambda g: reading(g.with_labels(np.full(g.num_nodes, -1))))),
    "encode": ("*/protonet", in_vectors(ProtoNet, "encode")),
    "encode_all": ("*/protonet", in_vectors(ProtoNet, "encode_all")),
    "labelled nodes": ("*/tent", (TENT, "_find_base_nodes", all_labelled_nodes)),
    "answers": ("*/glitter", (Glitter, "solve", lambda self, tasks: self.graph.labels[tasks.query] % 2)),
    "embed": ("smooth", in_vectors(Smooth, "embed")), "trained": ("bgrl", in_loss(BGRL)),
}  # fmt: skip


@pytest.mark.parametrize("episodes", ["naq-feat", "supervised"])
@pytest.mark.parametrize("place", PEEKING)
def test_a_method_that_peeks_is_caught(place: str, episodes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, patch = PEEKING[place]
    monkeypatch.setattr(*patch)
    with pytest.raises(AssertionError, match="labels that it may not read"):
        testing.check_labels(get_method(name.replace("*", episodes)), {})


def test_labels_of_base_classes_may_be_read_when_supervised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*in_loss(ProtoNet, lambda self: 0.0 if self.base_labels is None else self.base_labels.mean()))
    for episodes in ("naq-feat", "supervised"):
        testing.check_labels(get_method(f"{episodes}/protonet"), {})


class Unseeded(ProtoNet):
    name = "unseeded"

    def loss(self, episodes: naq.Episodes, update: int = 0) -> torch.Tensor:
        return super().loss(episodes, update) * (1 + torch.rand(()))


class ById(ProtoNet):
    name = "by-id"

    def encode_all(self) -> torch.Tensor:
        return super().encode_all() + torch.arange(self.graph.num_nodes)[:, None]


class NeedsEdges(ProtoNet):
    name = "needs-edges"

    def encode_all(self) -> torch.Tensor:
        return super().encode_all() / self.graph.num_edges


class Forgetful(ProtoNet):
    name = "forgetful"

    def build(self) -> None:
        super().build()
        self.shift = float(torch.rand((), generator=self.generator("shift")))
        self.steps = 0

    def encode_all(self) -> torch.Tensor:
        return super().encode_all() + self.shift

    def loss(self, episodes: naq.Episodes, update: int = 0) -> torch.Tensor:
        self.steps += 1
        return super().loss(episodes, update) * self.steps


class ReadsMissing(ProtoNet):
    name = "reads-missing"

    def loss(self, episodes: naq.Episodes, update: int = 0) -> torch.Tensor:
        return super().loss(episodes, update) + float((episodes.query == 5).sum())


class Divides(ProtoNet):
    name = "divides"

    def loss(self, episodes: naq.Episodes, update: int = 0) -> torch.Tensor:
        return super().loss(episodes, update) / float(episodes.mask.sum())


class ByOrder(Glitter):
    name = "by-order"

    def solve(self, tasks: naq.Tasks) -> np.ndarray:
        return np.tile(tasks.query_slots, (len(tasks), 1))


@pytest.mark.parametrize(("kind", "check"), [
    (Unseeded, testing.check_seed), (ById, testing.check_renumbering), (ById, testing.check_encode),
    (NeedsEdges, testing.check_small_graphs), (Forgetful, testing.check_weights), (Forgetful, testing.check_resume),
    (ReadsMissing, testing.check_missing_queries), (Divides, testing.check_missing_queries),
    (ByOrder, testing.check_solve),
], ids=lambda one: one.__name__)  # fmt: skip
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_broken_learner_is_caught(kind: type[Learner], check: Callable[..., None]) -> None:
    with pytest.raises(AssertionError, match=kind.name):
        check(Method(kind.name, "", kind, "naq-feat"), {})
    with pytest.raises(AssertionError, match=kind.name):
        testing.check_learner(kind, episodes="naq-feat")


def answering(change: Callable[..., np.ndarray], kind: type = PrototypeHead) -> type:
    def predict(self: Any, embedding: np.ndarray, tasks: naq.Tasks) -> np.ndarray:
        return change(kind.predict(self, embedding, tasks), embedding, tasks)

    return type("Broken", (kind,), {"name": "broken", "predict": predict})


def scale_in_place(slots: np.ndarray, embedding: np.ndarray, tasks: naq.Tasks) -> np.ndarray:
    embedding *= 2
    return slots


@pytest.mark.parametrize("kind", [
    answering(lambda slots, *_: slots.astype(np.int32)), answering(lambda slots, *_: slots[:, ::-1].copy()),
    answering(lambda slots, _, tasks: np.full_like(slots, tasks.way - 1)),
    answering(lambda slots, _, tasks: np.where(tasks.query % 7 == 0, 0, slots)),
    answering(lambda slots, _, tasks: np.where(np.arange(len(slots))[:, None] == 5, 0, slots)),
    answering(scale_in_place), type("Untrue", (TransductiveHead,), {"transductive": False}),
], ids=["type", "order", "chance", "node ids", "among others", "in place", "transductive"])  # fmt: skip
def test_a_broken_head_is_caught(kind: type) -> None:
    with pytest.raises(AssertionError, match=r"Broken|Untrue|transductive"):
        testing.check_head(kind)


def test_options_without_limits_are_caught() -> None:
    class Loose(PrototypeHead):
        name = "loose"

        def configure(self, given: Any) -> None:
            self.options = self.Options()

    with pytest.raises(AssertionError, match="no_such_option"):
        testing.check_head(Loose)
