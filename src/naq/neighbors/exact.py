r"""The diffusion :math:`S = \alpha (I - (1-\alpha) T)^{-1}` without approximation, one connected component at a time,
or that of the heat kernel, :math:`S = e^{-t (I - T)} = \sum_k e^{-t} \frac{t^k}{k!} T^k`.

Small components are inverted; large ones are solved for blocks of columns by Chebyshev iteration, whose error after m
steps is at most :math:`2 \sigma^m` with :math:`\sigma = c / (1 + \sqrt{1 - c^2})`, :math:`c = 1 - \alpha` (0.63 per
step at alpha 0.1, against 0.9 for the power iteration). The series of the heat kernel is summed until what is left is
below the error; its terms are positive, so nothing cancels. Float64 throughout, so that structural ties stay ties in
float32. Memory O(n x block).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, pairwise
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
import torch
from numba import njit, prange
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.special import pdtrc

from naq.graph.operators import csr_tensor
from naq.neighbors.topk import Best, Lists, Progress
from naq.threads import one_blas_thread

SMALL = 256
"""Components up to this size are inverted as dense matrices."""
COLUMNS = 16
"""Columns solved together on the CPU: two cache lines a row."""
ERROR = 1e-12
"""Absolute error of every entry of S."""


def exact_cost(degrees: np.ndarray, component: np.ndarray, alpha: float) -> float:
    """Multiplications that :func:`exact_topk` would need, before it starts; ``degrees``: entries of each row."""
    sizes = np.bincount(component).astype(np.float64)
    entries = np.bincount(component, weights=degrees.astype(np.float64))
    large = sizes > SMALL
    return float((sizes[large] * (entries[large] * chebyshev_steps(alpha) + 40.0 * sizes[large])).sum())


def chebyshev_steps(alpha: float) -> int:
    """Steps to an error of ``ERROR``."""
    c = 1.0 - alpha
    sigma = c / (1.0 + np.sqrt(1.0 - c * c))
    return int(np.ceil(np.log(ERROR / 2.0) / np.log(sigma))) if sigma > 0 else 1


def exact_topk(
    transition: sp.csr_array, component: np.ndarray, k: int, alpha: float, device: str = "cpu",
    progress: Progress = None, small: int = SMALL, t: float | None = None,
) -> Lists:  # fmt: skip
    """ids (n, k) and scores (n, k) of the largest entries of every row of S, ties to the lowest id.

    Args:
        t: of the heat kernel, which then takes the place of ``alpha``.
        small: nodes of a component up to which it is inverted as a dense matrix.
    """
    best = Best(len(component), k, torch.device(device))
    columns_of = partial(columns_of_ppr, alpha=alpha, device=device, small=small)
    if t is not None:
        columns_of = partial(_heat_columns, t=t, device=device)
    with one_blas_thread():  # for the inverses
        for values, nodes, members in components_apart(transition, component, columns_of, progress):
            best.offer(values.float().clamp_(min=0), nodes, members)
    return best.arrays()


Columns = Iterator[tuple[np.ndarray, torch.Tensor]]
"""Some of the m nodes of a component by their places in it, and their rows (some, m)."""


def components_apart(
    matrix: sp.csr_array, component: np.ndarray, columns_of: Callable[[sp.csr_array], Columns], progress: Progress
) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Rows, the nodes they belong to, and all nodes of their component; single nodes are left out."""
    order = np.argsort(component, kind="stable")
    bounds = np.searchsorted(component[order], np.arange(component.max() + 2))
    for begin, end in pairwise(bounds):
        nodes = order[begin:end]
        if len(nodes) > 1:
            for places, values in columns_of(sp.csr_array(matrix[nodes][:, nodes])):
                members = torch.from_numpy(nodes).to(values.device)
                yield values, members[torch.from_numpy(places).to(values.device)], members
                if progress is not None:
                    progress(int(begin + places[-1] + 1), len(component))
    if progress is not None:
        progress(len(component), len(component))


