"""Profiles: with which settings methods run. A budget says for how long, a profile says how.

The settings of a profile are written into every cell; options that are given on the command line and levels of an analysis come on top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from naq_paper.experiments.paper import settings as paper
from naq_paper.experiments.paper.names import paper_name
from naq_paper.experiments.tuning import CANDIDATES, learner_of

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Profile:
    """Settings by method and dataset; what is not set is the method's own default.

    Attributes:
        episodes: by kind of episodes; ``episodes_of``: by learner, then by kind; ``episodes_on``: by dataset, then by kind.
        models: by learner or embedder; ``models_on``: by dataset, then by learner or embedder. Datasets have the paper's names.
        all_classes: by method, the option that is the number of all classes of the dataset.
        candidates: settings that tuning chooses from, by learner or embedder; those not named have one, the profile's own.
    """

    name: str
    summary: str
    episodes: Mapping[str, Settings] = field(default_factory=dict)
    episodes_of: Mapping[str, Mapping[str, Settings]] = field(default_factory=dict)
    episodes_on: Mapping[str, Mapping[str, Settings]] = field(default_factory=dict)
    models: Mapping[str, Settings] = field(default_factory=dict)
    models_on: Mapping[str, Mapping[str, Settings]] = field(default_factory=dict)
    all_classes: Mapping[str, str] = field(default_factory=dict)
    candidates: Mapping[str, Sequence[Settings]] = field(default_factory=dict)

    def options(self, method: str, dataset: str, classes: int | None = None) -> dict[str, Any]:
        """Options of a method on a dataset of so many classes."""
        model, on = learner_of(method), self.models_on.get(paper_name(dataset) or "", {})
        whole = {self.all_classes[method]: classes} if classes and method in self.all_classes else {}
        return {**self.models.get(model, {}), **on.get(model, {}), **whole}

    def episode(self, kind: str, dataset: str, learner: str = "") -> dict[str, Any]:
        """Options of a learner's episodes on a dataset."""
        on = self.episodes_on.get(paper_name(dataset) or "", {})
        own = self.episodes_of.get(learner, {})
        return {**self.episodes.get(kind, {}), **own.get(kind, {}), **on.get(kind, {})}

    def tried(self, method: str) -> Sequence[Settings]:
        """What tuning chooses from."""
        return self.candidates.get(learner_of(method), ({},))


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("default", "the defaults of this package", candidates=CANDIDATES),
        Profile(
            "paper",
            "the released settings of every method, as behind the paper's tables: NaQ-Diff without self-loops, rows with too few neighbours "
            "completed by the lowest ids, the grid of the paper's appendix",
            paper.EPISODES,
            paper.EPISODES_OF,
            paper.EPISODES_ON,
            paper.MODELS,
            paper.MODELS_ON,
            paper.ALL_CLASSES,
            # what the paper does not have is tuned as under our own profile
            {**CANDIDATES, **paper.GRID},
        ),
    )
}
