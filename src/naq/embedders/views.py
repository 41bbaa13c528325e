"""Views of a piece for contrast: some edges and feature columns are left out."""

from __future__ import annotations

import torch

from naq.encoders.pieces import Piece, Spread


def drawn_view(
    piece: Piece, drop_edge: float, drop_feature: float, edges: torch.Generator, columns: torch.Generator
) -> tuple[Spread, torch.Tensor]:
    """A_hat' without some undirected edges, and (d,) 0 for feature columns that are masked, 1 for the others: nothing is rescaled."""
    drawn = torch.rand(piece.graph.num_features, generator=columns)
    return piece.spread(drop_edge, edges), (drawn >= drop_feature).float().to(piece.device)
