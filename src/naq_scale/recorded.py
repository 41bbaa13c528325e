"""Kernels that a GPU replays: the inner steps of a chunk of tasks, recorded once per shape."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F

from naq.learners.inner_loop import Weights, copies
from naq.learners.meta_batch import Side

SWITCH = "NAQ_CUDA_GRAPHS"
"""Environment variable; 0 records nothing."""


def recording(device: torch.device) -> bool:
    """Whether kernels are recorded on this device."""
    return device.type == "cuda" and os.environ.get(SWITCH, "1") != "0"


def recorded(run: Callable[[], Any], stream: torch.cuda.Stream, pool: Any = None) -> tuple[torch.cuda.CUDAGraph, Any]:
    """A graph of the kernels that ``run`` starts, and what it returned: tensors that every replay fills anew. ``run`` must have run :func:`beside` once before.

    Args:
        stream: to record on; its own for all that is replayed beside other graphs, since graphs recorded on one stream share the scratch memory of cuBLAS.
    """
    graph = torch.cuda.CUDAGraph()
    # Of this thread alone: another may copy vectors of an evaluation to the host meanwhile.
    with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
        found = run()
    return graph, found


def beside(run: Callable[[], Any], stream: torch.cuda.Stream) -> None:
    """Run on the stream that is recorded on, so that libraries choose their kernels and take their memory before."""
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
    torch.cuda.current_stream().wait_stream(stream)


class RecordedSteps:
    """First-order inner steps on the mean cross-entropy of :func:`~naq.learners.inner_loop.two_layers`, with gradients in closed form.

    What :func:`~naq.learners.inner_loop.adapt` computes by autograd, which is the reference; on a GPU the steps of a chunk are some hundred small kernels, so they are recorded
    for each shape of a chunk and replayed. Elsewhere the same operations run as they are.

    Args:
        parameters: the weights to start from, without the first one; they must stay where they are in memory.
    """

    def __init__(self, parameters: Mapping[str, torch.Tensor], *, way: int, steps: int, lr: float) -> None:
        self._parameters, self._way, self._steps, self._lr = dict(parameters), way, steps, lr
        self._graphs: dict[tuple[int, ...], tuple[torch.cuda.CUDAGraph, list[torch.Tensor], list[torch.Tensor]]] = {}

    @torch.no_grad()
    def __call__(self, support: Side) -> tuple[Weights, torch.Tensor]:
        """The weights after the steps, differentiable in the start as first-order steps are, and the shift of the first layer."""
        assert isinstance(support.gram, torch.Tensor)
        target = F.one_hot(support.slot, self._way).to(support.pool.dtype)
        share = (support.kept / support.kept.sum(dim=1, keepdim=True).clamp(min=1))[:, :, None]
        given = [support.first, support.gram, support.pool, target, share]
        *values, shift = self._replayed(given) if recording(support.pool.device) else self._descend(*given)
        with torch.enable_grad():
            start = copies(self._parameters, len(target))
            return {name: one + (value - one).detach() for (name, one), value in zip(start.items(), values)}, shift

    def _replayed(self, given: list[torch.Tensor]) -> list[torch.Tensor]:
        shape = (*given[0].shape, *given[2].shape)
        if shape not in self._graphs:
            try:
                self._graphs[shape] = self._recording(given)
            except torch.OutOfMemoryError:  # recorded kernels keep their memory; unrecorded ones give it back
                self._graphs.clear()
                torch.cuda.empty_cache()
                return self._descend(*given)
        graph, found, held = self._graphs[shape]
        for one, value in zip(held, given):
            one.copy_(value)
        graph.replay()
        return [one.clone() for one in found]  # another chunk of this shape may follow before the backward pass

    def _recording(
        self, given: list[torch.Tensor]
    ) -> tuple[torch.cuda.CUDAGraph, list[torch.Tensor], list[torch.Tensor]]:
        """The graph of the steps, what it fills, and what it reads."""
        held = [one.clone() for one in given]
        stream = torch.cuda.Stream(given[0].device)
        beside(lambda: self._descend(*held), stream)
        return *recorded(lambda: self._descend(*held), stream), held

    def _descend(
        self, start: torch.Tensor, gram: torch.Tensor, pool: torch.Tensor, target: torch.Tensor, share: torch.Tensor
    ) -> list[torch.Tensor]:
        """The weights after the steps, in the order of the parameters, and the shift."""
        weights, shift = copies(self._parameters, len(pool)), torch.zeros_like(start)
        for _ in range(self._steps):
            change = self._gradients(weights, torch.baddbmm(start, gram, shift), pool, target, share)
            weights = {name: torch.sub(value, change[name], alpha=self._lr) for name, value in weights.items()}
            shift = torch.sub(shift, change["first"], alpha=self._lr)
        return [*weights.values(), shift]

    @staticmethod
    def _gradients(
        weights: Weights, first: torch.Tensor, pool: torch.Tensor, target: torch.Tensor, share: torch.Tensor
    ) -> Weights:
        """Of the sum over tasks of the mean cross-entropy, with respect to the weights and to the first layer's products (``first``)."""
        before = first + weights["bias1"][:, None]
        pooled = torch.bmm(pool, torch.relu(before))
        inner = torch.baddbmm(weights["bias2"][:, None], pooled, weights["weight2"])
        vectors = torch.relu(inner)
        logits = torch.baddbmm(weights["head_bias"][:, None], vectors, weights["head_weight"])
        error = (torch.softmax(logits, dim=2) - target) * share
        up = torch.bmm(error, weights["head_weight"].transpose(1, 2)) * (inner > 0)
        down = torch.bmm(pool.transpose(1, 2), torch.bmm(up, weights["weight2"].transpose(1, 2))) * (before > 0)
        return {
            "head_weight": torch.bmm(vectors.transpose(1, 2), error),
            "head_bias": error.sum(dim=1),
            "weight2": torch.bmm(pooled.transpose(1, 2), up),
            "bias2": up.sum(dim=1),
            "bias1": down.sum(dim=1),
            "first": down,
        }
