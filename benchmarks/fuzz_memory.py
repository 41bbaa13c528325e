"""The memory that damaged files take when they are refused, against whole ones: files of some tens of megabytes.

    python benchmarks/fuzz_memory.py                  # writes results/fuzz_memory.json and the table of docs/trust.md
    python benchmarks/fuzz_memory.py --only graph --each 30

Each kind is read whole once to be warm, once to be measured, and then damaged again and again, as by the fuzzer. Peaks
are of the resident memory during one reading, beyond what the process held before.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from measuring import DOCS, ROOT, markdown, write_between
from measuring import RESULTS as FOLDER

sys.path.insert(0, str(ROOT / "tests"))
os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}

import networkx as nx
import numpy as np
import scipy.sparse as sp
import torch
from scipy.io import savemat

import file_formats as files
from naq import ClassSplit, Graph, NeighborTable, feature_neighbors, sample_tasks
from naq.files import read_json, write_json
from naq.io import save_graph, save_mapped
from naq.training.checkpoint import save_state
from naq_paper.cells.records import pack_records
from naq_paper.cells.store import Store
from naq_paper.measurements.practice import with_peak
from naq_studio.board import Entry
from naq_studio.journal import Journal

RESULTS = FOLDER / "fuzz_memory.json"
NODES = 150_000


def large_graph() -> Graph:
    draw = np.random.default_rng(0)
    words = sp.random(NODES, 400, 0.05, random_state=0, format="csr", dtype=np.float32)
    names = [f"node {i}" for i in range(NODES)]
    return Graph(draw.integers(0, NODES, (2, 8 * NODES)), words, np.arange(NODES) % 4, names=names, nodes=NODES)


def graph(folder: Path) -> Path:
    return save_graph(folder / "g.npz", large_graph())


def graph_folder(folder: Path) -> Path:
    return save_mapped(folder / "g", large_graph()) / "attr_data.npy"


def table(folder: Path) -> Path:
    draw = np.random.default_rng(0)
    n, info = 500_000, dict(feature_neighbors(files.small_graph(), 10).info)
    ids = draw.integers(0, n, (n, 10), dtype=np.int32)
    return NeighborTable(ids, draw.random((n, 10), dtype=np.float32), info).save(folder / "n.npz")


def tasks(folder: Path) -> Path:
    drawn = sample_tasks(files.small_graph(), way=2, shot=1, queries=3, count=20, seed=0)
    many = replace(drawn, support=np.tile(drawn.support, (20_000, 1)), query=np.tile(drawn.query, (20_000, 1)))
    return many.save(folder / "t.npz", ClassSplit((0, 1), (2,), (3,)))


def checkpoint(folder: Path) -> Path:
    facts = {"key": "k", "update": 3, "history": {}, "losses": [1.5], "seconds": 2.0}
    save_state(folder / "c.safetensors", {f"model/{i}": torch.rand(2_000_000) for i in range(5)}, facts)
    return folder / "c.safetensors"


def cell(folder: Path) -> Path:
    store = Store(folder)
    store.prepare()
    per_task = np.random.default_rng(0).random(600_000).tolist()
    store.put(files.make_record(1, {"per_task": per_task}))
    return next((folder / "cells").iterdir())


def records(folder: Path) -> Path:
    per_task = np.random.default_rng(0).random(300_000).tolist()
    (folder / "r.json.xz").write_bytes(pack_records([files.make_record(1, {"per_task": per_task})]))
    return folder / "r.json.xz"


def _lines(count: int) -> tuple[str, str]:
    ends = np.random.default_rng(0).integers(0, count, (2, 6 * count)).T
    edges = "source,target\n" + "".join(f"n{a},n{b}\n" for a, b in ends)
    nodes = "id,bio,age,kind\n" + "".join(
        f"n{i},{('red round', 'blue square')[i % 2]} w{i // 2}x of many words,{i},{'ab'[i % 2]}\n" for i in range(count)
    )
    return edges, nodes


def csv(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        files.EDGES, files.NODES = _lines(100_000)
        path = files.write_tables(name, folder)
        if name == "v.npy":
            np.save(path, np.random.default_rng(0).random((100_000, 64), dtype=np.float32))
        return path

    return make


def mat(folder: Path) -> Path:
    half = NODES // 2
    for part, first in (("train", 0), ("test", half)):
        nodes = np.arange(first, first + half)
        words = sp.random(half, 400, 0.05, random_state=0, format="csc")
        labels = (nodes % 3 + (0 if part == "train" else 3)).astype(float)[:, None]
        savemat(folder / f"Toy_{part}.mat", {"Index": nodes[:, None], "Label": labels, "Attributes": words})
    ends = np.random.default_rng(0).integers(0, NODES, (400_000, 2))
    (folder / "Toy_network").write_text("".join(f"{a}\t{b}\n" for a, b in ends))
    return folder / "Toy_train.mat"


def graphml(folder: Path) -> Path:
    found = nx.gnm_random_graph(40_000, 80_000, seed=0)
    nx.set_node_attributes(found, {i: f"words of node {i}" for i in found}, "text")
    nx.write_graphml(found, folder / "k.graphml")
    return folder / "k.graphml"


def journal(folder: Path) -> Path:
    path = files.write_journal(folder)
    opened = Journal(path, files.small_graph())
    for _ in range(20):
        opened.write([Entry("label", i % 40, "dark red") for i in range(10_000)])
    opened.close()
    (folder / ".g.studio.csv.lock").unlink(missing_ok=True)
    return path


LARGE: dict[str, Callable[[Path], Path]] = {
    "graph": graph,
    "graph folder: attr_data.npy": graph_folder,
    "neighbour table": table,
    "tasks": tasks,
    "checkpoint": checkpoint,
    "cell": cell,
    "records": records,
    "table: edges.csv": csv("edges.csv"),
    "table: nodes.csv": csv("nodes.csv"),
    "table: edges.csv.gz": csv("edges.csv.gz"),
    "table: nodes.parquet": csv("nodes.parquet"),
    "table: v.npy": csv("v.npy"),
    "mat": mat,
    "graphml": graphml,
    "studio: journal": journal,
}


def measured(name: str, each: int, folder: Path) -> dict[str, Any]:
    """Peaks in MB: of the whole file, of the worst that was refused, of the worst that was accepted."""
    file = files.DamagedFile(replace(files.FORMATS[name], write=LARGE[name]), folder)
    path = file.restore()
    _, whole = with_peak(lambda: file.read(path))
    refused, accepted, counts = 0, 0, {"refused": 0, "accepted": 0}
    for seed in range(each):
        outcome, peak = with_peak(lambda seed=seed: file.trial(seed))  # type: ignore[misc]
        assert not outcome.startswith("FAULT"), f"{name}, seed {seed}: {outcome}"
        if outcome == "refused":
            refused, counts["refused"] = max(refused, peak or 0), counts["refused"] + 1
        else:
            accepted, counts["accepted"] = max(accepted, peak or 0), counts["accepted"] + 1
    size = len(file.content)
    found = {"file": size, "whole": whole or 0, "refused": refused, "accepted": accepted}
    return {f"{key}_mb": round(value / 1e6, 1) for key, value in found.items()} | counts


def write_page(rows: dict[str, Any]) -> None:
    """The table of docs/trust.md, between its marks."""
    lines = []
    for name, row in rows.items():
        sizes = (f"{row[key]:,.0f} MB" for key in ("file_mb", "whole_mb", "refused_mb"))
        lines.append([name, *sizes, str(row["refused"])])
    worst = max(rows, key=lambda name: rows[name]["refused_mb"] / max(1, rows[name]["whole_mb"]))
    ratio = rows[worst]["refused_mb"] / max(1, rows[worst]["whole_mb"])
    head = ["file", "its size", "read whole", "refused, at most", "of them"]
    text = f"The worst is {worst}: {ratio:.2f} times what the whole file takes."
    write_between(DOCS / "trust.md", "memory", markdown(head, lines, "|---|---:|---:|---:|---:|") + f"\n\n{text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=16, help="damaged files of each kind")
    parser.add_argument(
        "--only", action="append", default=[], help="a kind; may be repeated; the others stay as they are"
    )
    given = parser.parse_args()
    rows = read_json(RESULTS) if given.only and RESULTS.exists() else {}
    for name in given.only or LARGE:
        with tempfile.TemporaryDirectory() as place:
            rows[name] = measured(name, given.each, Path(place) / "x")
        print(f"{name:24}", rows[name], flush=True)
        write_json(RESULTS, rows)
    write_page({name: rows[name] for name in LARGE if name in rows})


if __name__ == "__main__":
    main()
