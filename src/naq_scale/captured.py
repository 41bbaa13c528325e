"""Episodes of fixed shape, replayed by a GPU: one update is one CUDA graph, and the host only draws ahead.

A step of a small model is dozens of kernels that run for microseconds each, so the time goes into starting them. Here a step reads everything it needs from
memory of the device: the receptive fields of a block of episodes, filled up to common sizes (:mod:`naq_scale.padded`), and a counter that says which
episode is next. So the kernels of a step, gradients and Adam included, are recorded once per size and replayed, and no result is waited for.

The episodes and their order are those of :class:`~naq.training.trainable.EpisodeTraining`, which is the reference; numbers differ by rounding. Without
a GPU the same arithmetic runs unrecorded, which tests compare with the reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from naq.episodes import Episodes
from naq.errors import TrainingError
from naq.learners import Learner
from naq.memory import free_bytes, half
from naq.training.steps import EpisodeTraining
from naq_scale.padded import field_sizes, padded_fields, padded_sizes
from naq_scale.recorded import SWITCH, beside, recorded, recording

BLOCK = 256
"""Episodes whose fields are on the device at once, at most."""


def episode_training(learner: Learner, episodes: Episodes) -> EpisodeTraining:
    """Recorded steps on a GPU where the learner has them and they fit there, else plain ones."""
    if recording(learner.device) and CapturedTraining.possible(learner, episodes):
        return CapturedTraining(learner, episodes)
    return EpisodeTraining(learner, episodes)


class CapturedTraining(EpisodeTraining):
    """A learner and its episodes as steps that a GPU replays.

    Args:
        learner: one that :meth:`possible` says yes to.
        block: episodes whose fields are held at once; fewer where they would not fit, and half as many after running out of memory.
    """

    def __init__(self, learner: Learner, episodes: Episodes, block: int = BLOCK) -> None:
        super().__init__(learner, episodes)
        inputs = learner.operator.held_inputs()
        assert inputs is not None
        self._inputs, self._device = inputs, learner.device
        count = len(episodes)
        queries = np.where(episodes.mask, episodes.query, -1)
        self._nodes = np.concatenate([episodes.support.reshape(count, -1), queries.reshape(count, -1)], axis=1)
        self._sizes = padded_sizes(field_sizes(learner.operator.adjacency, self._nodes))
        self._width = int(self._sizes.max())
        self._losses = torch.zeros(self.updates, device=self._device)
        self._next = torch.zeros(2, 1, dtype=torch.int64, device=self._device)  # in the block, in the training
        self._expected = self._first = self._last = -1
        self.block = max(1, min(block, self.updates, int(free_bytes(self._device) // (2 * self._bytes()))))
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._stream = torch.cuda.Stream(self._device) if self._device.type == "cuda" else None

    @staticmethod
    def possible(learner: Learner, episodes: Episodes) -> bool:
        """Whether the learner has a loss of fixed shape for single episodes, and A_hat X lies dense on the device."""
        return (
            learner.reads_padded(episodes)
            and learner.episodes_per_update == 1
            and learner.operator.held_inputs() is not None
        )

    def _bytes(self) -> int:
        """Of one episode on the device: its nodes and its dense rows of A_hat."""
        return self._width * (8 + 4 * self._nodes.shape[1])

    def step(self, update: int) -> torch.Tensor:
        while True:
            try:
                return self._step(update)
            except torch.OutOfMemoryError:  # before the update: a replay takes no memory
                self._halve()

    def _step(self, update: int) -> torch.Tensor:
        if self._first < 0:
            self._allocate()
        if update != self._expected or update >= self._last or self._first < 0:
            self._fill(update)
        size = int(self._sizes[update])
        if self._device.type != "cuda":
            self._update(size)
        else:
            if size not in self._graphs:
                self._graphs[size] = self._capture(size)
            self._graphs[size].replay()
        self._expected = update + 1
        return self._losses[update]

    def _halve(self) -> None:
        self._graphs.clear()
        self._first = -1
        self._around = self._pool = self._share = torch.empty(0)
        free = torch.cuda.mem_get_info(self._device)[0] if self._device.type == "cuda" else free_bytes(self._device)
        hopeless = TrainingError(
            f"{self._device} ran out of memory even with one episode there at a time, {free / 1e9:.2f} GB are free; "
            f"set {SWITCH}=0 for steps that take less, or train on the CPU."
        )
        self.block = half(self.block, hopeless)

    def _allocate(self) -> None:
        rows, queries = self._nodes.shape[1], self.episodes.way * self.episodes.queries
        self._around = torch.empty(self.block, self._width, dtype=torch.int64, device=self._device)
        self._pool = torch.empty(self.block, rows, self._width, device=self._device)
        self._share = torch.empty(self.block, queries, device=self._device)

    def _fill(self, update: int) -> None:
        end = min(update + self.block, self.updates)
        fields = padded_fields(self.model.operator.adjacency, self._nodes[update:end], self._width)
        count = end - update
        self._around[:count].copy_(self._sent(fields.around), non_blocking=True)
        kept = self.episodes.mask[update:end].reshape(count, -1).astype(np.float32)
        self._share[:count].copy_(self._sent(kept / kept.sum(axis=1, keepdims=True).clip(min=1)), non_blocking=True)
        place, value = (self._sent(part).to(self._device, non_blocking=True) for part in (fields.place, fields.value))
        self._pool.zero_().view(-1).index_copy_(0, place, value)
        self._next[0], self._next[1] = 0, update
        self._first, self._last = update, end

    def _sent(self, array: np.ndarray) -> torch.Tensor:
        """A tensor that is copied while the host goes on."""
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        return tensor.pin_memory() if self._device.type == "cuda" else tensor

    def _update(self, size: int) -> None:
        """The next episode's update, by operations on memory that stays where it is."""
        self.optimizer.zero_grad(set_to_none=True)
        here, number = self._next
        around = self._around[:, :size].index_select(0, here)[0]
        pool = self._pool[:, :, :size].index_select(0, here)[0]
        share = self._share.index_select(0, here)[0]
        inputs = self._inputs.index_select(0, around)
        loss = self.model.padded_loss(inputs, pool, share, self.episodes.way, self.episodes.shot)
        loss.backward()
        self.optimizer.step()
        self._losses.index_copy_(0, number, loss.detach().view(1))
        self._next += 1

    def _capture(self, size: int) -> torch.cuda.CUDAGraph:
        """The operations of :meth:`_update`, recorded; nothing is changed by it."""
        assert self._stream is not None
        with self._unchanged():
            beside(lambda: self._update(size), self._stream)  # Adam makes its state too
        self.optimizer.zero_grad(set_to_none=True)
        pool = next(iter(self._graphs.values())).pool() if self._graphs else None
        for group in self.optimizer.param_groups:
            group["capturable"] = True
        try:
            return recorded(lambda: self._update(size), self._stream, pool)[0]
        finally:
            for group in self.optimizer.param_groups:
                group["capturable"] = False

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Weights, the state of the optimiser, losses and counters as they were; the state that is new is zero."""
        weights = [weight.data for weight in self.model.parameters()]
        held = [self._losses, self._next, *weights]
        kept = [one.clone() for one in held]
        before = {weight: {k: v.clone() for k, v in state.items()} for weight, state in self.optimizer.state.items()}
        try:
            yield
        finally:
            for one, copy in zip(held, kept):
                one.copy_(copy)
            for weight, state in self.optimizer.state.items():
                for name, value in state.items():
                    value.copy_(before[weight][name]) if weight in before else value.zero_()
