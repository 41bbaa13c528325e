"""Graph folders: the same graph from memory-mapped arrays, and one clear sentence for every damaged one."""

from __future__ import annotations

import json
import os
import resource

import numpy as np
import pytest
import scipy.sparse as sp

import naq
from graphs import islands, random_graph, without_features
from interruptions import die_at
from naq.errors import DataError
from naq.files import disk, write_sealed
from naq.graph import Graph
from naq_scale.array_folder import HEADER_BYTES, MANIFEST, new_folder, read_manifest
from naq_scale.mapped import FORMAT, VERSION, open_graph, save_mapped


def named() -> Graph:
    graph = random_graph(30, 70, 6)
    names = {"names": [f"node-é-{i}" for i in range(30)], "class_names": ["a", "b", "c"], "vocab": list("uvwxyz")}
    return Graph(graph.adjacency, graph.features, graph.labels, **names, name="named")


def directed_with_blocks() -> Graph:
    graph = random_graph(30, 70, 6)
    arcs, blocks = sp.csr_array(sp.triu(graph.adjacency) * 2.5), [("words", 4, "text"), ("categories", 2)]
    relations = {"up": arcs, "down": sp.csr_array(sp.tril(graph.adjacency))}
    return Graph(graph.adjacency, graph.features, graph.labels, arcs=arcs, blocks=blocks, relations=relations)


MADE = (
    named,
    directed_with_blocks,
    islands,
    lambda: random_graph(40, 90, dense=True),
    lambda: without_features(islands()),
)


@pytest.mark.parametrize("make", MADE)
def test_the_same_graph_comes_back(tmp_path, make):
    graph = make()
    found = naq.load(save_mapped(tmp_path / "g", graph))
    assert found.mapped and not graph.mapped and found.source == str(tmp_path / "g")
    assert found.hash == graph.hash and found.structure_hash == graph.structure_hash and found.name == graph.name
    for key in ("labels", "names", "class_names", "vocab"):
        one, other = getattr(found, key), getattr(graph, key)
        assert (one is None and other is None) or np.array_equal(one, other)
    assert np.array_equal(found.adjacency.toarray(), graph.adjacency.toarray())
    assert isinstance(found.adjacency.indices, np.memmap) and not found.adjacency.indices.flags.writeable
    assert found.blocks == graph.blocks and found.directed == graph.directed
    assert list(found.relations) == list(graph.relations)
    assert all((found.relations[name] != matrix).nnz == 0 for name, matrix in graph.relations.items())
    assert np.array_equal(found.weighted_adjacency.toarray(), graph.weighted_adjacency.toarray())
    assert np.array_equal(found.components, graph.components) and np.array_equal(found.degrees, graph.degrees)
    assert open_graph(tmp_path / "g", verify=True).hash == graph.hash
    said = read_manifest(tmp_path / "g", FORMAT, VERSION)
    counts = {"nodes": graph.num_nodes, "edges": graph.num_edges, "features": graph.num_features}
    assert {key: said[key] for key in counts} == counts


def test_arrays_stay_on_disk_and_are_shared(tmp_path):
    graph = naq.load(save_mapped(tmp_path / "g", random_graph(40, 90, dense=True)))
    assert isinstance(graph.features, np.memmap)
    assert graph.adjacency.data.strides == (0,)  # ones take no memory
    bare = graph.without_labels()
    assert bare.mapped and bare.adjacency is graph.adjacency
    other = graph.with_features(np.ones((40, 3)))
    assert other.mapped and other.num_features == 3 and other.adjacency is graph.adjacency


def test_only_a_graph_folder_is_replaced(tmp_path):
    save_mapped(tmp_path / "g", islands())
    save_mapped(tmp_path / "g", named())
    assert naq.load(tmp_path / "g").name == "named"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(DataError, match="not replaced"):
        save_mapped(tmp_path / "mine", islands())
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g", "mine"]


def test_a_folder_that_fails_half_way_is_not_there(tmp_path):
    with pytest.raises(RuntimeError, match="stopped"), new_folder(tmp_path / "g", FORMAT, VERSION) as writer:
        writer.put("adj_indptr", np.zeros(3, dtype=np.int64))
        raise RuntimeError("stopped")
    assert not list(tmp_path.iterdir())


