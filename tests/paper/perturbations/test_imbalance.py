from __future__ import annotations

from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import naq
from naq.tasks import ClassSplit
from naq_paper.perturbations.labels import Imbalance, balanced_quota, largest


def ids(graph: naq.Graph, smaller: naq.Graph) -> list[int]:
    """Old ids of the nodes that stayed, by their names."""
    rows = {title: row for row, title in enumerate(graph.names.tolist())}
    return [rows[title] for title in smaller.names.tolist()]


@pytest.mark.parametrize(
    ("options", "whole"),
    [
        ({}, {0}),
        ({"top": 0.5}, {0, 1, 2, 3}),
        ({"top": 0.34}, {0, 1, 2}),
        ({"kind": "extreme"}, {0, 1, 2, 3, 4}),
        ({"kind": "extreme", "heads": 2, "tail": 4}, {0, 1}),
        ({"top": 0.5, "per": "part"}, {0, 1, 3, 4}),
        ({"kind": "extreme", "heads": 1, "per": "part"}, {0, 2, 4}),
    ],
)
def test_the_definition(options: dict[str, object], whole: set[int], graph: naq.Graph, split: ClassSplit) -> None:
    found = Imbalance(**options).apply(graph, split, 0)
    tail = int(options.get("tail", 10))
    assert found.redraw and found.base_labels is None
    sizes = [int((graph.labels == c).sum()) for c in range(9)]
    kept = [int((found.graph.labels == c).sum()) for c in range(9)]
    assert kept == [sizes[c] if c in whole else min(tail, sizes[c]) for c in range(9)]
    assert found.facts["classes_whole"] == sum(a == b for a, b in zip(sizes, kept))
    assert found.facts["nodes"] == sum(kept) and found.facts["unlabelled_left_out"] == 5
    assert found.facts["classes_left_out"] == sorted(c for c in range(9) if kept[c] < 9)
    for part in ("base", "valid", "test"):
        assert found.split.part(part) == tuple(c for c in split.part(part) if kept[c] >= 9)


@pytest.mark.parametrize("kind", ["pareto", "extreme", "balanced"])
def test_the_sub_graph_is_the_induced_one(kind: str, graph: naq.Graph, split: ClassSplit) -> None:
    found = Imbalance(kind=kind).apply(graph, split, 1)
    old, dense = ids(graph, found.graph), graph.adjacency.toarray()
    assert old == sorted(old) and len(set(old)) == len(old)
    expected = np.array([[dense[a, b] for b in old] for a in old])
    assert np.array_equal(found.graph.adjacency.toarray(), expected)
    assert np.array_equal(found.graph.features.toarray(), graph.features.toarray()[old])
    assert np.array_equal(found.graph.labels, graph.labels[old])
    assert found.facts["edges"] == expected.sum() / 2
    assert found.facts["mean_degree"] == pytest.approx(expected.sum(axis=1).mean())
    assert found.facts["mean_degree_before"] == pytest.approx(dense.sum(axis=1).mean())
    assert found.facts["isolated_share"] == pytest.approx((expected.sum(axis=1) == 0).mean())


def test_more_of_the_tail_holds_what_less_of_it_holds(graph: naq.Graph, split: ClassSplit) -> None:
    few, more = (Imbalance(tail=tail).apply(graph, split, 0).graph for tail in (9, 12))
    assert set(few.names.tolist()) < set(more.names.tolist())
    other = Imbalance(tail=9).apply(graph, split, 1).graph
    assert set(few.names.tolist()) != set(other.names.tolist())


def test_all_heads_leave_only_the_unlabelled_out(graph: naq.Graph, split: ClassSplit) -> None:
    found = Imbalance(top=1.0).apply(graph, split, 0)
    assert ids(graph, found.graph) == np.flatnonzero(graph.labels >= 0).tolist()
    assert found.facts["classes_whole"] == 9 and found.facts["classes_left_out"] == [8]


def test_ties_go_to_the_lower_class() -> None:
    classes = np.array([2, 5, 7, 9])
    assert largest(classes, np.array([3, 8, 8, 3]), 1).tolist() == [5]
    assert largest(classes, np.array([3, 8, 8, 3]), 3).tolist() == [5, 7, 2]


@pytest.mark.parametrize("like", ["pareto", "extreme"])
@pytest.mark.parametrize("per", ["graph", "part"])
def test_the_control_keeps_as_many_nodes(like: str, per: str, graph: naq.Graph, split: ClassSplit) -> None:
    uneven = Imbalance(kind=like, per=per).apply(graph, split, 0).graph
    control = Imbalance(kind="balanced", like=like, per=per).apply(graph, split, 0).graph
    assert control.num_nodes == uneven.num_nodes
    assert np.bincount(control.labels)[:8].min() >= 9 and (control.labels == 8).sum() == 3


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(1, 15), st.floats(0, 1))
def test_quota_is_one_share_of_all_that_are_not_held(sizes: list[int], keep: int, where: float) -> None:
    least = [min(keep, n) for n in sizes]
    total = round(sum(least) + where * (sum(sizes) - sum(least)))
    quota = balanced_quota(np.array(sizes), total, keep).tolist()
    assert sum(quota) == total
    assert all(low <= q <= n for low, q, n in zip(least, quota, sizes))
    held = [False] * len(sizes)
    while not all(held):
        free = [c for c, h in enumerate(held) if not h]
        share = Fraction(total - sum(low for low, h in zip(least, held) if h), sum(sizes[c] for c in free))
        below = [c for c in free if share * sizes[c] < least[c]]
        if not below:
            break
        for c in below:
            held[c] = True
    for c, h in enumerate(held):
        assert quota[c] == least[c] if h else abs(quota[c] - share * sizes[c]) < 1
    up = [share * sizes[c] % 1 for c in free if quota[c] > share * sizes[c]] if not all(held) else []
    down = [share * sizes[c] % 1 for c in free if quota[c] < share * sizes[c]] if not all(held) else []
    assert not up or not down or min(up) >= max(down), "the largest remainders are rounded up"


def test_counts_on_debian(debian: tuple[naq.Graph, ClassSplit]) -> None:
    graph, split = debian
    sizes = np.sort(np.bincount(graph.labels))[::-1]
    for kind, heads in (("pareto", 11), ("extreme", 5)):
        found = Imbalance(kind=kind).apply(graph, split, 0)
        assert found.graph.num_nodes == sizes[:heads].sum() + 10 * (55 - heads)
        assert found.facts["classes_whole"] == heads and found.split == split
        control = Imbalance(kind="balanced", like=kind).apply(graph, split, 0)
        assert control.graph.num_nodes == found.graph.num_nodes and control.split == split
        naq.sample_tasks(found.graph, way=5, shot=1, queries=8, count=5, seed=0, classes=split.test)
