"""Balanced shares against a plain loop and what they promise, and what knowing the balance is worth where there is one and where not."""

from __future__ import annotations

import numpy as np
import pytest

from naq.heads import BalancedHead, PrototypeHead, TransductiveHead
from naq.heads.transductive import STEPS, balanced_shares
from naq.tasks import dirichlet_queries

LABELS = np.arange(400) % 10


def slow_shares(score, steps=STEPS):
    """One task."""
    share = np.exp(score)
    for _ in range(steps):
        for q in range(len(share)):
            share[q] = share[q] / share[q].sum()
        for c in range(share.shape[1]):
            share[:, c] = share[:, c] / share[:, c].sum() * len(share) / share.shape[1]
    return share


def loop(embedding, tasks, rounds, temperature):
    z = embedding - embedding.mean(axis=0)
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    slots = np.empty(tasks.query.shape, dtype=np.int64)
    for t in range(len(tasks)):
        support, query = z[tasks.support[t]], z[tasks.query[t]]
        mine = [support[tasks.support_slots == slot].sum(axis=0) for slot in range(tasks.way)]

        def cosine(prototypes, query=query):
            return np.array([[q @ p / np.linalg.norm(p) for p in prototypes] for q in query])

        prototypes = mine
        for _ in range(rounds):
            share = slow_shares(cosine(prototypes) / temperature)
            prototypes = [mine[c] + sum(share[q, c] * query[q] for q in range(len(query))) for c in range(tasks.way)]
        slots[t] = cosine(prototypes).argmax(axis=1)
    return slots


@pytest.mark.parametrize("way, shot", [(2, 1), (5, 1), (5, 3)])
@pytest.mark.parametrize("rounds, temperature", [(1, 1.0), (10, 1 / 15)])
def test_against_a_loop(vectors, make_tasks, way, shot, rounds, temperature):
    tasks = make_tasks(6, way, shot)
    found = BalancedHead(rounds=rounds, temperature=temperature).predict(vectors, tasks)
    np.testing.assert_array_equal(found, loop(vectors, tasks, rounds, temperature))


@pytest.mark.parametrize("queries", [1, 3, 40])
@pytest.mark.parametrize("spread", [1.0, 15.0])
def test_every_class_gets_the_same_mass(queries, spread):
    scores = spread * np.random.default_rng(0).uniform(-1, 1, size=(7, queries, 5))
    share = balanced_shares(scores)
    np.testing.assert_allclose(share.sum(axis=1), queries / 5, rtol=1e-12)
    np.testing.assert_allclose(share, [slow_shares(score) for score in scores], rtol=1e-9)
    if spread == 1.0:
        np.testing.assert_allclose(share.sum(axis=2), 1.0, atol=1e-3)


def test_low_temperatures_lose_no_class():
    scores = 1e9 * np.random.default_rng(0).uniform(-1, 1, size=(7, 10, 5))
    scores[0, :, 3] = -1e12
    np.testing.assert_allclose(balanced_shares(scores).sum(axis=1), 2.0, rtol=1e-12)


def test_no_rounds_is_the_prototype_head(vectors, make_tasks):
    tasks = make_tasks(20, 5, 2)
    np.testing.assert_array_equal(
        BalancedHead(rounds=0).predict(vectors, tasks), PrototypeHead().predict(vectors, tasks)
    )


def test_the_balance_helps_where_there_is_one_and_hurts_where_not(vectors, make_tasks):
    tasks = make_tasks(200, 5, 1, queries=15)
    unbalanced = dirichlet_queries(tasks, LABELS, concentration=0.3)

    def right(head, given):
        return (head.predict(vectors, given) == given.query_slots).mean()

    assert right(BalancedHead(), tasks) > right(TransductiveHead(), tasks) + 0.01
    assert right(BalancedHead(), unbalanced) < right(PrototypeHead(), unbalanced) - 0.02