def change(folder, key, value):
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest[key] = value
    write_sealed(folder / MANIFEST, manifest)


def poke(folder, name, place, value):
    """Set one entry of an array file."""
    array = np.lib.format.open_memmap(folder / f"{name}.npy", "r+")
    array[place] = value
    array.flush()


def retype(file):
    """The header says float32 where the manifest says int32."""
    content = bytearray(file.read_bytes())
    content[:HEADER_BYTES] = content[:HEADER_BYTES].replace(b"<i4", b"<f4")
    file.write_bytes(content)


ENTRY = {"shape": [3], "dtype": "<i8", "bytes": 152, "sha256": ""}
DAMAGES = {  # next to those of tests/fuzz, which flip and cut the bytes of every file
    "truncated": (lambda f: os.truncate(f / "adj_indices.npy", HEADER_BYTES + 8), "truncated"),
    "foreign": (lambda f: change(f, "format", "zarr"), "another program"),
    "version": (lambda f: change(f, "version", 99), "version 99"),
    "no arrays": (lambda f: change(f, "arrays", None), "lists no arrays"),
    "unknown array": (lambda f: change(f, "arrays", {"../../etc/passwd": {}}), "unknown"),
    "wrong entry": (lambda f: change(f, "arrays", {"adj_indptr": {"shape": "x"}}), "describes adj_indptr.npy wrongly"),
    "no adjacency": (lambda f: change(f, "arrays", {}), "no array adj_indptr"),
    "columns": (lambda f: change(f, "features", 2), "ascending list within 0..1"),
    "falls": (lambda f: poke(f, "adj_indptr", 3, 0), "never fall"),
    "ends": (lambda f: poke(f, "adj_indptr", -1, 2**30), "never fall"),
    "range": (lambda f: poke(f, "adj_indices", -1, 10_000), "ascending list"),
    "negative": (lambda f: poke(f, "adj_indices", 0, -5), "ascending list"),
    "unknown entry": (lambda f: change(f, "featurez", 2), "'featurez' is unknown"),
    "no bytes": (lambda f: change(f, "arrays", {"labels": ENTRY | {"dtype": "<U0"}}), "labels.npy wrongly"),
    "more than there is": (lambda f: change(f, "arrays", {"labels": ENTRY | {"shape": [2**70]}}), "labels.npy wrongly"),
    "label": (lambda f: poke(f, "labels", 0, -7), "labels hold -7"),
    "header": (lambda f: retype(f / "adj_indices.npy"), "not the array"),
    "no weight": (lambda f: poke(f, "arc_data", -1, 0), "arc_data"),
    "weight": (lambda f: poke(f, "arc_data", -1, np.nan), "arc_data"),
    "arc": (lambda f: poke(f, "arc_indices", -1, 99), "arc_indices"),
    "arcs": (lambda f: poke(f, "arc_indptr", -1, 10**6), "arc_indptr"),
    "relation": (lambda f: poke(f, "rel_indices", -1, 99), "rel_indices"),
    "weight of a relation": (lambda f: poke(f, "rel_data", -1, 0), "rel_data"),
    "block": (lambda f: poke(f, "attr_ends", -1, 9), "blocks"),
    "feature": (lambda f: poke(f, "attr_data", 0, np.inf), "features hold NaN or infinity"),
}
VERIFIED = ("no weight", "weight", "weight of a relation", "feature")
"""Damages that are noticed when all of a folder is read."""


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_one_sentence(tmp_path, damage, monkeypatch):
    """Without checksums, as in a large folder."""
    monkeypatch.setattr("naq_scale.mapped.VERIFIED", 1 << 28 if damage in VERIFIED else 0)
    monkeypatch.setattr("naq_scale.mapped.check_sums", lambda *_: None)
    folder = save_mapped(tmp_path / "g", directed_with_blocks())
    spoil, expected = DAMAGES[damage]
    spoil(folder)
    with pytest.raises(DataError, match=expected) as caught:
        naq.load(folder)
    assert "\n" not in str(caught.value) and str(tmp_path) in str(caught.value)


