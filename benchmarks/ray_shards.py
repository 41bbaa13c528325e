"""A diffusion table in shards: in this process, in processes, on a Ray cluster of two nodes, and with one node killed in the middle.

    python benchmarks/ray_shards.py
    python benchmarks/ray_shards.py --nodes 20000 --shards 32

All tables have to be equal. Results, with the load of the machine: benchmarks/results/ray_shards.json. The start of workers and of the
cluster is not counted: a warm runner makes each table, and the best of ``--repeats`` runs counts.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from diffusion_scale import power_law
from naq.data.npz import save_graph
from naq.files import write_json
from naq.grid.runners import Runner, make_runner
from naq.grid.shards import shard_cells, sharded_table
from naq.grid.store import Store
from naq.neighbors import NeighborTable
from naq.neighbors.diffusion import TOLERANCE, diffusion_info
from naq.threads import prepare_process

RESULTS = Path(__file__).resolve().parent / "results" / "ray_shards.json"
WORKERS = 2


class Table:
    """One table in shards, made again and again."""

    def __init__(self, folder: Path, nodes: int, shards: int) -> None:
        self.folder, self.graph = folder, power_law(nodes, 3 * nodes)
        self.path = str(save_graph(folder / "graph.npz", self.graph).absolute())
        self.info = diffusion_info(self.graph, 20, alpha=0.1, self_loops=True, method="push", tolerance=TOLERANCE)
        self.cells = shard_cells("graph", self.info, nodes, shards)
        self.made = 0

    def make(self, runner: Runner, listener: Any = None) -> tuple[float, NeighborTable]:
        self.made += 1
        store = Store(self.folder / f"shards{self.made}")
        started = time.perf_counter()
        n = self.graph.num_nodes
        table = sharded_table(self.cells, self.info, n, runner, store, {"graph": self.path}, listener)
        return time.perf_counter() - started, table


def best(table: Table, runner: Runner, repeats: int) -> tuple[float, NeighborTable]:
    """After a first table, which starts the workers and loads the graph."""
    table.make(runner)
    found = [table.make(runner) for _ in range(repeats)]
    return min(seconds for seconds, _ in found), found[0][1]


def with_a_node_killed(table: Table, cluster: Any, node: Any) -> tuple[float, NeighborTable, dict[str, int]]:
    """A table during which ``node`` goes away, once a quarter of the shards is done."""
    states: list[str] = []
    killed = threading.Event()

    def listener(phase: str, facts: Mapping[str, Any]) -> None:
        if phase == "finished":
            states.append(facts["state"])
            if len(states) >= len(table.cells) // 4 and not killed.is_set():
                killed.set()
                threading.Thread(target=cluster.remove_node, args=(node,), kwargs={"allow_graceful": False}).start()

    with make_runner("ray", WORKERS, cluster.address) as runner:
        seconds, found = table.make(runner, listener)
    assert killed.is_set()
    return seconds, found, {"shards": len(table.cells), "lost": states.count("failed"), "done": states.count("done")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--shards", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    prepare_process()
    from ray.cluster_utils import Cluster

    result: dict[str, Any] = {
        "nodes": given.nodes,
        "shards": given.shards,
        "workers": WORKERS,
        "load_before": os.getloadavg()[0],
    }
    with tempfile.TemporaryDirectory() as folder:
        table = Table(Path(folder), given.nodes, given.shards)
        with make_runner("local") as runner:
            result["local_seconds"], whole = best(table, runner, 1)
        tables = {}
        with make_runner("processes", WORKERS) as runner:
            result["processes_seconds"], tables["processes"] = best(table, runner, given.repeats)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        try:
            node = cluster.add_node(num_cpus=1)
            cluster.wait_for_nodes()
            with make_runner("ray", WORKERS, cluster.address) as runner:
                result["ray_seconds"], tables["ray"] = best(table, runner, given.repeats)
            result["killed_seconds"], tables["killed"], result["killed"] = with_a_node_killed(table, cluster, node)
        finally:
            cluster.shutdown()
    for name, found in tables.items():
        assert np.array_equal(found.ids, whole.ids) and np.array_equal(found.scores, whole.scores), name
        assert found.info == whole.info
    result["ray_over_processes_percent"] = round(100 * (result["ray_seconds"] / result["processes_seconds"] - 1), 1)
    result["load_after"] = os.getloadavg()[0]
    write_json(RESULTS, result)
    for name, value in result.items():
        print(f"{name:28} {value}")


if __name__ == "__main__":
    main()
