r"""Neighbours by graph diffusion: top-k of personalised PageRank in symmetric form (NaQ-Diff).

.. math::
    S = \sum_k \alpha (1-\alpha)^k T^k = \alpha (I - (1-\alpha) T)^{-1}

with :math:`T = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}` as in the paper's text (``self_loops=True``) or
:math:`T = D^{-1/2} A D^{-1/2}` as in the code that made its tables (``self_loops=False``).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from naq.errors import OptionError
from naq.graph import Graph
from naq.graph.operators import normalized_adjacency
from naq.neighbors.exact import exact_cost, exact_topk
from naq.neighbors.feature import feature_neighbors
from naq.neighbors.fill import check_fill, filled
from naq.neighbors.push import push_topk
from naq.neighbors.table import NeighborTable, cached, check_k

LEAST_ALPHA = 1e-4
"""The work of the push grows with 1 / alpha."""
METHODS = ("auto", "push", "exact")
EXACT_UP_TO = 4e9
"""``auto`` solves exactly up to this many multiplications: a few seconds."""


def diffusion_neighbors(
    graph: Graph,
    k: int = 10,
    *,
    alpha: float = 0.1,
    self_loops: bool = True,
    fill: str = "none",
    method: str = "auto",
    tolerance: float = 1e-4,
    seed: int = 0,
    device: str = "cpu",
    cache: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> NeighborTable:
    """The ``k`` nearest other nodes of every node by personalised PageRank.

    A node's neighbours lie in its connected component; where that holds fewer than k others, ``fill`` decides.

    Args:
        alpha: teleport probability.
        self_loops: diffuse over A + I (the paper's text) or A (its code, which its overlap tables fit).
        fill: ``none`` leaves -1; ``lowest`` completes with the lowest ids (reproduces the paper's tables); ``random`` with
            random nodes; ``feature`` with the nearest by cosine of the features.
        method: ``exact``, ties to the lowest id; ``push``, local and bounded: ``|error of S_ij| <= tolerance * sqrt(d_i d_j)``,
            so that nodes whose scores differ by less may change places; ``auto`` solves exactly where that takes seconds.
        tolerance: of the push, see above.
        seed: for ``fill="random"``.
        device: for the exact method, ``cpu`` or a CUDA device.
        cache: folder in which tables are kept, by structure alone; None keeps nothing.
        progress: called with (nodes done, nodes in all).

    Example:
        >>> import naq
        >>> path = naq.Graph([[0, 1, 2], [1, 2, 3]], nodes=5)
        >>> naq.diffusion_neighbors(path, k=3).ids.tolist()
        [[1, 2, 3], [0, 2, 3], [3, 1, 0], [2, 1, 0], [-1, -1, -1]]
    """
    k = check_k(graph, k)
    check_fill(fill)
    if not LEAST_ALPHA <= alpha < 1.0:
        raise OptionError(
            f"alpha is {alpha!r}; expected a teleport probability between 0 and 1, e.g. 0.1, and at least {LEAST_ALPHA:g}: "
            "smaller ones take for ever."
        )
    if not 0.0 < tolerance < 1.0:
        raise OptionError(f"tolerance is {tolerance!r}; expected a small positive number, e.g. 1e-4.")
    if method not in METHODS:
        raise OptionError(f"method is {method!r}; expected one of {', '.join(METHODS)}.")
    if fill == "feature":
        graph.require_features("fill='feature'")
    transition = normalized_adjacency(graph.adjacency, self_loops=self_loops, dtype=np.float64)
    if method == "auto":
        method = "exact" if exact_cost(transition, graph.components, alpha) <= EXACT_UP_TO else "push"
    info: dict[str, Any] = {"kind": "diffusion", "alpha": alpha, "self_loops": self_loops, "k": k, "method": method}
    info |= {"tolerance": tolerance} if method == "push" else {}

    def make() -> NeighborTable:
        if method == "exact":
            return NeighborTable(*exact_topk(transition, graph.components, k, alpha, device, progress), info)
        ids, scores, found = _push(graph, transition, k, alpha, tolerance, progress)
        return NeighborTable(ids, scores, info | found)

    table = cached(graph, info, cache, make, reads_features=False)
    return filled(table, fill, seed=seed, feature_ids=lambda: feature_neighbors(graph, k, cache=cache).ids)


def _push(
    graph: Graph,
    transition: sp.csr_array,
    k: int,
    alpha: float,
    tolerance: float,
    progress: Callable[[int, int], None] | None,
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    others = (np.bincount(graph.components)[graph.components] - 1).astype(np.int64)
    indptr, indices = transition.indptr.astype(np.int64), transition.indices.astype(np.int32)
    ids, scores, reached = push_topk(indptr, indices, others, k, alpha, tolerance, progress)
    refined = float((reached[others > 0] < tolerance).mean()) if (others > 0).any() else 0.0
    return ids, scores, {"share_refined": round(refined, 6)}