def columns_of_ppr(block: sp.csr_array, alpha: float, device: str, small: int = SMALL) -> Columns:
    """Rows of S of the nodes of one component."""
    m, c = block.shape[0], 1.0 - alpha
    if m <= small:
        yield np.arange(m), torch.from_numpy(alpha * np.linalg.inv(np.eye(m) - c * block.toarray())).to(device)
        return
    if str(device) == "cpu":
        scaled = sp.csr_array((c * block.data.astype(np.float64), block.indices, block.indptr), shape=block.shape)
        yield from iterate(scaled, alpha, alpha, _weights(alpha))
        return
    matrix = csr_tensor(block.indptr, block.indices, c * block.data, block.shape, device, torch.float64)
    weights = _weights(alpha)
    for start in range(0, m, 256):
        columns = np.arange(start, min(m, start + 256))
        right = torch.zeros(m, len(columns), dtype=torch.float64, device=device)
        right[torch.from_numpy(columns).to(device), torch.arange(len(columns), device=device)] = alpha
        older = torch.zeros_like(right)
        newer = right.clone()
        for weight in weights:
            older.add_(torch.addmm(right, matrix, newer).sub_(older), alpha=float(weight))
            older, newer = newer, older
        yield columns, newer.T.contiguous()


def _heat_columns(block: sp.csr_array, t: float, device: str) -> Columns:
    """Horner's rule: x <- e_v + (t / i) T x for i = steps, ..., 1, from x = e_v.

    The terms after the last are together below ``ERROR``: the tail of a Poisson distribution.
    """
    m, steps = block.shape[0], next(steps for steps in count(1) if pdtrc(steps, t) < ERROR)
    matrix = csr_tensor(block.indptr, block.indices, block.data, block.shape, device, torch.float64)
    for start in range(0, m, 256):
        columns = torch.arange(start, min(m, start + 256), device=device)
        right = torch.zeros(m, len(columns), dtype=torch.float64, device=device)
        right[columns, columns - start] = 1.0
        found = right
        for step in range(steps, 0, -1):
            found = torch.addmm(right, matrix, found, alpha=t / step)
        yield columns.cpu().numpy(), found.T.mul(np.exp(-t)).contiguous()


def iterate(matrix: sp.csr_array, start: float, added: float, weights: np.ndarray) -> Columns:
    """Rows v of the last x of x_0 = start e_v, x_-1 = 0, x_i+1 = x_i-1 + weights_i (matrix x_i + added e_v - x_i-1)."""
    # Neighbours close in memory: a node's 16 columns are then often in the cache already.
    order = reverse_cuthill_mckee(sp.csr_matrix(matrix), symmetric_mode=True).astype(np.int64)
    moved = sp.csr_array(matrix[order][:, order])
    place = np.argsort(order)
    m, threads = matrix.shape[0], numba.get_num_threads()
    batch = COLUMNS * threads * 4
    indptr, indices = moved.indptr.astype(np.int64), moved.indices.astype(np.int32)
    for first in range(0, m, batch):
        columns = np.arange(first, min(m, first + batch))
        out = np.empty((len(columns), m))
        _solve_columns(indptr, indices, moved.data, place[columns], place, start, added, weights, out, threads)
        yield columns, torch.from_numpy(out)


def _weights(alpha: float) -> np.ndarray:
    c = 1.0 - alpha
    weights = np.empty(chebyshev_steps(alpha))
    weight = 2.0 / (2.0 - c * c)
    for step in range(len(weights)):
        weights[step] = weight
        weight = 1.0 / (1.0 - 0.25 * c * c * weight)
    return weights


@njit(cache=True, parallel=True)
def _solve_columns(
    indptr: Any, indices: Any, data: Any, columns: Any, place: Any, start: Any, added: Any, weights: Any, out: Any,
    threads: Any,
) -> None:  # fmt: skip
    m = len(indptr) - 1
    blocks = (len(columns) + COLUMNS - 1) // COLUMNS
    for thread in prange(threads):
        pair = np.empty((2, m, COLUMNS))
        row = np.empty(COLUMNS)
        for number in range(thread, blocks, threads):
            first = number * COLUMNS
            width = min(COLUMNS, len(columns) - first)
            pair[:] = 0.0
            for b in range(width):
                pair[1, columns[first + b], b] = start
            now = 1
            for weight in weights:
                newer, older = pair[now], pair[1 - now]
                for u in range(m):
                    row[:] = 0.0
                    for e in range(indptr[u], indptr[u + 1]):
                        value, v = data[e], indices[e]
                        for b in range(COLUMNS):
                            row[b] += value * newer[v, b]
                    for b in range(COLUMNS):
                        older[u, b] += weight * (row[b] - older[u, b])
                for b in range(width):
                    older[columns[first + b], b] += weight * added
                now = 1 - now
            for u in range(m):
                for b in range(width):
                    out[first + b, u] = pair[now, place[u], b]
