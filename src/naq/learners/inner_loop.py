"""Gradient steps on the supports of many tasks at once, each task with separate weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import nn

from naq.learners.meta_batch import FirstProducts, Side

Weights = dict[str, torch.Tensor]
"""``bias1``, ``weight2``, ``bias2``, ``head_weight``, ``head_bias``, each with one copy per task in front."""


def two_layers(weights: Weights, first: torch.Tensor, side: Side) -> torch.Tensor:
    """(t, r, way) outputs of the GCN and its linear head, given the first layer's products."""
    hidden = torch.relu(first + weights["bias1"][:, None])
    vectors = torch.relu(torch.bmm(torch.bmm(side.pool, hidden), weights["weight2"]) + weights["bias2"][:, None])
    return torch.bmm(vectors, weights["head_weight"]) + weights["head_bias"][:, None]


def movable(learner: nn.Module) -> dict[str, torch.Tensor]:
    """The weights that the inner loop copies: all but the first one of the encoder."""
    return {name.removeprefix("encoder."): p for name, p in learner.named_parameters() if name != "encoder.weight1"}


def mean_by_task(each: torch.Tensor, side: Side) -> torch.Tensor:
    """(t,) mean over each task's own rows (t * r,); 0 for a task without any."""
    return (each.view(side.slot.shape) * side.kept).sum(dim=1) / side.kept.sum(dim=1).clamp(min=1)


def copies(parameters: Mapping[str, torch.Tensor], tasks: int) -> Weights:
    """One copy of every weight per task; views, so a gradient adds up over tasks."""
    return {name: value[None].expand(tasks, *value.shape) for name, value in parameters.items()}


def adapt(
    parameters: Mapping[str, torch.Tensor], support: FirstProducts,
    support_loss: Callable[[Weights, torch.Tensor], torch.Tensor], *, steps: int, lr: float, second_order: bool,
) -> list[tuple[Weights, torch.Tensor]]:  # fmt: skip
    """The weights before the last step and after it, each with its shift of the first layer.

    Args:
        parameters: the weights to start from, without the first one.
        support: the first layer's products of the supports.
        support_loss: sum over tasks of the loss on their supports, given weights and first-layer products of the
            supports.
        second_order: keep the derivative of the steps; else the steps are constants, and the outer gradient with
            respect to the start is that with respect to the adapted weights.

    Returns:
        Two pairs (weights, D). The first layer's products of rows with Gram matrix K are then ``first + K @ D``.
    """
    start = copies(parameters, len(support.first))
    weights = start if second_order else {name: value.detach() for name, value in start.items()}
    shift = torch.zeros_like(support.first)
    before = weights, shift
    for _ in range(steps):
        before = weights, shift
        first = support.moved(shift)
        if not second_order:
            weights = {name: value.detach().requires_grad_() for name, value in weights.items()}
            first = first.detach().requires_grad_()
        with torch.enable_grad():
            loss = support_loss(weights, first)
        now_first, *now = torch.autograd.grad(loss, [first, *weights.values()], create_graph=second_order)
        weights = {name: value - lr * change for (name, value), change in zip(weights.items(), now)}
        shift = shift - lr * now_first
    if second_order:
        return [before, (weights, shift)]
    return [
        ({name: start[name] + (value - start[name]).detach() for name, value in found.items()}, moved.detach())
        for found, moved in (before, (weights, shift))
    ]
