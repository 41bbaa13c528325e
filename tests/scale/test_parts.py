"""``naq predict`` on a folder of Parquet parts: the classifier's answers, whoever computes them; and what is wrong."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import naq
from measuring import processes_below
from naq.classifier.confidence import predict
from naq.classifier.labels import Labels
from naq.classifier.views import join
from naq.errors import DataError, NaqError, OptionError
from naq.graph import Graph
from naq_scale import block_views, import_parts, predicting, sharded
from naq_scale.block_views import _walk_columns
from naq_scale.blocks.shards import Block
from naq_scale.node_ids import build_slots, find_rows, keys_of
from naq_scale.parts import ParquetParts
from naq_scale.predicting import predict_parts

NODES = 900


@pytest.fixture(autouse=True, scope="module")
def in_blocks() -> Any:
    """As for graphs that are larger."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predicting, "IN_MEMORY", 0)
        yield


def planted(numbers: int = 6, vectors: int = 40, seed: int = 0, noise: float = 0.4) -> Graph:
    """Four classes that neither features nor edges tell alone; numbers and vectors."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 4, NODES)
    ends = random.integers(0, NODES, (2, 20 * NODES))
    same = labels[ends[0]] == labels[ends[1]]
    ends = ends[:, same | (random.random(len(same)) < noise)][:, : 4 * NODES]
    parts = [random.standard_normal((4, width))[labels] + 6 * random.standard_normal((NODES, width))
             for width in (numbers, vectors) if width]  # fmt: skip
    blocks = [(kind, width) for kind, width in (("numbers", numbers), ("vectors", vectors)) if width]
    return Graph(ends, np.hstack(parts), labels, nodes=NODES, blocks=blocks)


def node_ids(text: bool) -> np.ndarray:
    order = np.random.default_rng(5).permutation(NODES)
    return np.array([f"paper {i}" for i in order]) if text else order * 1_000_003 - 7


def write_parts(folder: Path, graph: Graph, ids: np.ndarray, *, files: int = 3, nodes: Any = None) -> Path:
    """Parts of the graph, and ten labels of each class in labels.csv."""
    numbers = next((b.stop for b in graph.blocks if b.kind == "numbers"), 0)
    columns: dict[str, Any] = {"id": pa.array(ids)} | {f"n {k}": graph.features[:, k] for k in range(numbers)}
    flat = pa.array(np.ascontiguousarray(graph.features[:, numbers:]).ravel())
    if graph.num_features > numbers:
        columns["vector"] = pa.FixedSizeListArray.from_arrays(flat, graph.num_features - numbers)
    rows = np.repeat(np.arange(NODES), np.diff(graph.adjacency.indptr))
    once = np.random.default_rng(0).permutation(np.flatnonzero(rows < graph.adjacency.indices))
    edges = pa.table({"source": ids[rows[once]], "target": ids[graph.adjacency.indices[once]]})
    for name, table in (("nodes", pa.table(columns) if nodes is None else nodes), ("edges", edges)):
        (folder / name).mkdir(parents=True)
        each = -(-len(table) // files)
        for number in range(files):
            part = table.slice(number * each, each)
            pq.write_table(part, folder / name / f"part-{number:05d}.parquet", row_group_size=100)
    some = np.concatenate([np.flatnonzero(graph.labels == c)[:10] for c in range(4)])
    lines = [f"{ids[node]},class {graph.labels[node]}\n" for node in some]
    (folder / "labels.csv").write_text("node,class\n" + "".join(lines))
    return folder


def predicted(folder: Path, out: Path, **options: Any) -> Any:
    given = {
        "graph": str(folder), "out": out, "labels": folder / "labels.csv", "label": None, "ignore": [], "seed": 0,
        "device": "cpu", "as_json": False, "engine": "local", "workers": 2, "address": None, "shards": None,
    }  # fmt: skip
    predict_parts(**given | options)
    return pq.read_table(out)


def same(one: Any, other: Any) -> bool:
    return bool(one.equals(other))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_parts(tmp_path_factory.mktemp("parts") / "g", planted(), node_ids(text=True))


@pytest.fixture(scope="module")
def answer(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return predicted(folder, tmp_path_factory.mktemp("answer") / "out")


@pytest.mark.parametrize(("numbers", "vectors", "text"), [(6, 40, True), (5, 0, False), (0, 50, False)])
def test_answers_are_those_of_the_classifier_with_the_same_views(tmp_path, numbers, vectors, text):
    graph, ids = planted(numbers, vectors), node_ids(text)
    found = predicted(write_parts(tmp_path / "g", graph, ids), tmp_path / "out")
    classifier = naq.FewShotNodeClassifier(options={"dim": 128}).fit(graph.without_labels())
    kept = [view for view in classifier.views_ if view.name in block_views.VIEWS]
    views = [*kept, join([view for view in kept if view.name != "around"])]
    some = np.concatenate([np.flatnonzero(graph.labels == c)[:10] for c in range(4)])
    labels = Labels.of(some, [f"class {c}" for c in graph.labels[some]])
    expected = predict(views, labels, unlabelled=1.0, unknown=False, unlike=False)
    assert found["id"].to_pylist() == ids.tolist()
    classes = np.array(found["class"].to_pylist())
    assert (classes == expected.transduction).mean() > 0.995
    chances = expected.probabilities[np.arange(NODES), np.searchsorted(labels.classes, classes)]
    assert np.abs(found["probability"].to_numpy() - chances).max() < 0.01
    assert (np.flatnonzero(found["given"].to_numpy()) == np.sort(some)).all()
    second = np.argsort(expected.probabilities, axis=1)[:, -2]
    free = ~found["given"].to_numpy()
    assert (np.array(found["runner_up"].to_pylist()) == labels.classes[second])[free].mean() > 0.99
    summary = json.loads((tmp_path / "out" / "_summary.json").read_text())
    assert summary["expected_accuracy"]["value"] == pytest.approx(expected.expected.value, abs=0.005)
    assert [row["nodes"] for row in summary["classes"]] == [(classes == one).sum() for one in labels.classes]


def test_edges_are_those_of_the_graph(tmp_path, monkeypatch):
    monkeypatch.setattr(import_parts, "ENTRIES_OF_RANGE", 500)
    monkeypatch.setattr(import_parts, "EDGES", 90)
    graph, ids = planted(), node_ids(text=False)
    folder, place = write_parts(tmp_path / "g", graph, ids), tmp_path / "graph"
    pairs = pq.read_table(folder / "edges").to_pandas()
    more = pa.table({"source": pairs["target"][:50], "target": pairs["source"][:50]})  # repeats, and a loop
    loop = pa.table({"source": ids[:1], "target": ids[:1]})
    pq.write_table(pa.concat_tables([more, loop]), folder / "edges" / "part-00003.parquet")
    job = predicting.Job(folder, tmp_path / "out", import_parts.Choice(), 0, "cpu", 1, 3, sharded.Engine(), print)
    table = import_parts.number_nodes(job.nodes, job.columns, job.shards(), job.files)
    import_parts.join_edges(job.edges, NODES, job.columns, table, job.shards(), job.files, place)
    found = naq.load(place, verify=True)
    assert np.array_equal(found.adjacency.indptr, graph.adjacency.indptr)
    assert np.array_equal(found.adjacency.indices, graph.adjacency.indices)


def rewritten(file: Path, **columns: Any) -> None:
    """Other values or types of some columns."""
    table = pq.read_table(file)
    for name, values in columns.items():
        made = values if isinstance(values, pa.Array | pa.ChunkedArray) else table[name].cast(values)
        table = table.set_column(table.column_names.index(name), name, made)
    pq.write_table(table, file, row_group_size=100)


def test_parts_of_different_types_are_one_table(folder, answer, tmp_path):
    copy = Path(shutil.copytree(folder, tmp_path / "g"))
    first, second, _ = sorted((copy / "nodes").iterdir())
    ids = pq.read_table(first)["id"]
    rewritten(first, id=ids.dictionary_encode(), **{"n 1": pa.float64()})
    rewritten(second, id=pa.large_string())
    rewritten(sorted((copy / "edges").iterdir())[1], source=pa.large_string())
    found = predicted(copy, tmp_path / "out")
    assert found["id"].to_pylist() == answer["id"].to_pylist()
    assert found["class"].to_pylist() == answer["class"].to_pylist()


@pytest.mark.parametrize("kinds", [(pa.int32(), pa.int64()), (pa.uint64(), pa.int64()), (pa.uint64(), pa.uint64())])
def test_ids_of_any_whole_numbers_and_numbers_with_gaps(tmp_path, kinds):
    graph, plain = planted(), np.random.default_rng(5).permutation(NODES)
    whole = np.random.default_rng(0).integers(0, 9, NODES)
    nodes = pa.table({"id": plain, "n": whole, "other": graph.features[:, 0]})
    folder = write_parts(tmp_path / "g", graph, plain, nodes=nodes)
    expected = predicted(folder, tmp_path / "expected")
    shift = 1 << 63 if kinds[0] == kinds[1] else 0  # more than int64 holds
    for name, columns in (("nodes", ["id"]), ("edges", ["source", "target"])):
        for number, file in enumerate(sorted((folder / name).iterdir())):
            table, kind = pq.read_table(file), kinds[min(number, 1)]
            made = {one: pa.array([value + shift for value in table[one].to_pylist()], kind) for one in columns}
            rewritten(file, **made)
    head, *lines = (folder / "labels.csv").read_text().splitlines()
    pairs = [line.split(",") for line in lines]
    (folder / "labels.csv").write_text("\n".join([head, *(f"{int(a) + shift},{b}" for a, b in pairs)]))
    gaps = sorted((folder / "nodes").iterdir())[1]
    rewritten(gaps, n=pa.float64())  # as pandas writes them
    found = predicted(folder, tmp_path / "out")
    assert found["class"].to_pylist() == expected["class"].to_pylist()
    assert found["id"].to_pylist() == [value + shift for value in plain.tolist()]


def test_a_number_where_another_part_has_text_is_an_error(folder, tmp_path):
    copy = Path(shutil.copytree(folder, tmp_path / "g"))
    with pytest.raises(DataError, match="'id' is int64 in part-00003"):
        pq.write_table(pq.read_table(copy / "nodes" / "part-00002.parquet").slice(0, 0).set_column(
            0, "id", pa.array([], pa.int64())), copy / "nodes" / "part-00003.parquet")  # fmt: skip
        ParquetParts(copy, "nodes")


def test_up_to_some_nodes_the_answer_is_the_classifiers(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(predicting, "IN_MEMORY", NODES)
    found, graph = predicted(folder, tmp_path / "out"), planted()
    some = np.concatenate([np.flatnonzero(graph.labels == c)[:10] for c in range(4)])
    expected = naq.FewShotNodeClassifier().fit(graph.without_labels(), Labels.of(some, [
        f"class {c}" for c in graph.labels[some]])).prediction()  # fmt: skip
    assert found["class"].to_pylist() == expected.transduction.tolist()
    free = ~found["given"].to_numpy()
    assert np.array_equal(np.flatnonzero(free), expected.free)
    assert np.allclose(found["probability"].to_numpy()[free], expected.probabilities.max(axis=1)[free], atol=1e-4)
    summary = json.loads((tmp_path / "out" / "_summary.json").read_text())
    assert "who the neighbours are" in summary["views"] and summary["nodes"] == NODES


@pytest.mark.parametrize("most", [0, NODES])
def test_a_column_that_tells_the_class_is_named(tmp_path, monkeypatch, most):
    monkeypatch.setattr(predicting, "IN_MEMORY", most)
    graph, ids = planted(), node_ids(text=True)
    nodes = {"id": ids, "n": graph.features[:, 0], "leak": [f"kind {c}" for c in graph.labels]}
    nodes["code"] = [f"x{i}" for i in range(NODES)]
    folder = write_parts(tmp_path / "g", graph, ids, nodes=pa.table(nodes))
    with pytest.warns(UserWarning) as caught:
        predicted(folder, tmp_path / "out")
    told = [str(one.message) for one in caught]
    assert any("'leak' alone tells the class of 100%" in one for one in told)
    assert any("no features: 'code'" in one for one in told)


def test_many_labels_are_drawn_by_class(monkeypatch):
    monkeypatch.setattr(predicting, "MOST_LABELS", 1000)
    own = np.repeat([0, 1, 2], [30_000, 9_990, 10])
    labels = Labels(np.arange(40_000), np.array(["a", "b", "c"]), np.random.default_rng(0).permutation(own))
    drawn = predicting.drawn_labels(labels)
    assert np.bincount(drawn.class_index).tolist() == [750, 249, 10]
    assert np.array_equal(labels.class_index[drawn.nodes], drawn.class_index)
    assert predicting.drawn_labels(drawn) is not labels and len(np.unique(drawn.nodes)) == 1009


def test_more_labels_than_are_learned_from_are_all_given(tmp_path, monkeypatch):
    monkeypatch.setattr(predicting, "MOST_LABELS", 200)
    graph, ids = planted(), node_ids(text=False)
    nodes = pa.table({"id": ids, "kind": [f"class {c}" for c in graph.labels], "n": graph.features[:, 0]})
    folder = write_parts(tmp_path / "g", graph, ids, nodes=nodes)
    with pytest.warns(UserWarning, match="900 labels: "):
        found = predicted(folder, tmp_path / "out", labels=None, label="kind")
    assert found["given"].to_numpy().all()
    assert found["class"].to_pylist() == [f"class {c}" for c in graph.labels]


def test_labels_that_do_not_fit_into_memory_are_an_error(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("naq.device.room", lambda: 1e8)
    monkeypatch.setattr(predicting, "BYTES_OF_LABEL", 3e6)
    with pytest.raises(OptionError, match=r"40 labels of 4 classes needs 0\.1 GB"):
        predicted(folder, tmp_path / "out")


def test_a_full_disk_is_one_sentence_and_the_command_goes_on(folder, answer, tmp_path, monkeypatch):
    real, calls = sharded.FolderWriter.array, [0]

    def full(*given: Any, **more: Any) -> Any:
        calls[0] += 1
        if calls[0] == 6:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*given, **more)

    monkeypatch.setattr(sharded.FolderWriter, "array", full)
    with pytest.raises(NaqError, match="No space left on device; free some space"):
        predicted(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert same(predicted(folder, tmp_path / "out"), answer)


def test_columns_at_once_change_only_what_is_held(folder, answer, tmp_path, monkeypatch):
    monkeypatch.setattr(block_views, "columns_that_fit", lambda nodes, width: 10)
    found = predicted(folder, tmp_path / "out")
    assert found["class"].equals(answer["class"])
    assert np.abs(found["probability"].to_numpy() - answer["probability"].to_numpy()).max() < 1e-5


@pytest.mark.parametrize("kind", ["numbers", "text", "dictionary"])
def test_ids_find_their_rows(kind):
    random = np.random.default_rng(0)
    values = np.unique(random.integers(-(2**62), 2**62, 5000))
    column = pa.chunked_array([pa.array(values)])
    if kind != "numbers":
        column = pa.chunked_array([pa.array([" " * (v % 3) + "x" * (v % 20) + str(v) for v in values.tolist()])])
    keys, missing = keys_of(column.dictionary_encode() if kind == "dictionary" else column, kind != "numbers")
    slots, again = build_slots(keys)
    order = random.permutation(len(values))
    assert not missing.any() and not len(again)
    assert np.array_equal(find_rows(keys, slots, keys[order]), order)
    assert (find_rows(keys, slots, keys + np.uint64(1)) == -1).all()
    twice = np.concatenate([keys, keys[3:5]])
    assert build_slots(twice)[1].tolist() == [[3, len(keys)], [4, len(keys) + 1]]


def test_batches_of_any_rows_are_the_table(folder):
    parts, whole = ParquetParts(folder, "nodes"), pq.read_table(folder / "nodes")["id"].to_pylist()
    for start, stop in ((0, 1), (95, 305), (299, 900), (10, 10)):
        found = [one for batch in parts.read(start, stop, ["id"]) for one in batch["id"].to_pylist()]
        assert found == whole[start:stop]
    rows = np.array([0, 5, 299, 300, 899])
    assert parts.take(rows, ["id"])["id"].to_pylist() == [whole[row] for row in rows]
    for most in (1, 30, 250, 5000):
        bounds = parts.bounds(most)
        assert [0, *(end for _, end in bounds)] == [*(start for start, _ in bounds), 900]
    sample = parts.sample(200, np.random.default_rng(0))
    assert len(np.unique(sample)) == 200 and (np.diff(sample) > 0).all()


@pytest.mark.parametrize("engine", ["local", "processes", "ray"])
def test_shards_and_engines_change_nothing(folder, answer, tmp_path, engine, monkeypatch):
    if engine == "ray":
        pytest.importorskip("ray")
    monkeypatch.setattr(predicting, "ROWS", 200)
    monkeypatch.setattr(import_parts, "ROWS", 150)
    found = predicted(folder, tmp_path / "out", engine=engine, shards=5)
    assert same(found, answer)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["out"]


def test_what_is_finished_is_not_made_again(folder, answer, tmp_path, monkeypatch):
    made, whole = [], sharded.write_part

    def stopped(*given: Any) -> None:
        if len(made) == 6:
            raise KeyboardInterrupt
        made.append(given[2].__name__)
        whole(*given)

    monkeypatch.setattr(sharded, "write_part", stopped)
    with pytest.raises(KeyboardInterrupt):
        predicted(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists() and len(made) == 6
    monkeypatch.setattr(sharded, "write_part", lambda *given: (made.append(given[2].__name__), whole(*given)))
    assert same(predicted(folder, tmp_path / "out"), answer)
    assert len(made) == len(set(made))  # one shard of each step at this size


def test_a_killed_worker_repeats_its_shards(folder, answer, tmp_path):
    out = tmp_path / "out"
    begin = "import sys, naq_scale.predicting as p; p.IN_MEMORY = 0; from naq.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", begin, "predict", str(folder), "--labels", str(folder / "labels.csv"), "--out"]
    with subprocess.Popen([*command, str(out), "--engine", "processes"], stderr=subprocess.DEVNULL) as process:
        killed = 0
        while process.poll() is None and killed < 2:
            time.sleep(0.3)
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            workers = [one for one in children if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]
            if len(workers) == 2:
                os.kill(int(workers[killed]), signal.SIGKILL)
                killed += 1
    assert process.returncode == 0 and killed
    assert same(pq.read_table(out), answer)


def test_lost_workers_of_a_cluster_repeat_their_shards(folder, answer, tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(import_parts, "ROWS", 100)
    killed, done = list[int](), threading.Event()

    def kill() -> None:
        while not done.is_set() and len(killed) < 2:
            for one in set(processes_below(os.getpid())) - set(killed):
                with contextlib.suppress(OSError):
                    if Path(f"/proc/{one}/cmdline").read_bytes().startswith(b"ray::write_part"):
                        os.kill(one, signal.SIGKILL)
                        killed.append(one)
            time.sleep(0.02)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        found = predicted(folder, tmp_path / "out", engine="ray")
    finally:
        done.set()
        killer.join()
    assert killed and same(found, answer)


def test_less_memory_means_smaller_blocks(folder, answer, tmp_path, monkeypatch):
    sizes, rows = [], predicting.BlockViews.rows

    def short(self: Any, stored: Any, wanted: Any) -> Any:
        if (size := len(next(iter(stored.values())))) > 30 and sys._getframe(1).f_code.co_name == "scored":
            sizes.append(size)
            raise MemoryError
        return rows(self, stored, wanted)

    monkeypatch.setattr(predicting, "AT_ONCE", 100)
    monkeypatch.setattr(predicting.BlockViews, "rows", short)
    found = predicted(folder, tmp_path / "out")
    assert sizes == [100, 50]
    assert found["class"].equals(answer["class"])
    assert np.abs(found["probability"].to_numpy() - answer["probability"].to_numpy()).max() < 1e-5


def test_labels_of_a_column_and_of_text_features(tmp_path):
    graph, ids = planted(), node_ids(text=True)
    some = np.concatenate([np.flatnonzero(graph.labels == c)[:10] for c in range(4)])
    known = np.full(NODES, None, dtype=object)
    known[some] = [f"class {c}" for c in graph.labels[some]]
    random = np.random.default_rng(0)
    words = [" ".join(f"word{k:02d}" for k in (random.integers(0, 6, 4) + 5 * c).tolist()) for c in graph.labels]
    nodes = pa.table({"id": ids, "kind": pa.array(known.tolist()), "abstract": words})
    folder = write_parts(tmp_path / "g", graph, ids, nodes=nodes)
    found = predicted(folder, tmp_path / "out", labels=None, label="kind")
    right = np.array([name[-1] for name in found["class"].to_pylist()]) == graph.labels.astype(str)
    assert found["given"].to_numpy().sum() == 40 and right.mean() > 0.95


def test_nodes_without_features(tmp_path):
    graph, ids = planted(noise=0.1), node_ids(text=False)
    folder = write_parts(tmp_path / "g", graph, ids, nodes=pa.table({"id": ids}))
    found = predicted(folder, tmp_path / "out")
    right = np.array([name[-1] for name in found["class"].to_pylist()]) == graph.labels.astype(str)
    assert right.mean() > 0.6


STRANGE = {"large": "99999999999999999999", "digit": "²", "very large": "9" * 5000}


def broken(folder: Path, how: str) -> None:
    """Change something in the parts."""
    nodes, edges = ([folder / name / f"part-{k:05d}.parquet" for k in range(3)] for name in ("nodes", "edges"))
    if how == "missing part":
        nodes[1].unlink()
    elif how == "no nodes":
        shutil.rmtree(folder / "nodes")
    elif how == "other column":
        table = pq.read_table(nodes[2])
        pq.write_table(table.rename_columns([*table.column_names[:-1], "vectors"]), nodes[2])
    elif how == "other type":
        table = pq.read_table(nodes[1])
        pq.write_table(table.set_column(1, "n 0", pa.array(["a"] * len(table))), nodes[1])
    elif how == "ids twice":
        pq.write_table(pq.read_table(nodes[0]), nodes[2])
    elif how == "no id":
        table = pq.read_table(nodes[1])
        ids = [None, *table["id"].to_pylist()[1:]]
        pq.write_table(table.set_column(0, "id", pa.array(ids)), nodes[1])
    elif how == "no edge fits":
        for one in edges:
            table = pq.read_table(one)
            pq.write_table(table.set_column(0, "source", pa.array(["other"] * len(table))), one)
    elif how == "truncated":
        nodes[1].write_bytes(nodes[1].read_bytes()[:-100])
    elif how == "label of no node":
        with (folder / "labels.csv").open("a") as file:
            file.write("nobody,class 1\nnobody else,class 2\n")
    elif how in STRANGE:
        with (folder / "labels.csv").open("a") as file:
            file.write(f"{STRANGE[how]},class 1\n")
    elif how == "no edges":
        for one in edges:
            pq.write_table(pq.read_table(one).slice(0, 0), one)
    elif how == "two classes":
        first = (folder / "labels.csv").read_text().splitlines()[1].split(",")[0]
        with (folder / "labels.csv").open("a") as file:
            file.write(f"{first},another\n")
    else:
        lines = (folder / "labels.csv").read_text().splitlines()
        (folder / "labels.csv").write_text("\n".join([lines[0], *(one for one in lines if "class 1" in one)]))


@pytest.mark.parametrize("how", STRANGE)
def test_labels_of_no_number(tmp_path, how):
    copy = write_parts(tmp_path / "g", planted(), node_ids(text=False))
    broken(copy, how)
    with pytest.raises(NaqError, match=r"line 42: .*there is no node"):
        predicted(copy, tmp_path / "out")


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("no edges", "no rows of edges"),
        ("missing part", "00001"),
        ("no nodes", "nodes"),
        ("other column", "'vector"),
        ("other type", "'n 0'"),
        ("ids twice", r"300 rows .*'paper .*part-00000.parquet, row 1 and part-00002.parquet, row 1\)"),
        ("no id", "part-00001.parquet, row 1:"),
        ("no edge fits", "no edge joins"),
        ("truncated", "part-00001"),
        ("label of no node", "line 42: .*'nobody'.*2 of 42 labels"),
        ("two classes", "line 42.*'another'"),
        ("one class", "two classes"),
    ],
)
def test_what_is_wrong_is_said(folder, tmp_path, how, told):
    copy = Path(shutil.copytree(folder, tmp_path / "g"))
    broken(copy, how)
    with pytest.raises(NaqError, match=told):
        predicted(copy, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_edges_to_missing_nodes_are_counted(folder, tmp_path, capsys):
    copy = Path(shutil.copytree(folder, tmp_path / "g"))
    table = pq.read_table(copy / "edges" / "part-00002.parquet")
    pq.write_table(
        table.set_column(0, "source", pa.array(["other"] * len(table))), copy / "edges" / "part-00002.parquet"
    )
    with pytest.warns(UserWarning, match=rf"{len(table):,}, e.g. 'other' to 'paper .*part-00002.parquet, row 1"):
        predicted(copy, tmp_path / "out")


def test_options_that_cannot_be_had_and_places_that_are_taken(folder, tmp_path):
    with pytest.raises(OptionError, match="unknown"):
        predicted(folder, tmp_path / "out", unknown=True)
    with pytest.raises(OptionError, match="labels"):
        predicted(folder, tmp_path / "out", labels=None)
    with pytest.raises(OptionError, match="out"):
        predicted(folder, folder / "out")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(OptionError, match="out"):
        predicted(folder, tmp_path / "mine")
    with pytest.raises(DataError, match="naq predict"):
        naq.load(folder)


def test_parts_that_change_meanwhile_are_noticed(folder, tmp_path):
    copy = Path(shutil.copytree(folder, tmp_path / "g"))
    job = predicting.Job(copy, tmp_path / "out", import_parts.Choice(), 0, "cpu", 1, 3, sharded.Engine(), print)
    os.utime(copy / "nodes" / "part-00001.parquet", (1, 1))
    with pytest.raises(DataError, match="have changed"):
        job.run(copy / "labels.csv")


def test_sums_of_neighbours_are_those_of_the_matrix():
    graph = planted()
    start = np.random.default_rng(0).standard_normal((NODES, 21)).astype(np.float32)
    length = np.random.default_rng(1).random(NODES).astype(np.float32)

    inputs = {"length": import_parts.BlockArray([[length]])}
    found = _walk_columns(graph, start.copy(), Block(graph, {"device": "cpu"}, inputs, 0, 1))
    walk = sp.diags_array(1 / np.maximum(graph.degrees, 1)) @ graph.adjacency
    twice = walk @ walk
    near = walk @ (start * length[:, None])
    assert np.allclose(found["near"], near, atol=1e-5)
    assert np.allclose(found["far"], walk @ near - twice.diagonal()[:, None] * start * length[:, None], atol=1e-5)
