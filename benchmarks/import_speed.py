"""How fast tables are imported, and in how much memory: 10 million edges, and ``debian`` as CSV.

Each case runs in a process of its own; seconds of the wall and of the CPU are those of reading alone, memory is the largest
resident size of the process, with Python and all libraries in it.

    python benchmarks/import_speed.py [--edges 10000000] [--nodes 1000000] [--out benchmarks/results/import_speed.json]
    python benchmarks/import_speed.py --large [--nodes 10000000 --edges 100000000] [--folder FOLDER]
    python benchmarks/import_speed.py --page      # the table of docs/import.md from the results; nothing is measured

``--large`` is one case more, beside those that the results have: ``naq import --mmap`` of the edges of a generated graph, whose nodes are called by number, as CSV; ``--folder`` needs
room for some 8 GB.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marked_page import write_between

if TYPE_CHECKING:
    from naq.graph import Graph

RESULTS = Path(__file__).parent / "results" / "import_speed.json"
PAGE = Path(__file__).parents[1] / "docs" / "import.md"
BEGIN, END = "<!-- import-speed:begin -->", "<!-- import-speed:end -->"
CASES = (
    "edges.csv by pyarrow",
    "edges.csv by the standard library",
    "edges.parquet",
    "debian by pyarrow",
    "debian by the standard library",
)


LARGE = "edges.csv by pyarrow, to a folder (--mmap)"


def write_edges(folder: Path, nodes: int, edges: int) -> None:
    """Random edges between nodes called ``node-0000017``, as CSV and as Parquet."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    rng = np.random.default_rng(0)
    names = pa.array([f"node-{i:07d}" for i in range(nodes)])
    ends = {end: names.take(pa.array(rng.integers(0, nodes, edges))) for end in ("source", "target")}
    table = pa.table(ends)
    pa.csv.write_csv(table, folder / "edges.csv", pa.csv.WriteOptions(quoting_style="none"))
    pa.parquet.write_table(table, folder / "edges.parquet")


def write_generated(folder: Path, nodes: int, edges: int) -> None:
    """The edges of a generated graph as CSV."""
    from generate import generate
    from naq.io import load

    write_edges_of(load(generate(folder / "graph", nodes, edges, features=1)), folder / "edges.csv")


def write_edges_of(graph: Graph, out: Path) -> None:
    """The edges of a graph as CSV, nodes called by number, some nodes at a time."""
    import pyarrow as pa
    import pyarrow.csv

    indptr, indices = graph.adjacency.indptr, graph.adjacency.indices
    with out.open("wb") as stream:
        stream.write(b"source,target\n")
        for first in range(0, graph.num_nodes, 1 << 18):
            starts = np.asarray(indptr[first : first + (1 << 18) + 1])
            one = np.repeat(np.arange(first, first + len(starts) - 1), np.diff(starts))
            other = np.asarray(indices[starts[0] : starts[-1]], dtype=np.int64)
            table = pa.table({"source": one[one < other], "target": other[one < other]})
            pa.csv.write_csv(table, stream, pa.csv.WriteOptions(include_header=False))


def write_debian(folder: Path) -> None:
    """The bundled graph as people would export it: each node with a text that repeats its words."""
    import naq

    graph = naq.load("debian")
    assert (
        graph.names is not None
        and graph.vocab is not None
        and graph.labels is not None
        and graph.class_names is not None
    )
    with (folder / "debian-edges.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["source", "target"])
        coo = graph.adjacency.tocoo()
        writer.writerows((graph.names[a], graph.names[b]) for a, b in zip(coo.row, coo.col) if a < b)
    with (folder / "debian-nodes.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "description", "section"])
        for node, (low, high) in enumerate(zip(graph.features.indptr, graph.features.indptr[1:])):  # type: ignore[union-attr]
            columns, counts = graph.features.indices[low:high], graph.features.data[low:high]  # type: ignore[union-attr]
            text = " ".join(" ".join([graph.vocab[c]] * int(k)) for c, k in zip(columns, counts))
            writer.writerow([graph.names[node], text, graph.class_names[graph.labels[node]]])


def read(case: str, folder: Path) -> None:
    """One case, in this process; a line of JSON."""
    if case.endswith("standard library"):
        sys.modules["pyarrow"] = None  # type: ignore[assignment]
    from naq.io import Choice, import_tables, save_mapped

    began, cpu = time.perf_counter(), time.process_time()
    if case.startswith("debian"):
        graph, _ = import_tables(
            folder / "debian-edges.csv", folder / "debian-nodes.csv", Choice(text=["description"], label="section")
        )
    else:
        graph, _ = import_tables(folder / case.split()[0])
        if case == LARGE:
            save_mapped(folder / "mapped", graph)
    facts = {
        "case": case,
        "seconds": round(time.perf_counter() - began, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "peak_gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": graph.num_features,
        "structure": graph.structure_hash,
        "load": round(os.getloadavg()[0], 1),
    }
    print(json.dumps(facts))


def write_page(rows: list[dict[str, Any]]) -> None:
    """The table of docs/import.md."""
    lines = ["| | nodes | edges | features | seconds | CPU seconds | memory, GB |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        sizes = " | ".join(f"{row[key]:,}" for key in ("nodes", "edges", "features"))
        lines.append(f"| {row['case']} | {sizes} | {row['seconds']} | {row['cpu_seconds']} | {row['peak_gigabytes']} |")
    write_between(PAGE, BEGIN, END, "\n".join(lines))


def measured(case: str, folder: Path) -> dict[str, Any]:
    """One case in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--read", case, str(folder)], capture_output=True, text=True, check=True
    )
    print(done.stdout, end="", flush=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int)
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--folder", type=Path, help="where files go for a while")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--read", nargs=2, metavar=("CASE", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        read(given.read[0], Path(given.read[1]))
        return
    known = json.loads(given.out.read_text()) if given.out.exists() else []
    if given.page:
        write_page(known)
        return
    nodes = given.nodes or (10_000_000 if given.large else 1_000_000)
    edges = given.edges or 10 * nodes
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        if given.large:
            write_generated(folder, nodes, edges)
            rows = [row for row in known if row["case"] != LARGE] + [measured(LARGE, folder)]
        else:
            write_edges(folder, nodes, edges)
            write_debian(folder)
            rows = [measured(case, folder) for case in CASES] + [row for row in known if row["case"] == LARGE]
    given.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
