r"""Attention within many short sequences at once.

.. math::
    P_h = \mathrm{softmax}\left(Q_h K_h^\top / \sqrt{w}\right), \qquad C_h = \mathrm{dropout}(P_h) V_h

for each head h, w numbers wide, over the keys that are present. Written out, because the library's own draws its dropout from a generator that
all share.

Shapes: queries (m, t, heads * w), keys and values (m, s, heads * w), absent (m, s) -> (m, t, heads * w).
"""

from __future__ import annotations

import torch

from naq.embedders.parts.dropout import Dropout


def attend(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    absent: torch.Tensor,
    heads: int,
    dropout: Dropout | None = None,
    share: float = 0.0,
) -> torch.Tensor:
    """For every query the values of the present keys, weighted per head; ``absent`` is 0 for a key that is there, else -inf."""
    m, t, width = queries.shape
    s = keys.shape[1]
    q, k, v = (_by_head(part, heads) for part in (queries, keys, values))
    missing = absent[:, None, None].expand(m, heads, 1, s).reshape(m * heads, 1, s)
    weights = torch.baddbmm(missing, q, k.transpose(1, 2), alpha=(width // heads) ** -0.5).softmax(dim=-1)
    if dropout is not None:
        weights = dropout(weights, share)
    return torch.bmm(weights, v).view(m, heads, t, -1).transpose(1, 2).reshape(m, t, width)


def _by_head(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """(m, t, heads * w) -> (m * heads, t, w)."""
    m, t, width = rows.shape
    return rows.view(m, t, heads, width // heads).transpose(1, 2).reshape(m * heads, t, width // heads)
