"""Names of nodes by content, and draws keyed by them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from graphs import random_graph
from methods_under_test import community_graph, relabelled
from naq import Graph
from naq.learners.node_draws import NodeDropout, draw_keys, node_names
from naq.nn.rows import take_rows
from naq.random import word


def test_names_follow_the_nodes_and_are_their_own() -> None:
    graph = community_graph()
    new_id = np.random.default_rng(0).permutation(graph.num_nodes)
    names = node_names(graph)
    assert len(np.unique(names)) == graph.num_nodes
    assert np.array_equal(node_names(relabelled(graph, new_id))[new_id], names)


def test_nodes_that_look_alike_get_different_names_and_keep_them_as_a_set() -> None:
    """Two pairs of twins and eight isolated nodes without features."""
    edges, features = [[0, 0, 1, 1], [2, 3, 2, 3]], np.zeros((12, 3), dtype=np.float32)
    features[:4] = [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0]]
    graph = Graph(edges, features, nodes=12)
    names = node_names(graph)
    assert len(np.unique(names)) == 12
    new_id = np.random.default_rng(1).permutation(12)
    moved = node_names(relabelled(graph, new_id))
    for alike in ([0, 1], [2, 3], range(4, 12)):
        assert set(moved[new_id[list(alike)]]) == set(names[list(alike)])


def test_draws_are_uniform_and_independent() -> None:
    names = np.random.default_rng(0).integers(0, 2**63, 4000).astype(np.uint64)
    drop = NodeDropout(names, 0.3, word(0, "a"))
    factors = drop.dense(np.arange(4000), 50)
    kept = factors > 0
    assert set(np.unique(factors)) == {np.float32(0), np.float32(1 / 0.7)}
    assert abs(kept.mean() - 0.7) < 5 * np.sqrt(0.21 / 200_000)
    assert np.abs(kept.mean(axis=0) - 0.7).max() < 5 * np.sqrt(0.21 / 4000)
    pairs = np.corrcoef(kept.T.astype(float)) - np.eye(50)
    assert np.abs(pairs).max() < 5 / np.sqrt(4000)
    other = NodeDropout(names, 0.3, word(0, "a", 1)).dense(np.arange(4000), 50) > 0
    assert abs(np.corrcoef(kept.ravel(), other.ravel())[0, 1]) < 5 / np.sqrt(200_000)
    keys = draw_keys(names, word(0, "b")) / 2.0**64
    assert np.abs(np.sort(keys) - np.linspace(0, 1, 4000)).max() < 0.04


def test_a_draw_belongs_to_its_node_and_column() -> None:
    graph = random_graph(density=0.3)
    drop = NodeDropout(node_names(graph), 0.5, word(3, "x"))
    whole = drop.dense(np.arange(60), 20)
    nodes = np.array([7, 59, 7, 3, 0])
    assert np.array_equal(drop.dense(nodes, 20), whole[nodes])
    assert np.array_equal(drop.dense(nodes, 8), whole[nodes][:, :8])
    rows = take_rows(graph.features, nodes)
    local = np.repeat(np.arange(len(nodes)), np.diff(rows.indptr))
    assert len(rows.indices) > 10
    assert np.array_equal(drop.sparse(nodes, rows), whole[nodes][local, rows.indices])


def test_no_share_keeps_everything() -> None:
    names = np.arange(100, dtype=np.uint64)
    assert (NodeDropout(names, 0.0, word(0, "x")).dense(np.arange(100), 30) == 1).all()


@pytest.mark.parametrize("dense", [False, True])
def test_names_read_features(dense: bool) -> None:
    graph = random_graph(dense=dense)
    x = graph.features.copy() if dense else sp.lil_array(graph.features)
    x[5, 2] = 9.0
    other = node_names(graph.with_features(x if dense else sp.csr_array(x)))
    assert other[5] != node_names(graph)[5]
