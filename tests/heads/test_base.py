"""The registry, and what every head must do."""

from __future__ import annotations

import numpy as np
import pytest

from naq.errors import OptionError
from naq.heads import HEADS, Head, make_head, register_head
from naq.heads import base as base_module
from naq.tasks import Tasks


@pytest.fixture(params=sorted(HEADS))
def head(request) -> Head:
    return make_head(request.param)


def test_names_and_flags():
    assert sorted(HEADS) == ["logistic", "prototype", "transductive"]
    assert {name: kind.transductive for name, kind in HEADS.items()} == {
        "logistic": False,
        "prototype": False,
        "transductive": True,
    }
    assert not make_head("logistic").needs_all_nodes
    assert make_head("prototype").needs_all_nodes
    assert not make_head("transductive", center=False).needs_all_nodes


def test_options_make_the_same_head(head):
    again = make_head(head.name, **head.options)
    assert repr(again) == repr(head)
    assert make_head(head) is head
    with pytest.raises(OptionError, match="set them where it is made"):
        make_head(head, center=False)
    head.options["other"] = "changed"
    assert repr(again) != repr(head)


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("logistik", {}, r"there is no head 'logistik'; did you mean logistic\?"),
        ("zzz", {}, r"there is no head 'zzz'; expected one of logistic, prototype, transductive\."),
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
