"""The score of a head, and what embeddings it takes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from naq.errors import OptionError, TaskError
from naq.heads import HEADS, Evaluation, Head, evaluate, make_head
from naq.tasks import Tasks, dirichlet_queries
from naq.testing import clustered_tasks, clustered_vectors

VECTORS = clustered_vectors()


class Half(Head):
    name = "half"

    def predict(self, embedding: np.ndarray, tasks: Tasks) -> np.ndarray:
        slots = np.tile(tasks.query_slots, (len(tasks), 1))
        slots[0] = (slots[0] + 1) % tasks.way
        return slots


def test_mean_interval_and_text() -> None:
    found = evaluate(VECTORS, clustered_tasks(4, 5, 1), Half())
    assert found.per_task.tolist() == [0.0, 1.0, 1.0, 1.0] and found.accuracy == 0.75
    assert found.ci95 == pytest.approx(1.96 * np.sqrt(0.75 * 0.25) / 2)
    assert str(found) == "75.00 ± 42.44 % (5-way 1-shot, half, 4 tasks)"
    assert (found.way, found.shot, found.part, found.options) == (5, 1, "test", {})


def test_as_json_and_back() -> None:
    tasks = clustered_tasks(4, 5, 1)
    balanced = evaluate(VECTORS, tasks, "transductive", rounds=2)
    unbalanced = evaluate(VECTORS, dirichlet_queries(tasks, np.arange(400) % 10), "em")
    assert (balanced.queries, unbalanced.queries) == ("balanced", "unbalanced")
    assert "unbalanced" in str(unbalanced)
    for found in (balanced, unbalanced):
        written = json.loads(json.dumps(found.to_json()))
        assert Evaluation.from_json(written).to_json() == found.to_json()
    written = balanced.to_json()
    assert written["options"] == {"rounds": 2, "temperature": pytest.approx(1 / 15), "center": True}
    assert written["count"] == 4 and len(written["per_task"]) == 4 and written["transductive"] is True
    del written["queries"]  # as files of before unbalanced queries
    assert Evaluation.from_json(written).to_json() == balanced.to_json()


def broken() -> np.ndarray:
    found = VECTORS.copy()
    found[7, 3], found[9, 0] = np.inf, np.nan
    return found


@pytest.mark.parametrize(("embedding", "words"), [
    (broken(), "row 7"), (torch.from_numpy(broken()), "row 7"), (VECTORS[:, 0], "shape"), (VECTORS[:, :0], "shape"),
    (VECTORS.tolist(), "list"), (VECTORS.astype(complex), "complex128"), (torch.ones(400, 3, dtype=torch.bool), "bool"),
], ids=["infinite", "infinite tensor", "flat", "empty", "list", "complex", "bool"])  # fmt: skip
def test_wrong_embeddings(embedding: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        evaluate(embedding, clustered_tasks(2, 5, 1))


def test_tasks_of_another_graph() -> None:
    with pytest.raises(TaskError, match=r"0\.\.49"):
        evaluate(VECTORS[:50], clustered_tasks(2, 5, 1))
    with pytest.raises(TaskError, match="-1"):
        evaluate(VECTORS, Tasks(np.array([[-1, 1]]), np.array([[2, 3]]), 2, 1))


@pytest.mark.parametrize("name", HEADS)
def test_kinds_of_input(name: str) -> None:
    head, tasks, single = make_head(name), clustered_tasks(20, 5, 2), VECTORS.astype(np.float32)
    expected = evaluate(single.astype(np.float64), tasks, head).per_task
    gradient = torch.from_numpy(single).requires_grad_()
    given = [single, np.asfortranarray(single), torch.from_numpy(single), gradient, single[::-1][::-1]]
    if torch.cuda.is_available():
        given.append(torch.from_numpy(single).cuda())
    for embedding in given:
        assert np.array_equal(evaluate(embedding, tasks, head).per_task, expected)
    whole = np.rint(4 * VECTORS)
    assert np.array_equal(head.predict(whole.astype(np.int64), tasks), head.predict(whole, tasks))
    half = torch.from_numpy(single).to(torch.bfloat16)
    assert evaluate(half, tasks, head).accuracy == pytest.approx(expected.mean(), abs=0.1)
