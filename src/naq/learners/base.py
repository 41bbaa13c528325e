"""What every meta-learner is, a loss on episodes, vectors for nodes, an optimiser, and what learners share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from naq.device import check_widths, checked_device
from naq.episodes import Episodes
from naq.errors import OptionError
from naq.graph import Graph
from naq.nn import GCN, AugmentedOperator, GraphOperator, Operator
from naq.nn.given import GivenEncoder, MakeEncoder
from naq.nn.operator import operator_for
from naq.options import Configurable, Registry, Value
from naq.random import torch_seed
from naq.tasks import Tasks

LEARNERS: Registry[type[Learner]] = Registry(
    "a learner",
    {
        "cosmic": "naq.learners.cosmic:Cosmic",
        "glitter": "naq.learners.glitter:Glitter",
        "gmeta": "naq.learners.gmeta:GMeta",
        "gpn": "naq.learners.gpn:GPN",
        "maml": "naq.learners.maml:MAML",
        "protonet": "naq.learners.protonet:ProtoNet",
        "protonet-capped": "naq_scale.streamed:CappedProtoNet",
        "teg": "naq.learners.teg:TEG",
        "tent": "naq.learners.tent:TENT",
    },
    group="naq.methods",
    accepts=lambda item: isinstance(item, type) and issubclass(item, Learner),
)


class Learner(nn.Module, Configurable, ABC):
    """A model trained on episodes.

    A subclass names itself, lists its ``Options``, and gives :meth:`loss`. The base class brings the two-layer GCN of
    width ``latent``, Adam at ``lr`` and one step per batch of episodes. A learner with another encoder overrides
    :meth:`build`, where :meth:`given_encoder` is the user's if there is one, :meth:`encode` and :meth:`encode_all`; one
    that solves tasks itself sets ``solves_tasks`` and gives :meth:`solve`. An option named ``meta_batch`` is the number
    of episodes of one update.

    Args:
        graph: structure and features; labels are taken away.
        way: classes per episode.
        seed: of the initial weights and of whatever the learner draws.
        device: where the arithmetic runs.
        base_labels: (n,) labels of base classes, -1 elsewhere, where training is supervised; None under NaQ. Only these
            may be read in addition to the episodes.
        make_encoder: a class or a function of the number of features: an ``nn.Module`` with ``forward(x, edge_index)``
            in place of the learner's encoder, see :class:`~naq.nn.given.GivenEncoder`.
        progress: called with (nodes done, nodes in all) by a :meth:`build` that takes long.
        options: overrides of ``defaults``.

    Attributes:
        unfit: kinds of episodes it cannot be trained on, each with one sentence why.
        own_encoder: why it takes no encoder of the user's; empty where it does.
        inductive: whether its encoder applies to nodes it has not seen.
        solves_tasks: whether :meth:`solve` answers tasks in place of a head; ``transductive`` then says whether it
            looks at the queries of a task together. ``also_solves`` (heads solve the tasks) and ``also_heads`` (it
            solves them itself) ask for both answers.
        deterministic_options: options under which nothing is drawn by the id of a node.
    """

    unfit: ClassVar[Mapping[str, str]] = {}
    own_encoder: ClassVar[str] = ""
    deterministic_options: ClassVar[Mapping[str, Value]] = {}
    inductive: ClassVar[bool] = True
    solves_tasks: ClassVar[bool] = False
    also_solves: ClassVar[bool] = False
    also_heads: ClassVar[bool] = False
    transductive: ClassVar[bool] = False

    def __init__(
        self, graph: Graph, *, way: int, seed: int = 0, device: str | torch.device = "cpu",
        base_labels: np.ndarray | None = None, make_encoder: MakeEncoder | None = None,
        progress: Callable[[int, int], None] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.configure(options)
        check_widths(graph, dict(self.options))
        self.progress = progress
        self.graph = graph.without_labels()
        self.base_labels = base_labels
        self.way = way
        self.seed = seed
        self.device = checked_device(device)
        self.episodes_per_update = getattr(self.options, "meta_batch", 1)
        self.make_encoder = make_encoder
        if make_encoder is not None:
            self.check_takes_encoder()
        self.build()
        if make_encoder is not None and not isinstance(self.encoder, GivenEncoder):
            raise OptionError(f"encoder was given, but build() of {self.name} does not call given_encoder().")

    @classmethod
    def ignores_queries(cls, options: Mapping[str, Value]) -> bool:
        """Whether its loss reads the supports of an episode alone, with these options: then the kind of queries changes
        nothing."""
        return False

    @classmethod
    def check_takes_encoder(cls) -> None:
        """One sentence where an encoder of the user's cannot take the place of its own."""
        if cls.own_encoder:
            raise OptionError(f"encoder was given, but {cls.name} keeps its own: {cls.own_encoder}")

    def build(self) -> None:
        """Make the modules; here the GCN of width ``latent``."""
        self.operator = operator_for(self.graph, self.device)
        self.encoder = self.given_encoder() or GCN(self.operator, self.options.latent, seed=self.seed)

    def given_encoder(self) -> Any:
        """The encoder that the user makes, reading ``operator``; None if there is none."""
        make = self.make_encoder
        return None if make is None else GivenEncoder(self.operator, make, seed=self.seed)

    @abstractmethod
    def loss(self, episodes: Episodes, update: int = 0) -> torch.Tensor:
        """Mean loss over these episodes: a scalar with a gradient. ``update`` keys whatever is drawn."""

    def optimizer(self) -> torch.optim.Optimizer:
        """Adam at the learner's ``lr``, with its ``weight_decay`` where it has one."""
        lr, decay = self.options.lr, getattr(self.options, "weight_decay", 0.0)
        return torch.optim.Adam(self.parameters(), lr=lr, weight_decay=decay, fused=True)

    def step(self, episodes: Episodes, update: int, optimizer: torch.optim.Optimizer) -> torch.Tensor:
        """One update; the loss, detached. ``update`` keys whatever is drawn, so that a resumed run draws the same."""
        optimizer.zero_grad(set_to_none=True)
        loss = self.loss(episodes, update)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def encode(self, nodes: np.ndarray) -> torch.Tensor:
        """Vectors of some nodes for a head."""
        return self.encoder.encode(nodes)

    def encode_all(self) -> torch.Tensor:
        """Vectors of all nodes for a head."""
        return self.encoder.encode_all()

    def solve(self, tasks: Tasks) -> np.ndarray:
        """(count, way * queries) slots, for a learner that needs no head."""
        raise NotImplementedError(f"{self.name} solves no tasks itself; give its vectors to a head.")

    # What learners share.

    def encode_in(self, update: int) -> Callable[..., torch.Tensor]:
        """``encode(nodes, operator)`` of the encoder as an update reads it."""
        encoder: Any = self.encoder
        return encoder.in_training(update) if isinstance(encoder, GivenEncoder) else encoder.encode

    def query_operators(self, episodes: Episodes, update: int) -> Sequence[GraphOperator | AugmentedOperator]:
        """The graph the queries are read on: the graph itself, or under g-UMTRA one augmented graph per query
        column."""
        if episodes.info.get("kind") != "g-umtra":
            return [self.operator]
        edge, feature = float(episodes.info["drop_edge"]), float(episodes.info["drop_feature"])
        return [
            AugmentedOperator(
                self.operator, drop_edge=edge, drop_feature=feature, seed=self.seed, index=(update, column)
            )
            for column in range(episodes.queries)
        ]

    def generator(self, purpose: str, index: int = 0) -> torch.Generator:
        """A CPU generator of this seed, purpose and number; draw with it and move the result, so that devices agree."""
        return torch.Generator().manual_seed(torch_seed(self.seed, f"{self.name}/{purpose}", index))

    def require_way(self, way: int, what: str) -> None:
        """One sentence where the classifier was trained for another number of classes."""
        if way != self.way:
            raise OptionError(
                f"{what} has {way} classes, but the classifier of {self.name} was trained for {self.way}; "
                f"train it with way={way}."
            )


