"""Fixed task sets, class splits, and the file that holds both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from naq import ClassSplit, Graph, Tasks, load, split_classes
from naq.errors import DataError, GraphError, TaskError
from naq.files import read_npz, write_npz
from naq.tasks import save_task_file, split_of_file
from naq.tasks.tasks import class_sizes
from shared_data import shared

LABELS = np.repeat([0, 1, 2, -1], 4)
GRAPH = Graph([[], []], labels=LABELS, nodes=16, name="toy")
SPLIT = ClassSplit((0,), (1,), (2,))


def tasks(**change: Any) -> Tasks:
    """Two 2-way 1-shot tasks with two queries a class."""
    support, query = np.array([[0, 4], [8, 1]]), np.array([[1, 2, 5, 6], [9, 10, 0, 3]])
    return Tasks(**({"support": support, "query": query, "way": 2, "shot": 1} | change))


def test_shapes_slots_and_repr() -> None:
    support = np.array([[0, 4], [8, 1]])
    set_ = tasks(support=support)
    support[:] = 7
    assert set_.support.tolist() == [[0, 4], [8, 1]], "apart from its input"
    with pytest.raises(ValueError, match="read-only"):
        set_.query[0, 0] = 3
    assert (len(set_), set_.queries) == (2, 2) and set_.take(1).query.tolist() == [[1, 2, 5, 6]]
    assert repr(set_) == "Tasks(2 x 2-way 1-shot, 2 queries per class, part='test')"
    assert set_.support_slots.tolist() == [0, 1] and set_.query_slots.tolist() == [0, 0, 1, 1]
    assert set_.nodes().tolist() == [0, 1, 2, 3, 4, 5, 6, 8, 9, 10] and set_.check(GRAPH) is set_
    new_id = np.random.default_rng(0).permutation(16)
    moved = set_.relabelled(new_id).check(GRAPH.with_labels(LABELS[np.argsort(new_id)]))
    assert moved.support[0].tolist() == new_id[[0, 4]].tolist()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"support": np.array([0, 4])}, "support"),
        ({"support": np.array([[0.0, 4.0], [8.0, 1.0]])}, "float64"),
        ({"way": 1}, "1-way"),
        ({"shot": 0}, "0-shot"),
        ({"shot": 2}, "2-shot"),
        ({"support": np.array([[0, 4]])}, "support"),
        ({"support": np.empty((0, 2), int), "query": np.empty((0, 4), int)}, "empty"),
        ({"query": np.array([[1, 2, 5], [9, 10, 0]])}, "3 queries"),
        ({"query": np.empty((2, 0), int)}, "0 queries"),
        ({"query": np.array([[1, 2, 5, 6], [9, 8, 0, 3]])}, "task 1"),
        ({"query": np.array([[1, 1, 5, 6], [9, 10, 0, 3]])}, "task 0"),
    ],
)
def test_what_is_no_task_set(change: dict[str, Any], words: str) -> None:
    with pytest.raises(TaskError, match=words):
        tasks(**change)


@pytest.mark.parametrize(
    ("support", "query", "words"),
    [
        ([[0, 4], [8, 1]], [[1, 2, 5, 16], [9, 10, 0, 3]], "node 16"),
        ([[0, 4], [8, 1]], [[1, 2, 5, 6], [9, 10, 0, -3]], "node"),
        ([[0, 4], [8, 1]], [[1, 2, 5, 9], [9, 10, 0, 3]], "task 0"),
        ([[0, 4], [8, 1]], [[1, 2, 5, 6], [9, 12, 0, 3]], "task 1"),
        ([[0, 1]], [[2, 3]], "task 0"),  # both slots hold one class
        ([[0, 12]], [[2, 13]], "task 0"),  # 12 and 13 have no known class
    ],
)
def test_tasks_of_another_graph(support: list[list[int]], query: list[list[int]], words: str) -> None:
    set_ = tasks(support=np.array(support), query=np.array(query))
    with pytest.raises(TaskError, match=words):
        set_.check(GRAPH)
    if "task" in words:
        set_.check(GRAPH.without_labels())


def test_a_file_of_tasks(tmp_path: Path) -> None:
    path = tasks().save(tmp_path / "t.npz", SPLIT)
    again = Tasks.load(path, way=2, shot=1)
    assert np.array_equal(again.support, tasks().support) and np.array_equal(again.query, tasks().query)
    assert (again.way, again.shot, again.part) == (2, 1, "test") and read_npz(path)["base_classes"].tolist() == [0]
    assert tasks().save(tmp_path / "again.npz", SPLIT).read_bytes() == path.read_bytes()
    two = Tasks(np.array([[0, 1, 4, 5]]), np.array([[2, 6]]), 2, 2, "valid")
    both = save_task_file(tmp_path / "both.npz", [tasks(), two])
    empty = write_npz(tmp_path / "e.npz", {"other": np.ones(2)})
    names = {"2way_1shot_test_support": np.ones((3, 5)), "2way_1shot_test_query": np.ones((3, 4), int)}
    damaged = write_npz(tmp_path / "w.npz", names)
    for file, given, words in (
        (both, {"way": 5, "shot": 1}, "2-way 1-shot test, 2-way 2-shot valid"),
        (both, {"way": 2, "shot": 1, "part": "valid"}, "2-way 1-shot valid"),
        (empty, {"way": 2, "shot": 1}, "none at all"),
        (damaged, {"way": 2, "shot": 1}, "support"),
    ):
        with pytest.raises(TaskError, match=words):
            Tasks.load(file, **given)
    with pytest.raises(DataError, match="absent"):
        Tasks.load(tmp_path / "absent.npz", way=2, shot=1)


def test_a_real_task_file() -> None:
    graph, path = load(shared("coauthor_cs.npz")), shared("coauthor_cs.tasks.npz")
    for shot in (1, 5):
        for part in ("valid", "test"):
            Tasks.load(path, way=5, shot=shot, part=part).check(graph)


def graph_of(sizes: list[int]) -> Graph:
    labels = np.concatenate([np.repeat(np.arange(len(sizes)), sizes), [-1, -1]])
    return Graph([[], []], labels=np.random.default_rng(0).permutation(labels), nodes=len(labels), name="toy")


def test_a_split_is_disjoint_and_covers_the_usable_classes() -> None:
    sizes = [20, 4, 13, 12, 30, 14, 15, 16, 0, 17]
    graph = graph_of(sizes)
    assert class_sizes(graph).tolist() == sizes
    for seed in range(5):
        split = split_classes(graph, valid=2, test=3, seed=seed)
        parts = [split.part(name) for name in ("base", "valid", "test")]
        assert [len(part) for part in parts] == [2, 2, 3] and split == split_classes(graph, valid=2, test=3, seed=seed)
        assert sorted(sum(parts, ())) == [c for c, size in enumerate(sizes) if size >= 13]
    assert len({split_classes(graph_of([20] * 12), valid=4, test=4, seed=seed) for seed in range(6)}) > 3
    assert split_classes(graph_of([20, 5]), valid=1, test=1, min_nodes=5).base == ()
    with pytest.raises(TaskError, match="only 4 classes"):
        split_classes(graph_of([20, 20, 20, 20, 5]), valid=3, test=2)
    with pytest.raises(TaskError, match=r"\[2\] are both base and test"):
        ClassSplit((0, 2), (1,), (2, 3))
    with pytest.raises(TaskError, match="train"):
        SPLIT.part("train")
    with pytest.raises(GraphError, match="labels"):
        class_sizes(Graph([[], []], nodes=3))


def test_the_split_of_a_file(tmp_path: Path) -> None:
    toy = Graph([[], []], labels=np.repeat([0, 1, 2, 3, 4, -1], 3), nodes=18, name="toy")
    valid = Tasks(np.array([[0, 3]]), np.array([[1, 4]]), 2, 1, "valid")
    test = Tasks(np.array([[6, 9]]), np.array([[7, 10]]), 2, 1, "test")
    mixed = Tasks(np.array([[0, 9]]), np.array([[1, 10]]), 2, 1, "test")
    stored = ClassSplit((4,), (0, 1), (2, 3))
    assert split_of_file(save_task_file(tmp_path / "a.npz", [valid, test], stored)) == stored
    bare = save_task_file(tmp_path / "b.npz", [valid, test])
    assert split_of_file(bare, toy) == stored
    for file, graph, words in (
        (bare, None, "give the graph"),
        (bare, Graph([[], []], labels=[0, 0, 1, 1], nodes=4), "node 4"),
        (save_task_file(tmp_path / "c.npz", [valid, mixed]), toy, r"\[0\] are both valid and test"),
        (write_npz(tmp_path / "d.npz", {"base_classes": np.ones(2)}), toy, "float64"),
    ):
        with pytest.raises(TaskError, match=words):
            split_of_file(file, graph)
