r"""The sub-graph around every node, its best nodes by personalised PageRank, and one graph convolution inside it.

For node v iterate :math:`x \leftarrow (1-a) e_v + a P x` from :math:`x = e_v`, ten times with a = 0.85, where
:math:`P = A D^{-1}` has columns that sum to one; the score of u is :math:`x_u / \deg_u`. Only nodes within ten hops
have one: the others are never members. In terms of the score :math:`y = D^{-1} x` a step is a mean over neighbours,
:math:`y \leftarrow (1-a) e_v / d_v + a D^{-1} A y`. Two ways to compute it, neither of them n x n:

- ``exact``: one component at a time (:mod:`naq.neighbors.exact`), in float64, so that nodes with the same place in the
  structure are tied in float32. n * edges * steps additions.
- ``pruned``: one source at a time on the nodes it reaches; a node whose value is below a bound passes nothing on, so
  every score is too low by at most :math:`\sum_{j=1}^{9} a^j \approx 4.4` bounds. The bound is lowered until it is
  ``TOLERANCE`` times the score of the last member. Cost by what lies near the source, not by the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from numba import njit, prange
from torch import nn

from naq.errors import OptionError
from naq.graph import Graph
from naq.neighbors.exact import Columns, components_apart, iterated
from naq.neighbors.table import NeighborTable, cached
from naq.neighbors.topk import Best, Progress, heap_offer, heap_sort
from naq.nn import GraphOperator
from naq.nn.rows import SparseRows, mean_present, sparse_product
from naq.options import check_whole
from naq.random import torch_seed

METHODS = ("auto", "exact", "pruned")
ALPHA, STEPS = 0.85, 10
"""Share that walks on, and iterations."""
TOLERANCE = 0.03
"""The pruning bound, as a share of the score of the last member."""
EXACT_UP_TO = 1e11
"""``auto`` is exact up to this many additions: about a minute of one core."""
FIRST_BOUND = 1e-3
"""Where the pruning bound starts, relative to the initial value of the source."""
GUARD = 1e-9


def ppr_subgraphs(
    graph: Graph,
    size: int = 20,
    *,
    method: str = "auto",
    cache: str | Path | None = None,
    progress: Progress = None,
) -> NeighborTable:
    """For every node itself and then its ``size - 1`` best nodes, best first, ties to the lowest id; -1 where there are
    fewer.

    Args:
        method: ``exact``, ``pruned``, or ``auto``: exact where that takes a minute of one core at most.

    Example:
        >>> import naq
        >>> path = naq.Graph([[0, 1, 2], [1, 2, 3]], nodes=5)
        >>> ppr_subgraphs(path, 3).ids.tolist()
        [[0, 2, 1], [1, 3, 0], [2, 0, 3], [3, 1, 2], [4, -1, -1]]
    """
    size = check_whole("size", size)
    if method not in METHODS:
        raise OptionError(f"method is {method!r}; expected one of {', '.join(METHODS)}.")
    if method == "auto":
        method = "exact" if exact_cost(graph) <= EXACT_UP_TO else "pruned"
    info: dict[str, Any] = {"kind": "subgraphs", "k": size, "alpha": ALPHA, "steps": STEPS, "method": method}
    info |= {"tolerance": TOLERANCE} if method == "pruned" else {}

    def make() -> NeighborTable:
        ids = np.full((graph.num_nodes, size), -1, dtype=np.int32)
        scores = np.zeros(ids.shape, dtype=np.float32)
        search = _exact if method == "exact" else _pruned
        search(graph, ids, scores, progress)
        degree = graph.degrees.astype(np.float64)
        scores /= np.where(degree > 0, degree, GUARD)[:, None]
        return NeighborTable(ids, scores, info)

    return cached(graph, info, cache, make, reads_features=False)


def exact_cost(graph: Graph) -> float:
    """Additions that the exact method needs, before it starts."""
    sizes = np.bincount(graph.components).astype(np.float64)
    entries = np.bincount(graph.components, weights=graph.degrees.astype(np.float64))
    return float(STEPS * (sizes * entries).sum())


def _exact(graph: Graph, ids: np.ndarray, scores: np.ndarray, progress: Progress) -> None:
    """Fill ``ids`` and ``scores`` (n, size), relative to 1 / degree of the source."""
    best = Best(len(ids), max(1, ids.shape[1] - 1), torch.device("cpu"))
    ids[:, 0], scores[:, 0] = np.arange(len(ids)), 1 - ALPHA

    def steps(block: sp.csr_array) -> Columns:
        counts = np.diff(block.indptr)
        share = sp.csr_array((np.repeat(ALPHA / counts, counts), block.indices, block.indptr), shape=block.shape)
        return iterated(share, 1.0, 1 - ALPHA, np.ones(STEPS))

    for values, nodes, members in components_apart(graph.adjacency, graph.components, steps, progress):
        scores[nodes, 0] = values[torch.arange(len(nodes)), torch.searchsorted(members, nodes)]
        best.offer(values.float(), nodes, members)
    others, theirs = (one[:, : ids.shape[1] - 1] for one in best.arrays())
    ids[:, 1:], scores[:, 1:] = np.where(theirs > 0, others, -1), theirs


def _pruned(graph: Graph, ids: np.ndarray, scores: np.ndarray, progress: Progress) -> None:
    """The same, nearly."""
    adjacency, n = graph.adjacency, len(ids)
    indptr, indices = adjacency.indptr.astype(np.int64), adjacency.indices.astype(np.int32)
    block = max(256, n // 64)
    for start in range(0, n, block):
        part = np.arange(start, min(n, start + block))
        _near_rows(indptr, indices, part, ALPHA, STEPS, TOLERANCE, ids, scores, numba.get_num_threads())
        if progress is not None:
            progress(int(part[-1]) + 1, n)


@njit(cache=True, parallel=True)
def _near_rows(
    indptr: Any, indices: Any, sources: Any, alpha: Any, steps: Any, tolerance: Any, ids: Any, scores: Any, threads: Any
) -> None:
    n = len(indptr) - 1
    for thread in prange(threads):
        pair = np.zeros((2, n))
        lists = np.empty((2, n + 1), dtype=np.int32)
        for number in range(thread, len(sources), threads):
            v = sources[number]
            _near_row(indptr, indices, v, alpha, steps, tolerance, pair, lists, ids[v], scores[v])


@njit(cache=True)
def _near_row(
    indptr: Any, indices: Any, v: Any, alpha: Any, steps: Any, tolerance: Any, pair: Any, lists: Any, ids: Any,
    scores: Any,
) -> None:  # fmt: skip
    """Iterate with ever lower bounds until the bound is a small share of the last member's score, or nothing was
    pruned."""
    bound = FIRST_BOUND
    while True:
        count, pruned = _iterate(indptr, indices, v, alpha, steps, bound, pair, lists)
        last = steps % 2
        ids[:], scores[:] = -1, 0.0
        ids[0], scores[0] = v, np.float32(pair[last, v])
        found = 0
        for position in range(count):
            u = lists[last, position]
            if u != v and len(ids) > 1:
                found = heap_offer(scores[1:], ids[1:], found, np.float32(pair[last, u]), u)
            pair[last, u] = 0.0
        heap_sort(scores[1:], ids[1:], found)
        wanted = tolerance * scores[len(ids) - 1] if found == len(ids) - 1 else bound / 8.0
        if not pruned or bound <= wanted:
            return
        bound = wanted


@njit(cache=True)
def _iterate(
    indptr: Any, indices: Any, v: Any, alpha: Any, steps: Any, bound: Any, pair: Any, lists: Any
) -> Any:  # fmt: skip
    """Number of nodes reached and whether any was pruned; they are lists[steps % 2], their values pair[steps % 2].

    ``pair`` is zero before, and afterwards zero but for those nodes.
    """
    pair[0, v], lists[0, 0] = 1.0, v
    length, pruned = 1, False
    for step in range(steps):
        now, new = pair[step % 2], pair[1 - step % 2]
        front, fresh = lists[step % 2], lists[1 - step % 2]
        # The source is always there: it receives what returns (the factor is undone below).
        fresh[0], new[v] = v, (1.0 - alpha) / alpha * max(1, indptr[v + 1] - indptr[v])
        end = np.uint64(1)
        for position in range(length):
            w = front[position]
            value = now[w]
            now[w] = 0.0
            if value < bound:
                pruned = True
                continue
            for e in range(indptr[w], indptr[w + 1]):
                u = np.uint64(indices[e])
                before = new[u]
                new[u] = before + value
                # Appended first and counted afterwards: no branch to mispredict.
                fresh[end] = u
                end += np.uint64(before == 0.0)
        length = int(end)
        for position in range(length):
            u = fresh[position]
            new[u] *= alpha / max(1, indptr[u + 1] - indptr[u])
    return length, pruned


@dataclass(frozen=True)
class Subgraphs:
    """A batch of M sub-graphs of k rows, the centre first.

    Shapes:
        - ``inputs``: (M, k, hidden), rows of X W
        - ``edges``: (M, k, k), weights without loops
        - ``present``: (M, k), False where the sub-graph is smaller
    """

    inputs: torch.Tensor
    edges: torch.Tensor
    present: torch.Tensor

    def __getitem__(self, index: torch.Tensor) -> Subgraphs:
        return Subgraphs(*(part.index_select(0, index) for part in (self.inputs, self.edges, self.present)))


class SubgraphEncoder(nn.Module):
    """One graph convolution inside sub-graphs, d -> hidden, PReLU, rows of length one.

    Args:
        operator: the graph it reads.
        table: the sub-graph of every node, itself first.
        hidden: width of the vectors.

    Shapes:
        - ``encode``: nodes (m,) -> (m, hidden), the rows of the centres
        - ``encode_all``: (n, hidden)
    """

    BLOCK = 4096

    def __init__(self, operator: GraphOperator, table: NeighborTable, hidden: int, *, seed: int = 0) -> None:
        super().__init__()
        self.operator, self.table, self.hidden = operator, table, hidden
        generator = torch.Generator().manual_seed(torch_seed(seed, "encoder/subgraph"))
        weight = nn.init.xavier_uniform_(torch.empty(operator.width, hidden), generator=generator)
        self.weight = nn.Parameter(weight.to(operator.device))
        self.bias = nn.Parameter(torch.zeros(hidden, device=operator.device))
        self.slope = nn.Parameter(torch.full((hidden,), 0.25, device=operator.device))

    def extra_repr(self) -> str:
        return f"{self.operator.width} -> {self.hidden}, sub-graphs of {self.table.k}"

    def gather(self, nodes: np.ndarray) -> Subgraphs:
        """The sub-graphs of ``nodes``; every distinct node in them is multiplied once."""
        device = self.operator.device
        members = self.table.ids[nodes]
        present = members >= 0
        union, place = np.unique(members[present], return_inverse=True)
        where = np.full(members.shape, len(union), dtype=np.int64)
        where[present] = place.ravel()
        rows = F.pad(self.operator.inputs(union, self.weight), (0, 0, 0, 1))
        inputs = rows.index_select(0, torch.from_numpy(where.ravel()).to(device))
        edges = torch.from_numpy(induced_edges(self.operator.graph.adjacency, members)).to(device)
        return Subgraphs(inputs.view(*members.shape, -1), edges, torch.from_numpy(present).to(device))

    def views(self, batch: Subgraphs) -> tuple[torch.Tensor, torch.Tensor]:
        """z and s, (M, hidden) each."""
        mixed = torch.bmm(normalized_blocks(batch.edges), batch.inputs)
        rows = self._activate(mixed.view(-1, self.hidden)).view_as(mixed)
        return rows[:, 0], mean_present(rows, batch.present)

    def encode(self, nodes: np.ndarray) -> torch.Tensor:
        """z of ``nodes``, repeats allowed: rows of C X W, with C the centre rows of the normalised sub-graphs."""
        nodes = self.operator.graph.known_nodes(nodes).ravel()
        blocks = [self._centres(nodes[start : start + self.BLOCK]) for start in range(0, len(nodes), self.BLOCK)]
        return torch.cat(blocks) if blocks else self.bias.new_zeros(0, self.hidden)

    @torch.no_grad()
    def encode_all(self) -> torch.Tensor:
        """z of all nodes, in blocks."""
        return self.encode(np.arange(self.operator.graph.num_nodes))

    def _centres(self, nodes: np.ndarray) -> torch.Tensor:
        members = self.table.ids[nodes]
        weights = centre_weights(self.operator.graph.adjacency, members)
        used = weights > 0
        around, local = np.unique(members[used], return_inverse=True)
        indptr = np.concatenate([[0], np.cumsum(used.sum(axis=1))]).astype(np.int64)
        rows = SparseRows(indptr, local.ravel().astype(np.int32), weights[used], (len(nodes), len(around)))
        return self._activate(sparse_product(rows, self.operator.inputs(around, self.weight)))

    def _activate(self, rows: torch.Tensor) -> torch.Tensor:
        return unit_rows(F.prelu(rows + self.bias, self.slope))


def unit_rows(rows: torch.Tensor) -> torch.Tensor:
    """Rows divided by their length. A zero row stays zero and passes no gradient on: it has no direction to turn."""
    square = rows.pow(2).sum(-1, keepdim=True)
    some = square > 0
    return rows * torch.where(some, torch.rsqrt(torch.where(some, square, 1.0)), 0.0)


def normalized_blocks(edges: torch.Tensor) -> torch.Tensor:
    """D~^-1/2 (E + I) D~^-1/2 of each block, D~ the row sums of E + I; the edges may have weights."""
    looped = edges + torch.eye(edges.shape[-1], device=edges.device)
    scale = looped.sum(-1).rsqrt()
    return scale[..., :, None] * looped * scale[..., None, :]


def induced_edges(adjacency: sp.csr_array, members: np.ndarray) -> np.ndarray:
    """(m, k, k) float32: 1 where two members of the same row are joined; no loops, zeros at -1.

    Args:
        adjacency: symmetric, without loops, indices sorted, as a graph has it.
        members: (m, k) node ids.
    """
    out = np.zeros((*members.shape, members.shape[1]), dtype=np.float32)
    _induced(adjacency.indptr, adjacency.indices, members, out)
    return out


def centre_weights(adjacency: sp.csr_array, members: np.ndarray) -> np.ndarray:
    """(m, k) float32: the first row of D~^-1/2 (A + I) D~^-1/2 inside each sub-graph, degrees counted inside it too."""
    edges = induced_edges(adjacency, members)
    degree = 1.0 + edges.sum(axis=2, dtype=np.float64)
    edges[:, 0, 0] = 1.0
    return (edges[:, 0] / np.sqrt(degree[:, :1] * degree)).astype(np.float32)


@njit(cache=True)
def _joined(indptr: Any, indices: Any, a: Any, b: Any) -> Any:
    """Whether b is among the sorted neighbours of a; looked up in the shorter of the two lists."""
    if indptr[a + 1] - indptr[a] > indptr[b + 1] - indptr[b]:
        a, b = b, a
    low, high = indptr[a], indptr[a + 1]
    while low < high:
        middle = (low + high) >> 1
        if indices[middle] < b:
            low = middle + 1
        else:
            high = middle
    return low < indptr[a + 1] and indices[low] == b


@njit(cache=True, parallel=True)
def _induced(indptr: Any, indices: Any, members: Any, out: Any) -> None:
    for row in prange(len(members)):
        own = members[row]
        for i in range(len(own)):
            for j in range(i):
                if own[i] >= 0 and own[j] >= 0 and _joined(indptr, indices, own[i], own[j]):
                    out[row, i, j] = out[row, j, i] = 1.0
