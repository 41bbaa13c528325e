"""Soft k-means over the queries against a plain loop, and the reference numbers of a training-free embedding."""

from __future__ import annotations

import numpy as np
import pytest

from naq.heads import PrototypeHead, TransductiveHead


def loop(embedding, tasks, rounds, temperature):
    z = embedding - embedding.mean(axis=0)
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    slots = np.empty(tasks.query.shape, dtype=np.int64)
    for t in range(len(tasks)):
        support, query = z[tasks.support[t]], z[tasks.query[t]]
        mine = [support[tasks.support_slots == slot] for slot in range(tasks.way)]
        prototypes = [m.mean(axis=0) / np.linalg.norm(m.mean(axis=0)) for m in mine]
        for _ in range(rounds):
            score = np.exp(np.array([[q @ p for p in prototypes] for q in query]) / temperature)
            share = score / score.sum(axis=1, keepdims=True)
            for slot in range(tasks.way):
                total = mine[slot].sum(axis=0) + sum(share[q, slot] * query[q] for q in range(len(query)))
                prototypes[slot] = total / np.linalg.norm(total)
        slots[t] = np.argmax([[q @ p for p in prototypes] for q in query], axis=1)
    return slots


@pytest.mark.parametrize("way, shot", [(2, 1), (5, 1), (5, 3)])
@pytest.mark.parametrize("rounds, temperature", [(1, 1.0), (5, 1 / 15), (12, 0.02)])
def test_against_a_loop(vectors, make_tasks, way, shot, rounds, temperature):
    tasks = make_tasks(10, way, shot)
    found = TransductiveHead(rounds=rounds, temperature=temperature).predict(vectors, tasks)
    np.testing.assert_array_equal(found, loop(vectors, tasks, rounds, temperature))


def test_no_rounds_is_the_prototype_head(vectors, make_tasks):
    tasks = make_tasks(20, 5, 2)
    for center in (True, False):
        found = TransductiveHead(rounds=0, center=center).predict(vectors, tasks)
        np.testing.assert_array_equal(found, PrototypeHead(center=center).predict(vectors, tasks))


def test_low_temperatures_do_not_overflow(vectors, make_tasks):
    slots = TransductiveHead(temperature=1e-9).predict(vectors, make_tasks(5, 5, 1))
    assert set(np.unique(slots)) <= set(range(5))


def test_queries_help(vectors, make_tasks):
    tasks = make_tasks(100, 5, 1, queries=15)
    plain = (PrototypeHead().predict(vectors, tasks) == tasks.query_slots).mean()
    helped = (TransductiveHead().predict(vectors, tasks) == tasks.query_slots).mean()
    assert helped > plain + 0.02
