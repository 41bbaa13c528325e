"""Neighbours of some rows among all, in one pass over the rows."""

from __future__ import annotations

import numpy as np
import pytest

from naq.neighbors import vector_neighbors
from naq.unit_rows import unit_rows
from naq_scale import sampled
from naq_scale.sampled import sampled_neighbors


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(sampled, "ENTRIES", 1)


def test_few_clusters_find_the_exact_neighbours():
    rows = unit_rows(np.random.default_rng(0).standard_normal((300, 6)).astype(np.float32))
    rows[[5, 40]] = 0
    rows[7] = rows[6]
    wanted = np.array([0, 3, 5, 6, 7, 100, 299])
    exact = vector_neighbors(rows, 4)
    ids, scores, recall = sampled_neighbors(rows, wanted, 4, block=50)  # 17 clusters, all of which are probed
    assert np.array_equal(ids, exact.ids[wanted]) and np.allclose(scores, exact.scores[wanted], atol=1e-6)
    assert (ids[2] == -1).all() and 7 in ids[3] and 6 in ids[4] and recall == 1.0


def test_recall_is_what_was_missed():
    rows = unit_rows(np.random.default_rng(1).standard_normal((6000, 24)).astype(np.float32))
    wanted = np.arange(0, 6000, 60)
    ids, _, recall = sampled_neighbors(rows, wanted, 5, block=1000)
    exact = vector_neighbors(rows, 5, exact=True).ids[wanted]
    true = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(ids, exact)])
    assert 0.3 < true < 1.0 and abs(recall - true) < 0.15
    again = sampled_neighbors(rows, wanted, 5, block=997)[0]
    assert (ids == again).mean() > 0.999
