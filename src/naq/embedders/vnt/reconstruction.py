r"""What Graph-Bert is pre-trained on, in exact forms that never become dense in the graph.

Attributes: the features predicted from the vectors. With a column of ones beside the vectors, :math:`F = [E, 1]`, and the bias beside the
weight, :math:`D = [W, b]` (d, H + 1),

.. math::
    |F D^\top - X|^2 = \langle F^\top F, D^\top D \rangle - 2 \langle F, X D \rangle + |X|^2

Structure: cosines of all pairs against :math:`\hat A`. For rows of length one,

.. math::
    |E E^\top - \hat A|^2 = |E^\top E|^2 - 2 \langle E, \hat A E \rangle + |\hat A|^2

Cost: O(n H^2 + d H^2 + non-zeros of X * H) and O(n H^2 + edges * H), where the direct forms take n d H and n^2 H.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F


def extended(vectors: torch.Tensor) -> torch.Tensor:
    """[E, 1]."""
    return F.pad(vectors, (0, 1), value=1.0)


def attribute_error(
    vectors: torch.Tensor, decoder: torch.Tensor, product: torch.Tensor, squares: float
) -> torch.Tensor:
    """Mean square of [E, 1] D^T - X over all entries.

    Args:
        vectors: (m, H).
        decoder: (d, H + 1), the weight and in its last column the bias.
        product: (m, H + 1), X D.
        squares: sum of the squares of X.
    """
    rows = extended(vectors)
    total = ((rows.T @ rows) * (decoder.T @ decoder)).sum() - 2 * (rows * product).sum() + squares
    return total / (len(rows) * len(decoder))


def structure_error(units: torch.Tensor, product: torch.Tensor, squares: torch.Tensor | float) -> torch.Tensor:
    """Mean square of E E^T - A_hat over all pairs.

    Args:
        units: (m, H), E with rows of length one.
        product: (m, H), A_hat E.
        squares: sum of the squares of A_hat.
    """
    total = (units.T @ units).square().sum() - 2 * (units * product).sum() + squares
    return total / len(units) ** 2
