"""The registry, and what every head must do."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from naq.errors import OptionError
from naq.heads import HEADS, Head, in_reading_order, make_head, register_head
from naq.heads import base as base_module
from naq.tasks import Tasks


@pytest.fixture(params=sorted(HEADS))
def head(request) -> Head:
    return make_head(request.param)


def test_names_and_flags():
    assert in_reading_order() == ["logistic", "prototype", "expansion", "transductive", "em", "balanced"]
    assert [name for name in in_reading_order() if HEADS[name].transductive] == ["transductive", "em", "balanced"]
    assert [name for name, kind in HEADS.items() if kind.knows_balance] == ["balanced"]
    assert not make_head("logistic").needs_all_nodes
    assert make_head("prototype").needs_all_nodes
    assert make_head("expansion", center=False).needs_all_nodes
    assert not make_head("transductive", center=False).needs_all_nodes


def test_options_make_the_same_head(head):
    again = make_head(head.name, **head.options)
    assert repr(again) == repr(head)
    assert make_head(head) is head
    with pytest.raises(OptionError, match="set them where it is made"):
        make_head(head, center=False)
    with pytest.raises(FrozenInstanceError):
        head.options.center = False


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("logistik", {}, r"there is no head 'logistik'; did you mean logistic\?"),
        (
            "zzz",
            {},
            r"there is no head 'zzz'; expected one of balanced, em, expansion, logistic, prototype, transductive\.",
        ),
        ("logistic", {"c": 1.0}, r"logistic has no option 'c'; expected one of C, ftol, max_iter, tol\."),
        ("transductive", {"temprature": 1.0}, r"did you mean temperature\?"),
        ("logistic", {"C": 0.0}, r"option C of logistic is 0.0; expected more than 0\."),
        ("logistic", {"C": "much"}, r"option C of logistic is 'much'; expected float"),
        ("logistic", {"tol": float("nan")}, r"option tol of logistic is nan; expected float"),
        ("logistic", {"tol": -1e-9}, r"option tol of logistic is -1e-09; expected at least 0\."),
        ("logistic", {"max_iter": 1.5}, r"option max_iter of logistic is 1.5; expected int"),
        ("logistic", {"max_iter": 0}, r"option max_iter of logistic is 0; expected more than 0\."),
        ("logistic", {"max_iter": True}, r"max_iter of logistic is True"),
        ("transductive", {"rounds": -1}, r"rounds of transductive is -1; expected at least 0\."),
        ("transductive", {"temperature": 0}, r"temperature of transductive is 0.0; expected more than 0\."),
        ("em", {"prior": 0}, r"prior of em is 0.0; expected more than 0\."),
        ("balanced", {"rounds": -2}, r"rounds of balanced is -2; expected at least 0\."),
        ("expansion", {"k": -1}, r"k of expansion is -1; expected at least 0\."),
        ("prototype", {"center": 1}, r"center of prototype is 1; expected bool, e.g. True"),
    ],
)
def test_wrong_names_and_options(name, options, message):
    with pytest.raises(OptionError, match=message):
        make_head(name, **options)


def test_a_name_is_taken_once():
    class Other(Head):
        name = "prototype"

        def predict(self, embedding, tasks):
            raise NotImplementedError

    with pytest.raises(OptionError, match="a head named 'prototype' is registered already"):
        register_head(Other)


@pytest.mark.parametrize("way, shot", [(2, 1), (2, 3), (5, 1), (5, 3)])
def test_answers_are_slots_and_right(head, vectors, make_tasks, way, shot):
    tasks = make_tasks(20, way, shot)
    before = vectors.copy()
    slots = head.predict(vectors, tasks)
    assert slots.shape == tasks.query.shape and slots.dtype == np.int64
    assert slots.min() >= 0 and slots.max() < way
    assert (slots == tasks.query_slots).mean() > 1.4 / way
    np.testing.assert_array_equal(vectors, before)


def test_order_of_slots_tasks_and_nodes(head, vectors, make_tasks):
    tasks = make_tasks(20, 5, 2)
    slots = head.predict(vectors, tasks)
    order = np.array([3, 0, 4, 1, 2])

    def by_slot(ids: np.ndarray) -> np.ndarray:
        return ids.reshape(20, 5, -1)[:, order].reshape(20, -1)

    turned = head.predict(vectors, Tasks(by_slot(tasks.support), by_slot(tasks.query), 5, 2))
    np.testing.assert_array_equal(order[turned], by_slot(slots))
    some = np.array([7, 3, 11])
    alone = head.predict(vectors, Tasks(tasks.support[some], tasks.query[some], 5, 2))
    np.testing.assert_array_equal(alone, slots[some])
    new_id = np.random.default_rng(0).permutation(400)
    moved = np.empty_like(vectors)
    moved[new_id] = vectors
    np.testing.assert_array_equal(head.predict(moved, tasks.relabelled(new_id)), slots)


def test_queries_are_answered_alone_or_together(head, vectors, make_tasks):
    tasks = make_tasks(20, 5, 1, queries=4)
    first = tasks.query.reshape(20, 5, 4)[:, :, :1].reshape(20, 5)
    alone = head.predict(vectors, Tasks(tasks.support, first, 5, 1))
    together = head.predict(vectors, tasks).reshape(20, 5, 4)[:, :, 0]
    assert (alone == together).all() != head.transductive


def test_chunks_do_not_change_answers(head, vectors, make_tasks, monkeypatch):
    tasks = make_tasks(11, 5, 1)
    whole = head.predict(vectors, tasks)
    monkeypatch.setattr(base_module, "CHUNK_BYTES", 3 * 25 * 24 * 8)
    assert [part.stop for part in base_module.task_chunks(tasks, 24)] == [3, 6, 9, 11]
    np.testing.assert_array_equal(head.predict(vectors, tasks), whole)
    monkeypatch.setattr(base_module, "CHUNK_BYTES", 1)
    np.testing.assert_array_equal(head.predict(vectors, tasks), whole)


def test_degenerate_embeddings(head, make_tasks):
    tasks = make_tasks(3, 5, 2)
    for given in (np.zeros((400, 3)), np.full((400, 3), 0.1), np.full((400, 1), 1e-30)):
        np.testing.assert_array_equal(head.predict(given, tasks), 0)


def test_unbalanced_queries_in_any_order(head, vectors, make_tasks):
    """Each query's answer goes with it, whatever the others' order and classes."""
    tasks = make_tasks(12, 5, 2, queries=6)
    rng = np.random.default_rng(3)
    some = np.stack([rng.permutation(30)[:13] for _ in range(12)])
    query = np.take_along_axis(tasks.query, some, axis=1)
    slots = np.take_along_axis(np.broadcast_to(tasks.query_slots, tasks.query.shape), some, axis=1)
    unbalanced = Tasks(tasks.support, query, 5, 2, slots=slots)
    found = head.predict(vectors, unbalanced)
    assert found.shape == (12, 13) and (found == unbalanced.query_slots).mean() > 0.4
    order = rng.permutation(13)
    turned = head.predict(vectors, Tasks(tasks.support, query[:, order], 5, 2, slots=slots[:, order]))
    np.testing.assert_array_equal(turned, found[:, order])
    one = Tasks(tasks.support, query[:, :1], 5, 2, slots=slots[:, :1])
    assert (head.predict(vectors, one) == slots[:, :1]).mean() > 0.4


def test_zero_rows(head, vectors, make_tasks):
    tasks = make_tasks(6, 5, 1)
    given = vectors - vectors.mean(axis=0)
    given[[tasks.support[0, 2], tasks.query[0, 1], tasks.query[3, 7]]] = 0.0
    slots = head.predict(given, tasks)
    assert slots.min() >= 0 and slots.max() < 5
