r"""Which nodes should agree, found without labels and without augmentation: AFGRL's positives.

Lee, Lee and Park, Augmentation-Free Self-Supervised Learning on Graphs, https://arxiv.org/abs/2112.02472

.. math::
    B_i = \{i\} \cup \mathrm{top}_{k-1}\,\{\cos(f_i, g_j) : j \ne i\}, \qquad
    P = \{(i, j) : j \in B_i,\ (A + I)_{ij} > 0 \text{ or } c_r(i) = c_r(j) \text{ for some run } r\}

with student vectors f, teacher vectors g, and :math:`c_r` the clusters of one of several k-means runs on the teacher's
unit vectors.

Cost: :math:`n^2 d` multiplications for B, in tiles that stay in the cache (memory O(n k + tile)); a k-means run takes
20 passes of n * clusters * d. Runs are independent and each is worked on by one thread, so that the number of threads
changes no bit.
"""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numba import njit, prange

from naq.neighbors.topk import stable_topk

ROWS, COLUMNS = 1024, 4096
"""A tile of similarities on the CPU: 16 MiB."""
BLOCK_ENTRIES = 1 << 25
"""Similarities held at once on an accelerator: 128 MiB."""
ITERATIONS = 20
"""Of k-means."""


@torch.no_grad()
def nearest(students: torch.Tensor, teachers: torch.Tensor, k: int) -> torch.Tensor:
    """(m, k) ids of the teachers most like each student by dot product: its own first, then the others, best first,
    ties to the lowest id.

    Args:
        students: (m, d) unit vectors of the first m nodes.
        teachers: (n, d) unit vectors of all nodes.
        k: with the node itself; n at most.
    """
    own = torch.arange(len(students), device=students.device)[:, None]
    others = min(k, len(teachers)) - 1
    if others == 0:
        return own
    find = _others_cpu if students.device.type == "cpu" else _others
    return torch.cat([own, find(students, teachers, others)], dim=1)


