"""Which edges GLITTER learns: for each node of a task graph the nearest others.

Nearness is :math:`|p_i - r_j|`; rows are worked on one by one (CPU) or in blocks (CUDA), so nothing as large as the
task graph squared is ever held.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit, prange

from naq.learners.glitter.task_rows import SERIAL_WORK, compiled

TIE = 1e-6
"""Squared distances closer than this are equal: nodes with the same features tie on every device and in every order."""
TIE_ROOM = 4
"""A row keeps at most this many times k entries. Where more tie with the k-th, the projections cannot tell these nodes
apart, and only the strictly nearer ones are kept: no tie is ever broken by the numbers of nodes."""
BLOCK = 1 << 26
"""Entries of a block of distances on an accelerator."""
PIECE = 512
"""Distances computed before looking whether enough of them are smaller."""


def nearest(p: torch.Tensor, r: torch.Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
    """For each row of ``p`` the rows of ``r`` at most as far as the k-th nearest: pairs of rows, by row of ``p``."""
    room = TIE_ROOM * k
    if not compiled(p):
        return _nearest_blocks(p, r, k, room)
    transposed, squares = np.ascontiguousarray(r.numpy().T), r.square().sum(dim=1).numpy()
    found, count = np.empty((len(p), room), dtype=np.int32), np.zeros(len(p), dtype=np.int64)
    kernel = _nearest if len(p) * r.numel() > SERIAL_WORK else _nearest_serial
    kernel(p.numpy(), transposed, squares, k, found, count)
    return np.repeat(np.arange(len(p)), count), found[np.arange(room) < count[:, None]].astype(np.int64)


def _nearest_blocks(p: torch.Tensor, r: torch.Tensor, k: int, room: int) -> tuple[np.ndarray, np.ndarray]:
    pairs, step = [], max(1, BLOCK // len(r))
    for start in range(0, len(p), step):
        distance = r.square().sum(dim=1) - 2 * p[start : start + step] @ r.T
        last = distance.topk(k, dim=1, largest=False).values[:, -1:]
        kept = distance <= last + TIE
        kept = torch.where(kept.sum(dim=1, keepdim=True) <= room, kept, distance < last - TIE)
        pairs.append(kept.nonzero() + torch.tensor([start, 0], device=p.device))
    owner, column = torch.cat(pairs).T.cpu().numpy()
    return owner, column


@njit(cache=True, fastmath={"contract"})
def _distances(point: Any, transposed: Any, squares: Any, start: Any, out: Any) -> None:
    """Squared distances to ``len(out)`` columns from ``start``, less the square of the point itself."""
    own = squares[start : start + len(out)]
    for j in range(len(out)):
        out[j] = own[j]
    for c in range(len(point)):
        factor = np.float32(-2.0) * point[c]
        if factor != 0.0:
            source = transposed[c, start : start + len(out)]
            for j in range(len(out)):
                out[j] += factor * source[j]


@njit(cache=True)
def _below(part: Any, limit: Any) -> Any:
    n = 0
    for j in range(len(part)):
        n += part[j] <= limit
    return n


@njit(cache=True)
def _insert(best: Any, value: Any) -> None:
    """Into sorted values, the last of which drops out."""
    b = len(best) - 1
    while b > 0 and best[b - 1] > value:
        best[b] = best[b - 1]
        b -= 1
    best[b] = value


@njit(cache=True)
def _nearest_to(point: Any, transposed: Any, squares: Any, k: Any, found: Any) -> Any:
    """Candidates are no farther than the k-th so far; they are few, and looked through once more at the end."""
    size, tie = len(squares), np.float32(TIE)
    piece, best = np.empty(PIECE, dtype=np.float32), np.full(k, np.inf, dtype=np.float32)
    value, where = np.empty(size, dtype=np.float32), np.empty(size, dtype=np.int32)
    n = 0
    for start in range(0, size, PIECE):
        part = piece[: min(PIECE, size - start)]
        _distances(point, transposed, squares, start, part)
        if _below(part, best[-1] + tie) == 0:
            continue
        for j in range(len(part)):
            if part[j] <= best[-1] + tie:
                value[n], where[n] = part[j], start + j
                n += 1
                if part[j] < best[-1]:
                    _insert(best, part[j])
    kept = _below(value[:n], best[-1] + tie)
    limit = best[-1] + tie if kept <= len(found) else np.nextafter(best[-1] - tie, np.float32(-np.inf))
    kept = 0
    for c in range(n):
        if value[c] <= limit:
            found[kept] = where[c]
            kept += 1
    return kept


@njit(cache=True, parallel=True)
def _nearest(p: Any, transposed: Any, squares: Any, k: Any, found: Any, count: Any) -> None:
    for i in prange(len(p)):
        count[i] = _nearest_to(p[i], transposed, squares, k, found[i])


@njit(cache=True)
def _nearest_serial(p: Any, transposed: Any, squares: Any, k: Any, found: Any, count: Any) -> None:
    for i in range(len(p)):
        count[i] = _nearest_to(p[i], transposed, squares, k, found[i])


def reaching(p: torch.Tensor, r: torch.Tensor, targets: np.ndarray, k: int) -> np.ndarray:
    """Which rows of ``p`` may keep one of the targets; a row is left once k others are surely nearer."""
    if not compiled(p):
        return _reaching_blocks(p, r, targets, k)
    transposed, squares = np.ascontiguousarray(r.numpy().T), r.square().sum(dim=1).numpy()
    out = np.zeros(len(p), dtype=bool)
    kernel = _reaching if len(p) * (PIECE + len(targets)) * p.shape[1] > SERIAL_WORK else _reaching_serial
    kernel(p.numpy(), transposed, squares, targets, k, out)
    return out


def _reaching_blocks(p: torch.Tensor, r: torch.Tensor, targets: np.ndarray, k: int) -> np.ndarray:
    parts, step = [], max(1, BLOCK // len(r))
    for start in range(0, len(p), step):
        distance = r.square().sum(dim=1) - 2 * p[start : start + step] @ r.T
        limit = distance[:, torch.from_numpy(targets).to(p.device)].min(dim=1, keepdim=True).values - 3 * TIE
        parts.append((distance < limit).sum(dim=1) < k)
    return torch.cat(parts).cpu().numpy() if parts else np.zeros(0, dtype=bool)


@njit(cache=True)
def _may_reach(point: Any, transposed: Any, squares: Any, targets: Any, k: Any) -> Any:
    size, piece = len(squares), np.empty(PIECE, dtype=np.float32)
    limit = np.float32(np.inf)
    for s in targets:
        _distances(point, transposed, squares, s, piece[:1])
        limit = min(limit, piece[0])
    limit -= np.float32(3 * TIE)
    nearer = 0
    for start in range(0, size, PIECE):
        part = piece[: min(PIECE, size - start)]
        _distances(point, transposed, squares, start, part)
        nearer += _below(part, limit)
        if nearer >= k:
            return False
    return True


@njit(cache=True, parallel=True)
def _reaching(p: Any, transposed: Any, squares: Any, targets: Any, k: Any, out: Any) -> None:
    for i in prange(len(p)):
        out[i] = _may_reach(p[i], transposed, squares, targets, k)


@njit(cache=True)
def _reaching_serial(p: Any, transposed: Any, squares: Any, targets: Any, k: Any, out: Any) -> None:
    for i in range(len(p)):
        out[i] = _may_reach(p[i], transposed, squares, targets, k)
