"""Clusters of unit vectors by k-means on cosine, for approximate neighbours and for tasks without labels."""

from __future__ import annotations

import torch

from naq.random import stream

PER_CENTRE = 40
"""Rows of the sample that each centre is fitted on."""
ROUNDS = 8
ENTRIES = 1 << 25
"""Cosines held at once."""


def centres(
    rows: torch.Tensor, seed: int, count: int | None = None, rounds: int = ROUNDS, per_centre: int = PER_CENTRE
) -> torch.Tensor:
    """(count, d) centres of unit rows, fitted on ``per_centre`` rows for each; by default sqrt(n) of them."""
    n = len(rows)
    count = max(1, min(n, round(n**0.5) if count is None else count))
    order = torch.from_numpy(stream(seed, "clusters/sample").permutation(n)).to(rows.device)
    sample = rows[order[: max(count, min(n, per_centre * count))].sort().values]
    return kmeans(sample, rows[order[:count]].clone(), rounds)


def kmeans(rows: torch.Tensor, middle: torch.Tensor, rounds: int = ROUNDS) -> torch.Tensor:
    """(count, d) centres of unit rows by Lloyd's algorithm from ``middle``; one without rows stays where it was."""
    for _ in range(rounds):
        home = assign(rows, middle, 1)[:, 0]
        # A sum in the order of the rows, whatever the number of threads or the device.
        order, sizes = torch.argsort(home, stable=True), torch.bincount(home, minlength=len(middle))
        total = torch.segment_reduce(rows[order].double(), "sum", lengths=sizes, axis=0, initial=0.0).to(rows.dtype)
        length = total.norm(dim=1, keepdim=True)
        middle = torch.where(length > 0, total / length.clamp(min=torch.finfo(total.dtype).tiny), middle)
    return middle


def assign(
    rows: torch.Tensor, middle: torch.Tensor, count: int, compared: int = 1024, entries: int = ENTRIES
) -> torch.Tensor:
    """(n, count) the nearest centres of every row, nearest first; nearly so with more than ``compared`` centres."""
    if len(middle) > compared:
        return _assign_by_groups(rows, middle, count, entries)
    block = max(1, entries // len(middle))
    return torch.cat([torch.topk(part @ middle.T, count, dim=1).indices for part in rows.split(block)])


def _assign_by_groups(rows: torch.Tensor, middle: torch.Tensor, count: int, entries: int) -> torch.Tensor:
    """The centres have centres themselves, the square root of their number: a row is compared with those and with the
    centres around the nearest, eight groups' worth of them.

    Cost: O(sqrt(centres) d) for a row.
    """
    groups = centres(middle, 0, round(len(middle) ** 0.5), 2)
    most = min(len(middle), max(count, 8 * len(middle) // len(groups)))
    around = torch.topk(groups @ middle.T, most, dim=1).indices
    home = assign(rows, groups, 1)[:, 0]
    order = torch.argsort(home, stable=True)
    near = torch.empty((len(rows), count), dtype=torch.int64, device=rows.device)
    for group, members in enumerate(order.split(torch.bincount(home, minlength=len(groups)).tolist())):
        for part in members.split(max(1, entries // around.shape[1])):
            found = torch.topk(rows[part] @ middle[around[group]].T, count, dim=1).indices
            near[part] = around[group][found]
    return near
