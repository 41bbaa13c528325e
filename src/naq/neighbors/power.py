r"""Members of a node's sub-graph: top-k of personalised PageRank by a fixed number of power iterations.

For node v iterate :math:`x \leftarrow (1-a) e_v + a P x` from :math:`x = e_v`, where :math:`P = A D^{-1}` has columns
that sum to one; the score of u is :math:`x_u / d_u`. Nodes that are more steps away than iterations have none. In terms
of the score :math:`y = D^{-1} x` an iteration is a mean over neighbours. Two ways:

- ``exact``: one component at a time (:mod:`naq.neighbors.exact`) in float64, so that nodes with the same place in the
  structure are tied in float32. n * edges * steps additions.
- ``pruned``, for large graphs: one source at a time on the nodes it reaches (:mod:`naq_scale.pruned_power`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from naq.errors import OptionError
from naq.graph import Graph
from naq.neighbors.exact import Columns, components_apart, iterate
from naq.neighbors.table import NeighborTable, cached
from naq.neighbors.topk import Best, Progress
from naq.options import check_whole, imported

WAYS = ("auto", "exact", "pruned")
ISOLATED = 1e-9
"""Degree of a node without edges."""


def ppr_subgraphs(
    graph: Graph, size: int = 20, *, method: str = "auto", damping: float = 0.85, steps: int = 10,
    tolerance: float = 0.03, cache: str | Path | None = None, progress: Progress = None, exact_up_to: float = 1e11,
) -> NeighborTable:  # fmt: skip
    """For every node itself and then its ``size - 1`` best nodes, ties to the lowest id; -1 if there are fewer.

    Args:
        method: ``exact``, ``pruned``, or ``auto``: exact up to ``exact_up_to`` additions, about a minute of one core.
        damping: a above, the share that walks on.
        steps: iterations.
        tolerance: of ``pruned``, relative to the score of the last member.
        cache: folder in which tables are kept, by structure alone; None keeps nothing.

    Example:
        >>> import naq
        >>> path = naq.Graph([[0, 1, 2], [1, 2, 3]], nodes=5)
        >>> ppr_subgraphs(path, 3).ids.tolist()
        [[0, 2, 1], [1, 3, 0], [2, 0, 3], [3, 1, 2], [4, -1, -1]]
    """
    size = check_whole("size", size)
    if method not in WAYS:
        raise OptionError(f"method is {method!r}; expected one of {', '.join(WAYS)}.")
    if method == "auto":
        sizes = np.bincount(graph.components).astype(np.float64)
        entries = np.bincount(graph.components, weights=graph.degrees.astype(np.float64))
        method = "exact" if steps * (sizes * entries).sum() <= exact_up_to else "pruned"
    info: dict[str, Any] = {"kind": "subgraphs", "k": size, "alpha": damping, "steps": steps, "method": method}
    info |= {"tolerance": tolerance} if method == "pruned" else {}

    def make() -> NeighborTable:
        ids = np.full((graph.num_nodes, size), -1, dtype=np.int32)
        scores = np.zeros(ids.shape, dtype=np.float32)
        if method == "exact":
            _exact(graph, damping, steps, ids, scores, progress)
        else:
            fill = imported("naq_scale.pruned_power:find_members")
            fill(graph, damping, steps, tolerance, ids, scores, progress)
        degree = graph.degrees.astype(np.float64)
        scores /= np.where(degree > 0, degree, ISOLATED)[:, None]
        return NeighborTable(ids, scores, info)

    return cached(graph, info, cache, make, reads_features=False)


def _exact(graph: Graph, damping: float, steps: int, ids: np.ndarray, scores: np.ndarray, progress: Progress) -> None:
    """Fill ``ids`` and ``scores`` (n, size); scores are relative to 1 / degree of the source."""
    best = Best(len(ids), max(1, ids.shape[1] - 1), torch.device("cpu"))
    ids[:, 0], scores[:, 0] = np.arange(len(ids)), 1 - damping

    def columns_of(block: sp.csr_array) -> Columns:
        counts = np.diff(block.indptr)
        share = sp.csr_array((np.repeat(damping / counts, counts), block.indices, block.indptr), shape=block.shape)
        return iterate(share, 1.0, 1 - damping, np.ones(steps))

    for values, nodes, members in components_apart(graph.adjacency, graph.components, columns_of, progress):
        scores[nodes, 0] = values[torch.arange(len(nodes)), torch.searchsorted(members, nodes)]
        best.offer(values.float(), nodes, members)
    others, theirs = (one[:, : ids.shape[1] - 1] for one in best.arrays())
    ids[:, 1:], scores[:, 1:] = np.where(theirs > 0, others, -1), theirs
