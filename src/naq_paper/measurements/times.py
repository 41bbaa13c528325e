"""``times``: how long neighbour tables and episodes take; after a warm-up, without a cache, with the device
synchronised.

Times are comparable only while nothing else runs on the machine: ``load`` is its load before the warm-up.

Where a table is made in blocks, each block computes scores, selects the k best and copies them to host memory. The
total is measured over whole calls, the three in separate calls by :func:`stage_seconds`, whose stopwatch waits for the
device after every stage, so their sum may be above the total.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numba
import numpy as np
import torch

from naq.device import checked_device
from naq.episodes import naq_episodes, supervised_episodes
from naq.episodes.episodes import check_counts
from naq.errors import OptionError
from naq.graph import Graph, weighted
from naq.graph.operators import normalized_adjacency
from naq.io import split_for
from naq.neighbors import NeighborTable, diffusion_neighbors, feature_neighbors
from naq.neighbors.diffusion import METHODS
from naq.neighbors.exact import columns_of_ppr, components_apart
from naq.neighbors.feature_exact import block_scores
from naq.neighbors.topk import Best, stable_topk
from naq.threads import available_cores, one_blas_thread
from naq_paper.cells.cell import Cell
from naq_paper.cells.records import processor
from naq_paper.measurements import Context, check_choice, dataset_cell, validate_seed
from naq_paper.measurements.tables import TABLE_KINDS, completed_table, table_config

STAGES = ("compute", "selection", "transfer")


class Stopwatch:
    """Adds up the time between marks under the name of the stage that a mark ends."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now, self.seconds = now, dict.fromkeys(STAGES, 0.0)
        self._last = now()

    def __call__(self, stage: str) -> None:
        now = self.now()
        self.seconds[stage] += now - self._last
        self._last = now


def one_pass(kind: str, solver: str | None, sparse: bool, device: str) -> str | None:
    """Why the stages of a table are not apart; None where they are."""
    if kind == "naq-feat" and sparse and device == "cpu":
        return "the inverted index offers each score to a row's heap at once: scoring and selection are one pass."
    if kind == "naq-diff" and solver == "push":
        return "the push selects a node's neighbours while it diffuses from it: scoring and selection are one pass."
    return None


def stage_seconds(graph: Graph, config: Mapping[str, Any], now: Callable[[], float]) -> dict[str, float]:
    """Seconds of each stage of one call, on a graph from which nothing is derived yet."""
    k, device = int(config["k"]), str(config["device"])
    watch = Stopwatch(now)
    if config["kind"] == "naq-feat":
        features = graph.require_features("similarity")
        for _, values in block_scores(features, str(config["metric"]), device, (0, graph.num_nodes)):
            watch("compute")
            found = stable_topk(values, k)
            watch("selection")
            _ = [one.cpu().numpy() for one in found]
            watch("transfer")
        return watch.seconds
    transition = normalized_adjacency(graph.adjacency, self_loops=bool(config["self_loops"]), dtype=np.float64)
    columns_of = partial(columns_of_ppr, alpha=float(config["alpha"]), device=device)
    best = Best(graph.num_nodes, k, torch.device(device))
    with one_blas_thread():
        for values, nodes, members in components_apart(transition, graph.components, columns_of, None):
            watch("compute")
            best.offer(values.float().clamp_(min=0), nodes, members)
            watch("selection")
    best.arrays()
    watch("transfer")
    return watch.seconds


MEASURED = ("similarity", "episodes")
QUERIES = {"naq-feat": 10, "naq-diff": 10, "supervised": 8}
PARTS = {
    "naq-feat": "similarities, top-k and transfer to host memory, block by block; weighting of features excluded",
    "naq-diff": "normalised adjacency, components, diffusion, top-k and transfer to host memory, block by block",
    "episodes": "draws of supports and gathers of queries into host memory; the neighbour table excluded",
    "supervised": "draws of classes and nodes into host memory",
}
"""What a time contains."""


def times_cell(
    dataset: str, *, what: str = "similarity", kind: str = "naq-feat", k: int = 10, way: int = 5,
    queries: int | None = None, count: int = 16_000, repeats: int = 5, seed: int = 0, solver: str = "auto",
    device: str = "cpu", **table: Any,
) -> Cell:  # fmt: skip
    """The cell of one time.

    Args:
        what: ``similarity``, the table of the ``k`` nearest, or ``episodes``, ``count`` of them from a table.
        kind: ``naq-feat``, ``naq-diff`` or, for episodes, ``supervised``, which reads labels.
        queries: of an episode's class; 10, or 8 for supervised episodes.
        device: ``cpu`` or ``cuda``, for the tables that can use it; ``computed_on`` of the result says what did.
        table: of the neighbours, see :func:`~naq_paper.measurements.tables.table_config`.
    """
    check_choice("what", what, MEASURED)
    check_choice("kind", kind, TABLE_KINDS if what == "similarity" else tuple(QUERIES))
    check_choice("solver", solver, METHODS)
    queries = QUERIES[kind] if queries is None else queries
    check_counts(k=k, way=way, queries=queries, count=count, repeats=repeats)
    validate_seed(seed)
    if device.partition(":")[0] not in ("cpu", "cuda"):
        raise OptionError(f"device is {device!r}; expected cpu or cuda.")
    config: dict[str, Any] = {"what": what, "kind": kind}
    if what == "similarity":
        config["k"] = int(k)
    else:
        config |= {"way": int(way), "queries": int(queries), "count": int(count), "seed": int(seed)}
    if kind != "supervised":
        config |= table_config(kind, **table)
    if kind == "naq-diff" and what == "similarity":
        config["solver"] = solver
    return dataset_cell("times", dataset, {**config, "repeats": int(repeats), "device": device})


