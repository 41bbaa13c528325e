"""One vector for a padded set of rows."""

from __future__ import annotations

import torch


def mean_present(rows: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """(m, h): the mean over those of the rows (m, t, h) that are present (m, t); one at least."""
    weights = present.to(rows.dtype)
    return torch.bmm((weights / weights.sum(1, keepdim=True))[:, None], rows)[:, 0]
