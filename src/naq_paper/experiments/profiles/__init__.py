"""Profiles: with which settings methods run, and which candidates tuning chooses from. A budget says for how long.

Each is a TOML file in this folder. Its settings are written into every cell; options that are given on the command line
and levels of an analysis come on top. Episodes, epochs, evaluations and patience belong to the budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from naq_paper.experiments.definition import make_dataclass, read_definition
from naq_paper.experiments.names import PARTS, learner_of, paper_name

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Profile:
    """Settings by method and dataset; what is not set is the method's own default.

    Attributes:
        episodes: by kind of episodes; ``episodes_of``: by learner, then kind; ``episodes_on``: by dataset, then kind.
        models: by learner or embedder; ``models_on``: by dataset (the paper's names), then by learner or embedder.
        all_classes: by method, the option that is the number of all classes of the dataset.
        candidates: settings that tuning chooses from, by learner or embedder; without any, the profile's own.
        grid: by learner or embedder, values by option of which all combinations are candidates.
    """

    name: str
    summary: str
    episodes: Mapping[str, Settings] = field(default_factory=dict)
    episodes_of: Mapping[str, Mapping[str, Settings]] = field(default_factory=dict)
    episodes_on: Mapping[str, Mapping[str, Settings]] = field(default_factory=dict)
    models: Mapping[str, Settings] = field(default_factory=dict)
    models_on: Mapping[str, Mapping[str, Settings]] = field(default_factory=dict)
    all_classes: Mapping[str, str] = field(default_factory=dict)
    candidates: Mapping[str, tuple[Settings, ...]] = field(default_factory=dict)
    grid: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)

    def options(self, method: str, dataset: str, classes: int | None = None) -> dict[str, Any]:
        """Options of a method on a dataset with this number of classes."""
        model, on = learner_of(method), self.models_on.get(paper_name(PARTS.get(dataset, dataset)) or "", {})
        whole = {self.all_classes[method]: classes} if classes and method in self.all_classes else {}
        return {**self.models.get(model, {}), **on.get(model, {}), **whole}

    def episode(self, kind: str, dataset: str, learner: str = "") -> dict[str, Any]:
        """Options of a learner's episodes on a dataset."""
        on = self.episodes_on.get(paper_name(PARTS.get(dataset, dataset)) or "", {})
        return {**self.episodes.get(kind, {}), **self.episodes_of.get(learner, {}).get(kind, {}), **on.get(kind, {})}

    def tried(self, method: str) -> Sequence[Settings]:
        """What tuning chooses from. What a profile does not name is tuned as under the default one."""
        model = learner_of(method)
        if model in self.grid:
            values = self.grid[model]
            return [dict(zip(values, chosen)) for chosen in product(*values.values())]
        return self.candidates.get(model) or PROFILES["default"].candidates.get(model, ({},))


FILES = [Path(__file__).with_name(f"{name}.toml") for name in ("default", "paper")]
PROFILES = {file.stem: make_dataclass(Profile, {"name": file.stem, **read_definition(file)}, file) for file in FILES}
