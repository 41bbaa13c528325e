"""The bundled graph and its task file are what docs/debian.md says."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import naq
from naq.files import read_npz
from naq.graph import Graph
from naq.io import DATASETS
from naq.tasks import Tasks, split_of_file

ROOT = Path(__file__).resolve().parents[2]
BUNDLED = ROOT / "src" / "naq" / "io" / "bundled"
GRAPH, TASKS = BUNDLED / "debian.npz", BUNDLED / "debian.tasks.npz"
SETTINGS = [(5, 1), (5, 5), (10, 1), (10, 5)]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return naq.load("debian")


def test_counts(graph: Graph) -> None:
    assert GRAPH.stat().st_size + TASKS.stat().st_size <= 5_200_000
    known = DATASETS["debian"]
    found = (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes)
    assert found == (known.nodes, known.edges, known.features, known.classes)
    assert (np.bincount(graph.labels) >= 30).sum() == 47
    assert 0.49 < graph.homophily() < 0.55
    assert len(read_npz(GRAPH, only=["adj_indices"])["adj_indices"]) == graph.num_edges, "each is stored once"
    assert graph.changes["self_loops_dropped"] == graph.changes["duplicates_merged"] == 0


def test_hubs_are_dropped(graph: Graph) -> None:
    assert graph.degrees[graph.names.tolist().index("glibc")] < 20 and graph.degrees.max() < 1_000
    assert 3_500 < (graph.degrees == 0).sum() < 4_200


def test_words_are_binary_and_used_by_five_nodes(graph: Graph) -> None:
    assert graph.sparse_features and (graph.features.data == 1).all()
    frequency = np.bincount(graph.features.indices, minlength=graph.num_features)
    assert frequency.min() >= 5 and (np.diff(frequency) <= 0).all()
    assert len(set(graph.vocab)) == graph.num_features


def test_names(graph: Graph) -> None:
    names = graph.names.tolist()
    assert names == sorted(set(names))
    section = dict(zip(names, graph.class_names[graph.labels]))
    assert section["git"] == "vcs" and section["bash"] == "shells" and section["numpy"] == "python"
    assert not any("/" in name for name in graph.class_names)


def test_split(graph: Graph) -> None:
    split = split_of_file(TASKS)
    parts = [set(split.part(name)) for name in ("base", "valid", "test")]
    assert [len(part) for part in parts] == [20, 12, 15]
    assert len(set.union(*parts)) == 47
    assert np.bincount(graph.labels)[sorted(set.union(*parts))].min() >= 30


@pytest.mark.parametrize("part", ["valid", "test"])
@pytest.mark.parametrize(("way", "shot"), SETTINGS)
def test_tasks(graph: Graph, way: int, shot: int, part: str) -> None:
    tasks = Tasks.load(TASKS, way=way, shot=shot, part=part).check(graph)
    assert len(tasks) == {"valid": 50, "test": 500}[part] and tasks.queries == 8
    assert set(graph.labels[tasks.nodes()]) <= set(split_of_file(TASKS).part(part))


def test_descriptions_and_names_of_classes_need_no_model(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    node = graph.names.tolist().index("bash")
    assert graph.text_of(node) == "GNU Bourne Again SHell" and graph.text.known.all()
    assert not graph.reads_text and [block.kind for block in graph.blocks] == ["words"]
    names = graph.class_names[np.bincount(graph.labels) >= 30].tolist()
    nearest = (graph.text.rows() @ graph.text.class_vectors(names).T).argmax(axis=1)
    assert (np.array(names)[nearest] == graph.class_names[graph.labels]).mean() > 0.35
