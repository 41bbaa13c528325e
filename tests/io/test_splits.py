from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from naq import ClassSplit, Graph, sample_tasks
from naq.errors import DataError, TaskError
from naq.io import load, save_graph, split_for, tasks_path
from shared_data import shared


def labelled(sizes: list[int]) -> Graph:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return Graph(np.empty((2, 0), dtype=int), labels=labels, nodes=len(labels), name="made")


def sizes(split: ClassSplit) -> tuple[int, int, int]:
    return len(split.base), len(split.valid), len(split.test)


def test_tasks_beside_a_file(tmp_path: Path) -> None:
    graph = labelled([20] * 10)
    path = save_graph(tmp_path / "a.b.npz", graph)
    assert tasks_path(path) is None
    split = ClassSplit((0, 1), (2, 3), (4, 5, 6))
    sample_tasks(graph, way=2, count=3, classes=split.test).save(tmp_path / "a.b.tasks.npz", split)
    assert tasks_path(path) == tasks_path(str(path)) == tmp_path / "a.b.tasks.npz"
    assert split_for(path, graph) == split


def test_odd_sources_have_no_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [tasks_path(source) for source in ("", ".", "/", "..", "x.tasks.npz")] == [None] * 5


def test_tasks_of_names(tmp_path: Path) -> None:
    bundled = tasks_path("debian")
    assert bundled is not None and bundled.name == "debian.tasks.npz"
    assert tasks_path("cora-full", root=tmp_path) is None
    (tmp_path / "cora-full.tasks.npz").write_bytes(b"")
    assert tasks_path("Cora_full", root=tmp_path) == tmp_path / "cora-full.tasks.npz"


@pytest.mark.parametrize(
    ("classes", "expected"),
    [(6, (2, 2, 2)), (7, (3, 2, 2)), (10, (5, 2, 3)), (15, (7, 4, 4)), (70, (31, 18, 21))],
)
def test_drawn_split(classes: int, expected: tuple[int, int, int]) -> None:
    graph = labelled([13] * classes + [12, 1])
    split = split_for("x.npz", graph)
    assert sizes(split) == expected
    assert sorted(split.base + split.valid + split.test) == list(range(classes))
    assert split == split_for("pyg:Some/Thing", graph)
    assert classes < 70 or split != split_for("x.npz", graph, seed=1) == split_for("y.npz", graph, seed=1)


def test_too_few_classes() -> None:
    with pytest.raises(TaskError, match="'made' has 5 classes"):
        split_for("x.npz", labelled([13] * 5 + [12]))


def test_ogb_split_has_the_papers_counts() -> None:
    assert sizes(split_for("ogbn-arxiv", labelled([13] * 40))) == (15, 10, 15)
    assert sizes(split_for("ogbn-products", labelled([13] * 45 + [1, 9]))) == (13, 15, 17)


def test_gpn_names_read_their_mat_files(small: Graph, tmp_path: Path, write_gpn: Callable[..., Path]) -> None:
    with pytest.raises(DataError, match=r"dblp\.tasks\.npz"):
        split_for("dblp", small, root=tmp_path)
    train = {node: node for node in range(30)}
    write_gpn(train, {30: 30, 31: 31}, stem="dblp", folder=tmp_path / "dblp")
    split = split_for("dblp", load("dblp", root=tmp_path, download=False), root=tmp_path)
    assert sizes(split) == (3, 27, 2) and split.test == (30, 31)


def test_split_of_a_shared_graph() -> None:
    path = shared("coauthor_cs.npz")
    shared("coauthor_cs.tasks.npz")
    assert sizes(split_for(path, load(path))) == (5, 5, 5)
