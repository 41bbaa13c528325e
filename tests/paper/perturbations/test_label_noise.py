from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

import naq
from naq.errors import OptionError
from naq.random import stream
from naq.tasks import ClassSplit
from naq_paper.perturbations.labels import LabelNoise

kinds = pytest.mark.parametrize("kind", ["symmetric", "asymmetric"])


@kinds
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 1.0])
def test_a_loop_finds_the_same(kind: str, share: float, graph: naq.Graph, split: ClassSplit) -> None:
    found = LabelNoise(share=share, kind=kind).apply(graph, split, 2)
    assert found.graph is graph and found.split is None and found.base_labels is not None
    restored = 0
    for c in split.base:
        nodes = [i for i in range(graph.num_nodes) if graph.labels[i] == c]
        uniform = stream(2, "change/label-noise/flip", c).random(len(nodes)).tolist()
        wrong = {i: u for i, u in zip(nodes, uniform) if u < share}
        while wrong and len(nodes) - len(wrong) < 9:
            del wrong[max(wrong, key=wrong.__getitem__)]
            restored += 1
        others = set(found.base_labels[list(wrong)].tolist())
        assert c not in others and others <= set(split.base)
        assert kind == "symmetric" or len(others) <= 1
        assert all(found.base_labels[i] == c for i in nodes if i not in wrong)
        assert (found.base_labels == c).sum() >= 9
    outside = ~np.isin(graph.labels, split.base)
    assert (found.base_labels[outside] == -1).all()
    wrong_labels = int((found.base_labels != graph.labels)[~outside].sum())
    assert found.facts == {
        "labels": int((~outside).sum()),
        "wrong": wrong_labels,
        "wrong_share": wrong_labels / (~outside).sum(),
        "restored": restored,
    }
    assert (restored > 0) == (share >= 0.5)


def test_asymmetric_is_one_cycle(graph: naq.Graph, split: ClassSplit) -> None:
    for seed in range(20):
        given = LabelNoise(share=1.0, kind="asymmetric", keep=1).apply(graph, split, seed).base_labels
        to = {c: int(next(x for x in given[graph.labels == c] if x != c)) for c in split.base}
        c, met = 0, []
        for _ in split.base:
            c = to[c]
            met.append(c)
        assert sorted(met) == sorted(split.base)


@kinds
def test_noise_is_nested(kind: str, graph: naq.Graph, split: ClassSplit) -> None:
    levels = [LabelNoise(share=s, kind=kind).apply(graph, split, 5).base_labels for s in (0.0, 0.1, 0.3, 0.6, 1.0)]
    for low, high in itertools.pairwise(levels):
        wrong = (low >= 0) & (low != graph.labels)
        assert np.array_equal(low[wrong], high[wrong])
        assert wrong.sum() < (high != graph.labels)[high >= 0].sum()


@kinds
def test_a_class_is_drawn_on_its_own(kind: str, graph: naq.Graph, split: ClassSplit) -> None:
    fewer = graph.with_labels(np.where((graph.labels == 0) & (np.arange(200) % 2 == 0), -1, graph.labels))
    whole, less = (LabelNoise(share=0.4, kind=kind).apply(g, split, 0).base_labels for g in (graph, fewer))
    assert np.array_equal(whole[graph.labels != 0], less[graph.labels != 0])


def test_share_and_target_classes_on_debian(debian: tuple[naq.Graph, ClassSplit]) -> None:
    graph, split = debian
    found = LabelNoise(share=0.3).apply(graph, split, 0)
    assert found.facts["restored"] == 0
    assert binomtest(found.facts["wrong"], found.facts["labels"], 0.3).pvalue > 1e-3
    largest = max(split.base, key=lambda c: (graph.labels == c).sum())
    given = found.base_labels[graph.labels == largest]
    counts = [int((given == c).sum()) for c in split.base if c != largest]
    assert chisquare(counts).pvalue > 1e-3
    assert found.facts["wrong"] == (found.base_labels != graph.labels)[np.isin(graph.labels, split.base)].sum()


def test_one_class_cannot_be_mixed(graph: naq.Graph) -> None:
    with pytest.raises(OptionError, match="needs two base classes to mix, but the split has 1"):
        LabelNoise().apply(graph, ClassSplit((0,), (1,), (2,)), 0)
