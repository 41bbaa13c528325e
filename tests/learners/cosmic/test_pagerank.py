"""Sub-graphs by personalised PageRank against the dense power iteration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphs import islands, random_graph
from naq import Graph
from naq.errors import OptionError
from naq.learners.cosmic import subgraphs
from naq.learners.cosmic.subgraphs import centre_weights, induced_edges, ppr_subgraphs

RING = Graph([np.arange(40), (np.arange(40) + 1) % 40], nodes=40)
GRAPHS = {
    "random": random_graph(150, 250, seed=1),
    "many components": random_graph(150, 90, seed=2),
    "islands": islands(),
    "dense": random_graph(60, 900, seed=3),
    "star": Graph([[0] * 29, list(range(1, 30))], nodes=30),
    "ring": RING,
    "path": Graph([np.arange(49), np.arange(1, 50)], nodes=50),
    "no edges": Graph([[], []], nodes=12),
    "pair": Graph([[0], [1]], nodes=2),
}


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
    """Each row: the node, then the best others, scores right, all that were reached if too few; ties to the lowest id."""
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
def test_exact_equals_the_power_iteration(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = GRAPHS[name]
    for size, alpha, steps in ((20, 0.85, 10), (5, 0.85, 3), (8, 0.3, 1)):
        monkeypatch.setattr(subgraphs, "ALPHA", alpha)
        monkeypatch.setattr(subgraphs, "STEPS", steps)
        table = ppr_subgraphs(graph, size, method="exact")
        assert table.ids.dtype == np.int32 and table.k == size
        check(table.ids, table.scores, dense_scores(graph, alpha, steps), ties=True)


def test_more_sources_than_one_block_of_columns() -> None:
    graph = random_graph(700, 1500, seed=5)
    table = ppr_subgraphs(graph, method="exact")
    check(table.ids, table.scores, dense_scores(graph))


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


def bound_of(table: Any, tolerance: float, alpha: float = 0.85, steps: int = 10) -> np.ndarray:
    """What a score may miss: each step but the last loses one pruning bound at most."""
    return tolerance * table.scores[:, -1].astype(np.float64) * sum(alpha**j for j in range(1, steps))


@pytest.mark.parametrize("tolerance", [0.3, 0.03, 0.001])
@pytest.mark.parametrize("seed", [0, 1])
def test_pruned_scores_are_within_the_bound(seed: int, tolerance: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subgraphs, "TOLERANCE", tolerance)
    graph = random_graph(600, 2000, seed=seed)
    table = ppr_subgraphs(graph, method="pruned")
    expected = dense_scores(graph)
    miss = bound_of(table, tolerance)
    full = table.ids[:, -1] >= 0
    assert full.mean() > 0.9 and table.info["tolerance"] == tolerance
    for v in np.flatnonzero(full):
        gap = expected[v, table.ids[v]] - table.scores[v]
        assert (gap >= -1e-6 * expected[v, v]).all() and (gap <= miss[v] + 1e-6).all()
        outside = np.setdiff1d(np.arange(graph.num_nodes), table.ids[v])
        assert (expected[v, outside] <= table.scores[v, -1] + miss[v] + 1e-6).all()


def test_pruned_with_a_small_tolerance_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(subgraphs, "TOLERANCE", 1e-9)
        for name, graph in GRAPHS.items():
            pruned = ppr_subgraphs(graph, method="pruned")
            assert np.array_equal(pruned.ids, ppr_subgraphs(graph, method="exact").ids), name
    graph = random_graph(600, 2000, seed=4)
    exact, pruned = ppr_subgraphs(graph, method="exact"), ppr_subgraphs(graph, method="pruned")
    same = [len(set(a) & set(b)) for a, b in zip(exact.ids.tolist(), pruned.ids.tolist())]
    assert np.mean(same) > 0.99 * 20 * exact.counts.mean() / 20


def test_auto_is_exact_where_that_is_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = GRAPHS["random"]
    assert subgraphs.exact_cost(RING) == 10 * 40 * 80
    assert ppr_subgraphs(graph).info["method"] == "exact"
    monkeypatch.setattr(subgraphs, "EXACT_UP_TO", 10)
    assert ppr_subgraphs(graph).info["method"] == "pruned"


@pytest.mark.parametrize("method", ["exact", "pruned"])
def test_renumbered_nodes_have_the_same_members(method: str) -> None:
    graph = random_graph(400, 900, seed=6)
    new_id = np.random.default_rng(0).permutation(400)
    coo = graph.adjacency.tocoo()
    moved = Graph(np.stack([new_id[coo.row], new_id[coo.col]]), nodes=400)
    one, two = ppr_subgraphs(graph, method=method), ppr_subgraphs(moved, method=method)
    back = two.scores[new_id]
    assert np.allclose(one.scores, back, rtol=1e-5)
    expected = np.sort(np.where(one.ids >= 0, new_id[one.ids], -1), axis=1)
    found = np.sort(two.ids[new_id], axis=1)
    ordered = np.sort(dense_scores(graph), axis=1)[:, ::-1]
    clear = ordered[:, 19] - ordered[:, 20] > 1e-5 * ordered[:, 19]
    same = (expected == found).all(axis=1)
    assert clear.mean() > 0.5 and (same[clear].all() if method == "exact" else same[clear].mean() > 0.98)


@pytest.mark.parametrize("method", ["exact", "pruned"])
def test_the_number_of_threads_does_not_matter(threads: Any, method: str) -> None:
    graph = random_graph(500, 1200, seed=7)
    tables = []
    for count in (1, 2):
        threads(count)
        tables.append(ppr_subgraphs(graph, method=method))
    assert np.array_equal(tables[0].ids, tables[1].ids) and np.array_equal(tables[0].scores, tables[1].scores)


def test_the_cache_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph()
    plain = ppr_subgraphs(graph)
    made = ppr_subgraphs(graph, cache=tmp_path)
    (path,) = (tmp_path / "tables").iterdir()

    def fail(*_: Any) -> None:
        raise AssertionError("computed again")

    with monkeypatch.context() as patch:
        patch.setattr(subgraphs, "_exact", fail)
        patch.setattr(subgraphs, "_pruned", fail)
        again = ppr_subgraphs(graph.without_labels(), cache=tmp_path)
        for change in ({"size": 19}, {"method": "pruned"}):
            with pytest.raises(AssertionError, match="computed again"):
                ppr_subgraphs(graph, **({"cache": tmp_path} | change))
        for name, value in (("ALPHA", 0.8), ("STEPS", 9)):
            with patch.context() as other, pytest.raises(AssertionError, match="computed again"):
                other.setattr(subgraphs, name, value)
                ppr_subgraphs(graph, cache=tmp_path)
    for table in (made, again):
        assert np.array_equal(table.ids, plain.ids) and table.info == plain.info
    path.write_bytes(b"junk")
    with pytest.warns(UserWarning, match="is made again"):
        assert np.array_equal(ppr_subgraphs(graph, cache=tmp_path).ids, plain.ids)


@pytest.mark.parametrize("method", ["exact", "pruned"])
def test_progress_ends_with_all_nodes(method: str) -> None:
    seen: list[tuple[int, int]] = []
    ppr_subgraphs(random_graph(700, 1500, seed=5), method=method, progress=lambda done, n: seen.append((done, n)))
    assert seen[-1] == (700, 700) and [d for d, _ in seen] == sorted({d for d, _ in seen})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "size is 0; expected a whole number of at least 1"),
        ({"size": 2.0}, r"size is 2\.0"),
        ({"method": "fast"}, "method is 'fast'; expected one of auto, exact, pruned"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ppr_subgraphs(random_graph(), **options)


@pytest.mark.parametrize("name", GRAPHS)
def test_edges_and_centre_rows_of_sub_graphs(name: str) -> None:
    graph = GRAPHS[name]
    members = ppr_subgraphs(graph, 7).ids
    edges, weights = induced_edges(graph.adjacency, members), centre_weights(graph.adjacency, members)
    dense = graph.adjacency.toarray()
    for v, row in enumerate(members):
        kept = row[row >= 0]
        inside = dense[np.ix_(kept, kept)]
        expected = np.zeros((7, 7))
        expected[: len(kept), : len(kept)] = inside
        assert np.array_equal(edges[v], expected)
        looped = inside + np.eye(len(kept))
        scale = 1 / np.sqrt(looped.sum(1))
        assert np.allclose(weights[v, : len(kept)], (scale[:, None] * looped * scale)[0], atol=1e-6)
        assert (weights[v, len(kept) :] == 0).all()


def test_one_node_is_a_sub_graph_of_size_one() -> None:
    assert ppr_subgraphs(random_graph(), 1).ids.ravel().tolist() == list(range(60))
    for method in ("exact", "pruned"):
        assert np.array_equal(ppr_subgraphs(random_graph(600, 2000), 1, method=method).ids[:, 0], np.arange(600))
