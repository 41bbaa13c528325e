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
    """One file with one subclass, and a line in :data:`EXPERIMENTS`.

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


ANALYSES = "naq_paper.experiments.analyses"
EXPERIMENTS: Registry[type[Experiment]] = Registry(
    "a table or analysis",
    {
        "methods": f"{ANALYSES}.tables:EveryMethod",
        "main-products": f"{ANALYSES}.main_tables:MainProducts",
        "main-citation": f"{ANALYSES}.main_tables:MainCitation",
        "full-products": f"{ANALYSES}.tables:FullProducts",
        "full-citation": f"{ANALYSES}.tables:FullCitation",
        "model-agnostic": f"{ANALYSES}.model_agnostic:ModelAgnostic",
        "ogbn-arxiv": f"{ANALYSES}.tables:OgbnArxiv",
        "ogbn-products": f"{ANALYSES}.tables:OgbnProducts",
        "beyond-accuracy": f"{ANALYSES}.beyond_accuracy:BeyondAccuracy",
        "beyond-ablation": f"{ANALYSES}.beyond_ablation:BeyondAblation",
        "beyond-refinement": f"{ANALYSES}.beyond_refinement:BeyondRefinement",
        "beyond-inputs": f"{ANALYSES}.beyond_refinement:BeyondInputs",
        "practice": f"{ANALYSES}.practice:Practice",
        "label-scarcity": f"{ANALYSES}.label_scarcity:LabelScarcity",
        "label-noise": f"{ANALYSES}.label_noise:LabelNoise",
        "imbalance": f"{ANALYSES}.imbalance:Imbalance",
        "structure-noise": f"{ANALYSES}.noise:StructureNoise",
        "feature-noise": f"{ANALYSES}.noise:FeatureNoise",
        "tail-tsne": f"{ANALYSES}.tail_tsne:TailMaps",
        "queries": f"{ANALYSES}.query_count:QueryCount",
        "class-similarity": f"{ANALYSES}.class_similarity:ClassSimilarity",
        "metrics": f"{ANALYSES}.metric_ablation:MetricAblation",
        "training-way": f"{ANALYSES}.training_way:TrainingWay",
        "umtra-models": f"{ANALYSES}.umtra_models:UmtraModels",
        "umtra": f"{ANALYSES}.umtra_strength:UmtraStrength",
        "overlap": f"{ANALYSES}.overlap:Overlap",
        "overlap-drop": f"{ANALYSES}.overlap_drop:OverlapDrop",
        "times": f"{ANALYSES}.times:Times",
        "episode-options": f"{ANALYSES}.episode_options:EpisodeOptions",
        "beyond-robustness": f"{ANALYSES}.beyond_robustness:BeyondRobustness",
    },
)
"""Tables, then analyses, as a reader wants them."""


def expand(request: Request, find: Find) -> list[Study]:
    """The studies of a request, one per dataset."""
    experiment = EXPERIMENTS.find(request.experiment)()
    return [
        Study(request, dataset, experiment, experiment.groups(request, dataset), find) for dataset in request.datasets
    ]
