r"""ProtoNet for graphs with hubs: a training step reads a sample of the neighbours of a node.

A node with more than ``hub_cap`` neighbours is read by as many drawn ones, anew in every step, which count so much more
that their sum has the right mean (:mod:`naq_scale.streamed`). Tasks are always solved with all neighbours. Everything
else is :mod:`naq.learners.protonet`.

Cost: at most ``hub_cap`` neighbours per node of an episode, and as many of each of these.

Example:
    >>> import naq
    >>> r = naq.run("debian", method="naq-diff/protonet-capped", options={"hub_cap": 16})  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from naq.episodes import Episodes
from naq.learners.episode_vectors import encode_episodes
from naq.learners.protonet import ProtoNet, prototype_loss
from naq.nn import Operator
from naq.options import Value, option
from naq_scale.streamed import StreamedOperator


class CappedProtoNet(ProtoNet):
    """Prototypical network whose training steps read at most ``hub_cap`` neighbours of a node."""

    name = "protonet-capped"
    summary = "distance to class means, hubs read by a sample of their neighbours"
    still: ClassVar[Mapping[str, Value]] = {"hub_cap": 1 << 30}
    """Options under which nothing drawn belongs to a node, so that renumbering nodes changes nothing."""

    @dataclass(frozen=True)
    class Options(ProtoNet.Options):
        hub_cap: int = option(32, at_least=1)  # neighbours of a node that a training step reads at most

    options: Options

    def build(self) -> None:
        super().build()
        own = self.operator
        self._streamed = own if isinstance(own, StreamedOperator) else StreamedOperator(self.graph, self.device)

    def loss(self, episodes: Episodes, update: int = 0) -> torch.Tensor:
        capped = self._streamed.capped(self.options.hub_cap, self.seed, update)

        def encode(nodes: np.ndarray, view: Operator) -> torch.Tensor:
            return self.encoder.encode(nodes, capped if view is self.operator else view)

        support, *queries = encode_episodes(self, episodes, update, encode)
        return prototype_loss(support.mean(dim=2), *queries)
