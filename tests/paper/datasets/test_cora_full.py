from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from naq import Graph
from naq.errors import DataError, TaskError
from naq.io.npz import read_graph
from naq.tasks import split_of_file
from naq_paper.datasets.cora_full import cora_full_split, read_cora_full
from shared_data import shared

BASE = "28 33 14 52 53 49 8 37 50 60 6 20 1 40 34 4 11 44 26 9 39 57 17 13 12"
VALID = "31 61 47 30 66 16 67 10 58 32 41 48 45 5 54 15 29 56 21 23"
TEST = "2 59 63 7 68 43 35 24 22 69 25 0 3 46 55 64 27 62 42 18 65 19 51 36 38"


def write(path: Path, **change: Any) -> Path:
    random = np.random.default_rng(0)
    adjacency = sp.random(30, 30, 0.1, "csr", random_state=1)
    adjacency.setdiag(1)
    words = sp.csr_matrix(random.poisson(0.4, size=(30, 12)).astype(np.float32) * 1.5)
    content: dict[str, Any] = {
        "labels": random.integers(0, 5, 30),
        "idx_to_node": np.array({0: "title"}, dtype=object),
    }
    for prefix, matrix in (("adj", adjacency.tocsr()), ("attr", words)):
        content |= {f"{prefix}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
        content[f"{prefix}_shape"] = np.array(matrix.shape)
    np.savez(path, **{key: value for key, value in (content | change).items() if value is not None})
    return path


def test_equals_what_pyg_makes_of_the_file(tmp_path: Path) -> None:
    from torch_geometric.io.npz import read_npz

    path = write(tmp_path / "cora.npz")
    expected = Graph.from_pyg(read_npz(str(path)))
    graph = read_cora_full(path)
    assert graph.hash == expected.hash
    assert graph.name == "cora-full"
    assert set(np.unique(graph.features.toarray())) == {0, 1}
    assert graph.changes["self_loops_dropped"] == 30


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": None}, "has no array labels; expected the npz of Cora-Full"),
        ({"attr_indptr": None}, "has no array attr_indptr"),
        ({"labels": np.array({}, dtype=object)}, "Object arrays"),
        ({"adj_indptr": np.arange(31)[::-1].copy()}, "adj_indptr must start at 0"),
        ({"labels": np.zeros(4, dtype=int)}, r"labels have shape \(4,\)"),
    ],
)
def test_bad_file(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_cora_full(write(tmp_path / "cora.npz", **change))


def test_split_positions_are_the_papers() -> None:
    first_seen = np.random.default_rng(3).permutation(70)
    labels = np.concatenate([first_seen, np.arange(70)])
    split = cora_full_split(Graph(np.empty((2, 0), dtype=int), labels=labels, nodes=140))
    for part, positions in (("base", BASE), ("valid", VALID), ("test", TEST)):
        assert split.part(part) == tuple(sorted(first_seen[[int(p) for p in positions.split()]].tolist()))


def test_split_agrees_with_the_official_tasks() -> None:
    graph = read_graph(shared("cora_full_structure.npz"))
    assert cora_full_split(graph) == split_of_file(shared("cora_full.tasks.npz"), graph)


def test_split_of_another_graph(small: Graph) -> None:
    with pytest.raises(TaskError, match="has 3 classes; the split of Cora-Full is for its 70"):
        cora_full_split(small.with_labels([0, 0, 1, 1, 2, 2]))
