"""How fast tables are imported, and in how much memory: 10 million edges, and ``debian`` as CSV.

Each case runs in a separate process; seconds of the wall and of the CPU are those of reading alone, memory is the
largest resident size of the process, with Python and all libraries in it.

    python benchmarks/import_speed.py [--edges 10000000] [--nodes 1000000]
    python benchmarks/import_speed.py --page      # the table of docs/import.md from the results; nothing is measured
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import naq
from measuring import DOCS, markdown, write_between
from measuring import RESULTS as FOLDER
from naq.io import Choice, import_tables

RESULTS = FOLDER / "import_speed.json"
CASES = ("edges.csv", "edges.parquet", "debian")


def write_edges(folder: Path, nodes: int, edges: int) -> None:
    """Random edges between nodes called ``node-0000017``, as CSV and as Parquet."""
    rng = np.random.default_rng(0)
    names = pa.array([f"node-{i:07d}" for i in range(nodes)])
    ends = {end: names.take(pa.array(rng.integers(0, nodes, edges))) for end in ("source", "target")}
    table = pa.table(ends)
    pa.csv.write_csv(table, folder / "edges.csv", pa.csv.WriteOptions(quoting_style="none"))
    pa.parquet.write_table(table, folder / "edges.parquet")


def write_debian(folder: Path) -> None:
    """The bundled graph as people would export it: each node with a text of its words."""
    graph = naq.load("debian")
    names: Any = graph.names
    coo, words = graph.adjacency.tocoo(), graph.features.tocsr()  # type: ignore[union-attr]
    once = coo.row < coo.col
    ends = {"source": names[coo.row[once]], "target": names[coo.col[once]]}
    pa.csv.write_csv(pa.table(ends), folder / "debian-edges.csv")
    texts = [" ".join(graph.vocab[row]) for row in np.split(words.indices, words.indptr[1:-1])]  # type: ignore[index]
    sections = graph.class_names[graph.labels]  # type: ignore[index]
    nodes = {"id": names, "description": texts, "section": sections}
    pa.csv.write_csv(pa.table(nodes), folder / "debian-nodes.csv")


def read(case: str, folder: Path) -> None:
    """One case, in this process; a line of JSON."""
    began, cpu = time.perf_counter(), time.process_time()
    if case == "debian":
        columns = Choice(text=["description"], label="section")
        graph, _ = import_tables(folder / "debian-edges.csv", folder / "debian-nodes.csv", columns)
    else:
        graph, _ = import_tables(folder / case)
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
    keys = ("nodes", "edges", "features", "seconds", "cpu_seconds", "peak_gigabytes")
    head = ["", "nodes", "edges", "features", "seconds", "CPU seconds", "memory, GB"]
    lines = [[row["case"], *(f"{row[key]:,}" for key in keys)] for row in rows]
    write_between(DOCS / "import.md", "import-speed", markdown(head, lines))


def measured(case: str, folder: Path) -> dict[str, Any]:
    """One case in a separate process."""
    command = [sys.executable, __file__, "--read", case, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    print(done.stdout, end="", flush=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--read", nargs=2, metavar=("CASE", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        read(given.read[0], Path(given.read[1]))
        return
    if not given.page:
        with tempfile.TemporaryDirectory() as name:
            write_edges(Path(name), given.nodes, given.edges)
            write_debian(Path(name))
            RESULTS.write_text(json.dumps([measured(case, Path(name)) for case in CASES], indent=2) + "\n")
    write_page(json.loads(RESULTS.read_text()))


if __name__ == "__main__":
    main()
