"""A learner of one's own, registered from a script: prototypes by cosine instead of distance.

    python examples/own_learner.py

In the folder src/naq/learners the same class is a file of its own and needs no import anywhere.
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F

import naq
from naq.episodes import Episodes
from naq.learners import Learner, register_learner
from naq.learners.episode_vectors import encode_episodes, mean_by_episode
from naq.options import Value


@register_learner
class CosineProtoNet(Learner):
    """Queries are classified by their cosine to class means.

    Options:
        latent: width of the vectors.
        lr: Adam's learning rate.
        temperature: cosines are divided by it.
    """

    name = "cosine"
    summary = "cosine to class means"
    defaults: ClassVar[Mapping[str, Value]] = {"latent": 256, "lr": 3e-4, "temperature": 0.1}

    def check_options(self) -> None:
        super().check_options()
        self.require_positive("temperature")

    def loss(self, episodes: Episodes, update: int = 0) -> torch.Tensor:
        support, query, episode, slot = encode_episodes(self, episodes, update)
        prototypes = F.normalize(support.mean(dim=2), dim=-1)
        cosines = torch.einsum("qd,qwd->qw", F.normalize(query, dim=-1), prototypes[episode])
        each = F.cross_entropy(cosines / float(self.options["temperature"]), slot, reduction="none")
        return mean_by_episode(each, episode, len(episodes))


if __name__ == "__main__":
    for kind in ("naq-feat", "naq-diff", "g-umtra"):
        print(naq.run("debian", method=f"{kind}/cosine", episodes=480))
