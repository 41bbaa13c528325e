r"""Neighbours by graph diffusion (NaQ-Diff): top-k of personalised PageRank in symmetric form, or of the heat kernel.

.. math::
    S = \sum_k \theta_k T^k, \qquad \theta_k = \alpha (1-\alpha)^k \quad\text{or}\quad \theta_k = e^{-t} t^k / k!

with :math:`T = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}` as in the paper's text (``self_loops=True``) or
:math:`T = D^{-1/2} A D^{-1/2}` as in the code that made its tables (``self_loops=False``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from naq.device import checked_device
from naq.errors import OptionError
from naq.graph import Graph
from naq.graph.operators import normalized_adjacency, structure
from naq.neighbors.exact import exact_cost, exact_topk
from naq.neighbors.feature import feature_neighbors
from naq.neighbors.push import push_topk
from naq.neighbors.table import NeighborTable, cached, check_fill, check_k, fill_table
from naq.neighbors.topk import Lists, Progress
from naq.random import mixed

LEAST_ALPHA = 1e-4
"""The work of the push grows with 1 / alpha."""
METHODS = ("auto", "push", "exact")
KERNELS = ("ppr", "heat")
TOLERANCE = 1e-4
HEAT = 5.0
"""Steps of a walk, on average."""
EXACT_UP_TO = 4e9
"""``auto`` solves exactly up to this many multiplications: a few seconds."""


def diffusion_neighbors(
    graph: Graph, k: int = 10, *, alpha: float = 0.1, self_loops: bool = True, fill: str = "none", method: str = "auto",
    tolerance: float = TOLERANCE, seed: int = 0, device: str = "cpu", cache: str | Path | None = None,
    progress: Progress = None, kernel: str = "ppr", t: float = HEAT,
) -> NeighborTable:  # fmt: skip
    """The ``k`` nearest other nodes of every node by personalised PageRank, or by the heat kernel.

    A node's neighbours are in its connected component; if that holds fewer than k others, ``fill`` decides.

    Args:
        alpha: teleport probability.
        self_loops: diffuse over A + I (the paper's text) or A (its code, which its overlap tables fit).
        fill: ``none`` leaves -1; ``lowest`` completes with the lowest ids (reproduces the paper's tables); ``random``
            with random nodes; ``feature`` with the nearest by cosine of the features.
        method: ``exact``, ties to the lowest id; ``push``, local, with an error of S_ij of at most
            ``tolerance * sqrt(d_i d_j)``, so that nodes whose scores differ by less may change places; ``auto`` solves
            exactly where that takes seconds.
        tolerance: of the push, see above.
        seed: for ``fill="random"``.
        device: for the exact method, ``cpu`` or a CUDA device.
        cache: folder in which tables are kept, by structure alone; None keeps nothing.
        progress: called with (nodes done, nodes in all).
        kernel: ``ppr``, or ``heat``, which has ``t`` in place of ``alpha`` and is always exact: some
            40 nodes x edges multiplications of the largest component at t = 5.

    Example:
        >>> import naq
        >>> path = naq.Graph([[0, 1, 2], [1, 2, 3]], nodes=5)
        >>> naq.diffusion_neighbors(path, k=3).ids.tolist()
        [[1, 2, 3], [0, 2, 3], [3, 1, 0], [2, 1, 0], [-1, -1, -1]]
    """
    how: dict[str, Any] = {"alpha": alpha, "self_loops": self_loops, "method": method, "tolerance": tolerance}
    info = diffusion_info(graph, k, **how, kernel=kernel, t=t)
    check_fill(fill)
    checked_device(device)
    if fill == "feature":
        graph.require_features("fill='feature'")

    def make() -> NeighborTable:
        if info["method"] == "exact":
            return NeighborTable(*exact_rows(graph, info, device, progress), info)
        ids, scores, counts = diffusion_rows(push_arrays(graph, self_loops), info, None, progress)
        return NeighborTable(ids, scores, info | share_refined(counts))

    table = cached(graph, info, cache, make, reads_features=False)

    def near() -> np.ndarray:
        return feature_neighbors(graph, info["k"], cache=cache).ids

    return fill_table(table, fill, seed=seed, feature_ids=near, graph=graph)


def diffusion_info(
    graph: Graph, k: int, *, alpha: float, self_loops: bool, method: str, tolerance: float, kernel: str = "ppr",
    t: float = HEAT,
) -> dict[str, Any]:  # fmt: skip
    """What describes the table, checked; ``auto`` is decided."""
    k = check_k(graph, k)
    if kernel not in KERNELS:
        raise OptionError(f"kernel is {kernel!r}; expected one of {', '.join(KERNELS)}.")
    if not 0.0 < t <= 100.0:
        raise OptionError(f"t is {t!r}; expected a number above 0 and at most 100.")
    if not LEAST_ALPHA <= alpha < 1.0:
        raise OptionError(
            f"alpha is {alpha!r}; expected a teleport probability between 0 and 1, at least {LEAST_ALPHA:g}."
        )
    if not 0.0 < tolerance < 1.0:
        raise OptionError(f"tolerance is {tolerance!r}; expected a small positive number, e.g. 1e-4.")
    if method not in METHODS:
        raise OptionError(f"method is {method!r}; expected one of {', '.join(METHODS)}.")
    if kernel == "heat":
        if method == "push":
            raise OptionError("method is 'push', but the heat kernel is only computed exactly; leave method out.")
        return {"kind": "diffusion", "kernel": kernel, "t": t, "self_loops": self_loops, "k": k, "method": "exact"}
    if method == "auto":
        cost = exact_cost(graph.degrees + int(self_loops), graph.components, alpha)
        method = "exact" if cost <= EXACT_UP_TO else "push"
    info: dict[str, Any] = {"kind": "diffusion", "alpha": alpha, "self_loops": self_loops, "k": k, "method": method}
    return info | ({"tolerance": tolerance} if method == "push" else {})


def exact_rows(graph: Graph, info: Mapping[str, Any], device: str = "cpu", progress: Progress = None) -> Lists:
    """ids and scores (n, k) of the table that ``info`` describes, with ``method`` exact."""
    transition = normalized_adjacency(graph.adjacency, self_loops=info["self_loops"], dtype=np.float64)
    alpha, t = info.get("alpha", 0.0), info.get("t")
    return exact_topk(transition, graph.components, info["k"], alpha, device, progress, t=t)


PushArrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def push_arrays(graph: Graph, self_loops: bool) -> PushArrays:
    """What :func:`~naq.neighbors.push.push_topk` reads of a graph."""
    indptr, indices = structure(graph.adjacency, self_loops=self_loops)
    others = (np.bincount(graph.components)[graph.components] - 1).astype(np.int64)
    return indptr, indices, others, twins(indptr, indices)


def diffusion_rows(
    arrays: PushArrays, info: Mapping[str, Any], seeds: tuple[int, int] | None, progress: Progress = None
) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    """ids and scores (s, k) of the nodes first..last-1, or of all, by push; how many were refined, and of how many.

    Args:
        arrays: of :func:`push_arrays`.
        info: of :func:`diffusion_info`, with ``method`` push.
    """
    ids, scores, reached, _ = push_topk(*arrays, info["k"], info["alpha"], info["tolerance"], progress, seeds)
    return ids, scores, (int(((reached > 0) & (reached < info["tolerance"])).sum()), int((reached > 0).sum()))


def share_refined(counts: tuple[int, int]) -> dict[str, float]:
    """What the table says of the counts of all its rows."""
    refined, nodes = counts
    return {"share_refined": round(refined / nodes, 6) if nodes else 0.0}


def twins(indptr: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """(n,) int32, equal for nodes with the same neighbours but for themselves and each other; by hashes of 64 bits.

    Swapping two such nodes changes nothing in the graph, so every node is equally near to both.

    >>> twins(np.array([0, 2, 3, 4, 4]), np.array([1, 2, 0, 0])).tolist()
    [0, 1, 1, 3]
    """
    apart, joined = _neighbor_hashes(indptr, indices)
    label = np.arange(len(apart), dtype=np.int32)
    for code in (apart, joined):  # no node has twins of both kinds, not joined to it and joined
        _, first, group, count = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
        label = np.where(count[group] > 1, first[group].astype(np.int32), label)
    return label


@njit(cache=True)
def _neighbor_hashes(indptr: Any, indices: Any) -> Any:
    """Two times (n,) uint64: sums of the hashes of a node's neighbours, without and with its own."""
    n = len(indptr) - 1
    apart, joined = np.zeros(n, dtype=np.uint64), np.zeros(n, dtype=np.uint64)
    for u in range(n):
        total = np.uint64(0)
        for e in range(indptr[u], indptr[u + 1]):
            if indices[e] != u:
                total += _hash(indices[e])
        apart[u], joined[u] = total, total + _hash(u)
    return apart, joined


@njit(cache=True)
def _hash(node: Any) -> Any:
    return mixed(np.uint64(node) + np.uint64(0x9E3779B97F4A7C15))
