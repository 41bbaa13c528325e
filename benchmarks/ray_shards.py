"""A diffusion table, or an embedding, in shards: in this process, in processes, on a Ray cluster of two nodes, and with one node killed in the middle.

    python benchmarks/ray_shards.py
    python benchmarks/ray_shards.py --nodes 20000 --shards 32
    python benchmarks/ray_shards.py --what embedding --nodes 200000    # naq-plus, 64 columns, of a graph folder with 2,000 words

All tables, or vectors, have to be equal, those made without shards included. Results, with the load of the machine: benchmarks/results/ray_shards.json, by what was made. The start of workers and of the
cluster is not counted: a warm engine makes each, and the best of ``--repeats`` runs counts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from diffusion_scale import power_law
from generate import generate
from naq import load
from naq.embedders import EMBEDDERS
from naq.files import write_json
from naq.io.npz import save_graph
from naq.neighbors import diffusion_neighbors
from naq.neighbors.diffusion import TOLERANCE, diffusion_info
from naq.threads import prepare_process
from naq_scale.engines import Engine, make_engine
from naq_scale.sharded import FileShards, sharded_table

RESULTS = Path(__file__).resolve().parent / "results" / "ray_shards.json"
WORKERS = 2
Tell = Callable[[int, int], None]
BEFORE = 8
"""Shards that are done before a node goes away."""


class Table:
    """One table in shards, made again and again."""

    def __init__(self, folder: Path, nodes: int, shards: int) -> None:
        self.folder, self.graph = folder, power_law(nodes, 3 * nodes)
        self.path = str(save_graph(folder / "graph.npz", self.graph).absolute())
        self.info = diffusion_info(self.graph, 20, alpha=0.1, self_loops=True, method="push", tolerance=TOLERANCE)
        self.made, self.shards = 0, shards

    def whole(self) -> tuple[float, list[np.ndarray]]:
        """Without shards."""
        began = time.perf_counter()
        table = diffusion_neighbors(self.graph, 20, method="push")
        return time.perf_counter() - began, [table.ids, table.scores]

    def make(self, engine: Engine, tell: Tell = lambda done, total: None) -> tuple[float, list[np.ndarray]]:
        self.made += 1
        place = self.folder / f"shards{self.made}"
        began = time.perf_counter()
        table = sharded_table(self.graph, self.info, self.shards, engine, place, self.path, tell)
        return time.perf_counter() - began, [table.ids, table.scores]


class Embedding:
    """The vectors of naq-plus, made again and again."""

    def __init__(self, folder: Path, nodes: int, shards: int) -> None:
        self.folder, self.shards = folder, shards
        self.path = str(generate(folder / "graph", nodes, 10 * nodes, features=2000, sparse=True).absolute())
        self.graph = load(self.path)
        self.made = 0

    def whole(self) -> tuple[float, list[np.ndarray]]:
        """Without shards; the second time, once everything is compiled."""
        for _ in range(2):
            began = time.perf_counter()
            vectors = EMBEDDERS["naq-plus"](self.graph, dim=64).embed_to(self.folder / "whole.npy")
        return time.perf_counter() - began, [vectors]

    def make(self, engine: Engine, tell: Tell = lambda done, total: None) -> tuple[float, list[np.ndarray]]:
        self.made += 1
        place = self.folder / f"shards{self.made}"
        began = time.perf_counter()
        parts = FileShards(
            self.graph, engine, place, self.path, shards=self.shards, processes=WORKERS,
            tell=lambda stage, done, total: tell(done, total),
        )  # fmt: skip
        vectors = EMBEDDERS["naq-plus"](self.graph, dim=64).embed_to(self.folder / f"{self.made}.npy", shards=parts)
        seconds = time.perf_counter() - began
        shutil.rmtree(place)
        return seconds, [vectors]


def best(work: Table | Embedding, engine: Engine, repeats: int) -> tuple[float, list[np.ndarray]]:
    """After a first time, which starts the workers and loads the graph."""
    work.make(engine)
    found = [work.make(engine) for _ in range(repeats)]
    return min(seconds for seconds, _ in found), found[0][1]


def with_a_node_killed(
    work: Table | Embedding, cluster: Any, node: Any
) -> tuple[float, list[np.ndarray], dict[str, int]]:
    """Once more, while ``node`` goes away after some shards."""
    done_before: list[int] = []
    killed = threading.Event()

    def tell(done: int, total: int) -> None:
        done_before.append(done)
        if len(done_before) > BEFORE and not killed.is_set():
            killed.set()
            threading.Thread(target=cluster.remove_node, args=(node,), kwargs={"allow_graceful": False}).start()

    with make_engine("ray", WORKERS, cluster.address) as engine:
        seconds, found = work.make(engine, tell)
    assert killed.is_set()
    return seconds, found, {"done": len(done_before) - 1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--what", choices=("table", "embedding"), default="table")
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--shards", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    prepare_process()
    from ray.cluster_utils import Cluster

    sizes = {"nodes": given.nodes, "shards": given.shards, "workers": WORKERS}
    result: dict[str, Any] = {**sizes, "load_before": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as folder:
        work = {"table": Table, "embedding": Embedding}[given.what](Path(folder), given.nodes, given.shards)
        result["whole_seconds"], whole = work.whole()
        made = {}
        with make_engine("local") as engine:
            result["local_seconds"], made["local"] = best(work, engine, 1)
        with make_engine("processes", WORKERS) as engine:
            result["processes_seconds"], made["processes"] = best(work, engine, given.repeats)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        try:
            node = cluster.add_node(num_cpus=1)
            cluster.wait_for_nodes()
            with make_engine("ray", WORKERS, cluster.address) as engine:
                result["ray_seconds"], made["ray"] = best(work, engine, given.repeats)
            result["killed_seconds"], made["killed"], result["killed"] = with_a_node_killed(work, cluster, node)
        finally:
            cluster.shutdown()
        for name, found in made.items():
            assert all(np.array_equal(one, two) for one, two in zip(found, whole, strict=True)), name
    result["ray_over_processes_percent"] = round(100 * (result["ray_seconds"] / result["processes_seconds"] - 1), 1)
    result["load_after"] = os.getloadavg()[0]
    known = json.loads(given.out.read_text()) if given.out.exists() else {}
    write_json(given.out, {**known, given.what: result})
    for name, value in result.items():
        print(f"{name:28} {value}")


if __name__ == "__main__":
    main()