def _others(students: torch.Tensor, teachers: torch.Tensor, k: int) -> torch.Tensor:
    block = max(1, BLOCK_ENTRIES // len(teachers))
    found = []
    for start in range(0, len(students), block):
        rows = students[start : start + block] @ teachers.T
        rows.diagonal(offset=start).fill_(-torch.inf)
        found.append(stable_topk(rows, k)[0])
    return torch.cat(found)


def _others_cpu(students: torch.Tensor, teachers: torch.Tensor, k: int) -> torch.Tensor:
    m, n = len(students), len(teachers)
    scores = np.full((m, k), -np.inf, dtype=np.float32)
    ids = np.zeros((m, k), dtype=np.int64)
    memory = torch.empty(min(m, ROWS) * min(n, COLUMNS))
    for row in range(0, m, ROWS):
        left = students[row : row + ROWS]
        for column in range(0, n, COLUMNS):
            right = teachers[column : column + COLUMNS]
            tile = memory[: len(left) * len(right)].view(len(left), len(right))
            torch.mm(left, right.T, out=tile)
            _keep_best(tile.numpy(), row, column, scores, ids)
    return torch.from_numpy(ids)


@njit(cache=True, parallel=True)
def _keep_best(tile: Any, first_row: Any, first_column: Any, scores: Any, ids: Any) -> None:
    """Offer a tile to the sorted lists of its rows; columns come in order, so that of equals the lowest stays."""
    last = scores.shape[1] - 1
    for r in prange(tile.shape[0]):
        node = first_row + r
        best, chosen = scores[node], ids[node]
        for c in range(tile.shape[1]):
            score = tile[r, c]
            if score > best[last] and first_column + c != node:
                place = last
                while place > 0 and best[place - 1] < score:
                    best[place], chosen[place] = best[place - 1], chosen[place - 1]
                    place -= 1
                best[place], chosen[place] = score, first_column + c


@torch.no_grad()
def clusters(vectors: torch.Tensor, count: int, runs: int, generator: torch.Generator) -> torch.Tensor:
    """(n, runs) cluster of every vector in each of several k-means runs, which differ in the vectors they start from.

    Args:
        vectors: (n, d).
        count: clusters per run; n at most.
        generator: of the starts, on the CPU, so that devices agree.
    """
    n = len(vectors)
    starts = [torch.randperm(n, generator=generator)[: min(count, n)].to(vectors.device) for _ in range(runs)]
    diverged = not bool(torch.isfinite(vectors).all())  # the loss will say so
    if diverged or runs == 0:
        return torch.zeros(n, runs, dtype=torch.int64, device=vectors.device)
    if vectors.device.type == "cpu":
        return _clusters_cpu(vectors.numpy(), [start.numpy() for start in starts])
    return torch.stack([lloyd(vectors, vectors[start]) for start in starts], dim=1)


def _clusters_cpu(vectors: np.ndarray, starts: list[np.ndarray]) -> torch.Tensor:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    def labels(start: np.ndarray) -> np.ndarray:
        model = KMeans(len(start), init=vectors[start], n_init=1, max_iter=ITERATIONS, tol=0.0)
        with threadpool_limits(1, user_api="openmp"):  # of this thread
            return model.fit(vectors).labels_.astype(np.int64)

    with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # equal vectors may leave clusters empty
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            return torch.from_numpy(np.stack(list(pool.map(labels, starts)), axis=1))


def lloyd(vectors: torch.Tensor, centers: torch.Tensor) -> torch.Tensor:
    """(n,) cluster of every vector after Lloyd's iterations from these centres; an empty cluster stays where it was.

    Sums are products with indicator matrices: the same at every run, which additions in any order are not.
    """
    block = max(1, BLOCK_ENTRIES // len(centers))
    old = torch.empty(0, dtype=torch.int64, device=vectors.device)
    for _ in range(ITERATIONS):
        new = _assigned(vectors, centers, block)
        if torch.equal(new, old):
            return new
        sums, sizes = torch.zeros_like(centers), torch.bincount(new, minlength=len(centers))[:, None]
        for start in range(0, len(vectors), block):
            member = torch.nn.functional.one_hot(new[start : start + block], len(centers)).to(vectors.dtype)
            sums += member.T @ vectors[start : start + block]
        centers = torch.where(sizes > 0, sums / sizes.clamp(min=1), centers)
        old = new
    return _assigned(vectors, centers, block)


def _assigned(vectors: torch.Tensor, centers: torch.Tensor, block: int) -> torch.Tensor:
    half = centers.square().sum(dim=1) / 2
    parts = torch.split(vectors, block)
    return torch.cat([torch.argmax(part @ centers.T - half, dim=1) for part in parts])


def positives(neighbors: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, labels: torch.Tensor) -> sp.csr_array:
    """P as an (n, n) matrix of ones; a pair that is positive for two reasons counts once.

    Args:
        neighbors: (m, k) of the first m nodes, see :func:`nearest`.
        rows, columns: entries of A + I, by row and then by column.
        labels: (n, runs) clusters of all n nodes.
    """
    n = len(labels)
    own = torch.arange(len(neighbors), device=neighbors.device)[:, None]
    edges, wanted = rows * n + columns, own * n + neighbors
    place = torch.searchsorted(edges, wanted).clamp(max=len(edges) - 1)
    agree = edges[place] == wanted
    for run in labels.T:
        agree |= run[own] == run[neighbors]
    counts = agree.sum(dim=1).cpu().numpy()
    ids = neighbors[agree].cpu().numpy()
    indptr = np.zeros(n + 1, dtype=np.int64)
    indptr[1 : len(counts) + 1] = np.cumsum(counts)
    indptr[len(counts) + 1 :] = len(ids)
    pairs = sp.csr_array((np.ones(len(ids), dtype=np.float32), ids, indptr), shape=(n, n))
    pairs.sort_indices()
    return pairs