def times(config: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """All ``seconds``, their ``mean``, ``sd`` and ``min``, what they contain (``parts``), ``stages`` and hardware.

    ``stages`` has the seconds of every repeat by stage, or is null with the reason in ``why_no_stages``.
    """
    device = str(config["device"])
    checked_device(device)
    graph = context.perturbed(config).graph
    prepare = _similarity(config, graph) if config["what"] == "similarity" else _episodes(config, graph, context)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    warm_up, made = timed(prepare(), device)
    seconds = []
    for repeat in range(int(config["repeats"])):
        seconds.append(timed(prepare(), device)[0])
        context.listener("time", {"done": repeat + 1, "total": int(config["repeats"])})
    solver = made.info.get("method") if isinstance(made, NeighborTable) else None
    parts = config["kind"] if config["what"] == "similarity" or config["kind"] == "supervised" else "episodes"
    gpu = torch.cuda.get_device_name(device) if device.startswith("cuda") else None
    by_stage, why = _stages(config, graph, solver, lambda: clock(device), context)
    return {
        "seconds": seconds, "mean": statistics.mean(seconds),
        "sd": statistics.stdev(seconds) if len(seconds) > 1 else None, "min": min(seconds), "warm_up": warm_up,
        "parts": PARTS[parts], "stages": by_stage, "why_no_stages": why, "solver": solver,
        "computed_on": device if isinstance(made, NeighborTable) and solver != "push" else "cpu",
        "threads": {"numba": numba.get_num_threads(), "torch": torch.get_num_threads()}, "load": load,
        "hardware": {"processor": processor(), "cores": available_cores(), "gpu": gpu}, "nodes": graph.num_nodes,
        "edges": graph.num_edges,
    }  # fmt: skip


def timed(call: Callable[[], Any], device: str) -> tuple[float, Any]:
    """Seconds of a call and what it gave, with nothing left running on the device."""
    start = clock(device)
    made = call()
    return clock(device) - start, made


def clock(device: str) -> float:
    """The time, once the device has finished its work."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _similarity(config: Mapping[str, Any], graph: Graph) -> Callable[[], Callable[[], Any]]:
    """Calls that make the table, each on another graph: what one derives is not there for the next."""
    read, device, k = weighted(graph, str(config.get("features", "raw"))), str(config["device"]), int(config["k"])

    def prepare() -> Callable[[], Any]:
        fresh = Graph(read.adjacency, read.features, name=read.name)
        if config["kind"] == "naq-feat":
            return lambda: feature_neighbors(fresh, k, metric=str(config["metric"]), device=device)
        alpha, loops, solver = float(config["alpha"]), bool(config["self_loops"]), str(config["solver"])
        return lambda: diffusion_neighbors(fresh, k, alpha=alpha, self_loops=loops, method=solver, device=device)

    return prepare


def _stages(
    config: Mapping[str, Any], graph: Graph, solver: str | None, now: Callable[[], float], context: Context
) -> tuple[dict[str, list[float]] | None, str | None]:
    """Seconds of each stage of making the table, one per repeat; or None and why they cannot be separated."""
    if config["what"] != "similarity":
        return None, "episodes are drawn in one pass."
    read = weighted(graph, str(config.get("features", "raw")))
    why = one_pass(str(config["kind"]), solver, read.sparse_features, str(config["device"]))
    if why is not None:
        return None, why
    found: dict[str, list[float]] = {stage: [] for stage in STAGES}
    repeats = int(config["repeats"])
    for repeat in range(repeats):
        fresh = Graph(read.adjacency, read.features, name=read.name)
        for stage, seconds in stage_seconds(fresh, config, now).items():
            found[stage].append(seconds)
        context.listener("time", {"done": repeat + 1, "total": repeats})
    return found, None


def _episodes(config: Mapping[str, Any], graph: Graph, context: Context) -> Callable[[], Callable[[], Any]]:
    options: dict[str, Any] = {name: int(config[name]) for name in ("way", "queries", "count", "seed")}
    if config["kind"] == "supervised":
        perturbed = context.perturbed(config)
        labels = graph.require_labels("supervised episodes") if perturbed.base_labels is None else perturbed.base_labels
        split = perturbed.split or split_for(context.dataset_cache.source(str(config["dataset"])), graph)
        return lambda: lambda: supervised_episodes(labels, split.base, shot=1, **options)
    table, _ = completed_table(graph, config, options["queries"], context)
    return lambda: lambda: naq_episodes(table, **options)
