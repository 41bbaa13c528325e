"""Your own learner, registered and checked by a script: prototypes by cosine instead of distance.

    python examples/own_learner.py

In the package the same class is a file in src/naq/learners, with a line in LEARNERS.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from naq.learners.episode_vectors import encode_episodes, mean_by_episode

import naq
from naq.episodes import Episodes
from naq.learners import Learner, register_learner
from naq.options import option
from naq.testing import check_learner


@register_learner
class CosineProtoNet(Learner):
    """Queries are classified by their cosine to class means."""

    name = "cosine"
    summary = "cosine to class means"

    @dataclass(frozen=True)
    class Options(Learner.Options):
        latent: int = option(256, more_than=0)  # width of the vectors
        lr: float = option(3e-4, more_than=0)  # Adam's learning rate
        temperature: float = option(0.1, more_than=0)  # cosines are divided by it

    options: Options

    def loss(self, episodes: Episodes, update: int = 0) -> torch.Tensor:
        support, query, episode, slot = encode_episodes(self, episodes, update)
        prototypes = F.normalize(support.mean(dim=2), dim=-1)
        cosines = torch.einsum("qd,qwd->qw", F.normalize(query, dim=-1), prototypes[episode])
        each = F.cross_entropy(cosines / self.options.temperature, slot, reduction="none")
        return mean_by_episode(each, episode, len(episodes))


if __name__ == "__main__":
    check_learner(CosineProtoNet)  # seeds, renumbered nodes, labels, resume, ...: an AssertionError says what failed
    for kind in ("naq-feat", "naq-diff", "g-umtra"):
        print(naq.run("debian", method=f"{kind}/cosine", episodes=480))
