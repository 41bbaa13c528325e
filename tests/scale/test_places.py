"""Nodes at other places in memory: the same bits, wherever they lie."""

from __future__ import annotations

import numpy as np
import pytest

from generate import generate
from graphs import random_graph
from naq.embedders import EMBEDDERS
from naq.graph import Graph
from naq_scale.blocks import smoothing as module
from naq_scale.blocks.smoothing import Places, _agreed, places, plain_places, smooth_tile
from naq_scale.mapped import open_graph


def at_random(graph: Graph, seed: int = 0) -> Places:
    """Slow and obvious: a list of neighbours at a time."""
    node = np.random.default_rng(seed).permutation(graph.num_nodes)
    place = np.argsort(node)
    plain = graph.adjacency
    lists = [place[plain.indices[plain.indptr[i] : plain.indptr[i + 1]]] for i in node]
    return Places(np.r_[0, np.cumsum([len(one) for one in lists])], np.concatenate(lists), node, place)


def communities(nodes: int = 4000, seed: int = 0) -> tuple[Graph, np.ndarray]:
    """Two dozen groups without an order of numbers, nine of ten edges within a group, and rows that know the group."""
    random = np.random.default_rng(seed)
    group = random.integers(0, 24, nodes)
    members = [np.flatnonzero(group == number) for number in range(24)]
    one = random.integers(0, nodes, 8 * nodes)
    two = np.array([random.choice(members[group[i]]) for i in one])
    two = np.where(random.random(len(one)) < 0.1, random.integers(0, nodes, len(one)), two)
    rows = np.eye(24, 64, dtype=np.float32)[group] + 0.05 * random.standard_normal((nodes, 64)).astype(np.float32)
    return Graph(np.stack([one, two]), nodes=nodes), rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("width", [1, 5, 16, 37, 64])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_places_change_no_bit(width, steps):
    graph = random_graph(150, 1200)
    start = np.random.default_rng(2).standard_normal((150, width)).astype(np.float32)
    mean, scale = start.mean(axis=0), np.random.default_rng(3).random(150, dtype=np.float32)
    found = []
    for where in (plain_places(graph), at_random(graph)):
        dots, squares = _agreed(graph, start, mean, scale, where, np.full_like(start, np.nan))
        rows = (start.copy(), np.full_like(start, np.nan), np.full_like(start, np.nan))
        found.append((smooth_tile(graph, where, rows, steps), dots, squares))
    assert all(np.array_equal(one, two) for one, two in zip(*found, strict=True))


def test_agreement_by_place_is_that_of_the_definition():
    graph = random_graph(90, 500)
    start = np.random.default_rng(2).standard_normal((90, 20)).astype(np.float32)
    mean, scale = start.mean(axis=0), np.random.default_rng(3).random(90, dtype=np.float32)
    z = (start.astype(np.float64) - mean) * scale[:, None]
    middle = graph.degrees @ z / graph.degrees.sum()
    sums = graph.adjacency @ z - graph.degrees[:, None] * middle
    dots, squares = _agreed(graph, start, mean, scale, at_random(graph), np.empty_like(start))
    assert np.allclose(dots, (z * sums).sum(axis=1), atol=1e-4)
    assert np.allclose(squares, (sums * sums).sum(axis=1), atol=1e-4)


def test_nodes_of_a_community_are_put_together(monkeypatch):
    monkeypatch.setattr(module, "LARGE", 0)
    graph, rows = communities()
    where = places(graph, rows)
    assert where.node is not None and where.place is not None
    assert np.array_equal(np.sort(where.node), np.arange(4000)) and np.array_equal(
        where.node[where.place], np.arange(4000)
    )
    plain = graph.adjacency
    for place in range(0, 4000, 97):
        node = where.node[place]
        neighbors = where.indices[where.indptr[place] : where.indptr[place + 1]]
        assert np.array_equal(where.node[neighbors], plain.indices[plain.indptr[node] : plain.indptr[node + 1]])
    ends = np.repeat(np.arange(4000), np.diff(where.indptr))
    before = np.abs(np.repeat(np.arange(4000), np.diff(plain.indptr)) - plain.indices).mean()
    assert np.abs(ends - where.indices).mean() < before / 2


def test_nodes_stay_where_a_change_gains_nothing(monkeypatch):
    graph, rows = communities()
    assert places(graph, rows).node is None  # small
    monkeypatch.setattr(module, "LARGE", 0)
    assert places(graph, rows[:, :2].copy()).node is None  # more edges than numbers
    noise = np.random.default_rng(0).standard_normal(rows.shape).astype(np.float32)
    assert places(graph, noise).node is None  # clusters that edges do not keep to
    ring = Graph(np.stack([np.arange(4000), (np.arange(4000) + 1) % 4000]), nodes=4000)
    assert places(ring, rows).node is None  # neighbours are near already
    assert places(Graph(np.empty((2, 0), dtype=np.int64), nodes=4000), rows).node is None


def test_vectors_do_not_depend_on_places(tmp_path, monkeypatch):
    mapped = open_graph(generate(tmp_path / "g", 4000, 20_000, classes=5, features=32, noise=1.0))
    expected = EMBEDDERS["naq-plus"](mapped).embed()
    monkeypatch.setattr(module, "LARGE", 0)
    placed = []
    monkeypatch.setattr(module, "_translate", lambda *given, real=module._translate: (placed.append(1), real(*given)))
    assert np.array_equal(EMBEDDERS["naq-plus"](mapped).embed(), expected) and placed
