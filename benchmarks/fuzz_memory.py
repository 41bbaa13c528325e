"""The memory that damaged files take when they are refused, against what the whole ones take: files of some tens of megabytes.

    python benchmarks/fuzz_memory.py                  # writes benchmarks/results/fuzz_memory.json and the table of docs/trust.md
    python benchmarks/fuzz_memory.py --only graph --each 30

Each kind is read whole once to be warm, once to be measured, and then damaged again and again, with the damage and the readers of the fuzzer. Peaks are of
the resident memory during one reading, beyond what the process held before.
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

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))
os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}

import numpy as np
import scipy.sparse as sp

import damaged_files as files
import damaged_studio as studio
from marked_page import write_between
from naq import Graph
from naq.files import read_json, write_json
from naq_paper.measurements.practice import with_peak

RESULTS = HERE / "results" / "fuzz_memory.json"
PAGE = HERE.parent / "docs" / "trust.md"
NODES = 150_000


def large_graph() -> Graph:
    draw = np.random.default_rng(0)
    words = sp.random(NODES, 400, 0.05, random_state=0, format="csr", dtype=np.float32)
    names = [f"node {i}" for i in range(NODES)]
    return Graph(draw.integers(0, NODES, (2, 8 * NODES)), words, np.arange(NODES) % 4, names=names, nodes=NODES)


def graph(folder: Path) -> Path:
    from naq.io import save_graph

    return save_graph(folder / "g.npz", large_graph())


def graph_folder(folder: Path) -> Path:
    from naq_scale.mapped import save_mapped

    return save_mapped(folder / "g", large_graph()) / "attr_data.npy"


def table(folder: Path) -> Path:
    from naq.neighbors import NeighborTable, feature_neighbors

    draw = np.random.default_rng(0)
    n, info = 500_000, dict(feature_neighbors(files.small_graph(), 10).info)
    ids = draw.integers(0, n, (n, 10), dtype=np.int32)
    return NeighborTable(ids, draw.random((n, 10), dtype=np.float32), info).save(folder / "n.npz")


def tasks(folder: Path) -> Path:
    from naq.tasks import ClassSplit, sample_tasks

    drawn = sample_tasks(files.small_graph(), way=2, shot=1, queries=3, count=20, seed=0)
    many = replace(drawn, support=np.tile(drawn.support, (20_000, 1)), query=np.tile(drawn.query, (20_000, 1)))
    return many.save(folder / "t.npz", ClassSplit((0, 1), (2,), (3,)))


def checkpoint(folder: Path) -> Path:
    import torch

    from naq.training.checkpoint import save_state

    facts = {"key": "k", "update": 3, "history": {}, "losses": [1.5], "seconds": 2.0}
    save_state(folder / "c.safetensors", {f"model/{i}": torch.rand(2_000_000) for i in range(5)}, facts)
    return folder / "c.safetensors"


def cell(folder: Path) -> Path:
    from naq_paper.cells.store import Store

    store = Store(folder)
    store.prepare()
    per_task = np.random.default_rng(0).random(600_000).tolist()
    store.put(replace(files._record(1), result={"per_task": per_task}))
    return next((folder / "cells").iterdir())


def records(folder: Path) -> Path:
    from naq_paper.cells.records import write_records

    per_task = np.random.default_rng(0).random(300_000).tolist()
    write_records(folder / "r.json.xz", [replace(files._record(1), result={"per_task": per_task})])
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
        path = files._make_csv(name)(folder)
        if name == "v.npy":
            np.save(path, np.random.default_rng(0).random((100_000, 64), dtype=np.float32))
        return path

    return make


def mat(folder: Path) -> Path:
    from scipy.io import savemat

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
    import networkx as nx

    found = nx.gnm_random_graph(40_000, 80_000, seed=0)
    nx.set_node_attributes(found, {i: f"words of node {i}" for i in found}, "text")
    nx.write_graphml(found, folder / "k.graphml")
    return folder / "k.graphml"


def journal(folder: Path) -> Path:
    from naq_studio.board import Row
    from naq_studio.journal import Journal

    path = studio.make_journal(folder)
    opened = Journal(path, files.small_graph())
    for _ in range(20):
        opened.write([Row("label", i % 40, "dark red") for i in range(10_000)])
    opened.close()
    (folder / ".g.studio.csv.lock").unlink(missing_ok=True)
    return path


LARGE: dict[str, Callable[[Path], Path]] = {
    "graph": graph,
    "graph folder: features": graph_folder,
    "neighbour table": table,
    "tasks": tasks,
    "checkpoint": checkpoint,
    "cell": cell,
    "records": records,
    "csv: edges": csv("edges.csv"),
    "csv: nodes": csv("nodes.csv"),
    "csv.gz": csv("edges.csv.gz"),
    "parquet": csv("nodes.parquet"),
    "npy": csv("v.npy"),
    "mat": mat,
    "graphml": graphml,
    "studio: journal": journal,
}


def measured(name: str, each: int, folder: Path) -> dict[str, Any]:
    """Peaks in MB: of the whole file, of the worst that was refused, of the worst that was accepted."""
    bench = files.Bench(replace(files.TARGETS[name], make=LARGE[name]), folder, measured=True)
    path = bench.restore()
    _, whole = with_peak(lambda: bench._read(path))
    refused, accepted, counts = 0, 0, {"refused": 0, "accepted": 0}
    for seed in range(each):
        trial = bench.trial(seed)
        assert not trial.fault, f"{name}, seed {seed}: {trial}"
        if trial.outcome == "refused":
            refused, counts["refused"] = max(refused, bench.peak), counts["refused"] + 1
        else:
            accepted, counts["accepted"] = max(accepted, bench.peak), counts["accepted"] + 1
    size = len(bench.content)
    found = {"file": size, "whole": whole or 0, "refused": refused, "accepted": accepted}
    return {f"{key}_mb": round(value / 1e6, 1) for key, value in found.items()} | counts


def write_page(rows: dict[str, Any]) -> None:
    """The table of docs/trust.md, between its marks."""
    lines = [
        "| file | its size | read whole | refused, at most | of them |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, row in rows.items():
        numbers = (row["file_mb"], row["whole_mb"], row["refused_mb"])
        lines.append(f"| {name} | {' | '.join(f'{n:,.0f} MB' for n in numbers)} | {row['refused']} |")
    worst = max(rows, key=lambda name: rows[name]["refused_mb"] / max(1, rows[name]["whole_mb"]))
    ratio = rows[worst]["refused_mb"] / max(1, rows[worst]["whole_mb"])
    lines += ["", f"The worst is {worst}: {ratio:.2f} times what the whole file takes."]
    write_between(PAGE, "<!-- memory -->", "<!-- /memory -->", "\n".join(lines))


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
