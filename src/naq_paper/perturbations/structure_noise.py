"""Structure noise: random edges on top of the graph's own, for training and for testing.

    E' = E + { round(share * |E|) distinct pairs {i, j}, i != j, uniform over the pairs not in E }

Pairs are drawn one after the other and refused where they are a loop, an edge, or were drawn before; the accepted ones
are a prefix of one sequence per seed, so that the edges added at a lower share are among those of every higher one.

The paper gives p in {0.1, 0.3} but not the datasets of its figure, and removes no edges.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from naq.errors import OptionError
from naq.graph import Graph
from naq.options import option
from naq.random import stream
from naq.tasks import ClassSplit
from naq_paper.perturbations import Perturbation, Perturbed, register_perturbation

FIRST = 65_536
"""Pairs of the first block of draws; every next block is twice as large, so that merging them stays linear."""


@register_perturbation
class StructureNoise(Perturbation):
    name = "structure-noise"
    summary = "Random edges added between nodes that have none."  # cost: O(E log E) time, O(E) memory; nothing n x n

    @dataclass(frozen=True)
    class Options(Perturbation.Options):
        share: float = option(0.1, at_least=0)  # edges to add, as a share of the graph's edges; may exceed 1

    options: Options

    def apply(self, graph: Graph, split: ClassSplit, seed: int) -> Perturbed:
        share = self.options.share
        n, edges = graph.num_nodes, graph.num_edges
        free = n * (n - 1) // 2 - edges
        count = round(min(share * edges, free + 1.0))
        if count > free:
            wanted = f"structure-noise was to add {share:g} x {edges:,} edges to graph {graph.name!r}"
            raise OptionError(f"{wanted}, but only {free:,} pairs of its nodes have none; lower share.")
        if not count:
            return Perturbed(graph, facts=_facts(graph, graph))
        row = np.repeat(np.arange(n, dtype=np.int64), np.diff(graph.adjacency.indptr))
        col = graph.adjacency.indices.astype(np.int64)
        present = (row * n + col)[row < col]
        new = free_pairs(n, present, count, seed)
        codes = np.concatenate([present, new])
        noisy = Graph(
            np.stack([codes // n, codes % n]),
            graph.features,
            graph.labels,
            names=graph.names,
            class_names=graph.class_names,
            vocab=graph.vocab,
            name=graph.name,
            nodes=n,
        )
        return Perturbed(noisy, facts=_facts(graph, noisy))


def free_pairs(n: int, present: np.ndarray, count: int, seed: int) -> np.ndarray:
    """``count`` distinct codes i * n + j, i < j, that are not among the sorted codes ``present``, in the order of their
    draw."""
    found: list[np.ndarray] = []
    taken, missing, block = present, count, 0
    while missing:
        drawn = stream(seed, "change/structure-noise", block).integers(0, n, size=(FIRST << block, 2))
        low, high = drawn.min(axis=1), drawn.max(axis=1)
        codes = (low * n + high)[low < high]
        place = np.searchsorted(taken, codes)
        known = place < len(taken)
        known[known] = taken[place[known]] == codes[known]
        codes = codes[~known]
        codes = codes[np.sort(np.unique(codes, return_index=True)[1])][:missing]
        found.append(codes)
        missing -= len(codes)
        block += 1
        if missing:
            taken = np.sort(np.concatenate([taken, codes]))
    return np.concatenate(found)


def _facts(before: Graph, after: Graph) -> dict[str, float | None]:
    values = [math.nan if graph.labels is None else graph.homophily() for graph in (before, after)]
    was, now = (value if math.isfinite(value) else None for value in values)
    added = after.num_edges - before.num_edges
    return {"edges": after.num_edges, "added": added, "homophily_before": was, "homophily": now}
