"""Heads with prototypes against plain loops; ``tests/test_testing.py`` runs the generic checks over all heads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naq.errors import OptionError
from naq.heads import HEADS, Head, in_reading_order, make_head
from naq.heads.base import task_slices
from naq.heads.prototype import center_rows, nearest_nodes
from naq.heads.transductive import STEPS, balanced_shares
from naq.tasks import Tasks, dirichlet_queries
from naq.testing import clustered_tasks, clustered_vectors

LABELS = np.arange(400) % 10
VECTORS = clustered_vectors()


def unit(embedding: np.ndarray, center: bool = True) -> np.ndarray:
    z = embedding - (embedding.mean(axis=0) if center else 0.0)
    length = np.linalg.norm(z, axis=1, keepdims=True)
    return np.divide(z, length, out=np.zeros_like(z), where=length > 1e-9)


def slow_nearest(z: np.ndarray, node: int, k: int) -> list[int]:
    """By cosine of unit rows, as float32, ties to the lowest id."""
    cosine = z @ z[node]
    return sorted((j for j in range(len(z)) if j != node), key=lambda j: (-np.float32(cosine[j]), j))[:k]


def slow_balance(score: np.ndarray) -> np.ndarray:
    """One task's shares, row by row and column by column."""
    share = np.exp(score - score.max())
    for _ in range(STEPS):
        for q in range(len(share)):
            share[q] = share[q] / share[q].sum()
        for c in range(share.shape[1]):
            share[:, c] = share[:, c] / share[:, c].sum() * len(share) / share.shape[1]
    return share


def slow_answers(head: Head, embedding: np.ndarray, tasks: Tasks) -> np.ndarray:
    """Task by task, query by query."""
    o: Any = dict(head.options)
    z, temperature, rounds = unit(embedding, o["center"]), o.get("temperature", 1.0), o.get("rounds", 0)
    slots = np.empty(tasks.query.shape, dtype=np.int64)
    for t in range(len(tasks)):
        support, query = z[tasks.support[t]].copy(), z[tasks.query[t]]
        for place, node in enumerate(tasks.support[t]):
            for j in slow_nearest(z, node, o.get("k", 0)):
                support[place] += max(0.0, z[node] @ z[j]) ** 3 * z[j]
        own = [support[tasks.support_slots == slot].sum(axis=0) for slot in range(tasks.way)]
        prototypes, log_pi = own, np.zeros(tasks.way)
        for step in range(rounds + 1):
            score = np.array([[q @ p / np.linalg.norm(p) / temperature for p in prototypes] for q in query]) + log_pi
            if step == rounds:
                break
            mass = np.exp(score - score.max(axis=1, keepdims=True))
            u = slow_balance(score) if head.name == "balanced" else mass / mass.sum(axis=1, keepdims=True)
            prototypes = [own[c] + sum(u[q, c] * query[q] for q in range(len(query))) for c in range(tasks.way)]
            if head.name == "em":
                total = len(query) + o["prior"] * tasks.way
                log_pi = np.log([(u[:, c].sum() + o["prior"]) / total for c in range(tasks.way)])
        slots[t] = score.argmax(axis=1)
    return slots


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("prototype", {}),
        ("prototype", {"center": False}),
        ("expansion", {"k": 3}),
        ("expansion", {"k": 20, "center": False}),
        ("expansion", {"k": 1000}),
        *[
            (name, {"rounds": rounds, "temperature": temperature, "center": rounds > 1})
            for name in ("transductive", "em", "balanced")
            for rounds, temperature in ((1, 1.0), (12, 1 / 15), (5, 0.02))
        ],
        ("em", {"prior": 0.5}),
    ],
    ids=str,
)
def test_answers_are_those_of_a_loop(name: str, options: dict[str, Any]) -> None:
    head = make_head(name, **options)
    for way, shot in ((2, 1), (5, 1), (5, 3)):
        tasks = clustered_tasks(3 if name == "expansion" else 6, way, shot)
        for given_tasks in (tasks, dirichlet_queries(tasks, LABELS)):
            assert np.array_equal(head.predict(VECTORS, given_tasks), slow_answers(head, VECTORS, given_tasks))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), way=st.integers(2, 4), shot=st.integers(1, 3), width=st.integers(2, 6))
def test_prototypes_on_any_shape(seed: int, way: int, shot: int, width: int) -> None:
    random = np.random.default_rng(seed)
    ids = np.stack([random.permutation(40)[: way * (shot + 2)] for _ in range(3)])
    tasks = Tasks(ids[:, : way * shot], ids[:, way * shot :], way, shot)
    embedding, head = random.normal(size=(40, width)), make_head("prototype")
    assert np.array_equal(head.predict(embedding, tasks), slow_answers(head, embedding, tasks))


def test_what_each_head_is_without_what_it_adds() -> None:
    tasks = clustered_tasks(20, 5, 2)
    plain = make_head("prototype").predict(VECTORS, tasks)
    for name, options in (("expansion", {"k": 0}), *[(n, {"rounds": 0}) for n in ("transductive", "em", "balanced")]):
        assert np.array_equal(make_head(name, **options).predict(VECTORS, tasks), plain)
    soft, em = (
        make_head(n, rounds=7, **o).predict(VECTORS, tasks) for n, o in (("transductive", {}), ("em", {"prior": 1e15}))
    )
    assert np.array_equal(soft, em), "equal shares are soft k-means"
    assert np.array_equal(make_head("prototype").predict(100 * VECTORS + 7, tasks), plain)
    scale = np.random.default_rng(0).uniform(0.1, 10, size=(400, 1))
    raw = make_head("prototype", center=False)
    assert np.array_equal(raw.predict(scale * VECTORS, tasks), raw.predict(VECTORS, tasks))


