from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from numba import njit

from graphs import islands, random_edges, random_graph
from naq import Graph, NeighborTable, diffusion_neighbors, load
from naq.errors import OptionError
from naq.graph.operators import normalized_adjacency
from naq.neighbors import diffusion, exact, push, walk
from naq.neighbors.diffusion import push_arrays, twins
from naq_scale import hashed_walk
from shared_data import shared


def dense_diffusion(graph: Graph, *, alpha: float = 0.1, self_loops: bool = True) -> np.ndarray:
    """alpha (I - (1 - alpha) T)^-1, straight from the definition."""
    a = graph.adjacency.toarray().astype(np.float64)
    if self_loops:
        a += np.eye(len(a))
    degree = a.sum(1)
    scale = np.where(degree > 0, 1 / np.sqrt(np.maximum(degree, 1)), 0)
    t = scale[:, None] * a * scale
    return alpha * np.linalg.inv(np.eye(len(a)) - (1 - alpha) * t)


def check_topk(table: NeighborTable, s: np.ndarray, graph: Graph, slack: float, relative: float = 0.0) -> None:
    """Every row holds the best of its component, best first; what differs from the oracle is a tie within ``slack``."""
    n, component = graph.num_nodes, graph.components
    other = (component[:, None] == component) & ~np.eye(n, dtype=bool)
    have = table.ids >= 0
    assert np.array_equal(table.counts, np.minimum(other.sum(1), table.k))
    assert not (have[:, 1:] & ~have[:, :-1]).any()
    assert other[np.nonzero(have)[0], table.ids[have]].all()
    assert all(len(set(row)) == len(row) for row in ([j for j in r if j >= 0] for r in table.ids.tolist()))
    assert (np.diff(table.scores, axis=1) <= 0).all() and (table.scores[~have] == 0).all()
    best = -np.sort(-np.where(other, s, -np.inf), axis=1)[:, : table.k]
    found = np.take_along_axis(s, np.maximum(table.ids, 0), 1)
    gap = np.where(have, best, 0) - np.where(have, found, 0)
    assert (np.abs(gap) <= slack + relative * np.abs(np.where(have, best, 0))).all(), np.abs(gap).max()


GRAPHS = {
    "random": random_graph(150, 250, seed=1), "many components": random_graph(150, 90, seed=2), "islands": islands(),
    "dense": random_graph(60, 900, seed=3), "star": Graph([[0] * 29, list(range(1, 30))], nodes=30),
    "no edges": Graph([[], []], nodes=12), "pair": Graph([[0], [1]], nodes=2),
}  # fmt: skip


def solved(graph: Graph, k: int, route: str, *, alpha: float = 0.1, self_loops: bool = True) -> NeighborTable:
    """The exact table; all components but single nodes are small or large."""
    transition = normalized_adjacency(graph.adjacency, self_loops=self_loops, dtype=np.float64)
    device, small = "cpu:0" if route == "torch" else "cpu", 256 if route == "inverse" else 1
    return NeighborTable(*exact.exact_topk(transition, graph.components, k, alpha, device, small=small))


@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_heat_kernel_is_the_exponential_of_the_dense_matrix(name: str, self_loops: bool) -> None:
    graph = GRAPHS[name]
    transition = normalized_adjacency(graph.adjacency, self_loops=self_loops, dtype=np.float64).toarray()
    for t in (0.5, 5.0, 30.0):
        k = min(10, graph.num_nodes - 1)
        table = diffusion_neighbors(graph, k, kernel="heat", t=t, self_loops=self_loops)
        s = scipy.linalg.expm(t * (transition - np.eye(graph.num_nodes)))
        check_topk(table, s, graph, 4e-12, 1e-6)
    assert table.info == {
        "kind": "diffusion", "kernel": "heat", "t": 30.0, "self_loops": self_loops, "k": k, "method": "exact",
        "fill": "none", "graph": table.info["graph"],
    }  # fmt: skip


@pytest.mark.parametrize("given", [{"kernel": "hot"}, {"t": 0.0}, {"t": float("nan")}, {"method": "push"}])
def test_the_heat_kernel_checks_what_it_is_given(given: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(given))):
        diffusion_neighbors(GRAPHS["pair"], 1, **{"kernel": "heat", **given})


