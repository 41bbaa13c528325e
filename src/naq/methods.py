"""Every method by name: ``episodes/learner`` for what is trained on episodes, a plain name for what needs none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from naq.embedders import EMBEDDERS, Embedder
from naq.errors import OptionError
from naq.heads import HEADS, Head
from naq.io.readers import READERS, Reader
from naq.learners import LEARNERS, Learner
from naq.options import did_you_mean

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
    """A learner with its kind of episodes, or an embedder, whose ``episodes`` are None."""

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
        return issubclass(self.model, Embedder) and self.model.trains

    @property
    def trains(self) -> bool:
        """Whether it is trained at all, on episodes or in epochs."""
        return self.learner is not None or self.in_epochs

    @property
    def solves_tasks(self) -> bool:
        """Whether it solves tasks itself, without a head."""
        return self.model.solves_tasks

    @property
    def defaults(self) -> dict[str, Any]:
        return dict(self.model.defaults)


def methods() -> dict[str, Method]:
    """All methods, learners first; imports each of them."""
    found: dict[str, Method] = {}
    for learner in LEARNERS.values():
        for kind in EPISODE_KINDS:
            if kind not in learner.unfit:
                method = _trained_on(kind, learner)
                found[method.name] = method
    for embedder in EMBEDDERS.values():
        found[embedder.name] = Method(embedder.name, embedder.summary, embedder)
    return found


def get_method(name: str) -> Method:
    """The method of this name, or one sentence with the nearest names; imports that method alone.

    The name of a learner alone is the learner as it was published: trained on labels of base classes.
    """
    kind, _, learner = name.partition("/") if "/" in name else (PUBLISHED, "", name)
    if kind in EPISODE_KINDS and learner in LEARNERS:
        found = LEARNERS[learner]
        if kind in found.unfit:
            raise OptionError(f"{learner} cannot be trained on {kind} episodes: {found.unfit[kind]}")
        return _trained_on(kind, found)
    if name in EMBEDDERS:
        embedder = EMBEDDERS[name]
        return Method(name, embedder.summary, embedder)
    raise OptionError(f"there is no method {name!r}; {did_you_mean(name, methods())}")


def register(item: type[Learner] | type[Embedder] | type[Head] | type[Reader]) -> Any:
    """Makes a learner, an embedder, a head or a reader known by its ``name`` in this process; also as a decorator.

    A package that is installed adds its own by the entry point ``naq.methods``.
    """
    for base, registry in ((Learner, LEARNERS), (Embedder, EMBEDDERS), (Head, HEADS), (Reader, READERS)):
        if isinstance(item, type) and issubclass(item, base):
            return registry.register(item)
    raise OptionError(f"{item!r} was registered; expected a subclass of Learner, Embedder, Head or Reader.")


def _trained_on(kind: str, learner: type[Learner]) -> Method:
    return Method(f"{kind}/{learner.name}", f"{learner.summary}; {EPISODE_KINDS[kind]}", learner, kind)
