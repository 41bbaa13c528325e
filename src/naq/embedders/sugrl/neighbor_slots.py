r"""The mean of a few neighbours of every node, other ones at every epoch.

They are taken by slots, without a table of them: slot j of node v is neighbour number :math:`j \bmod \deg v` in the row of v in A + I,
columns ascending, so v itself is among them. Epoch e reads the slots
:math:`((e + 2 i) \bmod 100) + 1` for i = 0..4.
"""

from __future__ import annotations

import numpy as np
import torch

from naq.encoders.pieces import Piece
from naq.encoders.rows import SparseRows, sparse_product

SLOTS = 100
"""After so many epochs the slots start again."""
NEIGHBORS = 5


def slots_of(epoch: int) -> list[int]:
    """The slots an epoch reads, counted from 1."""
    return [(epoch + 2 * i) % SLOTS + 1 for i in range(NEIGHBORS)]


def slot_neighbors(piece: Piece, slots: list[int]) -> torch.Tensor:
    """(seeds, slots) places in the piece of the neighbours in these slots of each of its first nodes."""
    degree = torch.bincount(piece.rows, minlength=len(piece))
    first = (degree.cumsum(0) - degree)[: piece.seeds, None]
    wanted = torch.tensor(slots, device=piece.device)[None, :] % degree[: piece.seeds, None]
    return piece.columns[first + wanted]


def neighbor_means(piece: Piece, values: torch.Tensor, slots: list[int]) -> torch.Tensor:
    """(seeds, width) means of ``values`` over the neighbours in these slots, with a gradient."""
    found = slot_neighbors(piece, slots).cpu().numpy()
    count, per_node = found.shape
    indptr = np.arange(0, found.size + 1, per_node, dtype=np.int64)
    share = np.full(found.size, 1.0 / per_node, dtype=np.float32)
    return sparse_product(SparseRows(indptr, found.ravel().astype(np.int32), share, (count, len(values))), values)
