"""EM over the queries against a plain loop, and what it is with shares that are held equal."""

from __future__ import annotations

import numpy as np
import pytest

from naq.heads import EMHead, PrototypeHead, TransductiveHead
from naq.tasks import dirichlet_queries

LABELS = np.arange(400) % 10


def loop(embedding, tasks, rounds, temperature, prior):
    z = embedding - embedding.mean(axis=0)
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    slots = np.empty(tasks.query.shape, dtype=np.int64)
    for t in range(len(tasks)):
        support, query = z[tasks.support[t]], z[tasks.query[t]]
        mine = [support[tasks.support_slots == slot].sum(axis=0) for slot in range(tasks.way)]
        prototypes, pi = mine, np.full(tasks.way, 1 / tasks.way)
        for step in range(rounds + 1):
            score = np.array([[q @ p / np.linalg.norm(p) / temperature for p in prototypes] for q in query])
            mass = np.exp(score) * pi
            if step < rounds:
                u = mass / mass.sum(axis=1, keepdims=True)
                pi = np.array([(u[:, c].sum() + prior) / (len(query) + prior * tasks.way) for c in range(tasks.way)])
                assert pi.sum() == pytest.approx(1.0)
                prototypes = [mine[c] + sum(u[q, c] * query[q] for q in range(len(query))) for c in range(tasks.way)]
        slots[t] = mass.argmax(axis=1)
    return slots


@pytest.mark.parametrize("way, shot", [(2, 1), (5, 1), (5, 3)])
@pytest.mark.parametrize("rounds, temperature, prior", [(1, 1.0, 0.5), (10, 1 / 15, 2.0), (12, 0.02, 2.0)])
def test_against_a_loop(vectors, make_tasks, way, shot, rounds, temperature, prior):
    tasks = make_tasks(10, way, shot)
    for given in (tasks, dirichlet_queries(tasks, LABELS)):
        found = EMHead(rounds=rounds, temperature=temperature, prior=prior).predict(vectors, given)
        np.testing.assert_array_equal(found, loop(vectors, given, rounds, temperature, prior))


def test_equal_shares_are_soft_k_means(vectors, make_tasks):
    tasks = make_tasks(30, 5, 1)
    found = EMHead(prior=1e15, rounds=7).predict(vectors, tasks)
    np.testing.assert_array_equal(found, TransductiveHead(rounds=7).predict(vectors, tasks))
    assert not np.array_equal(found, EMHead(rounds=7).predict(vectors, tasks))


def test_no_rounds_is_the_prototype_head(vectors, make_tasks):
    tasks = make_tasks(20, 5, 2)
    np.testing.assert_array_equal(EMHead(rounds=0).predict(vectors, tasks), PrototypeHead().predict(vectors, tasks))


def test_low_temperatures_do_not_overflow(vectors, make_tasks):
    slots = EMHead(temperature=1e-9).predict(vectors, make_tasks(5, 5, 1))
    assert set(np.unique(slots)) <= set(range(5))


def test_it_finds_that_classes_are_not_equally_frequent(vectors, make_tasks):
    tasks = dirichlet_queries(make_tasks(200, 5, 1, queries=15), LABELS, concentration=0.3)
    equal, shares = (
        (head.predict(vectors, tasks) == tasks.query_slots).mean() for head in (TransductiveHead(rounds=10), EMHead())
    )
    assert shares > equal + 0.02