@pytest.mark.parametrize("route", ["inverse", "chebyshev", "torch"])
@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("name", GRAPHS)
def test_exact_equals_the_dense_inverse(name: str, self_loops: bool, route: str) -> None:
    graph = GRAPHS[name]
    for alpha in (0.1, 0.5):
        table = solved(graph, min(10, graph.num_nodes - 1), route, alpha=alpha, self_loops=self_loops)
        s = dense_diffusion(graph, alpha=alpha, self_loops=self_loops)
        check_topk(table, s, graph, 4e-12, 1e-7)
        have = table.ids >= 0
        expected = np.take_along_axis(s, np.maximum(table.ids, 0), 1)[have]
        assert np.allclose(table.scores[have], expected, rtol=1e-6, atol=2e-12)


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.9, 0.999])
def test_the_chebyshev_error_is_as_stated(alpha: float) -> None:
    graph = random_graph(300, 700, seed=4)
    transition = normalized_adjacency(graph.adjacency, dtype=np.float64)
    s = dense_diffusion(graph, alpha=alpha)
    for device in ("cpu", "cpu:0"):
        solved = np.vstack([values.numpy() for _, values in exact.columns_of_ppr(transition, alpha, device)])
        assert np.abs(solved - s).max() <= 2 * exact.ERROR


@pytest.mark.parametrize("route", ["inverse", "chebyshev"])
def test_structural_ties_go_to_the_lowest_id(route: str) -> None:
    star, ring = GRAPHS["star"], Graph([np.arange(40), (np.arange(40) + 1) % 40], nodes=40)
    full = Graph(np.array(np.triu_indices(20, 1)), nodes=20)
    for self_loops in (True, False):
        ids = solved(star, 4, route, self_loops=self_loops).ids
        assert ids[0].tolist() == [1, 2, 3, 4] and ids[2].tolist() == [0, 1, 3, 4] and ids[29].tolist() == [0, 1, 2, 3]
        ids = solved(full, 4, route, self_loops=self_loops).ids
        assert ids[0].tolist() == [1, 2, 3, 4] and ids[7].tolist() == [0, 1, 2, 3]
        ids = solved(ring, 4, route, self_loops=self_loops).ids
        assert ids[5].tolist() == [4, 6, 3, 7] and ids[0].tolist() == [1, 39, 2, 38]


def check_bound(table: NeighborTable, s: np.ndarray, degree: np.ndarray, tolerance: float) -> None:
    """|S - S_push| <= tolerance * sqrt(d_i d_j) for every score, and no better node is left out by more than that."""
    have = table.ids >= 0
    rows = np.broadcast_to(np.arange(len(s))[:, None], table.ids.shape)[have]
    columns = table.ids[have]
    bound = tolerance * np.sqrt(degree[rows] * degree[columns])
    error = np.abs(s[rows, columns] - table.scores[have].astype(np.float64))
    assert (error <= bound + 1e-7 * s[rows, columns]).all()
    for i in np.flatnonzero(table.ids[:, -1] >= 0):
        last = table.ids[i, -1]
        floor = s[i, last] + tolerance * np.sqrt(degree[i] * degree[last]) + tolerance * np.sqrt(degree[i] * degree)
        better = s[i] > floor * (1 + 1e-6)
        better[i] = False
        assert set(np.flatnonzero(better)) <= set(table.ids[i])


def test_push_on_cora_is_within_its_bound() -> None:
    cora = load(shared("cora.npz"))
    s, degree = dense_diffusion(cora), cora.degrees + 1.0
    table = diffusion_neighbors(cora, k=10, method="push")
    assert table.info["tolerance"] == 1e-4 and 0 <= table.info["share_refined"] <= 1
    check_bound(table, s, degree, 1e-4)
    check_bound(diffusion_neighbors(cora, k=10, method="push", tolerance=1e-2), s, degree, 1e-2)
    reference = diffusion_neighbors(cora, k=10, method="exact")
    same = np.array([set(a) == set(b) for a, b in zip(table.ids.tolist(), reference.ids.tolist())])
    assert same.mean() > 0.95
    assert np.array_equal(table.counts, reference.counts)


