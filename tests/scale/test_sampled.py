"""Neighbours of some rows among all, in one pass over the rows."""

from __future__ import annotations

import numpy as np
import pytest

from graphs import random_graph
from naq.graph.operators import unit_rows
from naq.neighbors import vector_neighbors
from naq_scale.blocks import closed_form
from naq_scale.blocks.shards import BlockArray, InThisProcess


@pytest.fixture
def sampled(monkeypatch, tmp_path):
    monkeypatch.setattr(closed_form, "ENTRIES", 1)

    def search(rows, wanted, k, block, shards=1):
        who = InThisProcess(random_graph(10, 10), tmp_path)
        who.shards = shards
        return closed_form.neighbors_of_sample(BlockArray([[rows]]), wanted, k, 0, block, who)

    return search


def test_few_clusters_find_the_exact_neighbours(sampled):
    rows = unit_rows(np.random.default_rng(0).standard_normal((300, 6)).astype(np.float32))
    rows[[5, 40]] = 0
    rows[7] = rows[6]
    wanted = np.array([0, 3, 5, 6, 7, 100, 299])
    exact = vector_neighbors(rows, 4)
    ids, scores = sampled(rows, wanted, 4, 50)  # 17 clusters, all of which are probed
    assert np.array_equal(ids, exact.ids[wanted]) and np.allclose(scores, exact.scores[wanted], atol=1e-6)
    assert (ids[2] == -1).all() and 7 in ids[3] and 6 in ids[4]
    assert np.array_equal(sampled(rows, wanted, 4, 50, shards=3)[0], ids)


def test_some_clusters_find_most_neighbours_whatever_the_block(sampled):
    rows = unit_rows(np.random.default_rng(1).standard_normal((6000, 24)).astype(np.float32))
    wanted = np.arange(0, 6000, 60)
    ids, _ = sampled(rows, wanted, 5, 1000)
    exact = vector_neighbors(rows, 5, exact=True).ids[wanted]
    assert 0.3 < np.mean([len(set(a) & set(b)) / 5 for a, b in zip(ids, exact)]) < 1.0
    assert (ids == sampled(rows, wanted, 5, 997)[0]).mean() > 0.999
