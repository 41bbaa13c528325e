"""An experiment: a table or an analysis as groups of cells, and the views of their results.

A request is expanded once, into one :class:`Study` per dataset. A study holds the groups of cells and looks their records up; views are
made from it, and nothing else knows where results lie.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from naq.plugins import Registry
from naq_paper.cells.cell import Cell
from naq_paper.cells.records import Find, Record
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup, score_of
from naq_paper.experiments.views import Missing, View
from naq_paper.statistics import Score


@dataclass(frozen=True, eq=False)
class Contest:
    """Methods on the same tasks.

    Attributes:
        where: the dataset and the setting in words.
        at: way and shot of the tasks.
        scores: by the names of the rows; ``trainings``: the records behind each.
    """

    where: str
    at: tuple[int, int]
    scores: Mapping[str, Score]
    trainings: Mapping[str, Sequence[Record]]


class Experiment(ABC):
    """One file with one subclass, registered by ``@EXPERIMENTS.register``.

    Attributes:
        name: what ``naq reproduce`` calls it.
        title: over its section of the report.
        question: what it answers, one sentence.
        origin: where it stands in the paper.
        datasets: the paper's, by our names; used where they are at hand and no other is given.
        needs: ``labels``, ``features`` or both; a dataset without them is left out with a sentence.
        group: a further name that ``naq reproduce`` knows it by, with others.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[str]
    origin: ClassVar[str]
    datasets: ClassVar[tuple[str, ...]] = ("amazon-electronics", "cora-full")
    needs: ClassVar[tuple[str, ...]] = ("labels", "features")
    kind: ClassVar[str] = "analysis"
    group: ClassVar[str] = ""

    @abstractmethod
    def groups(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        """Everything that the request needs of a dataset, in the order in which it is to be computed."""

    @abstractmethod
    def views(self, study: Study) -> list[View]:
        """The views of a dataset, made from the results that exist."""

    def headline(self, study: Study) -> list[Contest]:
        """Comparisons for the first screen of a report, the most important first."""
        return []


@dataclass(frozen=True, eq=False)
class Study:
    """A request on one dataset, expanded once, and what is found of it.

    Attributes:
        groups: the cells, by keys of the experiment.
        find: looks up the record of a cell.
    """

    request: Request
    dataset: str
    experiment: Experiment
    groups: Mapping[Key, SeedGroup]
    find: Find

    def cells(self) -> list[Cell]:
        """Every cell that is known to be needed by now: trainings with a setting that is yet to be chosen are not."""
        return list(dict.fromkeys(cell for group in self.groups.values() for cell in group.needed(self.find)))

    def records(self, key: Key) -> list[Record]:
        """The finished trainings of a group."""
        return self.groups[key].records(self.find)

    def record(self, key: Key) -> Record | None:
        """The record of a group of one cell, finished or failed."""
        cells = self.groups[key].cells(self.find)
        return self.find(cells[0]) if cells else None

    def result(self, key: Key) -> Mapping[str, Any] | None:
        """The result of a group of one cell, if it is finished."""
        record = self.record(key)
        return None if record is None else record.result

    def score(self, key: Key, shot: int | None = None, head: str | None = None) -> Score | None:
        """Accuracy of a group on test tasks of ``shot`` with ``head``, by default those it was trained for; None while nothing is done."""
        return score_of(self.records(key), shot, head)

    def missing(self, key: Key, paper: float | str | None = None, paper_ci: float | None = None) -> Missing:
        """What a table shows where the number of a group would be."""
        failed = self.groups[key].failures(self.find)
        return Missing(f"failed: {failed[0].error}" if failed else "not run", paper, paper_ci)

    def views(self) -> list[View]:
        return self.experiment.views(self)


EXPERIMENTS: Registry[type[Experiment]] = Registry("a table or analysis", package="naq_paper.experiments.analyses")
ORDER = (
    *("methods", "main-products", "main-citation", "full-products", "full-citation", "model-agnostic"),
    *("ogbn-arxiv", "ogbn-products"),
    *("beyond-accuracy", "beyond-ablation", "beyond-refinement", "beyond-inputs"),
    *(
        "practice",
        "label-scarcity",
        "label-noise",
        "imbalance",
        "structure-noise",
        "feature-noise",
        "tail-tsne",
        "queries",
    ),
    *("class-similarity", "metrics", "training-way", "umtra-models", "umtra", "overlap", "overlap-drop", "times"),
    *("episode-options", "beyond-robustness"),
)
"""Tables, then analyses, as a reader wants them."""


def in_reading_order() -> list[str]:
    """The names of all experiments; those that ``ORDER`` does not know come last."""
    return sorted(EXPERIMENTS, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def expand(request: Request, find: Find) -> list[Study]:
    """The studies of a request, one per dataset."""
    experiment = EXPERIMENTS.find(request.experiment)()
    return [
        Study(request, dataset, experiment, experiment.groups(request, dataset), find) for dataset in request.datasets
    ]
