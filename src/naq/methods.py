"""Every method by name: ``episodes/learner`` for what is trained on episodes, a plain name for what needs none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from naq.embedders import EMBEDDERS, Embedder, TrainedEmbedder
from naq.errors import OptionError
from naq.learners import LEARNERS, Learner
from naq.options import nearest

EPISODE_KINDS = {
    "naq-feat": "queries are the nearest nodes by features",
    "naq-diff": "queries are the nearest nodes by graph diffusion",
    "supervised": "episodes from labels of base classes",
    "g-umtra": "queries are the supports on an augmented graph",
}

PUBLISHED = "supervised"
"""The episodes that meta-learners were published with."""


@dataclass(frozen=True)
class Method:
    """A registered method: a learner with its kind of episodes, or an embedder, whose ``episodes`` are None."""

    name: str
    summary: str
    model: type[Learner] | type[Embedder]
    episodes: str | None = None

    @property
    def learner(self) -> type[Learner] | None:
        return self.model if issubclass(self.model, Learner) else None

    @property
    def embedder(self) -> type[Embedder] | None:
        return self.model if issubclass(self.model, Embedder) else None

    @property
    def reads_base_labels(self) -> bool:
        return self.episodes == "supervised"

    @property
    def inductive(self) -> bool:
        """Whether its encoder applies to nodes it has not seen."""
        return self.model.inductive

    @property
    def in_epochs(self) -> bool:
        """Whether it is trained in epochs, without episodes."""
        return issubclass(self.model, TrainedEmbedder)

    @property
    def trains(self) -> bool:
        """Whether it is trained at all, on episodes or in epochs."""
        return issubclass(self.model, Learner | TrainedEmbedder)

    @property
    def solves_tasks(self) -> bool:
        """Whether it solves tasks itself, without a head."""
        return self.model.solves_tasks

    @property
    def defaults(self) -> dict[str, Any]:
        return dict(self.model.defaults)


def methods() -> dict[str, Method]:
    """All methods, learners first."""
    found: dict[str, Method] = {}
    for learner in LEARNERS.values():
        for kind, meaning in EPISODE_KINDS.items():
            if kind in learner.unfit:
                continue
            name = f"{kind}/{learner.name}"
            found[name] = Method(name, f"{learner.summary}; {meaning}", learner, kind)
    for embedder in EMBEDDERS.values():
        found[embedder.name] = Method(embedder.name, embedder.summary, embedder)
    return found


def get_method(name: str) -> Method:
    """The method of this name, or one sentence with the nearest names.

    The name of a learner alone is the learner as it was published: trained on labels of base classes.
    """
    known = methods()
    if name in LEARNERS and name not in known:
        name = f"{PUBLISHED}/{name}"
    kind, _, learner = name.partition("/")
    if learner in LEARNERS and kind in LEARNERS[learner].unfit:
        raise OptionError(f"{learner} cannot be trained on {kind} episodes: {LEARNERS[learner].unfit[kind]}")
    if name not in known:
        raise OptionError(f"there is no method {name!r}; {nearest(name, known)}")
    return known[name]