def uniform(shape: tuple[int, ...], width: int, generator: torch.Generator, device: torch.device) -> nn.Parameter:
    """A parameter drawn uniformly within 1 / sqrt(width): the initial weights of several released codes."""
    return nn.Parameter(((2 * torch.rand(shape, generator=generator) - 1) / width**0.5).to(device))


def kept_queries(episodes: Episodes, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
    """Episode and slot of every kept query, and its column, in the order of ``episodes.query[episodes.mask]``."""
    episode, slot, column = np.nonzero(episodes.mask)
    return torch.from_numpy(episode).to(device), torch.from_numpy(slot).to(device), column


def encode_episodes(
    learner: Learner,
    episodes: Episodes,
    update: int,
    encode: Callable[[np.ndarray, Operator], torch.Tensor] | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Support vectors (count, way, shot, h), vectors of the kept queries (m, h), and their episode and slot (m,) each.

    Every node is encoded once; under g-UMTRA the queries of column j are read on the j-th augmented graph.
    ``encode`` gives the vectors of nodes on a view of the graph; the learner's encoder if None.
    """
    encode = encode or learner.encode_in(update)
    views = learner.query_operators(episodes, update)
    episode, slot, column = kept_queries(episodes, learner.device)
    supports, queries = episodes.support.ravel(), episodes.query[episodes.mask]
    shape = (len(episodes), episodes.way, episodes.shot, -1)
    if views == [learner.operator]:
        nodes, place = np.unique(np.concatenate([supports, queries]), return_inverse=True)
        vectors = encode(nodes, learner.operator)[torch.from_numpy(place).to(learner.device)]
        return vectors[: len(supports)].view(shape), vectors[len(supports) :], episode, slot
    support = encode(supports, learner.operator).view(shape)
    query = support.new_zeros(len(queries), support.shape[-1])
    for number, view in enumerate(views):
        mine = np.flatnonzero(column == number)
        query = query.index_copy(0, torch.from_numpy(mine).to(learner.device), encode(queries[mine], view))
    return support, query, episode, slot


def mean_by_episode(each: torch.Tensor, episode: torch.Tensor, count: int) -> torch.Tensor:
    """Mean over episodes of the mean over their own kept queries; an episode without any counts as 0."""
    kept = torch.bincount(episode, minlength=count)
    total = torch.zeros(count, dtype=each.dtype, device=each.device).index_add_(0, episode, each)
    return (total / kept.clamp(min=1)).mean()


def squared_distances(queries: torch.Tensor, prototypes: torch.Tensor, episode: torch.Tensor) -> torch.Tensor:
    """(queries, way) squared distances of each query to the prototypes of its own episode."""
    if len(prototypes) == 1:
        dots = queries @ prototypes[0].T
    else:
        dots = torch.einsum("qd,qwd->qw", queries, prototypes[episode])
    return queries.pow(2).sum(1, keepdim=True) + prototypes.pow(2).sum(2)[episode] - 2 * dots
