"""The stages of making a neighbour table, separately: scores, selection of the k best, transfer.

The table's own code marks the end of each stage of each block; a stopwatch waits for the device at every mark. On the CPU ``transfer`` is the
copying of a block's rows into and out of tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from naq.graph import Graph
from naq.graph.operators import normalized_adjacency
from naq.neighbors.exact import exact_topk
from naq.neighbors.feature_exact import block_topk

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
        return "the inverted index offers each score to a row's heap as it is computed: scoring and selection are one pass."
    if kind == "naq-diff" and solver == "push":
        return "the push selects a node's neighbours while it diffuses from it: scoring and selection are one pass."
    return None


def stage_seconds(graph: Graph, config: Mapping[str, Any], now: Callable[[], float]) -> dict[str, float]:
    """Seconds of each stage of one call, on a graph from which nothing is derived yet."""
    k, device = int(config["k"]), str(config["device"])
    watch = Stopwatch(now)
    if config["kind"] == "naq-feat":
        block_topk(graph.require_features("similarity"), k, str(config["metric"]), device, None, watch)
    else:
        transition = normalized_adjacency(graph.adjacency, self_loops=bool(config["self_loops"]), dtype=np.float64)
        exact_topk(transition, graph.components, k, float(config["alpha"]), device, None, watch)
    return watch.seconds
