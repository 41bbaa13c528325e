"""The registry, the score, and what every head must do."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from naq.errors import OptionError, TaskError
from naq.heads import HEADS, Head, evaluate, make_head, register_head
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
    again = make_head(head.name, **head.options())
    assert repr(again) == repr(head)
    assert make_head(head) is head
    with pytest.raises(OptionError, match="set them where it is made"):
        make_head(head, center=False)
    head.options()["center"] = "changed"
    assert repr(again) == repr(head)


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("logistik", {}, r"no head 'logistik'; nearest: logistic; available: logistic, prototype, transductive"),
        ("zzz", {}, r"no head 'zzz'; available: logistic"),
        ("logistic", {"c": 1.0}, r"'logistic' has no option 'c'; .*It takes C, tol, ftol, max_iter"),
        ("transductive", {"temprature": 1.0}, r"did you mean temperature\?"),
        ("logistic", {"C": 0.0}, r"C is 0.0; expected a number above 0"),
        ("logistic", {"C": "1"}, r"C is '1'"),
        ("logistic", {"tol": float("nan")}, r"tol is nan; expected a number at least 0"),
        ("logistic", {"max_iter": 1.5}, r"max_iter is 1.5; expected a whole number above 0"),
        ("logistic", {"max_iter": True}, r"max_iter is True"),
        ("transductive", {"rounds": -1}, r"rounds is -1"),
        ("prototype", {"center": 1}, r"center is 1; expected True or False"),
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

    with pytest.raises(OptionError, match="belongs to PrototypeHead"):
        register_head(Other)


def test_evaluation(vectors, make_tasks):
    class Half(Head):
        name = "half"

        def predict(self, embedding, tasks):
            slots = np.tile(tasks.query_slots, (len(tasks), 1))
            slots[0] = (slots[0] + 1) % tasks.way
            return slots

    tasks = make_tasks(4, 5, 1)
    result = evaluate(vectors, tasks, Half())
    assert result.per_task.tolist() == [0.0, 1.0, 1.0, 1.0]
    assert result.accuracy == 0.75
    assert result.ci95 == pytest.approx(1.96 * np.sqrt(0.75 * 0.25) / 2)
    assert str(result) == "75.00 ± 42.44 % (5-way 1-shot, half, 4 tasks)"
    assert (result.way, result.shot, result.part, result.options) == (5, 1, "test", {})
    text = json.loads(json.dumps(evaluate(vectors, tasks, "transductive", rounds=2).to_json()))
    assert text["options"] == {"rounds": 2, "temperature": pytest.approx(1 / 15), "center": True}
    assert text["count"] == 4 and len(text["per_task"]) == 4 and text["transductive"] is True


def test_wrong_embeddings(vectors, make_tasks):
    tasks = make_tasks(2, 5, 1)
    broken = vectors.copy()
    broken[7, 3] = np.inf
    broken[9, 0] = np.nan
    for given in (broken, torch.from_numpy(broken)):
        with pytest.raises(OptionError, match="row 7 of the embedding is not finite"):
            evaluate(given, tasks)
    with pytest.raises(OptionError, match=r"shape \(400,\)"):
        evaluate(vectors[:, 0], tasks)
    with pytest.raises(OptionError, match=r"shape \(400, 0\)"):
        evaluate(vectors[:, :0], tasks)
    with pytest.raises(OptionError, match="embedding is a list"):
        evaluate(vectors.tolist(), tasks)
    with pytest.raises(OptionError, match="type complex128"):
        evaluate(vectors.astype(complex), tasks)
    with pytest.raises(OptionError, match=r"type torch\.bool"):
        evaluate(torch.ones(400, 3, dtype=torch.bool), tasks)
    with pytest.raises(TaskError, match=r"node \d+, but the embedding has rows 0\.\.49"):
        evaluate(vectors[:50], tasks)
    with pytest.raises(TaskError, match="node -1"):
        evaluate(vectors, Tasks(np.array([[-1, 1]]), np.array([[2, 3]]), 2, 1))


@pytest.mark.parametrize("way, shot", [(2, 1), (2, 3), (5, 1), (5, 3)])
def test_answers_are_slots_and_right(head, vectors, make_tasks, way, shot):
    tasks = make_tasks(20, way, shot)
    before = vectors.copy()
    slots = head.predict(vectors, tasks)
    assert slots.shape == tasks.query.shape and slots.dtype == np.int64
    assert slots.min() >= 0 and slots.max() < way
    assert (slots == tasks.query_slots).mean() > 1.4 / way
    np.testing.assert_array_equal(vectors, before)


def test_kinds_of_input(head, vectors, make_tasks):
    tasks = make_tasks(20, 5, 2)
    single = vectors.astype(np.float32)
    expected = evaluate(single.astype(np.float64), tasks, head).per_task
    strange = np.asfortranarray(single)
    gradient = torch.from_numpy(single).requires_grad_()
    for given in (single, strange, torch.from_numpy(single), gradient, single[::-1][::-1]):
        np.testing.assert_array_equal(evaluate(given, tasks, head).per_task, expected)
    whole = np.rint(4 * vectors)
    np.testing.assert_array_equal(head.predict(whole.astype(np.int64), tasks), head.predict(whole, tasks))
    half = torch.from_numpy(single).to(torch.bfloat16)
    assert evaluate(half, tasks, head).accuracy == pytest.approx(expected.mean(), abs=0.1)


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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tensor_on_a_device(head, vectors, make_tasks):
    tasks = make_tasks(20, 5, 2)
    there = torch.from_numpy(vectors).cuda()
    np.testing.assert_array_equal(evaluate(there, tasks, head).per_task, evaluate(vectors, tasks, head).per_task)
