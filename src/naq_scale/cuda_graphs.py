r"""Training steps that a GPU replays: a learner's update, or its inner steps, as CUDA graphs.

A step of a small model is dozens of kernels that run for microseconds each, so the time goes into starting them.
Recorded once per shape and replayed, they start together.

**ProtoNet** (:class:`RecordedTraining`): a step reads everything from memory of the device, the fields of a block of
episodes, filled up to common sizes, and a counter that says which episode is next; no result is waited for. A field is
the nodes whose first-layer rows a set of nodes reads, and the rows of A_hat between both; filled up, it is a list of
``size`` nodes, node 0 in the places that are not used, and a dense matrix with zeros there, which change neither a
value nor a gradient.

**MAML** (:class:`RecordedSteps`): the inner steps of a chunk of tasks, with gradients in closed form.

Episodes and their order are those of :class:`~naq.training.EpisodeTraining`, which is the reference; numbers differ by
rounding. Without a GPU the same arithmetic runs unrecorded, which tests compare with the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from numba import njit, prange

from naq.device import free_bytes, half
from naq.episodes import Episodes
from naq.errors import TrainingError
from naq.learners import Learner
from naq.learners.inner_loop import Weights, copies
from naq.learners.maml import MAML, InnerSteps
from naq.learners.meta_batch import Side
from naq.learners.protonet import ProtoNet
from naq.nn import GCN
from naq.training import EpisodeTraining

BLOCK = 256
"""Episodes whose fields are on the device at once, at most."""
STEPS = 4
"""Sizes per doubling that fields are filled up to: at most a fifth of a field is unused, and few shapes occur."""
SMALLEST = 64


def recorded_training(learner: Learner, episodes: Episodes) -> EpisodeTraining | None:
    """The learner's episodes as recorded steps; None if there is nothing faster than plain ones."""
    if type(learner.encoder) is not GCN:
        return None
    if type(learner) is ProtoNet and RecordedTraining.possible(learner, episodes):
        return RecordedTraining(learner, episodes)
    if type(learner) is MAML and not learner.adaptation.second_order:
        plain = learner.adaptation
        learner.adaptation = RecordedSteps(plain.parameters, plain.steps, plain.lr)
        return EpisodeTraining(learner, episodes)
    return None


