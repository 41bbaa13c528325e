"""The score of a head, and what embeddings it takes."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from naq.errors import OptionError, TaskError
from naq.heads import HEADS, Evaluation, Head, evaluate, make_head
from naq.tasks import Tasks, dirichlet_queries


@pytest.fixture(params=sorted(HEADS))
def head(request) -> Head:
    return make_head(request.param)


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


def test_unbalanced_queries_are_told_and_old_files_had_none(vectors, make_tasks):
    tasks = make_tasks(4, 5, 1)
    balanced = evaluate(vectors, tasks, "em")
    found = evaluate(vectors, dirichlet_queries(tasks, np.arange(400) % 10), "em")
    assert (balanced.queries, found.queries) == ("balanced", "unbalanced")
    assert str(found).endswith("(5-way 1-shot, em, 4 tasks with unbalanced queries)")
    assert Evaluation.from_json(json.loads(json.dumps(found.to_json()))).to_json() == found.to_json()
    old = balanced.to_json()
    del old["queries"]
    assert Evaluation.from_json(old).to_json() == balanced.to_json()


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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tensor_on_a_device(head, vectors, make_tasks):
    tasks = make_tasks(20, 5, 2)
    there = torch.from_numpy(vectors).cuda()
    np.testing.assert_array_equal(evaluate(there, tasks, head).per_task, evaluate(vectors, tasks, head).per_task)