@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("name", GRAPHS)
def test_push_on_small_graphs(name: str, self_loops: bool) -> None:
    graph = GRAPHS[name]
    k = min(12, graph.num_nodes - 1)
    s = dense_diffusion(graph, self_loops=self_loops)
    degree = graph.degrees + float(self_loops)
    table = diffusion_neighbors(graph, k=k, self_loops=self_loops, method="push")
    check_bound(table, s, degree, 1e-4)
    tight = diffusion_neighbors(graph, k=k, self_loops=self_loops, method="push", tolerance=1e-9)
    check_bound(tight, s, degree, 1e-9)
    check_topk(tight, s, graph, 1e-9 * 2 * degree.max(), 1e-6)
    strict = -np.sort(-np.where(np.eye(len(s), dtype=bool), -np.inf, s), axis=1)
    for i in np.flatnonzero(tight.counts == k):
        if k + 1 < len(s) and strict[i, k - 1] - strict[i, k] > 1e-6 * strict[i, k - 1]:
            assert set(tight.ids[i]) == set(np.flatnonzero(s[i] >= strict[i, k - 1])) - {i}


def test_push_deepens_until_a_component_is_found_whole() -> None:
    line = Graph([np.arange(39), np.arange(1, 40)], nodes=40)
    table = diffusion_neighbors(line, k=30, method="push", tolerance=0.1)
    assert (table.counts == 30).all()
    check_bound(table, dense_diffusion(line), line.degrees + 1.0, 0.1)
    hub = Graph(np.hstack([[[0] * 400, list(range(1, 401))], [[400], [401]]]), nodes=402)
    far = diffusion_neighbors(hub, k=5, method="push", tolerance=0.5)
    assert (far.counts == 5).all() and far.ids[401, :2].tolist() in ([400, 0], [0, 400])


def test_auto_takes_the_exact_route_where_it_is_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diffusion, "EXACT_UP_TO", 1.0)
    assert diffusion_neighbors(random_graph(400, 900), k=3).info["method"] == "push"
    assert diffusion_neighbors(islands(), k=3).info["method"] == "exact"


def test_info_says_how() -> None:
    graph = islands()
    table = diffusion_neighbors(graph, k=3, fill="random", seed=4, alpha=0.2, self_loops=False)
    expected = {"kind": "diffusion", "alpha": 0.2, "self_loops": False, "k": 3, "fill": "random", "seed": 4}
    assert table.info == expected | {"method": "exact", "graph": graph.structure_hash}


def hubs(n: int, edges: int, seed: int = 0) -> Graph:
    """Expected degrees by a power law with exponent 2.2: a few nodes have a good part of all edges."""
    random = np.random.default_rng(seed)
    ends = np.cumsum((np.arange(n) + 2.0) ** (-1 / 1.2))
    return Graph(np.searchsorted(ends / ends[-1], random.random((2, edges))), nodes=n)


def pushed(graph: Graph, k: int, **options: Any) -> tuple[np.ndarray, ...]:
    return push.push_topk(*push_arrays(graph, True), k, 0.1, options.pop("tolerance", 1e-4), **options)


def test_the_work_for_a_node_is_bounded_by_the_tolerance_it_reached_whatever_the_hubs() -> None:
    graphs = [hubs(600, 6000), hubs(1200, 12_000), Graph([[0] * 999, list(range(1, 1000))], nodes=1000)]
    assert graphs[1].degrees.max() > 50 * np.median(graphs[1].degrees)
    for graph in graphs:
        for tolerance in (1e-2, 1e-4):
            _, _, reached, visits = pushed(graph, 3, tolerance=tolerance)
            there = reached > 0
            # 1 / (alpha * bound) for the last round, a quarter of it for the one before, and so on.
            assert (visits[there] <= 4 / 3 / (0.1 * reached[there]) + push.WINDOW / (0.1 * push.BACK)).all()
            assert (visits[~there] == 0).all() and visits.max() <= 40 * push.REFINE_VISITS


