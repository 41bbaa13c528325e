"""The bundled graph and its task file are what docs/debian.md says."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import naq
from naq.files import read_npz
from naq.graph import Graph
from naq.tasks import Tasks, settings_of_file, split_of_file

ROOT = Path(__file__).resolve().parents[2]
BUNDLED = ROOT / "src" / "naq" / "io" / "bundled"
GRAPH, TASKS = BUNDLED / "debian.npz", BUNDLED / "debian.tasks.npz"
SETTINGS = [(5, 1), (5, 5), (10, 1), (10, 5)]


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    return read_npz(GRAPH)


@pytest.fixture(scope="module")
def graph(arrays: dict[str, np.ndarray]) -> Graph:
    def matrix(title: str) -> sp.csr_array:
        indices, indptr = (arrays[f"{title}_{part}"].astype(np.int64) for part in ("indices", "indptr"))
        return sp.csr_array((np.ones(len(indices)), indices, indptr), shape=tuple(arrays[f"{title}_shape"]))

    names = {key: arrays[key] for key in ("names", "class_names", "vocab")}
    return Graph(matrix("adj"), matrix("attr"), arrays["labels"], name="debian", **names)


def test_size() -> None:
    assert GRAPH.stat().st_size + TASKS.stat().st_size <= 5_200_000


def test_counts(graph: Graph) -> None:
    assert 33_000 < graph.num_nodes < 35_000
    assert 105_000 < graph.num_edges < 120_000
    assert 10_000 < graph.num_features < 20_000
    assert graph.num_classes == 55
    assert (np.bincount(graph.labels) >= 30).sum() == 47
    edges = graph.adjacency.tocoo()
    assert 0.49 < (graph.labels[edges.row] == graph.labels[edges.col]).mean() < 0.55


def test_hubs_are_dropped(graph: Graph) -> None:
    assert graph.names is not None
    glibc = list(graph.names).index("glibc")
    assert graph.degrees[glibc] < 20 and graph.degrees.max() < 1_000
    assert 3_500 < (graph.degrees == 0).sum() < 4_200


def test_each_edge_is_stored_once(graph: Graph, arrays: dict[str, np.ndarray]) -> None:
    assert graph.num_edges == len(arrays["adj_indices"])
    assert graph.changes["self_loops_dropped"] == graph.changes["duplicates_merged"] == 0


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


def test_settings() -> None:
    assert settings_of_file(TASKS) == SETTINGS


def test_the_page_shows_the_figures_of_the_files() -> None:
    spec = importlib.util.spec_from_file_location("build_debian", ROOT / "tools" / "build_debian.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = tool  # dataclasses look their module up by name
    spec.loader.exec_module(tool)
    page = (ROOT / "docs" / "debian.md").read_text(encoding="utf-8")
    assert tool.statistics_tables(BUNDLED) in page, "run tools/build_debian.py stats and paste it into the page"


def test_descriptions_and_names_of_classes_need_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    debian = naq.load("debian")
    assert debian.text is not None and debian.class_names is not None and debian.names is not None
    node = debian.names.tolist().index("bash")
    assert debian.text_of(node) == "GNU Bourne Again SHell" and debian.text.known.all()
    assert not debian.reads_text and [block.kind for block in debian.blocks] == ["words"]
    names = debian.class_names[np.bincount(debian.labels) >= 30].tolist()
    nearest = (debian.text.rows() @ debian.text.class_vectors(names).T).argmax(axis=1)
    assert (np.array(names)[nearest] == debian.class_names[debian.labels]).mean() > 0.35
