"""Prototypes against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naq.heads import PrototypeHead
from naq.tasks import Tasks


def loop(embedding, tasks, center):
    mean = embedding.mean(axis=0) if center else 0.0

    def unit(v):
        return v / np.linalg.norm(v) if np.linalg.norm(v) > 0 else v

    slots = np.empty(tasks.query.shape, dtype=np.int64)
    for t in range(len(tasks)):
        prototypes = []
        for slot in range(tasks.way):
            ids = tasks.support[t, slot * tasks.shot : (slot + 1) * tasks.shot]
            prototypes.append(unit(sum(unit(embedding[i] - mean) for i in ids)))
        for q, i in enumerate(tasks.query[t]):
            slots[t, q] = int(np.argmax([unit(embedding[i] - mean) @ p for p in prototypes]))
    return slots


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("way, shot", [(2, 1), (5, 1), (5, 4), (10, 2)])
def test_against_a_loop(vectors, make_tasks, center, way, shot):
    tasks = make_tasks(15, way, shot)
    np.testing.assert_array_equal(PrototypeHead(center=center).predict(vectors, tasks), loop(vectors, tasks, center))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), way=st.integers(2, 4), shot=st.integers(1, 3), width=st.integers(1, 6))
def test_against_a_loop_on_any_shape(seed, way, shot, width):
    rng = np.random.default_rng(seed)
    ids = np.stack([rng.permutation(40)[: way * (shot + 2)] for _ in range(3)])
    tasks = Tasks(ids[:, : way * shot], ids[:, way * shot :], way, shot)
    embedding = rng.normal(size=(40, width))
    found, expected = PrototypeHead().predict(embedding, tasks), loop(embedding, tasks, True)
    # In one dimension every cosine is 1 or -1, so rounding decides between ties.
    if width > 1:
        np.testing.assert_array_equal(found, expected)


def test_scale_and_shift_do_not_matter(vectors, make_tasks):
    tasks = make_tasks(20, 5, 3)
    head = PrototypeHead()
    np.testing.assert_array_equal(head.predict(100 * vectors + 7, tasks), head.predict(vectors, tasks))
    scale = np.random.default_rng(0).uniform(0.1, 10, size=(400, 1))
    raw = PrototypeHead(center=False)
    np.testing.assert_array_equal(raw.predict(scale * vectors, tasks), raw.predict(vectors, tasks))


def test_zero_rows_answer_with_the_lowest_slot():
    embedding = np.array([[1.0, 0], [0, 1], [0, 0], [0, 2]])
    tasks = Tasks(np.array([[0, 1]]), np.array([[2, 3]]), 2, 1)
    assert PrototypeHead(center=False).predict(embedding, tasks).tolist() == [[0, 1]]
