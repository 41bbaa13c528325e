"""Views of a piece for contrast, and dropout, drawn from generators of the caller's."""

from __future__ import annotations

import torch

from naq.encoders.pieces import Piece, Spread


def drawn_view(
    piece: Piece, drop_edge: float, drop_feature: float, edges: torch.Generator, columns: torch.Generator
) -> tuple[Spread, torch.Tensor]:
    """A_hat' without some undirected edges, and (d,) 0 for feature columns that are masked, 1 for the others: nothing is rescaled."""
    drawn = torch.rand(piece.graph.num_features, generator=columns)
    return piece.spread(drop_edge, edges), (drawn >= drop_feature).float().to(piece.device)


def dropped(values: torch.Tensor, share: float, generator: torch.Generator | None) -> torch.Tensor:
    """The values with this share of them zero and the others scaled up; as they are without a generator."""
    if share <= 0.0 or generator is None:
        return values
    keep = torch.rand(values.shape, generator=generator) >= share
    return values * (keep.to(values.device) / (1.0 - share))
