from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from naq import ClassSplit, Graph, Tasks
from naq.errors import DataError, TaskError
from naq.files import read_npz, write_npz
from naq.tasks import save_task_file, settings_of_file
from shared_data import shared

LABELS = np.repeat([0, 1, 2, -1], 4)
GRAPH = Graph([[], []], labels=LABELS, nodes=16, name="toy")


def tasks(**change: Any) -> Tasks:
    """Two 2-way 1-shot tasks with two queries a class."""
    good = {
        "support": np.array([[0, 4], [8, 1]]),
        "query": np.array([[1, 2, 5, 6], [9, 10, 0, 3]]),
        "way": 2,
        "shot": 1,
    }
    return Tasks(**(good | change))


def test_shapes_slots_and_repr() -> None:
    set_ = tasks()
    assert (len(set_), set_.queries) == (2, 2)
    assert repr(set_) == "Tasks(2 x 2-way 1-shot, 2 queries per class, part='test')"
    assert set_.support_slots.tolist() == [0, 1]
    assert set_.query_slots.tolist() == [0, 0, 1, 1]
    assert set_.nodes().tolist() == [0, 1, 2, 3, 4, 5, 6, 8, 9, 10]
    assert set_.take(1).query.tolist() == [[1, 2, 5, 6]]
    assert set_.check(GRAPH) is set_


def test_immutable_and_apart_from_its_input() -> None:
    support = np.array([[0, 4], [8, 1]])
    set_ = tasks(support=support)
    support[:] = 7
    assert set_.support.tolist() == [[0, 4], [8, 1]]
    with pytest.raises(ValueError, match="read-only"):
        set_.query[0, 0] = 3


def test_relabelled_follows_the_nodes() -> None:
    new_id = np.random.default_rng(0).permutation(16)
    moved = tasks().relabelled(new_id)
    labels = np.empty(16, dtype=int)
    labels[new_id] = LABELS
    moved.check(GRAPH.with_labels(labels))
    assert moved.support[0].tolist() == new_id[[0, 4]].tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"support": np.array([0, 4])}, r"support has shape \(2,\)"),
        ({"support": np.array([[0.0, 4.0], [8.0, 1.0]])}, "type float64; expected whole numbers"),
        ({"way": 1}, "at least 2 ways and 1 shot"),
        ({"shot": 0}, "at least 2 ways and 1 shot"),
        ({"shot": 2}, "do not fit 2-way 2-shot"),
        ({"support": np.array([[0, 4]])}, "do not fit"),
        ({"support": np.empty((0, 2), int), "query": np.empty((0, 4), int)}, "the task set is empty"),
        ({"query": np.array([[1, 2, 5], [9, 10, 0]])}, "3 queries, which 2 classes cannot share equally"),
        ({"query": np.empty((2, 0), int)}, "0 queries, which 2 classes"),
        ({"query": np.array([[1, 2, 5, 6], [9, 8, 0, 3]])}, "task 1 uses a node twice"),
        ({"query": np.array([[1, 1, 5, 6], [9, 10, 0, 3]])}, "task 0 uses a node twice"),
    ],
)
def test_what_is_no_task_set(change: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        tasks(**change)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ([[1, 2, 5, 16], [9, 10, 0, 3]], r"name node 16, but graph 'toy' has nodes 0\.\.15"),
        ([[1, 2, 5, 6], [9, 10, 0, -3]], "the tasks name node"),
        ([[1, 2, 5, 9], [9, 10, 0, 3]], "task 0 does not fit the labels"),
        ([[1, 2, 5, 6], [9, 12, 0, 3]], "task 1 does not fit the labels"),
    ],
)
def test_tasks_of_another_graph(query: list[list[int]], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        tasks(query=np.array(query)).check(GRAPH)


def test_two_slots_of_one_class_and_unknown_nodes_do_not_fit() -> None:
    with pytest.raises(TaskError, match="task 0"):
        Tasks(np.array([[0, 1]]), np.array([[2, 3]]), 2, 1).check(GRAPH)
    with pytest.raises(TaskError, match="task 0"):
        Tasks(np.array([[0, 12]]), np.array([[2, 13]]), 2, 1).check(GRAPH)
    Tasks(np.array([[0, 1]]), np.array([[2, 3]]), 2, 1).check(GRAPH.without_labels())


def test_save_and_load(tmp_path: Path) -> None:
    path = tasks().save(tmp_path / "t.npz", ClassSplit((0,), (1,), (2,)))
    again = Tasks.load(path, way=2, shot=1)
    assert np.array_equal(again.support, tasks().support) and np.array_equal(again.query, tasks().query)
    assert (again.way, again.shot, again.part) == (2, 1, "test")
    assert read_npz(path)["base_classes"].tolist() == [0]
    assert tasks().save(tmp_path / "again.npz", ClassSplit((0,), (1,), (2,))).read_bytes() == path.read_bytes()


def test_a_missing_setting_lists_those_available(tmp_path: Path) -> None:
    two = Tasks(np.array([[0, 1, 4, 5]]), np.array([[2, 6]]), 2, 2, "valid")
    path = save_task_file(tmp_path / "t.npz", [tasks(), two])
    assert settings_of_file(path) == [(2, 1), (2, 2)]
    with pytest.raises(TaskError, match="has no 5-way 1-shot test tasks; it has 2-way 1-shot test, 2-way 2-shot valid"):
        Tasks.load(path, way=5, shot=1)
    with pytest.raises(TaskError, match="has no 2-way 1-shot valid tasks"):
        Tasks.load(path, way=2, shot=1, part="valid")
    empty = write_npz(tmp_path / "e.npz", {"other": np.ones(2)})
    with pytest.raises(TaskError, match="it has none at all"):
        Tasks.load(empty, way=2, shot=1)


def test_a_damaged_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"task file .* does not exist"):
        Tasks.load(tmp_path / "absent.npz", way=2, shot=1)
    wrong = write_npz(
        tmp_path / "w.npz", {"2way_1shot_test_support": np.ones((3, 5)), "2way_1shot_test_query": np.ones((3, 4), int)}
    )
    with pytest.raises(TaskError, match="support has shape"):
        Tasks.load(wrong, way=2, shot=1)


def test_a_real_task_file() -> None:
    from naq import load

    graph, path = load(shared("coauthor_cs.npz")), shared("coauthor_cs.tasks.npz")
    found = settings_of_file(path)
    assert (5, 1) in found and (5, 5) in found
    for way, shot in found:
        for part in ("valid", "test"):
            Tasks.load(path, way=way, shot=shot, part=part).check(graph)
