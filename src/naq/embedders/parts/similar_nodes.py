"""The nodes most similar to some, found block by block: never more than a bounded part of the similarities at a time."""

from __future__ import annotations

import torch

BLOCK_NUMBERS = 1 << 22
"""Similarities held at a time, 16 MB; one row of them at least."""


@torch.no_grad()
def most_similar(
    queries: torch.Tensor, keys: torch.Tensor, count: int, *, without: torch.Tensor | None = None
) -> torch.Tensor:
    """(q, count) rows of ``keys`` with the largest inner products, the largest first.

    Args:
        queries, keys: (q, width) and (n, width).
        without: (q,) a row of ``keys`` that each query must not get.
    """
    found = torch.empty(len(queries), count, dtype=torch.int64, device=queries.device)
    size = max(1, BLOCK_NUMBERS // len(keys))
    for start in range(0, len(queries), size):
        rows = slice(start, start + size)
        similarity = queries[rows] @ keys.T
        if without is not None:
            similarity.scatter_(1, without[rows, None], -torch.inf)
        found[rows] = similarity.topk(count, dim=1).indices
    return found
