"""How fast tables are imported, and in how much memory: 10 million edges, and ``debian`` as CSV.

Each case runs in a process of its own; seconds of the wall and of the CPU are those of reading alone, memory is the largest
resident size of the process, with Python and all libraries in it.

    python benchmarks/import_speed.py [--edges 10000000] [--nodes 1000000] [--out benchmarks/results/import_speed.json]

With ``--page`` the table of docs/import.md is written from the file that ``--out`` names, and nothing is measured.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from marked_page import write_between

PAGE = Path(__file__).parents[1] / "docs" / "import.md"
BEGIN, END = "<!-- import-speed:begin -->", "<!-- import-speed:end -->"
CASES = (
    "edges.csv by pyarrow",
    "edges.csv by the standard library",
    "edges.parquet",
    "debian by pyarrow",
    "debian by the standard library",
)


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
    from naq.data import Choice, import_tables

    began, cpu = time.perf_counter(), time.process_time()
    if case.startswith("debian"):
        graph, _ = import_tables(
            folder / "debian-edges.csv", folder / "debian-nodes.csv", Choice(text=["description"], label="section")
        )
    else:
        graph, _ = import_tables(folder / case.split()[0])
    facts = {
        "case": case,
        "seconds": round(time.perf_counter() - began, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "peak_gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": graph.num_features,
        "structure": graph.structure_hash,
    }
    print(json.dumps(facts))


def write_page(rows: list[dict[str, Any]]) -> None:
    """The table of docs/import.md."""
    lines = ["| | nodes | edges | features | seconds | CPU seconds | memory, GB |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        sizes = " | ".join(f"{row[key]:,}" for key in ("nodes", "edges", "features"))
        lines.append(f"| {row['case']} | {sizes} | {row['seconds']} | {row['cpu_seconds']} | {row['peak_gigabytes']} |")
    write_between(PAGE, BEGIN, END, "\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--read", nargs=2, metavar=("CASE", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        read(given.read[0], Path(given.read[1]))
        return
    if given.page:
        write_page(json.loads(given.out.read_text()))
        return
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_edges(folder, given.nodes, given.edges)
        write_debian(folder)
        for case in CASES:
            done = subprocess.run(
                [sys.executable, __file__, "--read", case, name], capture_output=True, text=True, check=True
            )
            rows.append(json.loads(done.stdout))
            print(json.dumps(rows[-1]), flush=True)
    if given.out is not None:
        given.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