def test_push_with_hubs_is_within_its_bound() -> None:
    graph = hubs(800, 4800, seed=3)
    s, degree = dense_diffusion(graph), graph.degrees + 1.0
    table = diffusion_neighbors(graph, k=20, method="push")
    check_bound(table, s, degree, 1e-4)
    assert np.array_equal(table.counts, diffusion_neighbors(graph, k=20, method="exact").counts)
    best = diffusion_neighbors(graph, k=10, method="exact")
    worst = np.take_along_axis(s, np.maximum(best.ids, 0), 1).min(axis=1)
    found = np.take_along_axis(s, np.maximum(table.ids[:, :10], 0), 1)
    assert (found >= worst[:, None] * (1 - 1e-6)).mean() > 0.88


def test_a_range_of_seeds_is_that_part_of_the_table() -> None:
    graph = Graph(random_edges(900, 1500, seed=6), nodes=900)
    whole = pushed(graph, 10)
    for low, high in ((0, 300), (300, 301), (301, 900), (5, 5)):
        for one, all_ in zip(pushed(graph, 10, seeds=(low, high)), whole):
            assert np.array_equal(one, all_[low:high])


def test_twins_have_the_same_neighbours() -> None:
    graph = Graph(
        np.array([[0, 1], [0, 2], [0, 3], [4, 5], [5, 6], [4, 6], [6, 7], [8, 9], [8, 10], [9, 10], [8, 11]]).T,
        nodes=13,
    )
    for matrix in (graph.adjacency, normalized_adjacency(graph.adjacency)):
        found = twins(matrix.indptr, matrix.indices)
        assert found.tolist() == [0, 1, 1, 1, 4, 4, 6, 7, 8, 9, 9, 11, 12]
    random = random_graph(300, 280, seed=9)
    lists = [frozenset(row) for row in np.split(random.adjacency.indices, random.adjacency.indptr[1:-1])]
    found = twins(random.adjacency.indptr, random.adjacency.indices)
    same = np.array([[a - {v} == b - {u} for v, b in enumerate(lists)] for u, a in enumerate(lists)])
    assert np.array_equal(found[:, None] == found, same) and same.sum() > 320


@pytest.mark.parametrize("bits", [2, 5, 17])
def test_a_walk_that_keeps_the_nodes_it_meets_is_the_dense_walk(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit, also where its table grows many times and where hubs make a row meet every node of its component."""
    graph = hubs(1200, 2400, seed=bits)
    monkeypatch.setattr(hashed_walk.hashed_memory, "__defaults__", (bits,))
    for one, other in zip(pushed(graph, 40), pushed(graph, 40, dense_up_to=0)):
        assert np.array_equal(one, other)


@njit(cache=True)
def relax(indptr, indices, alpha, omega, bound, nodes, touched, table, front, count):  # type: ignore[no-untyped-def]
    return walk.relax(indptr, indices, alpha, omega, bound, nodes, touched, table, front, count)


@njit(cache=True)
def number_of(table, nodes, node):  # type: ignore[no-untyped-def]
    return walk.number_of(table, nodes, node)


def test_the_table_of_a_walk_grows_and_is_empty_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A star's hub meets a thousand nodes; a walk that begins afterwards has a small table again."""
    monkeypatch.setattr(hashed_walk.hashed_memory, "__defaults__", (4,))
    indptr, indices, _, _ = push_arrays(Graph([[0] * 1000, range(1, 1001)], nodes=1001), True)
    nodes, lists, tables = walk.walk_memory(indptr, 1, dense_up_to=0)
    assert tables is not None
    one = (nodes[0, 0], lists[0, 0], tables[0, 0])
    walk.start_walk(indptr, one, 0)
    count, _ = relax(indptr, indices, 0.1, 1.0, 1e-6, *one, lists[0, 2:], 1)
    assert count == 1001 and 2 ** int(64 - tables[0, 0, -1]) >= 2002
    assert sorted(nodes[0, 0, :count]["id"]) == list(range(1001))
    assert [int(number_of(tables[0, 0], nodes[0, 0], node)) for node in nodes[0, 0, :5]["id"]] == list(range(5))
    walk.reset_walk(one, count)
    assert not tables[0, 0, :-2].any()
    walk.start_walk(indptr, one, 7)
    assert tables[0, 0, -1] == 64 - 4 and number_of(tables[0, 0], nodes[0, 0], 7) == 0
    assert nodes[0, 0, int(number_of(tables[0, 0], nodes[0, 0], 8))]["residual"] == 0.0
