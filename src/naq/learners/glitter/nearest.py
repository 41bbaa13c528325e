"""Which edges GLITTER learns: for each node of a task graph the nearest others, by :math:`|p_i - r_j|`.

Rows are worked on in blocks, so nothing as large as the task graph squared is ever held.
"""

from __future__ import annotations

import torch

TIE = 1e-6
"""Squared distances closer than this are equal: nodes with the same features tie on every device and in every order."""
TIE_ROOM = 4
"""A row keeps at most this many times k entries. Where more tie with the k-th, the projections cannot tell these nodes
apart, and only the strictly nearer ones are kept: no tie is ever broken by the numbers of nodes."""
BLOCK = 1 << 22
"""Distances computed at once."""
PIECE = 512
"""Distances of each row computed before looking whether enough of them are smaller."""


def nearest(p: torch.Tensor, r: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """For each row of ``p`` the rows of ``r`` at most as far as the k-th nearest: pairs of rows, by row of ``p``."""
    room, step, pairs = TIE_ROOM * k, max(1, BLOCK // len(r)), []
    for start in range(0, len(p), step):
        distance, column = _distances(p[start : start + step], r).topk(min(room + 1, len(r)), largest=False)
        last = distance[:, k - 1 : k]
        kept = distance <= last + TIE
        kept = torch.where(kept.sum(dim=1, keepdim=True) <= room, kept, distance < last - TIE)
        row, place = kept.nonzero(as_tuple=True)
        pairs.append(torch.stack([row + start, column[row, place]]))
    owner, found = torch.cat(pairs, dim=1)
    return owner, found


def reaching(p: torch.Tensor, r: torch.Tensor, targets: torch.Tensor, k: int) -> torch.Tensor:
    """Rows of ``p`` that may keep one of the targets; a row is left once k others are surely nearer."""
    limit = _distances(p, r[targets]).amin(dim=1, keepdim=True) - 3 * TIE
    rows = torch.arange(len(p), device=p.device)
    nearer = torch.zeros_like(rows)
    for piece in r.split(PIECE):
        nearer = nearer + (_distances(p[rows], piece) < limit[rows]).sum(dim=1)
        rows, nearer = rows[nearer < k], nearer[nearer < k]
    return rows


def _distances(p: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    """Squared distances, less the square of the row of ``p``."""
    return torch.addmm(r.square().sum(dim=1), p, r.T, alpha=-2)
