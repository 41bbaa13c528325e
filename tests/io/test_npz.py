from __future__ import annotations

import io
import zipfile
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
from naq.io.npz import read_graph, save_graph, sizes_of_file
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
    assert graph.name == "toy"
    assert graph.num_edges == 2
    assert graph.features.toarray().tolist() == [[2, 0], [0, 0], [0, 3]]
    assert graph.labels.tolist() == [0, 1, -1]
    assert graph.class_names.tolist() == ["a", "b"]


def test_structure_alone_is_enough(tmp_path: Path) -> None:
    graph = read_graph(write(tmp_path, **{key: None for key in good() if not key.startswith("adj")}))
    assert graph.features is None and graph.labels is None


def test_no_attr_data_means_ones(tmp_path: Path) -> None:
    assert read_graph(write(tmp_path, attr_data=None)).features.data.tolist() == [1, 1]


def test_round_trip(small: Graph, tmp_path: Path) -> None:
    path = save_graph(tmp_path / "deep" / "small.npz", small)
    again = read_graph(path)
    assert again.hash == small.hash
    for key in ("names", "class_names", "vocab"):
        assert getattr(again, key).tolist() == getattr(small, key).tolist()
    assert save_graph(tmp_path / "again.npz", again).read_bytes() == path.read_bytes()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    assert sizes_of_file(tmp_path / "g.npz")["edges"] == graph.num_edges


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"adj_indptr": None}, "has no array adj_indptr"),
        ({"adj_indices": None}, "has no array adj_indices"),
        ({"adj_shape": None}, "has no array adj_shape"),
        ({"attr_shape": None}, "has no array attr_shape"),
        ({"adj_indptr": np.array([0, 3, 1, 4])}, "adj_indptr must start at 0, never fall and end at 4"),
        ({"adj_indptr": np.array([1, 1, 3, 4])}, "adj_indptr must start at 0"),
        ({"adj_indptr": np.array([0, 1, 3, 9])}, "adj_indptr must start at 0"),
        ({"adj_indptr": np.array([0, -5, 3, 4])}, "adj_indptr must start at 0"),
        ({"adj_indptr": np.array([0, 4])}, "adj_indptr has 2 entries; expected 4 for 3 rows"),
        ({"adj_indptr": np.array([[0, 1, 3, 4]])}, r"adj_indptr has shape \(1, 4\) and type int64"),
        (
            {"adj_indptr": np.array([0.0, 1, 3, 4])},
            "adj_indptr has shape .* type float64; expected one row of whole",
        ),
        ({"adj_indptr": np.array([0, 1, 3, 2**63], dtype=np.uint64)}, "too large for an index"),
        ({"adj_indices": np.array([1, 0, 3, 1])}, r"adj_indices holds 3; expected 0\.\.2"),
        ({"adj_indices": np.array([1, 0, -1, 1])}, r"adj_indices holds -1; expected 0\.\.2"),
        ({"adj_indices": np.array([1, 0, 2])}, "end at 3, the length of adj_indices"),
        ({"adj_shape": np.array([3, 4])}, r"adj_shape is \(3, 4\); expected a square"),
        ({"adj_shape": np.array([10**12, 10**12])}, "adj_shape is .*; expected sizes from 0 to"),
        ({"adj_shape": np.array([10**9, 10**9])}, "adj_indptr has 4 entries; expected 1,000,000,001"),
        ({"adj_shape": np.array(3)}, "adj_shape has shape .*; expected two whole numbers"),
        ({"adj_data": np.ones(3)}, r"adj_data has shape \(3,\) and type float64; expected 4 numbers"),
        ({"adj_data": np.array(list("abcd"))}, "adj_data has shape .* type <U1"),
        ({"adj_data": np.array([1, 1, np.nan, 1])}, "adjacency values hold NaN"),
        ({"attr_indices": np.array([0, 2])}, r"attr_indices holds 2; expected 0\.\.1"),
        ({"attr_data": np.array([1.0, np.inf])}, "features hold NaN, infinity"),
        ({"attr": np.ones((3, 2))}, "both dense attr and sparse"),
        ({"labels": np.array([0, 1])}, r"labels have shape \(2,\)"),
        ({"labels": np.array([0, 1, 10**15])}, "a label is 1000000000000000; number the classes"),
        ({"labels": np.array(["a", "b", "c"])}, "labels have type <U1"),
        ({"class_names": np.array(["a"])}, "label 1 has no name"),
        ({"class_names": np.array([1, 2])}, "class_names has type int64; expected text"),
        ({"names": np.array(["a", "b"])}, r"names has shape \(2,\); expected 3"),
        ({"names": np.array([1, 2, 2**31], dtype=np.uint32).view("<U1")}, "bytes that are no text"),
        ({"vocab": np.array(["a"])}, "vocab has shape"),
        ({"labels": np.array([{}, {}, {}], dtype=object)}, "holds pickled objects, which are never read"),
    ],
)
def test_bad_content(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = write(tmp_path, **change)
    with pytest.raises(DataError, match=message) as caught:
        read_graph(path)
    assert str(path) in str(caught.value)


def test_empty_graph(tmp_path: Path) -> None:
    empty = {
        "adj_indptr": np.array([0]),
        "adj_indices": np.array([], dtype=int),
        "adj_shape": np.array([0, 0]),
    }
    np.savez(tmp_path / "empty.npz", **empty)
    with pytest.raises(DataError, match="the graph is empty"):
        read_graph(tmp_path / "empty.npz")


def test_unknown_pickled_members_are_not_opened(tmp_path: Path) -> None:
    path = write(tmp_path, idx_to_node=np.array({"a": 1}, dtype=object))
    assert read_graph(path).num_nodes == 3


def test_reading_only_some_arrays(tmp_path: Path) -> None:
    assert set(read_npz(write(tmp_path), only={"labels", "absent"})) == {"labels"}


@pytest.mark.parametrize("keep", [0, 10, 200, -30])
def test_truncated(tmp_path: Path, keep: int) -> None:
    path = write(tmp_path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match="is not a readable graph file"):
        read_graph(path)


def test_damaged_bytes_never_escape_as_another_error(tmp_path: Path) -> None:
    path = write(tmp_path)
    whole = path.read_bytes()
    random, refused = np.random.default_rng(0), 0
    for _ in range(150):
        damaged = bytearray(whole)
        for place in random.integers(0, len(whole), size=3):
            damaged[place] = random.integers(256)
        path.write_bytes(bytes(damaged))
        try:
            read_graph(path)
        except DataError as error:
            refused += 1
            assert str(path) in str(error)
    assert refused > 50


def test_header_that_claims_too_much(tmp_path: Path) -> None:
    path = tmp_path / "huge.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": (10**15,)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("adj_indptr.npy", header.getvalue() + b"\0" * 8)
    with pytest.raises(DataError, match=r"claims 8,000,000,000,000,000 bytes"):
        read_graph(path)


def test_missing_folder_and_tasks(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        read_graph(tmp_path / "none.npz")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        read_graph(tmp_path / "folder.npz")
    np.savez(tmp_path / "x.tasks.npz", a=np.arange(3))
    with pytest.raises(DataError, match="is a task file; give the graph file"):
        read_graph(tmp_path / "x.tasks.npz")


def test_dense_features_and_big_endian_files(tmp_path: Path) -> None:
    swapped = {key: value.astype(value.dtype.newbyteorder(">")) for key, value in good().items()}
    np.savez(tmp_path / "big.npz", **swapped)
    assert read_graph(tmp_path / "big.npz").hash == read_graph(write(tmp_path)).hash
    sparse = {key: None for key in good() if key.startswith("attr")}
    dense = read_graph(write(tmp_path, **sparse, attr=np.array([[2.0, 0], [0, 0], [0, 3]])))
    assert not dense.sparse_features
    assert dense.hash == read_graph(tmp_path / "big.npz").hash


def test_sizes_count_edges_listed_once(tmp_path: Path) -> None:
    path = write(tmp_path, adj_indptr=np.array([0, 1, 2, 2]), adj_indices=np.array([1, 2]))
    assert sizes_of_file(path) == {"nodes": 3, "edges": 2, "features": 2, "classes": 2}


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
    assert tuple(sizes_of_file(path).values()) == sizes
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
