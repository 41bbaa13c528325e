"""The least that smoothing can cost: rows of 64 numbers fetched from memory in random order, in a loop that does nothing but add them up.

    python benchmarks/row_fetches.py [--nodes 100000 1000000 10000000]

Rows begin with a line of the cache, lie in huge pages where the system gives them, and are asked for ahead of time: the loop of :func:`naq_scale.lanes.add_rows`, as smoothing uses it, on one long list of random rows.
One thread; the best of three rounds of four million rows. Results: benchmarks/results/row_fetches.json.
"""

from __future__ import annotations

import argparse
import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import json
import time
from pathlib import Path

import numpy as np

from naq.files import write_json
from naq.neighbors.prefetch import line_aligned
from naq_scale.lanes import add_rows

RESULTS = Path(__file__).resolve().parent / "results" / "row_fetches.json"
WIDTH, FETCHES, ROUNDS = 64, 4_000_000, 3


def nanoseconds(nodes: int) -> float:
    """CPU time to fetch a row."""
    rows, total = line_aligned((nodes, WIDTH)), np.zeros(WIDTH, dtype=np.float32)
    rows[:] = 1
    indices = np.random.default_rng(0).integers(0, nodes, FETCHES).astype(np.int32)
    add_rows(rows.reshape(-1), WIDTH, indices, 0, 10, total, 0)
    found = []
    for _ in range(ROUNDS):
        began = time.process_time()
        add_rows(rows.reshape(-1), WIDTH, indices, 0, FETCHES, total, 0)
        found.append(time.process_time() - began)
    return 1e9 * min(found) / FETCHES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    given = parser.parse_args()
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for nodes in given.nodes:
        each = nanoseconds(nodes)
        found[str(nodes)] = {
            "nanoseconds": round(each, 1),
            "gigabytes_per_second": round(4 * WIDTH / each, 1),
            "load": round(os.getloadavg()[0], 1),
        }
        print(nodes, json.dumps(found[str(nodes)]), flush=True)
        write_json(RESULTS, found)


if __name__ == "__main__":
    main()
