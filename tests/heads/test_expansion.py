"""Expanded supports and their nearest nodes against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from naq.heads import ExpansionHead, PrototypeHead
from naq.heads import base as base_module
from naq.heads.prototype import nearest_nodes
from naq.tasks import Tasks


def unit(embedding):
    z = embedding - embedding.mean(axis=0)
    length = np.linalg.norm(z, axis=1, keepdims=True)
    return np.divide(z, length, out=np.zeros_like(z), where=length > 1e-9)


def slow_nearest(embedding, node, k):
    z = unit(embedding)
    cosine = np.array([z[node] @ row for row in z])
    order = sorted((j for j in range(len(z)) if j != node), key=lambda j: (-np.float32(cosine[j]), j))[:k]
    return order, cosine[order]


def loop(embedding, tasks, k):
    z = unit(embedding)
    slots = np.empty(tasks.query.shape, dtype=np.int64)
    for t in range(len(tasks)):
        prototypes = np.zeros((tasks.way, z.shape[1]))
        for node, slot in zip(tasks.support[t], tasks.support_slots):
            ids, cosine = slow_nearest(embedding, node, k)
            prototypes[slot] += z[node] + sum(max(0.0, c) ** 3 * z[j] for j, c in zip(ids, cosine))
        slots[t] = [np.argmax([z[q] @ p / np.linalg.norm(p) for p in prototypes]) for q in tasks.query[t]]
    return slots


@pytest.mark.parametrize("way, shot, k", [(2, 1, 20), (5, 1, 3), (5, 2, 20), (2, 1, 1000)])
def test_against_a_loop(vectors, make_tasks, way, shot, k):
    tasks = make_tasks(3, way, shot)
    np.testing.assert_array_equal(ExpansionHead(k=k).predict(vectors, tasks), loop(vectors, tasks, k))


@pytest.mark.parametrize("chunk", [2**28, 16 * 24 * 50, 1])
@pytest.mark.parametrize("kind", ["plain", "pairs", "few", "constant"])
def test_nearest_nodes_in_blocks_with_ties_to_the_lowest_id(vectors, chunk, kind, monkeypatch):
    monkeypatch.setattr(base_module, "CHUNK_BYTES", chunk)
    given = {
        "plain": vectors,
        "pairs": vectors[np.random.default_rng(0).permutation(400) // 2],
        "few": vectors[np.arange(400) % 3],  # most nodes are equal: the product in float64
        "constant": np.ones((400, 24)),
    }[kind]
    nodes = np.array([0, 1, 7, 200, 398, 399])
    ids = nearest_nodes(given, given.mean(axis=0), nodes, 5)
    for place, node in enumerate(nodes):
        assert ids[place].tolist() == slow_nearest(given, node, 5)[0]


def test_a_graph_with_fewer_nodes_than_neighbours():
    vectors = np.random.default_rng(0).normal(size=(6, 4))
    ids = nearest_nodes(vectors, vectors.mean(axis=0), np.array([2, 5]), 20)
    assert ids.shape == (2, 5) and sorted(ids[0]) == [0, 1, 3, 4, 5] and sorted(ids[1]) == [0, 1, 2, 3, 4]
    tasks = Tasks(np.array([[0, 1]]), np.array([[2, 3]]), 2, 1)
    assert ExpansionHead().predict(vectors, tasks).shape == (1, 2)
    assert ExpansionHead().predict(vectors[:, :1] * 0.0, tasks).tolist() == [[0, 0]]


def test_without_neighbours_it_is_the_prototype_head(vectors, make_tasks):
    tasks = make_tasks(20, 5, 2)
    np.testing.assert_array_equal(ExpansionHead(k=0).predict(vectors, tasks), PrototypeHead().predict(vectors, tasks))


def test_negative_cosines_do_not_count():
    """Supports at 0 and 90 degrees; the node at 135 would turn the first away from the query at 47, were it subtracted."""
    angles = np.deg2rad([0, 90, 47, 135])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    tasks = Tasks(np.array([[0, 1]]), np.array([[2, 3]]), 2, 1)
    assert ExpansionHead(center=False, k=3).predict(vectors, tasks).tolist() == [[0, 1]]


def test_neighbours_help_at_one_shot(vectors, make_tasks):
    tasks = make_tasks(100, 5, 1)
    plain, helped = (
        (h.predict(vectors, tasks) == tasks.query_slots).mean() for h in (PrototypeHead(), ExpansionHead())
    )
    assert helped > plain + 0.02
