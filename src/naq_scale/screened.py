r"""Euclidean top-k of dense rows on an accelerator: screened in float32, decided in float64.

.. math:: g_{ij} = x_i \cdot x_j - \tfrac12 |x_j|^2 = \tfrac12 (|x_i|^2 - |x_i - x_j|^2)

One float32 product gives g for a block of rows and all columns. Columns are divided into groups of ``GROUP``, of which
only the largest g is read at first: the best columns lie in the groups with the best of those. A few more than k
columns are taken and ordered by their distances in float64, ties to the lowest id. The result is exact where the k-th
of them is better than any column left out can be, given the bound on the rounding of a float32 product; other rows are
done again in float64.

Cost: 2 n^2 d multiplications in float32, and n^2 numbers written once and read once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from naq.device import free_bytes, half
from naq.errors import OptionError
from naq.neighbors.topk import stable_topk

GROUP = 64
SPARE = 28
"""Columns beyond k that are decided in float64."""


def euclidean_topk(
    features: np.ndarray, k: int, device: str | torch.device, progress: Callable[[int, int], None] | None = None,
    seeds: tuple[int, int] | None = None, group: int = GROUP, rows: int = 2048,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """ids (s, k) and scores (s, k), minus the distance, of the nodes first..last-1, or of all.

    Args:
        group: columns of a group.
        rows: of a block, at most.
    """
    search = _Search(features, k, torch.device(device), group, rows)
    first, last = (0, len(features)) if seeds is None else seeds
    ids, scores = np.empty((last - first, k), dtype=np.int32), np.empty((last - first, k), dtype=np.float32)
    block, start, unsure = search.block, first, []
    while start < last:
        stop = min(last, start + block)
        try:
            chosen, found, sure = search.screened(start, stop)
        except torch.OutOfMemoryError:
            hopeless = f"one row of {len(features):,} scores does not fit on {device}; use device='cpu'."
            block = half(block, OptionError(hopeless))
            continue
        ids[start - first : stop - first], scores[start - first : stop - first] = chosen.cpu(), found.cpu()
        unsure.append(start + torch.nonzero(~sure)[:, 0].cpu())
        start = stop
        if progress is not None:
            progress(stop - first, last - first)
    again = torch.cat(unsure)
    for some in again.split(max(1, block // 8)) if len(again) else ():
        place = some.numpy() - first
        ids[place], scores[place] = (part.cpu() for part in search.in_float64(some))
    return ids, scores


class _Search:
    def __init__(
        self, features: np.ndarray, k: int, device: torch.device, group: int = GROUP, rows: int = 2048
    ) -> None:
        n, d = features.shape
        self.n, self.k, self.device = n, k, device
        self.rows = torch.from_numpy(np.array(features, dtype=np.float32)).to(device)
        middle = self.rows.mean(dim=0, dtype=torch.float64)  # distances do not change, rounding errors do
        self.wanted = min(k + SPARE, n)
        self.group = group if n >= 4 * group * self.wanted else 1
        self.height = -(-n // self.group)
        # One more column turns the product into g; zero columns keep the rows aligned. Rows that fill the last group up
        # are never chosen.
        self.right = torch.zeros(self.group * self.height, -(-(d + 1) // 4) * 4, device=device)
        self.right[:n, :d] = (self.rows.double() - middle).float()
        size = self.right[:, :d].pow(2).sum(dim=1, dtype=torch.float64)
        self.right[:, d] = (-size / 2).float()
        self.right[n:, d] = -3e38
        self.left = self.right[:n].clone()
        self.left[:, d] = 1
        self.size, self.width = size[:n], d
        largest = float(self.size.max()) ** 0.5
        unit = 2.0**-24 if torch.get_float32_matmul_precision() == "highest" else 2.0**-10
        self.error = (d + 8) * 2 * unit * (self.size.sqrt() * largest + largest**2 / 2)
        each = 4 * len(self.right) * (1 + 1 / self.group) + self.wanted * (20 * self.group + 24 * d)
        self.block = max(1, min(rows, n, int(free_bytes(device) // each)))

    def screened(self, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """ids and scores (rows, k) of some rows, and which of them are sure."""
        own = torch.arange(start, stop, device=self.device)
        g = self.left[start:stop] @ self.right.T
        g[own - start, own] = -torch.inf
        if self.group > 1:
            best = g.view(len(own), self.group, self.height).amax(dim=1)
            groups = torch.topk(best, self.wanted, dim=1, sorted=False).indices
            places = torch.arange(self.group, device=self.device) * self.height
            columns = (groups[:, :, None] + places).flatten(1)
            values, inside = torch.topk(g.gather(1, columns), self.wanted, dim=1)
            columns = columns.gather(1, inside)
        else:
            values, columns = torch.topk(g, self.wanted, dim=1)
        del g
        valid = torch.isfinite(values) & (columns < self.n)
        apart = self.rows[columns.clamp(max=self.n - 1)].double() - self.rows[start:stop, None].double()
        square = torch.where(valid, apart.pow(2).sum(dim=2), torch.inf)
        by_id = torch.argsort(columns, dim=1)
        scores = -square.sqrt().float().gather(1, by_id)
        scores, order = torch.sort(scores, dim=1, descending=True, stable=True)
        chosen = columns.gather(1, by_id).gather(1, order)
        last_square = square.gather(1, by_id).gather(1, order)[:, self.k - 1]
        least = (self.size[start:stop] - last_square) / 2
        left_out = values[:, -1].double() + self.error[start:stop]
        sure = (least > left_out) | (self.wanted == self.n)
        return chosen[:, : self.k], scores[:, : self.k], sure

    def in_float64(self, nodes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """ids and scores of some rows, from all distances."""
        nodes = nodes.to(self.device)
        square = torch.cat([(self.rows.double() - self.rows[one].double()).pow(2).sum(dim=1)[None] for one in nodes])
        scores = -square.sqrt().float()
        scores[torch.arange(len(nodes), device=self.device), nodes] = -torch.inf
        return stable_topk(scores, self.k)
