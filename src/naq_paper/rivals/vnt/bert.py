r"""Graph-Bert's transformer, from plain operations.

Zhang, Zhang, Xia, Sun, Graph-Bert: Only Attention is Needed for Learning Graph Representations,
https://arxiv.org/abs/2001.05140

A token of node u in the sequence of node v:

.. math::
    h_u = \mathrm{dropout}\left(\mathrm{LN}\left(x_u W + b + R_{role(u)} + P_{position} + D_{hops(v, u)}\right)\right)

A layer, as BERT's (the norm comes after the sum):

.. math::
    a = \mathrm{LN}(h + \mathrm{dropout}(\mathrm{attention}(h) W_o + b_o)), \qquad
    h' = \mathrm{LN}(a + \mathrm{dropout}(\mathrm{GELU}(a W_1 + b_1) W_2 + b_2))

with all widths H, and attention over the tokens that are present, for each head w numbers wide:

.. math::
    P = \mathrm{softmax}\left(Q K^\top / \sqrt{w}\right), \qquad \mathrm{attention}(h) = \mathrm{dropout}(P) V

Attention is written out, because the library's own draws its dropout from a generator that all share. The vector of v
is the mean over the tokens that are present. Weights start as N(0, 0.02), biases as 0.

:math:`x_u W` does not depend on the sequence, so X is multiplied once and its rows are gathered: (r, H) instead of (n,
k + 1, d).

Shapes: m sequences of t tokens, H numbers each; r distinct nodes in them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from naq.nn.rows import mean_present
from naq_paper.rivals.fixed_order import dropped, softmax
from naq_paper.rivals.vnt.node_sequences import CODES

SPREAD = 0.02
"""Standard deviation of the initial weights."""
TINY = 1e-12
"""What the norm adds to a variance."""


@dataclass(frozen=True)
class Drops:
    """Shares that are dropped of what passes between the parts and of attention, and the generator that masks are drawn
    from."""

    generator: torch.Generator
    hidden: float
    attention: float

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        return dropped(values, self.hidden, self.generator)


class Norm(nn.Module):
    """Every token's numbers to mean 0 and variance 1, then scaled and shifted."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        # Scaled outside: PyTorch splits the sums over tokens in its own gradient of weight and bias among threads.
        return torch.addcmul(self.bias, F.layer_norm(rows, self.bias.shape, eps=TINY), self.weight)


class Layer(nn.Module):
    """One layer, in three steps, so that what is known already need not be computed again."""

    def __init__(self, hidden: int, heads: int, generator: torch.Generator) -> None:
        super().__init__()
        self.hidden, self.heads = hidden, heads
        self.into = dense(hidden, 3 * hidden, generator)  # queries, keys and values
        self.out = dense(hidden, hidden, generator)
        self.out_norm = Norm(hidden)
        self.up = dense(hidden, hidden, generator)
        self.down = dense(hidden, hidden, generator)
        self.down_norm = Norm(hidden)

    def project(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values of the tokens."""
        queries, keys, values = self.into(tokens).split(self.hidden, dim=-1)
        return queries, keys, values

    def finish(self, tokens: torch.Tensor, context: torch.Tensor, drops: Drops | None = None) -> torch.Tensor:
        """The layer's output for tokens whose attention gave ``context``."""
        mixed = self.out(context)
        tokens = self.out_norm(tokens + (mixed if drops is None else drops(mixed)))
        wide = self.down(F.gelu(self.up(tokens)))
        return self.down_norm(tokens + (wide if drops is None else drops(wide)))

    def forward(self, tokens: torch.Tensor, absent: torch.Tensor, drops: Drops | None = None) -> torch.Tensor:
        return self.finish(tokens, attend(*self.project(tokens), absent, self.heads, drops), drops)


def attend(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    absent: torch.Tensor,
    heads: int,
    drops: Drops | None = None,
) -> torch.Tensor:
    """For every query the values of the present keys, weighted per head; ``absent`` is 0 for a key that is there, else
    -inf.

    Shapes: queries (m, t, heads * w), keys and values (m, s, heads * w), absent (m, s) -> (m, t, heads * w).
    """
    m, t, width = queries.shape
    s = keys.shape[1]
    q, k, v = (_by_head(part, heads) for part in (queries, keys, values))
    missing = absent[:, None, None].expand(m, heads, 1, s).reshape(m * heads, 1, s)
    weights = softmax(torch.baddbmm(missing, q, k.transpose(1, 2), alpha=(width // heads) ** -0.5))
    if drops is not None:
        weights = dropped(weights, drops.attention, drops.generator)
    return torch.bmm(weights, v).view(m, heads, t, -1).transpose(1, 2).reshape(m, t, width)


def _by_head(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """(m, t, heads * w) -> (m * heads, t, w)."""
    m, t, width = rows.shape
    return rows.view(m, t, heads, width // heads).transpose(1, 2).reshape(m * heads, t, width // heads)


class GraphBert(nn.Module):
    """Tokens, layers, mean.

    Args:
        features, hidden, layers, heads: d, H, and how many layers and attention heads there are.
        roles: rows of the table of roles.
        generator: of the initial weights.

    Shapes:
        - ``rows``: X W (r, H) and roles (r,) -> (r, H)
        - ``tokens``: rows (r, H), the row of each token's node (m, t) and codes of hops (m, t) -> (m, t, H)
        - ``forward``: tokens (m, t, H) and present (m, t) -> (m, H)
    """

    def __init__(
        self, features: int, hidden: int, layers: int, heads: int, *, roles: int = CODES, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.weight = normal(features, hidden, generator=generator)
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.role = normal(roles, hidden, generator=generator)
        self.position = normal(CODES, hidden, generator=generator)
        self.hop = normal(CODES, hidden, generator=generator)
        self.norm = Norm(hidden)
        self.layers = nn.ModuleList(Layer(hidden, heads, generator) for _ in range(layers))

    def rows(self, inputs: torch.Tensor, roles: torch.Tensor) -> torch.Tensor:
        """What a node brings into every sequence: its features and its role."""
        return inputs + self.bias + F.embedding(roles, self.role)

    def tokens(
        self, rows: torch.Tensor, place: torch.Tensor, hops: torch.Tensor, drops: Drops | None = None
    ) -> torch.Tensor:
        summed = F.embedding(place, rows) + F.embedding(hops, self.hop)
        tokens = self.norm(summed + self.position[: place.shape[1]])
        return tokens if drops is None else drops(tokens)

    def forward(self, tokens: torch.Tensor, present: torch.Tensor, drops: Drops | None = None) -> torch.Tensor:
        absent = absence(present)
        for layer in self.layers:
            tokens = layer(tokens, absent, drops)
        return mean_present(tokens, present)


def dense(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    """x W^T + b."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs)  # type: ignore[arg-type]
    nn.init.normal_(layer.weight, std=SPREAD, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def normal(*shape: int, generator: torch.Generator) -> nn.Parameter:
    return nn.Parameter(nn.init.normal_(torch.empty(*shape), std=SPREAD, generator=generator))


def absence(present: torch.Tensor) -> torch.Tensor:
    """0 where a token is present, -inf where it is not: added to scores before the softmax."""
    return torch.zeros(present.shape, device=present.device).masked_fill_(~present, -torch.inf)
