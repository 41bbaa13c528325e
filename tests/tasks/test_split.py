from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from naq import ClassSplit, Graph, split_classes
from naq.errors import GraphError, TaskError
from naq.tasks import Tasks, save_task_file, split_of_file
from naq.tasks.split import class_sizes


def graph(sizes: list[int]) -> Graph:
    labels = np.concatenate([np.repeat(np.arange(len(sizes)), sizes), [-1, -1]])
    labels = np.random.default_rng(0).permutation(labels)
    return Graph([[], []], labels=labels, nodes=len(labels), name="toy")


def test_sizes() -> None:
    assert class_sizes(graph([3, 0, 5])).tolist() == [3, 0, 5]
    with pytest.raises(GraphError, match="has no labels"):
        class_sizes(Graph([[], []], nodes=3))


@pytest.mark.parametrize("seed", range(5))
def test_a_split_is_disjoint_and_covers_the_usable_classes(seed: int) -> None:
    sizes = [20, 4, 13, 12, 30, 14, 15, 16, 0, 17]
    split = split_classes(graph(sizes), valid=2, test=3, seed=seed)
    parts = [split.part(name) for name in ("base", "valid", "test")]
    assert [len(part) for part in parts] == [2, 2, 3]
    assert sorted(sum(parts, ())) == [c for c, size in enumerate(sizes) if size >= 13]
    assert split == split_classes(graph(sizes), valid=2, test=3, seed=seed)


def test_seeds_differ() -> None:
    assert len({split_classes(graph([20] * 12), valid=4, test=4, seed=seed) for seed in range(6)}) > 3


def test_too_few_classes() -> None:
    with pytest.raises(
        TaskError, match=r"3 validation and 2 test classes .*only 4 classes of graph 'toy' have 13 nodes"
    ):
        split_classes(graph([20, 20, 20, 20, 5]), valid=3, test=2)
    assert split_classes(graph([20, 5]), valid=1, test=1, min_nodes=5).base == ()


def test_parts_may_not_share_a_class() -> None:
    with pytest.raises(TaskError, match=r"classes \[2\] are both base and test"):
        ClassSplit((0, 2), (1,), (2, 3))
    with pytest.raises(TaskError, match="part is 'train'"):
        ClassSplit((0,), (1,), (2,)).part("train")


def test_the_split_of_a_file(tmp_path: Path) -> None:
    labels = np.repeat([0, 1, 2, 3, 4, -1], 3)
    toy = Graph([[], []], labels=labels, nodes=18, name="toy")
    valid = Tasks(np.array([[0, 3]]), np.array([[1, 4]]), 2, 1, "valid")
    test = Tasks(np.array([[6, 9]]), np.array([[7, 10]]), 2, 1, "test")
    stored = ClassSplit((4,), (0, 1), (2, 3))
    assert split_of_file(save_task_file(tmp_path / "a.npz", [valid, test], stored)) == stored
    bare = save_task_file(tmp_path / "b.npz", [valid, test])
    assert split_of_file(bare, toy) == stored
    with pytest.raises(TaskError, match="stores no class split; give the graph"):
        split_of_file(bare)
    with pytest.raises(TaskError, match="names node 4, but graph 'graph' has 4 nodes"):
        split_of_file(bare, Graph([[], []], labels=[0, 0, 1, 1], nodes=4))
    mixed = Tasks(np.array([[0, 9]]), np.array([[1, 10]]), 2, 1, "test")
    with pytest.raises(TaskError, match=r"classes \[0\] are both valid and test"):
        split_of_file(save_task_file(tmp_path / "c.npz", [valid, mixed]), toy)
