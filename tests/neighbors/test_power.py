"""Sub-graphs by personalised PageRank against the dense power iteration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphs import islands, random_graph
from naq import Graph
from naq.neighbors import power
from naq.neighbors.power import ppr_subgraphs

RING = Graph([np.arange(40), (np.arange(40) + 1) % 40], nodes=40)
GRAPHS = {
    "random": random_graph(150, 250, seed=1), "more sources than one block": random_graph(700, 1500, seed=5),
    "many components": random_graph(150, 90, seed=2), "islands": islands(), "dense": random_graph(60, 900, seed=3),
    "star": Graph([[0] * 29, list(range(1, 30))], nodes=30), "ring": RING,
    "path": Graph([np.arange(49), np.arange(1, 50)], nodes=50), "no edges": Graph([[], []], nodes=12),
    "pair": Graph([[0], [1]], nodes=2),
}  # fmt: skip


def dense_scores(graph: Graph, alpha: float = 0.85, steps: int = 10) -> np.ndarray:
    """Row v: the scores of all nodes for source v, by the formula."""
    a, n = graph.adjacency.toarray().astype(np.float64), graph.num_nodes
    degree = a.sum(axis=0)
    p = a / np.maximum(degree, 1)
    x = np.eye(n)
    for _ in range(steps):
        x = (1 - alpha) * np.eye(n) + alpha * p @ x
    return (x / (degree + 1e-9)[:, None]).T


def check(ids: np.ndarray, scores: np.ndarray, expected: np.ndarray, *, ties: bool = False) -> None:
    """Each row: the node, then the best others, all that were reached if too few; ties to the lowest id."""
    slack = 1e-6
    n, size = ids.shape
    assert np.array_equal(ids[:, 0], np.arange(n))
    other = expected.copy()
    np.fill_diagonal(other, 0)
    reached = (other > 0).sum(axis=1)
    have = ids >= 0
    assert np.array_equal(have.sum(axis=1), 1 + np.minimum(reached, size - 1))
    assert (scores[~have] == 0).all() and (np.diff(scores[:, 1:], axis=1) <= 0).all()
    found = np.take_along_axis(expected, np.maximum(ids, 0).astype(np.int64), 1)
    assert np.allclose(scores[have], found[have], rtol=slack)
    for v in range(n):
        members = ids[v][have[v]]
        assert len(set(members)) == len(members)
        worst = other[v, members[1:]].min() if len(members) > 1 else 0
        outside = np.setdiff1d(np.arange(n), members)
        if len(members) == size and size > 1:
            assert (other[v, outside] <= worst * (1 + slack)).all()
            tied = np.abs(other[v] - worst) <= slack * worst
            chosen, left = np.flatnonzero(tied & np.isin(np.arange(n), members)), np.flatnonzero(tied)
            assert not ties or np.array_equal(chosen, left[: len(chosen)])


@pytest.mark.parametrize("name", GRAPHS)
def test_exact_equals_the_power_iteration(name: str) -> None:
    graph = GRAPHS[name]
    for size, alpha, steps in ((20, 0.85, 10), (5, 0.85, 3), (8, 0.3, 1), (1, 0.85, 10)):
        table = ppr_subgraphs(graph, size, method="exact", damping=alpha, steps=steps)
        assert table.ids.dtype == np.int32 and table.k == size
        check(table.ids, table.scores, dense_scores(graph, alpha, steps), ties=True)


def test_structural_ties_go_to_the_lowest_id() -> None:
    star = ppr_subgraphs(GRAPHS["star"], 5, method="exact").ids
    assert star[0].tolist() == [0, 1, 2, 3, 4] and star[2].tolist()[0] == 2
    assert ppr_subgraphs(RING, 4, method="exact").ids[5].tolist() == [5, 4, 6, 3]
    full = Graph(np.array(np.triu_indices(20, 1)), nodes=20)
    assert ppr_subgraphs(full, 4, method="exact").ids[7].tolist() == [7, 0, 1, 2]


def test_only_nodes_within_ten_hops() -> None:
    table = ppr_subgraphs(GRAPHS["path"], 30)
    assert table.counts[0] == 11 and table.counts[25] == 21
    assert set(table.ids[0][:11]) == set(range(11))


@pytest.mark.parametrize("tolerance", [0.3, 0.03, 0.001])
@pytest.mark.parametrize("seed", [0, 1])
def test_pruned_scores_are_within_the_bound(seed: int, tolerance: float) -> None:
    graph = random_graph(600, 2000, seed=seed)
    table = ppr_subgraphs(graph, method="pruned", tolerance=tolerance)
    expected = dense_scores(graph)
    # Each iteration but the last loses one pruning bound at most.
    miss = tolerance * table.scores[:, -1].astype(np.float64) * sum(0.85**j for j in range(1, 10))
    full = table.ids[:, -1] >= 0
    assert full.mean() > 0.9 and table.info["tolerance"] == tolerance
    for v in np.flatnonzero(full):
        gap = expected[v, table.ids[v]] - table.scores[v]
        assert (gap >= -1e-6 * expected[v, v]).all() and (gap <= miss[v] + 1e-6).all()
        outside = np.setdiff1d(np.arange(graph.num_nodes), table.ids[v])
        assert (expected[v, outside] <= table.scores[v, -1] + miss[v] + 1e-6).all()


def test_pruned_with_a_small_tolerance_is_exact() -> None:
    for name, graph in GRAPHS.items():
        for size in (1, 20):
            pruned = ppr_subgraphs(graph, size, method="pruned", tolerance=1e-9)
            assert np.array_equal(pruned.ids, ppr_subgraphs(graph, size, method="exact").ids), name


def test_auto_is_exact_up_to_a_number_of_additions() -> None:
    for allowed, method in ((10 * 40 * 80, "exact"), (10 * 40 * 80 - 1, "pruned")):
        assert ppr_subgraphs(RING, exact_up_to=allowed).info["method"] == method


def test_the_cache_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph()
    made = ppr_subgraphs(graph, cache=tmp_path)
    monkeypatch.setattr(power, "_exact", None)
    monkeypatch.setattr("naq_scale.pruned_power.find_members", None)
    again = ppr_subgraphs(graph.without_labels(), cache=tmp_path)
    assert np.array_equal(made.ids, again.ids) and made.info == again.info
    for change in ({"size": 19}, {"method": "pruned"}, {"damping": 0.8}, {"steps": 9}):
        with pytest.raises(TypeError):  # computed again
            ppr_subgraphs(graph, **({"cache": tmp_path} | change))
