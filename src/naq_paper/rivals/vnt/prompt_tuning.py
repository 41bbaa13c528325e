r"""Virtual nodes tuned per task on a frozen Graph-Bert, all tasks of a set at once.

Tan, Guo, Ding, Liu, Virtual Node Tuning for Few-shot Node Classification, https://arxiv.org/abs/2306.06063

P virtual nodes join the tokens of every sequence of a task after the embedding layer; the classifier reads the real
tokens of the output:

.. math::
    [h'_0 .. h'_k, \cdot] = \mathrm{layers}\left([h_0 .. h_k, p_1 .. p_P]\right), \qquad
    \mathcal L = \frac{1}{NK} \sum_{\text{supports}} \mathrm{CE}\left(C \, \mathrm{mean}(h'_0 .. h'_k) + c,\; y\right)

Only p, C and c are trained, by Adam, without dropout. With ``deep`` every layer has virtual nodes of its own, which
replace those that come out of the layer before. Virtual nodes start as N(0, 0.02), the same for all tasks, and the
classifier as zero, so that neither the other tasks nor the order of the classes matters.

What never changes is computed once: the tokens, and in the first layer their queries, keys and values. The last layer
is computed for the real tokens only; under ``deep`` every layer is.

Shapes: c tasks of s sequences each in a chunk, t tokens, P virtual nodes, H numbers: virtual nodes (c, 1 or layers, P,
H), classifier (c, H, N) and (c, 1, N).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from naq.nn.rows import mean_present
from naq_paper.rivals.vnt.bert import GraphBert, Layer, absence, attend


@dataclass(frozen=True)
class Tuning:
    """How tasks are tuned.

    Args:
        steps, lr: of Adam.
        deep: whether every layer has virtual nodes of its own.
        read: ``mean`` over the real tokens, or the ``target`` token.
    """

    steps: int
    lr: float
    deep: bool = False
    read: str = "mean"


@dataclass(frozen=True)
class Frozen:
    """The sequences of a chunk of tasks as the frozen embedding layer gives them.

    Shapes:
        - ``tokens``: (c, s, t, H)
        - ``present``: (c, s, t)
    """

    tokens: torch.Tensor
    present: torch.Tensor


class PromptedBert:
    """A frozen network with virtual nodes beside the tokens of fixed sequences: virtual nodes in, vectors (c, s, H)
    out."""

    def __init__(self, network: GraphBert, frozen: Frozen, tuning: Tuning) -> None:
        self.network, self.tuning = network, tuning
        self.tasks, self.sequences, self.length, self.hidden = frozen.tokens.shape
        self.tokens, self.present = frozen.tokens.flatten(0, 1), frozen.present.flatten(0, 1)
        self.first = [part.contiguous() for part in self._layer(0).project(self.tokens)]

    def _layer(self, number: int) -> Layer:
        layer = self.network.layers[number]
        assert isinstance(layer, Layer)
        return layer

    def __call__(self, virtual: torch.Tensor) -> torch.Tensor:
        """Vectors given virtual nodes (c, 1 or layers, P, H)."""
        absent = F.pad(absence(self.present), (0, virtual.shape[2]))
        last, tokens = len(self.network.layers) - 1, self.tokens
        for number in range(last + 1):
            layer = self._layer(number)
            if number == 0 or self.tuning.deep:
                parts = self.first if number == 0 else layer.project(tokens)
                tokens, queries, keys, values = self._joined(layer, tokens, parts, virtual[:, number])
            else:
                queries, keys, values = layer.project(tokens)
            if self.tuning.deep or number == last:  # what comes out of the virtual nodes is read by none
                queries, tokens = queries[:, : self.length], tokens[:, : self.length]
            tokens = layer.finish(tokens, attend(queries, keys, values, absent, layer.heads))
        return self._read(tokens).view(self.tasks, self.sequences, self.hidden)

    def _joined(
        self, layer: Layer, tokens: torch.Tensor, parts: Iterable[torch.Tensor], virtual: torch.Tensor
    ) -> list[torch.Tensor]:
        """Tokens, queries, keys and values of the real tokens, followed by those of the virtual nodes, projected once
        per task."""
        beside = (virtual, *layer.project(virtual))
        return [torch.cat([one, self._everywhere(two)], dim=1) for one, two in zip((tokens, *parts), beside)]

    def _everywhere(self, rows: torch.Tensor) -> torch.Tensor:
        """(c, P, w) -> (c * s, P, w): the same for every sequence of a task."""
        wide = rows[:, None].expand(-1, self.sequences, -1, -1)
        return wide.reshape(self.tasks * self.sequences, *rows.shape[1:])

    def _read(self, tokens: torch.Tensor) -> torch.Tensor:
        return tokens[:, 0] if self.tuning.read == "target" else mean_present(tokens, self.present)


def tune(
    network: GraphBert, support: Frozen, slots: torch.Tensor, way: int, start: torch.Tensor, tuning: Tuning
) -> list[torch.Tensor]:
    """Virtual nodes (c, 1 or layers, P, H), classifier (c, H, N) and bias (c, 1, N) after so many steps.

    Args:
        slots: (s,) class of each support.
        start: (1 or layers, P, H) initial virtual nodes.
    """
    tasks = len(support.tokens)
    hidden, device = support.tokens.shape[-1], support.tokens.device
    weights = [start.expand(tasks, *start.shape).clone()]
    weights += [torch.zeros(tasks, hidden, way, device=device), torch.zeros(tasks, 1, way, device=device)]
    with _frozen(network):
        prompted = PromptedBert(network, support, tuning)
        fixed = prompted(weights[0]) if start.shape[1] == 0 else None  # nothing to tune but the classifier
        leaves = [weight.requires_grad_() for weight in weights]
        adam = torch.optim.Adam(leaves, lr=tuning.lr)  # moves every number on its own, so tasks do not meet
        target = slots.expand(tasks, -1)
        for _ in range(tuning.steps):
            with torch.enable_grad():
                vectors = prompted(leaves[0]) if fixed is None else fixed
                logits = classified(vectors, *leaves[1:])
                loss = F.cross_entropy(logits.transpose(1, 2), target, reduction="none").mean(dim=1).sum()
            adam.zero_grad()
            loss.backward()
            adam.step()
    return [leaf.detach() for leaf in leaves]


def answers(network: GraphBert, query: Frozen, weights: list[torch.Tensor], tuning: Tuning) -> torch.Tensor:
    """(c, s) slots of the queries."""
    vectors = PromptedBert(network, query, tuning)(weights[0])
    return classified(vectors, *weights[1:]).argmax(dim=-1)


def classified(vectors: torch.Tensor, classifier: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """(c, s, N) logits of the vectors (c, s, H)."""
    return torch.baddbmm(bias, vectors, classifier)


@contextmanager
def _frozen(network: GraphBert) -> Iterator[None]:
    """No gradient for the network's weights, and none kept for them."""
    before = [(weight, weight.requires_grad) for weight in network.parameters()]
    try:
        for weight, _ in before:
            weight.requires_grad_(False)
        yield
    finally:
        for weight, flag in before:
            weight.requires_grad_(flag)