def test_a_loop_and_an_edge_in_one_direction(tmp_path, monkeypatch):
    monkeypatch.setattr("naq_scale.mapped.VERIFIED", 0)
    with new_folder(tmp_path / "loop", FORMAT, VERSION) as writer:
        writer.put("adj_indptr", np.array([0, 1, 2], dtype=np.int32))
        writer.put("adj_indices", np.array([1, 1], dtype=np.int32))
    with pytest.raises(DataError, match="row 1 of adj_indices"):
        naq.load(tmp_path / "loop")
    with new_folder(tmp_path / "one", FORMAT, VERSION) as writer:
        writer.put("adj_indptr", np.array([0, 1, 1], dtype=np.int32))
        writer.put("adj_indices", np.array([1], dtype=np.int32))
    assert naq.load(tmp_path / "one").mapped
    with pytest.raises(DataError, match="one direction"):
        naq.load(tmp_path / "one", verify=True)


def test_a_changed_value_has_another_checksum(tmp_path, monkeypatch):
    folder = save_mapped(tmp_path / "g", named())
    poke(folder, "attr_data", 0, 8.5)
    with pytest.raises(DataError, match="checksum"):
        naq.load(folder)
    monkeypatch.setattr("naq_scale.mapped.VERIFIED", 0)
    assert naq.load(folder).mapped
    with pytest.raises(DataError, match="checksum"):
        naq.load(folder, verify=True)


def test_a_manifest_of_an_earlier_version_has_no_checksum(tmp_path):
    folder = save_mapped(tmp_path / "g", named())
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest["checksum"]
    (folder / MANIFEST).write_text(json.dumps(manifest))
    assert naq.load(folder).hash == named().hash


def test_verify_is_for_folders(tmp_path):
    naq.io.save_graph(tmp_path / "g.npz", islands())
    with pytest.raises(DataError, match="verify"):
        naq.load(tmp_path / "g.npz", verify=True)


def test_large_index_types(tmp_path):
    with new_folder(tmp_path / "g", FORMAT, VERSION) as writer:
        writer.put("adj_indptr", np.array([0, 1, 2], dtype=np.int64))
        writer.put("adj_indices", np.array([1, 0], dtype=np.int32))
    graph = naq.load(tmp_path / "g")
    assert (graph.adjacency.indptr.dtype, graph.adjacency.indices.dtype) == (np.int64, np.int32)
    assert np.array_equal((graph.adjacency @ np.eye(2)), np.array([[0, 1], [1, 0]]))
    assert sp.csr_array(graph.adjacency).nnz == 2 and graph.homophily is not None


@pytest.mark.parametrize("exchange", [True, False])
def test_a_folder_is_there_whenever_its_replacement_is_killed(tmp_path, monkeypatch, exchange):
    old, new = random_graph(30, seed=1), random_graph(40, seed=2)
    if not exchange:  # as where the system cannot
        monkeypatch.setattr(disk, "_exchange", lambda one, two: False)
    path, kills, seen = tmp_path / "g", 0, []
    save_mapped(path, old)
    for at in range(1, 200):
        if (pid := os.fork()) == 0:
            die_at(at, tmp_path)
            try:
                save_mapped(path, new)
            finally:
                os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        found = naq.load(path)
        assert found.hash in (old.hash, new.hash)
        seen.append(found.hash == new.hash)
        monkeypatch.setattr(disk, "_cleared", set())
        save_mapped(path, old)  # finds what was left
        assert [one.name for one in tmp_path.iterdir()] == ["g"]
        if code == 0:
            break
        kills += code == 9
    assert kills > 10 and seen == sorted(seen) and seen[-1]


def test_a_full_disk_names_the_folder_and_leaves_nothing(tmp_path):
    """Files end where a limit says, as on a full disk: at once, within an array, within the manifest."""
    graph, hard = random_graph(400, 2000, 50), resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    before = save_mapped(tmp_path / "kept", random_graph(30)).stat().st_ino
    for name in ("new", "kept"):
        for limit in (0, 100, 500, 2000):
            try:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
                with pytest.raises(DataError, match=rf"cannot write {tmp_path / name}: File too large; free some"):
                    save_mapped(tmp_path / name, graph)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            assert [one.name for one in tmp_path.iterdir()] == ["kept"] and (tmp_path / "kept").stat().st_ino == before
