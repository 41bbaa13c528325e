"""Base class of embedders that are trained, without labels, epoch by epoch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from naq.device import free_bytes
from naq.embedders.base import Embedder
from naq.errors import OptionError
from naq.graph import Graph
from naq.nn import GraphOperator
from naq.options import Value, option
from naq.random import torch_seed
from naq.tasks import Tasks
from naq_paper.rivals.pieces import Piece, PieceSampler

BATCH_MOMENTUM = 0.1
"""Of batch normalisation's running statistics with batches, where the option ``bn_momentum`` is 0 for automatic."""
SMALLEST = 64
"""Nodes of the smallest batch that is tried where memory is short."""


class TrainedEmbedder(nn.Module, Embedder):
    """A model pre-trained on the graph alone: no labels, no episodes.

    A subclass names itself, lists its options, and gives :meth:`build`, :meth:`loss` and :meth:`encode_all`. Among the
    options are ``lr``, ``epochs`` passes over the nodes, ``batch`` nodes per update, 0 for the whole graph where its
    training fits ``memory`` (GB; 0: a share of what is free), else the largest batch that does, and, unless ``hops`` is
    0, ``fanout`` neighbours drawn per node and hop of a batch. A step depends on nothing but the weights and its
    number, so that a stopped run goes on to the same result. Arguments are those of :class:`naq.learners.Learner`.

    Attributes:
        evaluate_every, patience: schedule of a run that asks for no other: epochs between evaluations, and evaluations
            without a new best before it stops.
        hops: how far a batch needs neighbours.
        weight_decay: of the optimiser, for a method without an option of that name.
        decoupled_decay: whether weight decay acts on the weights themselves (AdamW) and not through the gradient.
        deterministic_options: options under which nothing is drawn by the id of a node.
        solves_tasks: whether :meth:`solve` answers tasks in place of a head; ``also_heads`` then says that its vectors
            go to heads as well.
    """

    @dataclass(frozen=True)
    class Options(Embedder.Options):
        epochs: int = option(500, at_least=0)
        batch: int = option(0, at_least=0)
        memory: float = option(0.0, at_least=0)

    evaluate_every: ClassVar[int] = 20
    patience: ClassVar[int] = 8
    hops: ClassVar[int] = 2
    weight_decay: ClassVar[float] = 0.0
    decoupled_decay: ClassVar[bool] = False
    deterministic_options: ClassVar[Mapping[str, Value]] = {}
    trains: ClassVar[bool] = True
    inductive: ClassVar[bool] = True
    transductive: ClassVar[bool] = False
    also_solves: ClassVar[bool] = False
    also_heads: ClassVar[bool] = False

    def __init__(
        self, graph: Graph, *, seed: int = 0, device: str | torch.device = "cpu",
        progress: Callable[[int, int], None] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        nn.Module.__init__(self)
        Embedder.__init__(self, graph, seed=seed, device=device, **options)
        self.graph.require_features(self.name)
        self.progress = progress
        self.build()
        self.batch = self._batch()
        sampling = {"batch": self.batch, "hops": self.hops, "fanout": self.fanout}
        self.pieces = PieceSampler(self.graph, self.device, **sampling, seed=self.seed)
        self.updates_per_epoch = self.pieces.per_epoch
        self.updates = self.options.epochs * self.updates_per_epoch
        self.planned()

    @abstractmethod
    def build(self) -> None:
        """Make the modules on ``self.device``."""

    def planned(self) -> None:
        """Called once ``batch`` is known: running statistics follow batches more slowly than whole graphs."""
        if self.batch and not getattr(self.options, "bn_momentum", 1.0):
            for module in self.modules():
                if isinstance(module, nn.BatchNorm1d):
                    module.momentum = BATCH_MOMENTUM

    @cached_property
    def operator(self) -> GraphOperator:
        """The whole graph for embedding."""
        return GraphOperator(self.graph, self.device)

    @abstractmethod
    def loss(self, piece: Piece, update: int) -> torch.Tensor:
        """The loss over the first ``piece.seeds`` nodes of a piece: a scalar with a gradient."""

    @abstractmethod
    def encode_all(self) -> torch.Tensor:
        """(n, d) vectors of all nodes with the weights as they are; no gradient."""

    @abstractmethod
    def step_bytes(self, nodes: float, edges: float, entries: float) -> float:
        """Bytes that a training step takes on a piece with these nodes, directed edges and non-zeros of X."""

    def check_options(self) -> None:
        if self.options.batch > self.graph.num_nodes:
            raise OptionError(
                f"option batch of {self.name} is {self.options.batch}, but graph {self.graph.name!r} has "
                f"{self.graph.num_nodes} nodes; give at most as many, or 0 for the whole graph where it fits."
            )

    # Whole graph or batches.

    @property
    def fanout(self) -> int:
        """Neighbours drawn per node and hop of a batch."""
        return self.options.fanout if self.hops else 0

    def needs(self, batch: int) -> float:
        """Bytes that training takes with this batch, 0 for the whole graph."""
        g = self.graph
        n, degree = g.num_nodes, g.adjacency.nnz / g.num_nodes
        features = g.require_features(self.name)
        per_row = (features.size if isinstance(features, np.ndarray) else features.nnz) / n
        nodes = n if batch == 0 else min(n, batch * (1 + min(self.fanout, degree)) ** self.hops)
        weights = 16.0 * sum(p.numel() for p in self.parameters())  # with gradient and Adam's two moments
        return weights + self.step_bytes(nodes, nodes * degree, nodes * per_row)

    def _batch(self) -> int:
        if self.options.batch:
            return self.options.batch
        limit = self.limit()
        if self.needs(0) <= limit:
            return 0
        batch = 1 << (self.graph.num_nodes.bit_length() - 1)
        while batch >= SMALLEST:
            if self.needs(batch) <= limit:
                return batch
            batch //= 2
        raise OptionError(
            f"{self.name} may take {limit / 1e9:.2g} GB, but even batches of {SMALLEST} nodes need about "
            f"{self.needs(SMALLEST) / 1e9:.2g} GB; give more with the option memory, or a smaller fanout or width."
        )

    def limit(self) -> float:
        """Bytes that training may take."""
        return 1e9 * self.options.memory or free_bytes(self.device)

    def plan(self) -> str:
        """One line: whole graph or batches, and why."""
        if self.batch == 0:
            kept = "; freed memory stays with the process" if self.keeps_pages else ""
            return f"whole graph in every update, about {self.needs(0) / 1e9:.2g} GB{kept}"
        needs = f"the whole graph needs about {self.needs(0) / 1e9:.2g} GB, {self.limit() / 1e9:.2g} may be taken"
        why = "as asked" if self.options.batch else needs
        return f"batches of {self.batch:,} nodes, {self.updates_per_epoch} per epoch ({why})"

    # Training.

    @property
    def keeps_pages(self) -> bool:
        """Whether freed memory stays with the process (:func:`naq.device.keep_pages`): on whole graphs, on the CPU."""
        return self.batch == 0 and self.device.type == "cpu"

    def trained(self) -> Iterable[nn.Parameter]:
        """Parameters with a gradient."""
        return [p for p in self.parameters() if p.requires_grad]

    def optimizer(self) -> torch.optim.Optimizer:
        """Adam (AdamW where decay is decoupled) at the method's ``lr`` and ``weight_decay``."""
        lr, decay = self.options.lr, getattr(self.options, "weight_decay", self.weight_decay)
        kind = torch.optim.AdamW if self.decoupled_decay else torch.optim.Adam
        return kind(self.trained(), lr=lr, weight_decay=decay, fused=True)

    def rate(self, update: int) -> float:
        """Learning rate of an update."""
        return self.options.lr

    def after_step(self, update: int) -> None:
        """What follows an update, e.g. a moving average."""

    def step(self, update: int, optimizer: torch.optim.Optimizer) -> torch.Tensor:
        """One update; the loss, detached."""
        self.train()
        for group in optimizer.param_groups:
            group["lr"] = self.rate(update)
        optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.pieces[update], update)
        loss.backward()
        optimizer.step()
        self.after_step(update)
        return loss.detach()

    # Vectors and answers.

    def encode(self, nodes: np.ndarray) -> torch.Tensor:
        """Vectors of some nodes for a head."""
        known = self.graph.known_nodes(nodes).ravel()
        return self.encode_all()[torch.from_numpy(known).to(self.device)]

    def embed(self) -> np.ndarray:
        """(n, d) float32 with the weights as they are: :func:`naq.embed` trains first."""
        return self.encode_all().cpu().numpy()

    def solve(self, tasks: Tasks) -> np.ndarray:
        """(count, way * queries) slots, for an embedder that needs no head."""
        raise NotImplementedError(f"{self.name} solves no tasks itself; give its vectors to a head.")

    def generator(self, purpose: str, index: int = 0) -> torch.Generator:
        """A CPU generator of this seed, purpose and number; draw with it and move the result, so that devices agree."""
        return torch.Generator().manual_seed(torch_seed(self.seed, f"{self.name}/{purpose}", index))
