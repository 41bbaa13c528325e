"""A perturbation: the same dataset with fewer labels, with noise, or with other class sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from naq.errors import OptionError
from naq.graph import Graph
from naq.options import Value, merge_options, nearest
from naq.tasks import ClassSplit


@dataclass(frozen=True, eq=False)
class Perturbed:
    """What a run is given instead of the dataset.

    Attributes:
        graph: with true labels: tasks are made from them.
        base_labels: (n,) what a supervised method may read, -1 where nothing; None: all labels of base classes.
        split: classes, where the perturbation takes some away; None: as they were.
        redraw: whether nodes went, so that tasks have to be drawn anew.
        facts: what was done, for the report; JSON values.
    """

    graph: Graph
    base_labels: np.ndarray | None = None
    split: ClassSplit | None = None
    redraw: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


class Apply(Protocol):
    """(graph, split, seed=, **options) to what a run is given; draws from ``naq.randomness.stream`` only."""

    def __call__(self, graph: Graph, split: ClassSplit, *, seed: int, **options: Any) -> Perturbed: ...


@dataclass(frozen=True)
class Perturbation:
    """A registered perturbation and its options."""

    name: str
    summary: str
    defaults: Mapping[str, Value]
    apply: Apply


PERTURBATIONS: dict[str, Perturbation] = {}


def register_perturbation(name: str, **defaults: Value) -> Callable[[Any], Any]:
    """Decorator: makes a function known as the perturbation ``name``; the first line of its docstring is the summary."""

    def add(apply: Any) -> Any:
        if name in PERTURBATIONS:
            raise OptionError(f"a perturbation named {name!r} is registered already; choose another name.")
        PERTURBATIONS[name] = Perturbation(name, (apply.__doc__ or "").strip().splitlines()[0], defaults, apply)
        return apply

    return add


def resolve_perturbation(given: Mapping[str, Any]) -> dict[str, Value]:
    """``{"name": ..., options..., "seed": 0}`` with every option written out."""
    name = str(given.get("name", ""))
    if name not in PERTURBATIONS:
        raise OptionError(f"there is no perturbation {name!r}; {nearest(name, PERTURBATIONS)}")
    options = {key: value for key, value in given.items() if key != "name"}
    return {"name": name, **merge_options(name, {**PERTURBATIONS[name].defaults, "seed": 0}, options)}


def apply_perturbation(graph: Graph, split: ClassSplit, perturbation: Mapping[str, Any]) -> Perturbed:
    """The perturbation that a resolved description names."""
    options: dict[str, Any] = {key: value for key, value in resolve_perturbation(perturbation).items() if key != "name"}
    return PERTURBATIONS[str(perturbation["name"])].apply(graph, split, **options)
