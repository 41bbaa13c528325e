r"""BGRL: an encoder that predicts what a slower copy of itself says about another view of the same node.

Thakoor et al., Large-Scale Representation Learning on Graphs via Bootstrapping, https://arxiv.org/abs/2102.06514; as
pre-training for few-shot tasks (TLP): Tan et al., Transductive Linear Probing, https://arxiv.org/abs/2205.12420

.. math::
    \mathcal L = 2 - \frac1n \sum_v \cos\left(q(f(G_1))_v, g(G_2)_v\right) - \frac1n \sum_v \cos\left(q(f(G_2))_v,
    g(G_1)_v\right), \qquad g \leftarrow m g + (1 - m) f

Two views of the graph per update: undirected edges dropped, feature columns zeroed. f and g are [graph convolution,
batch normalisation, PReLU] twice, q is a small perceptron; :math:`1 - m` falls from 0.1 to 0 by half a cosine. The
vectors are those of f on the graph as it is.

Other than in the common few-shot wrapper, training mode is set at every update, the average moves once per update and
not once per tensor, schedules last as long as the training, and both directions of an edge go together. Defaults of
``lr``, ``momentum`` and the views are for trainings of hundreds of epochs: published ones need thousands.

Cost: six passes over edges and non-zeros of X per update; memory about n (6 * hidden + 10 * latent) numbers.

Example:
    >>> import naq
    >>> r = naq.run("debian", method="bgrl")  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F

from naq.options import Value, option
from naq_paper.rivals.convolutions import (
    BLOCK,
    Convolutions,
    Predictor,
    draw_view,
    follow,
    rising_momentum,
    teacher_of,
    warm_cosine,
)
from naq_paper.rivals.fixed_order import total
from naq_paper.rivals.pieces import Piece
from naq_paper.rivals.trained import TrainedEmbedder

PREDICTOR = 512
"""Width between the two layers of q."""
WARMUP = 0.1
"""Share of the updates over which the learning rate rises."""


class BGRL(TrainedEmbedder):
    """Bootstrapped vectors.

    Shapes:
        - ``loss``: a piece -> scalar in [0, 4]
        - ``encode_all``: (n, latent)
    """

    name = "bgrl"
    summary = "an encoder predicts its slower copy on another view"
    weight_decay = 1e-5
    decoupled_decay = True
    deterministic_options: ClassVar[Mapping[str, Value]] = {"drop_edge1": 0.0, "drop_edge2": 0.0}

    @dataclass(frozen=True)
    class Options(TrainedEmbedder.Options):
        hidden: int = option(512, more_than=0)  # width of the hidden layer
        latent: int = option(256, more_than=0)  # width of the vectors
        # strengths of the two views; published: 0.3, 0.3, 0.2, 0.4 for citation graphs, 0.5, 0.2, 0.4, 0.1 for product
        # graphs
        drop_edge1: float = option(0.5, at_least=0, below=1)
        drop_feature1: float = option(0.5, at_least=0, below=1)
        drop_edge2: float = option(0.5, at_least=0, below=1)
        drop_feature2: float = option(0.5, at_least=0, below=1)
        # AdamW's (published: 1e-5 to 5e-4), after a linear rise over a tenth of the updates, then half a cosine down to
        # 0
        lr: float = option(1e-3, more_than=0)
        # of the average at the start (published: 0.99, for 10,000 epochs)
        momentum: float = option(0.9, at_least=0, below=1)
        # the slow copy starts with other weights (BGRL), or as a copy (TLP)
        target: str = option("fresh", choices=("fresh", "copy"))
        # of running statistics, 0 for automatic: 0.99 on whole graphs, 0.1 with batches. TLP has 0.01.
        bn_momentum: float = option(0.0, at_least=0, below=1)
        # vectors as they are, or every dimension moved to 0..1 over all nodes, as TLP does
        scale: str = option("none", choices=("none", "minmax"))
        fanout: int = option(10, at_least=1)  # see TrainedEmbedder

    options: Options

    def build(self) -> None:
        momentum = self.options.bn_momentum or 0.99

        def encoder(purpose: str) -> Convolutions:
            sizes = (self.graph.num_features, self.options.hidden, self.options.latent)
            return Convolutions(sizes, generator=self.generator(purpose), device=self.device, momentum=momentum)

        self.online = encoder("encoder")
        self.target = teacher_of(self.online if self.options.target == "copy" else encoder("target"))
        self.predictor = Predictor(
            self.options.latent, PREDICTOR, generator=self.generator("predictor"), device=self.device
        )

    def step_bytes(self, nodes: float, edges: float, entries: float) -> float:
        hidden, latent = self.options.hidden, self.options.latent
        return 4 * nodes * (12 * hidden + 20 * latent + 6 * PREDICTOR) + 60 * edges + 16 * entries

    def rate(self, update: int) -> float:
        return warm_cosine(self.options.lr, update, self.updates, round(WARMUP * self.updates))

    def loss(self, piece: Piece, update: int) -> torch.Tensor:
        views = [draw_view(self, piece, number, update) for number in (1, 2)]
        with torch.no_grad():
            answers = [self.target(piece, *view)[: piece.seeds] for view in views]
        loss = torch.tensor(2.0, device=self.device)
        for view, answer in zip(views, reversed(answers)):
            predicted = self.predictor(self.online(piece, *view)[: piece.seeds])
            cosines = (F.normalize(predicted, dim=1) * F.normalize(answer, dim=1)).sum(dim=1)
            loss = loss - total(cosines) / piece.seeds
        return loss

    def after_step(self, update: int) -> None:
        follow(self.target, self.online, rising_momentum(self.options.momentum, update, self.updates))

    def encode_all(self) -> torch.Tensor:
        vectors = self.online.encode_all(self.operator, BLOCK if self.batch else 0)
        if self.options.scale == "minmax":
            low, high = vectors.amin(dim=0), vectors.amax(dim=0)
            vectors = (vectors - low) / (high - low).clamp(min=1e-12)
        return vectors