class RecordedTraining(EpisodeTraining):
    """ProtoNet and its episodes as steps that a GPU replays, for a learner that :meth:`possible` says yes to.

    ``block`` episodes have their fields held at once; fewer where they would not fit, half as many after running out of
    memory.
    """

    def __init__(self, learner: Learner, episodes: Episodes, block: int = BLOCK) -> None:
        super().__init__(learner, episodes)
        inputs = learner.operator.dense_inputs()
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
        each = self._width * (8 + 4 * self._nodes.shape[1])  # bytes: the nodes of an episode and their rows of A_hat
        self.block = max(1, min(block, self.updates, int(free_bytes(self._device) // (2 * each))))
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._stream = torch.cuda.Stream(self._device) if self._device.type == "cuda" else None

    @staticmethod
    def possible(learner: Learner, episodes: Episodes) -> bool:
        """Whether all nodes are read on the graph itself, and A_hat X is dense on the device."""
        return episodes.info.get("kind") != "g-umtra" and learner.operator.dense_inputs() is not None

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
            "set NAQ_CUDA_GRAPHS=0 for steps that take less, or train on the CPU."
        )
        self.block = half(self.block, hopeless)

    def _allocate(self) -> None:
        rows, queries = self._nodes.shape[1], self.episodes.way * self.episodes.queries
        self._around = torch.empty(self.block, self._width, dtype=torch.int64, device=self._device)
        self._pool = torch.empty(self.block, rows, self._width, device=self._device)
        self._share = torch.empty(self.block, queries, device=self._device)

    def _fill(self, update: int) -> None:
        end = min(update + self.block, self.updates)
        around, *entries = padded_fields(self.model.operator.adjacency, self._nodes[update:end], self._width)
        count = end - update
        self._around[:count].copy_(self._sent(around), non_blocking=True)
        kept = self.episodes.mask[update:end].reshape(count, -1).astype(np.float32)
        self._share[:count].copy_(self._sent(kept / kept.sum(axis=1, keepdims=True).clip(min=1)), non_blocking=True)
        place, value = (self._sent(part).to(self._device, non_blocking=True) for part in entries)
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
        loss = padded_loss(self.model.encoder, inputs, pool, share, self.episodes.way, self.episodes.shot)
        loss.backward()
        self.optimizer.step()
        self._losses.index_copy_(0, number, loss.detach().view(1))
        self._next += 1

    def _capture(self, size: int) -> torch.cuda.CUDAGraph:
        """The operations of :meth:`_update`, recorded; nothing is changed by it."""
        assert self._stream is not None
        with self._unchanged():
            run_on_stream(lambda: self._update(size), self._stream)  # Adam makes its state too
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


def padded_loss(
    encoder: GCN, inputs: torch.Tensor, pool: torch.Tensor, share: torch.Tensor, way: int, shot: int
) -> torch.Tensor:
    """ProtoNet's loss of one episode, by operations whose shapes do not depend on it.

    Shapes (rows: supports, then queries, class-major; m first-layer nodes):
        - ``inputs``: (m, d) first-layer inputs; ``pool``: (rows, m) rows of A_hat
        - ``share``: (way * queries,) what each query counts; they sum to 1, or to 0 where all are missing
    """
    # Not addmm, which takes a slower kernel: 181 for 119 us on an H200.
    hidden = torch.relu(inputs @ encoder.weight1 + encoder.bias1)
    # (P H) W2 takes fewer multiplications than P (H W2) with fewer rows than first-layer nodes.
    vectors = torch.relu(torch.addmm(encoder.bias2, pool @ hidden, encoder.weight2))
    return PrototypeLoss.apply(vectors, share, way, shot)  # type: ignore[no-any-return]


class PrototypeLoss(torch.autograd.Function):
    r"""ProtoNet's loss of one episode, with its gradient in closed form: a third of autograd's kernels.

    With :math:`e = \mathrm{diag}(w)(p - \mathrm{onehot})`, p the softmax, w the share of each query and Z the
    prototypes, the gradient of the queries is :math:`2 e Z` and that of the prototypes :math:`2 (e^\top Q -
    \mathrm{diag}(e^\top 1) Z)`.
    """

    @staticmethod
    def forward(ctx: Any, vectors: torch.Tensor, share: torch.Tensor, way: int, shot: int) -> torch.Tensor:
        support, query = vectors[: way * shot].view(way, shot, -1), vectors[way * shot :]
        prototypes = support[:, 0] if shot == 1 else support.mean(dim=1)
        logits = torch.addmm(-prototypes.pow(2).sum(1), query, prototypes.T, alpha=2)
        scores = F.log_softmax(logits, dim=1)
        own, shares = scores.view(way, -1, way).diagonal(dim1=0, dim2=2), share.view(way, -1).T
        error = scores.exp().mul_(share[:, None])
        error.view(way, -1, way).diagonal(dim1=0, dim2=2).sub_(shares)
        gradient = torch.empty_like(vectors)
        torch.addmm(query, error, prototypes, beta=0, alpha=2, out=gradient[way * shot :])
        of_prototypes = torch.addmm(prototypes * error.sum(0)[:, None], error.T, query, beta=-2, alpha=2)
        gradient[: way * shot].view(way, shot, -1).copy_((of_prototypes / shot)[:, None])
        ctx.save_for_backward(gradient)
        return -(own * shares).sum()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        return ctx.saved_tensors[0] * grad, None, None, None


class RecordedSteps(InnerSteps):
    """First-order :class:`~naq.learners.maml.InnerSteps` with gradients in closed form, recorded by shape of chunk.

    Elsewhere than on a GPU the same operations run as they are. The parameters must stay where they are in memory.
    """

    def __init__(self, parameters: Mapping[str, torch.Tensor], steps: int, lr: float) -> None:
        super().__init__(parameters, steps, lr)
        self._graphs: dict[tuple[int, ...], tuple[torch.cuda.CUDAGraph, list[torch.Tensor], list[torch.Tensor]]] = {}

    def width(self, rows: int) -> int:
        """One of a few widths, so that few shapes occur."""
        return int(padded_sizes(np.array([rows]))[0])

    @torch.no_grad()
    def __call__(self, support: Side) -> tuple[Weights, torch.Tensor]:
        """The weights after the steps, differentiable in the start to first order, and the shift of the first layer."""
        if not isinstance(support.gram, torch.Tensor):
            with torch.enable_grad():
                return super().__call__(support)
        target = F.one_hot(support.slot, len(self.parameters["head_bias"])).to(support.pool.dtype)
        share = (support.kept / support.kept.sum(dim=1, keepdim=True).clamp(min=1))[:, :, None]
        given = [support.first, support.gram, support.pool, target, share]
        *values, shift = self._found(given)
        with torch.enable_grad():
            start = copies(self.parameters, len(target))
            return {name: one + (value - one).detach() for (name, one), value in zip(start.items(), values)}, shift

    def _found(self, given: list[torch.Tensor]) -> list[torch.Tensor]:
        """The weights after the steps, in the order of the parameters, and the shift."""
        return self._replayed(given) if given[0].is_cuda else self._descend(*given)

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
        run_on_stream(lambda: self._descend(*held), stream)
        return *recorded(lambda: self._descend(*held), stream), held

    def _descend(
        self, start: torch.Tensor, gram: torch.Tensor, pool: torch.Tensor, target: torch.Tensor, share: torch.Tensor
    ) -> list[torch.Tensor]:
        """The weights after the steps, in the order of the parameters, and the shift."""
        weights, shift = copies(self.parameters, len(pool)), torch.zeros_like(start)
        for _ in range(self.steps):
            change = self._gradients(weights, torch.baddbmm(start, gram, shift), pool, target, share)
            weights = {name: torch.sub(value, change[name], alpha=self.lr) for name, value in weights.items()}
            shift = torch.sub(shift, change["first"], alpha=self.lr)
        return [*weights.values(), shift]

    @staticmethod
    def _gradients(
        weights: Weights, first: torch.Tensor, pool: torch.Tensor, target: torch.Tensor, share: torch.Tensor
    ) -> Weights:
        """Of the sum over tasks of the mean cross-entropy, by the weights and the first layer's products
        (``first``)."""
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


def recorded(run: Callable[[], Any], stream: torch.cuda.Stream, pool: Any = None) -> tuple[torch.cuda.CUDAGraph, Any]:
    """A graph of the kernels that ``run`` starts, and what it returned: tensors that every replay fills anew.

    ``run`` must have run by :func:`run_on_stream` once before. Graphs recorded on one stream share the scratch memory
    of cuBLAS.
    """
    graph = torch.cuda.CUDAGraph()
    # Of this thread alone: another may use the device meanwhile.
    with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
        found = run()
    return graph, found


def run_on_stream(run: Callable[[], Any], stream: torch.cuda.Stream) -> None:
    """Run on the stream that is recorded on, so that libraries choose their kernels and take their memory before."""
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
    torch.cuda.current_stream().wait_stream(stream)


def padded_sizes(fields: np.ndarray) -> np.ndarray:
    """The sizes that fields of these numbers of nodes are filled up to.

    >>> padded_sizes(np.array([1, 64, 65, 300])).tolist()
    [64, 64, 80, 320]
    """
    doubling = np.exp2(np.floor(np.log2(np.maximum(fields - 1, SMALLEST // 2))))
    step = doubling / STEPS
    return np.maximum(SMALLEST, np.ceil(fields / step) * step).astype(np.int64)


def field_sizes(adjacency: sp.csr_array, nodes: np.ndarray) -> np.ndarray:
    """(count,) nodes in the field of each row of ``nodes`` (count, rows); -1 means no node."""
    return _sizes(adjacency.indptr, adjacency.indices, nodes, numba.get_num_threads(), adjacency.shape[0])


def padded_fields(adjacency: sp.csr_array, nodes: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The fields of each row of ``nodes`` (count, rows; -1 for no node), filled up to ``width``, none larger.

    Returns:
        (count, width) nodes of the first layer, and the non-zeros of a (count, rows, width) matrix: their flat places
        and values.
    """
    there = nodes >= 0
    lengths = np.where(there, np.diff(adjacency.indptr)[nodes], 0).sum(axis=1)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    around = np.zeros((len(nodes), width), dtype=np.int64)
    place, value = np.empty(starts[-1], dtype=np.int64), np.empty(starts[-1], dtype=np.float32)
    threads = numba.get_num_threads()
    _fill(
        adjacency.indptr, adjacency.indices, adjacency.data, nodes, threads, adjacency.shape[0], starts, around, place,
        value,
    )  # fmt: skip
    return around, place, value


@njit(cache=True, parallel=True)
def _sizes(indptr: Any, indices: Any, nodes: Any, threads: Any, n: Any) -> Any:
    out = np.zeros(len(nodes), dtype=np.int64)
    share = (len(nodes) + threads - 1) // threads
    for job in prange(threads):
        seen = np.full(n, -1, dtype=np.int32)
        for c in range(job * share, min(len(nodes), (job + 1) * share)):
            count = 0
            for node in nodes[c]:
                if node >= 0:
                    for e in range(indptr[node], indptr[node + 1]):
                        if seen[indices[e]] != c:
                            seen[indices[e]] = c
                            count += 1
            out[c] = count
    return out


@njit(cache=True, parallel=True)
def _fill(
    indptr: Any, indices: Any, data: Any, nodes: Any, threads: Any, n: Any, starts: Any, around: Any, place: Any,
    value: Any,
) -> None:  # fmt: skip
    rows, width = nodes.shape[1], around.shape[1]
    share = (len(nodes) + threads - 1) // threads
    for job in prange(threads):
        local = np.full(n, -1, dtype=np.int32)
        for c in range(job * share, min(len(nodes), (job + 1) * share)):
            count, at = 0, starts[c]
            for r in range(rows):
                node = nodes[c, r]
                if node < 0:
                    continue
                for e in range(indptr[node], indptr[node + 1]):
                    other = indices[e]
                    if local[other] < 0:
                        local[other] = count
                        around[c, count] = other
                        count += 1
                    place[at] = (np.int64(c) * rows + r) * width + local[other]
                    value[at] = data[e]
                    at += 1
            for f in range(count):
                local[around[c, f]] = -1
