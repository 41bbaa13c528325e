from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis.extra.numpy import arrays

from naq import Graph
from naq.errors import DataError
from naq.files import read_npz
from naq.io.npz import read_graph, save_graph
from shared_data import shared


def good() -> dict[str, Any]:
    """Three nodes in a row, two features."""
    return {
        "adj_indptr": np.array([0, 1, 3, 4]),
        "adj_indices": np.array([1, 0, 2, 1]),
        "adj_shape": np.array([3, 3]),
        "attr_indptr": np.array([0, 1, 1, 2]),
        "attr_indices": np.array([0, 1]),
        "attr_shape": np.array([3, 2]),
        "attr_data": np.array([2, 3], dtype=np.uint8),
        "labels": np.array([0, 1, -1]),
        "class_names": np.array(["a", "b"]),
    }


def write(folder: Path, **change: Any) -> Path:
    path = folder / "toy.npz"
    np.savez(path, **{key: value for key, value in (good() | change).items() if value is not None})
    return path


def test_reads_every_part(tmp_path: Path) -> None:
    graph = read_graph(write(tmp_path))
    assert (graph.name, graph.num_edges) == ("toy", 2)
    assert graph.features.toarray().tolist() == [[2, 0], [0, 0], [0, 3]]
    assert graph.labels.tolist() == [0, 1, -1] and graph.class_names.tolist() == ["a", "b"]
    assert read_graph(write(tmp_path, attr_data=None)).features.data.tolist() == [1, 1]
    bare = read_graph(write(tmp_path, **{key: None for key in good() if not key.startswith("adj")}))
    assert bare.features is None and bare.labels is None
    assert read_graph(write(tmp_path, unknown=np.array({"a": 1}, dtype=object))).hash == graph.hash


def test_round_trip(small: Graph, tmp_path: Path) -> None:
    path = save_graph(tmp_path / "deep" / "small.npz", small)
    again = read_graph(path)
    assert again.hash == small.hash
    for key in ("names", "class_names", "vocab"):
        assert getattr(again, key).tolist() == getattr(small, key).tolist()
    assert save_graph(tmp_path / "again.npz", again).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"rel_names": np.array(["a", "a"])}, "rel_names"), ({"rel_names": np.array([], dtype="U1")}, "rel_names"),
        ({"rel_names": None}, "rel_names"), ({"rel_data": None}, "rel_data"),
        ({"rel_indptr": np.array([0, 1, 1, 1])}, "rel_indptr"), ({"rel_data": np.array([1, -1])}, "weight -1"),
        ({"rel_indices": np.array([1, 2])}, "'b' joins"),
    ],
)  # fmt: skip
def test_damaged_relations(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    sound = {"rel_names": np.array(["a", "b"]), "rel_indptr": np.array([0, 1, 1, 1, 2, 2, 2])}
    sound |= {"rel_indices": np.array([1, 1]), "rel_data": np.array([2.0, 1.0])}
    assert list(read_graph(write(tmp_path, **sound)).relations) == ["a", "b"]
    with pytest.raises(DataError, match=named):
        read_graph(write(tmp_path, **sound | change))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_graph_survives(data: st.DataObject, tmp_path: Path) -> None:
    n, d = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 5))
    node = st.integers(0, n - 1)
    edges = np.array(data.draw(st.lists(st.tuples(node, node), max_size=12)), dtype=np.int64).reshape(-1, 2).T
    value = st.floats(width=32, allow_nan=False, allow_infinity=False) | st.integers(0, 300).map(float)
    features = data.draw(st.none() | arrays(np.float32, (n, d), elements=value, fill=st.just(np.float32(0))))
    if features is not None and data.draw(st.booleans()):
        features = sp.csr_array(features)
    labels = data.draw(st.none() | arrays(np.int64, n, elements=st.integers(-1, 9)))
    names = data.draw(st.none() | st.lists(st.text(max_size=4), min_size=n, max_size=n))
    graph = Graph(edges, features, labels, nodes=n, names=names)
    again = read_graph(save_graph(tmp_path / "g.npz", graph))
    assert again.hash == graph.hash
    assert again.sparse_features == graph.sparse_features
    assert (again.names is None) == (names is None)
    assert names is None or again.names.tolist() == graph.names.tolist()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        *(({key: None}, key) for key in ("adj_indptr", "adj_indices", "adj_shape", "attr_shape")),
        *(({"adj_indptr": np.array(wrong)}, "adj_indptr") for wrong in (
            [0, 3, 1, 4], [1, 1, 3, 4], [0, 1, 3, 9], [0, -5, 3, 4], [0, 4], [[0, 1, 3, 4]], [0.0, 1, 3, 4])),
        ({"adj_indptr": np.array([0, 1, 3, 2**63], dtype=np.uint64)}, "adj_indptr"),
        *(({"adj_indices": np.array(wrong)}, "adj_indices") for wrong in ([1, 0, 3, 1], [1, 0, -1, 1], [1, 0, 2])),
        *(({"adj_shape": np.array(wrong)}, "adj_shape") for wrong in ([3, 4], [10**12, 10**12], 3)),
        ({"adj_shape": np.array([10**9, 10**9])}, "adj_indptr"),
        ({"adj_shape": np.zeros(2, int), "adj_indptr": np.zeros(1, int), "adj_indices": np.zeros(0, int)}, "empty"),
        ({"adj_data": np.ones(3)}, "adj_data"),
        ({"adj_data": np.array(list("abcd"))}, "adj_data"),
        ({"adj_data": np.array([1, 1, np.nan, 1])}, "adjacency"),
        ({"attr_indices": np.array([0, 2])}, "attr_indices"),
        ({"attr_data": np.array([1.0, np.inf])}, "features"),
        ({"attr": np.ones((3, 2))}, "attr"),
        ({"labels": np.array([0, 1])}, "labels"),
        ({"labels": np.array([0, 1, 10**15])}, "label"),
        ({"labels": np.array(["a", "b", "c"])}, "labels"),
        ({"labels": np.array([{}, {}, {}], dtype=object)}, "Object arrays"),
        ({"class_names": np.array(["a"])}, "label 1"),
        ({"class_names": np.array([1, 2])}, "class_names"),
        ({"names": np.array(["a", "b"])}, "names"),
        ({"names": np.array([1, 2, 2**31], dtype=np.uint32).view("<U1")}, "names"),
        ({"vocab": np.array(["a"])}, "vocab"),
    ],
)  # fmt: skip
def test_bad_content(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    path = write(tmp_path, **change)
    with pytest.raises(DataError, match=named) as caught:
        read_graph(path)
    assert str(path) in str(caught.value)


def test_missing_folder_and_tasks(tmp_path: Path) -> None:
    (tmp_path / "folder.npz").mkdir()
    np.savez(tmp_path / "x.tasks.npz", a=np.arange(3))
    for name, why in (("none", "does not exist"), ("folder", "is a folder"), ("x.tasks", "task file")):
        with pytest.raises(DataError, match=why):
            read_graph(tmp_path / f"{name}.npz")


def test_dense_features_and_big_endian_files(tmp_path: Path) -> None:
    swapped = {key: value.astype(value.dtype.newbyteorder(">")) for key, value in good().items()}
    np.savez(tmp_path / "big.npz", **swapped)
    assert read_graph(tmp_path / "big.npz").hash == read_graph(write(tmp_path)).hash
    sparse = {key: None for key in good() if key.startswith("attr")}
    dense = read_graph(write(tmp_path, **sparse, attr=np.array([[2.0, 0], [0, 0], [0, 3]])))
    assert not dense.sparse_features
    assert dense.hash == read_graph(tmp_path / "big.npz").hash


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("coauthor_cs.npz", (18_333, 81_894, 6_805, 15)),
        ("cora.npz", (2_708, 5_278, 1_433, 7)),
        ("amazon_electronics_network.npz", (42_318, 43_556, 0, 0)),
        ("cora_full_structure.npz", (19_793, 63_421, 0, 70)),
    ],
)
def test_shared_graphs(name: str, sizes: tuple[int, ...], tmp_path: Path) -> None:
    path = shared(name)
    graph = read_graph(path)
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == sizes
    assert read_graph(save_graph(tmp_path / "copy.npz", graph)).hash == graph.hash