@pytest.mark.parametrize("spread", [1.0, 15.0, 1e9])
@pytest.mark.parametrize("queries", [1, 3, 40])
def test_balanced_shares_give_every_class_the_same_mass(queries: int, spread: float) -> None:
    scores = spread * np.random.default_rng(0).uniform(-1, 1, size=(7, queries, 5))
    share = balanced_shares(scores)
    assert np.allclose(share.sum(axis=1), queries / 5, rtol=1e-12)
    if spread < 1e9:
        assert np.allclose(share, [slow_balance(score) for score in scores], rtol=1e-9)
    if spread == 1.0:
        assert np.allclose(share.sum(axis=2), 1.0, atol=1e-3)


@pytest.mark.parametrize("name", ["transductive", "em", "balanced"])
def test_low_temperatures_do_not_overflow(name: str) -> None:
    slots = make_head(name, temperature=1e-9).predict(VECTORS, clustered_tasks(5, 5, 1))
    assert set(np.unique(slots)) <= set(range(5))


def test_what_the_queries_and_other_nodes_are_worth() -> None:
    tasks = clustered_tasks(200, 5, 1, queries=15)
    unbalanced = dirichlet_queries(tasks, LABELS, concentration=0.3)
    right = {
        (name, given.slots is None): (make_head(name).predict(VECTORS, given) == given.query_slots).mean()
        for name in ("prototype", "expansion", "transductive", "em", "balanced")
        for given in (tasks, unbalanced)
    }
    assert min(right["transductive", True], right["expansion", True]) > right["prototype", True] + 0.02
    assert right["balanced", True] > right["transductive", True] + 0.01
    assert right["balanced", False] < right["prototype", False] - 0.02
    assert right["em", False] > right["transductive", False] + 0.02


@pytest.mark.parametrize("chunk_bytes", [2**28, 16 * 24 * 50, 1])
@pytest.mark.parametrize("kind", ["plain", "pairs", "few", "constant"])
def test_nearest_nodes_in_blocks_with_ties_to_the_lowest_id(chunk_bytes: int, kind: str) -> None:
    rows = {
        "plain": VECTORS,
        "pairs": VECTORS[np.random.default_rng(0).permutation(400) // 2],
        "few": VECTORS[np.arange(400) % 3],  # most nodes are equal
        "constant": np.ones((400, 24)),
    }[kind]
    nodes = np.array([0, 1, 7, 200, 398, 399])
    ids = nearest_nodes(rows, rows.mean(axis=0), nodes, 5, chunk_bytes)
    assert ids.tolist() == [slow_nearest(unit(rows), node, 5) for node in nodes]
    few = nearest_nodes(rows[:6], rows.mean(axis=0), np.array([2, 5]), 20, chunk_bytes)
    assert few.shape == (2, 5) and sorted(few[1]) == [0, 1, 2, 3, 4]


def test_negative_cosines_and_zero_rows_by_hand() -> None:
    """Supports at 0 and 90 degrees; the node at 135 would turn the first from the query at 47, were it subtracted."""
    angles = np.deg2rad([0, 90, 47, 135])
    tasks = Tasks(np.array([[0, 1]]), np.array([[2, 3]]), 2, 1)
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert make_head("expansion", center=False, k=3).predict(vectors, tasks).tolist() == [[0, 1]]
    vectors = np.array([[1.0, 0], [0, 1], [0, 0], [0, 2]])
    assert make_head("prototype", center=False).predict(vectors, tasks).tolist() == [[0, 1]]


def test_a_row_is_the_mean_only_within_rounding() -> None:
    mean, away = np.array([3.0, 4.0]), np.array([[0.6, -0.8]])
    assert np.allclose(center_rows(mean + 1e-6 * away, mean), away, atol=1e-8)
    assert not center_rows(mean + 1e-14 * away, mean).any()


def test_slices_of_tasks_fit_in_memory() -> None:
    tasks = clustered_tasks(11, 5, 1)
    assert [part.stop for part in task_slices(tasks, 24, 3 * 25 * 24 * 8)] == [3, 6, 9, 11]
    assert len(list(task_slices(tasks, 24, 1))) == 11


def test_names_and_flags() -> None:
    assert in_reading_order() == ["logistic", "prototype", "expansion", "transductive", "em", "balanced"]
    assert [name for name in HEADS if HEADS[name].transductive] == ["transductive", "em", "balanced"]
    assert [name for name, kind in HEADS.items() if kind.knows_balance] == ["balanced"]
    all_nodes = [make_head(name, center=False).needs_all_nodes for name in ("prototype", "expansion", "transductive")]
    assert all_nodes == [False, True, False] and make_head("prototype").needs_all_nodes
    head = make_head("em", rounds=3)
    assert make_head(head) is head and repr(make_head(head.name, **head.options)) == repr(head)
    for wrong, name in (("logistik", "logistic"), (head, "rounds")):
        with pytest.raises(OptionError, match=name):
            make_head(wrong, **({} if isinstance(wrong, str) else {"rounds": 2}))