ARCS = {"arc_indptr": np.array([0, 1, 2, 2]), "arc_indices": np.array([1, 2]), "arc_data": np.array([2, 1])}


def test_blocks_and_arcs_come_back(tmp_path: Path) -> None:
    arcs = sp.csr_array(np.array([[0, 2.5, 0], [0, 0, 1], [0, 1, 0]], dtype=np.float32))
    blocks = [("words", 2, "title, text"), ("numbers", 1)]
    graph = Graph([[0, 1], [1, 2]], sp.csr_array(np.eye(3)), nodes=3, blocks=blocks, arcs=arcs)
    again = read_graph(save_graph(tmp_path / "g.npz", graph))
    assert again.hash == graph.hash
    assert again.blocks == graph.blocks
    assert again.blocks[0].title == "title, text"
    assert (again.arcs != arcs).nnz == 0
    plain = read_npz(save_graph(tmp_path / "p.npz", graph.with_arcs(None).with_features(np.ones((3, 2)))))
    assert not [key for key in plain if key.startswith(("arc", "attr_"))]


@pytest.mark.parametrize(
    "change",
    [
        {"attr_blocks": np.array(["words"])},
        {"attr_ends": np.array([2])},
        {"attr_titles": np.array(["a"])},
        {"attr_blocks": np.array(["words"]), "attr_ends": np.array([3])},
        {"attr_blocks": np.array(["words", "numbers"]), "attr_ends": np.array([2])},
        {"attr_blocks": np.array(["words", "numbers"]), "attr_ends": np.array([2, 1])},
        {"attr_blocks": np.array(["letters"]), "attr_ends": np.array([2])},
        {"attr_blocks": np.array([1]), "attr_ends": np.array([2])},
        {"attr_blocks": np.array("words"), "attr_ends": np.array(2)},
        {"attr_blocks": np.array(["words"]), "attr_ends": np.array([2.0])},
        {"attr_blocks": np.array(["words"]), "attr_ends": np.array([2]), "attr_titles": np.array(["a", "b"])},
        {"attr_blocks": np.array([["words"]]), "attr_ends": np.array([[2]])},
        {"arc_data": None},
        {"arc_data": None, "arc_indices": None},
        {"arc_indptr": None},
        {"arc_indices": None},
        {"arc_data": np.array([1, -1])},
        {"arc_data": np.array([1, np.nan])},
        {"arc_data": np.ones(3)},
        {"arc_data": np.array(["a", "b"])},
        {"arc_indices": np.array([1, 3])},
        {"arc_indices": np.array([2, 1])},
        {"arc_indptr": np.array([0, 1, 2])},
        {"arc_indptr": np.array([0, 2, 1, 2])},
    ],
)
def test_damaged_blocks_and_arcs_are_one_error(tmp_path: Path, change: dict[str, Any]) -> None:
    assert read_graph(write(tmp_path, **ARCS)).directed
    with pytest.raises(DataError):
        read_graph(write(tmp_path, **ARCS | change))
