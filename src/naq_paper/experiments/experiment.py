"""An experiment: a table or an analysis as groups of cells, the views of their results, and computing them.

A request is expanded once, into one :class:`Study` per dataset, which holds the groups of cells and looks their records up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from naq.plugins import Registry
from naq.progress import Listener
from naq_paper.cells.cell import Cell
from naq_paper.cells.datasets import DatasetCache, identify
from naq_paper.cells.records import Find, Record
from naq_paper.cells.runners import Outcome, Runner, Setup
from naq_paper.cells.store import Store
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup, score_of
from naq_paper.experiments.views import Missing, View
from naq_paper.statistics import Score


@dataclass(frozen=True, eq=False)
class Contest:
    """Methods on the same tasks: ``where`` in words, ``at`` a way and shot; scores and the records behind each by row."""

    where: str
    at: tuple[int, int]
    scores: Mapping[str, Score]
    trainings: Mapping[str, Sequence[Record]]


class Experiment(ABC):
    """A table or an analysis: a subclass, and a line in :data:`EXPERIMENTS`.

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
    """A request on one dataset, expanded once into cells by keys of the experiment, and what ``find`` finds of them."""

    request: Request
    dataset: str
    experiment: Experiment
    groups: Mapping[Key, SeedGroup]
    find: Find

    def cells(self) -> list[Cell]:
        """Every cell that is known to be needed by now, not trainings with a setting that is yet to be chosen."""
        groups = self.groups.values()
        return list(dict.fromkeys(cell for group in groups for cell in (*group.tried, *group.cells(self.find))))

    def records(self, key: Key) -> list[Record]:
        """The finished trainings of a group."""
        return self.groups[key].records(self.find)

    def keys(self, key: Key) -> tuple[str, ...]:
        """Of those trainings."""
        return tuple(record.key for record in self.records(key))

    def result(self, key: Key) -> Mapping[str, Any] | None:
        """The result of a group of one cell, if it is finished."""
        records = self.records(key)
        return records[0].result if records else None

    def score(self, key: Key, shot: int | None = None, head: str | None = None) -> Score | None:
        """Accuracy of a group on test tasks, by default of the shot and head it was trained for; None without a result."""
        return score_of(self.records(key), shot, head)

    def missing(self, key: Key, paper: float | str | None = None, paper_ci: float | None = None) -> Missing:
        """What a table shows where the number of a group would be."""
        failed = self.groups[key].records(self.find, done=False)
        return Missing(f"failed: {failed[0].error}" if failed else "not run", paper, paper_ci)

    def views(self) -> list[View]:
        return self.experiment.views(self)


ANALYSES = "naq_paper.experiments.analyses"
EXPERIMENTS: Registry[type[Experiment]] = Registry(
    "a table or analysis",
    {
        "methods": f"{ANALYSES}.tables:EveryMethod",
        "main-products": f"{ANALYSES}.tables:MainProducts",
        "main-citation": f"{ANALYSES}.tables:MainCitation",
        "full-products": f"{ANALYSES}.tables:FullProducts",
        "full-citation": f"{ANALYSES}.tables:FullCitation",
        "model-agnostic": f"{ANALYSES}.tables:ModelAgnostic",
        "ogbn-arxiv": f"{ANALYSES}.tables:OgbnArxiv",
        "ogbn-products": f"{ANALYSES}.tables:OgbnProducts",
        "beyond-accuracy": f"{ANALYSES}.beyond_accuracy:BeyondAccuracy",
        "beyond-ablation": f"{ANALYSES}.variants:BeyondAblation",
        "beyond-refinement": f"{ANALYSES}.variants:BeyondRefinement",
        "beyond-inputs": f"{ANALYSES}.variants:BeyondInputs",
        "practice": f"{ANALYSES}.practice:Practice",
        "label-scarcity": f"{ANALYSES}.noise:LabelScarcity",
        "label-noise": f"{ANALYSES}.noise:LabelNoise",
        "imbalance": f"{ANALYSES}.noise:Imbalance",
        "structure-noise": f"{ANALYSES}.noise:StructureNoise",
        "feature-noise": f"{ANALYSES}.noise:FeatureNoise",
        "tail-tsne": f"{ANALYSES}.tail_tsne:TailMaps",
        "queries": f"{ANALYSES}.episodes:QueryCount",
        "class-similarity": f"{ANALYSES}.similarity:ClassSimilarity",
        "metrics": f"{ANALYSES}.similarity:MetricAblation",
        "training-way": f"{ANALYSES}.training_way:TrainingWay",
        "umtra-models": f"{ANALYSES}.umtra:UmtraModels",
        "umtra": f"{ANALYSES}.umtra:UmtraStrength",
        "overlap": f"{ANALYSES}.overlap:Overlap",
        "overlap-drop": f"{ANALYSES}.overlap:OverlapDrop",
        "times": f"{ANALYSES}.times:Times",
        "episode-options": f"{ANALYSES}.episodes:EpisodeOptions",
        "beyond-robustness": f"{ANALYSES}.noise:BeyondRobustness",
    },
)
"""Tables, then analyses, as a reader wants them."""


def expand(request: Request, find: Find) -> list[Study]:
    """The studies of a request, one per dataset."""
    experiment = EXPERIMENTS.find(request.experiment)()
    return [
        Study(request, dataset, experiment, experiment.groups(request, dataset), find) for dataset in request.datasets
    ]


class StoredRecords:
    """Looks cells up in a store, as the data and the code are now; each is read once until :meth:`refresh`."""

    def __init__(self, store: Store, dataset_cache: DatasetCache) -> None:
        self.store, self.dataset_cache = store, dataset_cache
        self._known: dict[Cell, Record | None] = {}

    def __call__(self, cell: Cell) -> Record | None:
        if cell not in self._known:
            key = identify(cell, self.dataset_cache).key(cell)
            self._known[cell] = self.store.get(key) or self.store.failure(key)
        return self._known[cell]

    def refresh(self) -> None:
        self._known.clear()


def cells_of(studies: Iterable[Study]) -> list[Cell]:
    """Everything that is known to be needed, each cell once."""
    return list(dict.fromkeys(cell for study in studies for cell in study.cells()))


def compute(
    studies: Sequence[Study], find: StoredRecords, runner: Runner, setup: Setup, listener: Listener | None = None
) -> Outcome:
    """Compute what the studies need, in rounds: which settings win decides which trainings come next."""
    total, tried = Outcome(), set[Cell]()
    while True:
        find.refresh()
        new = [cell for cell in cells_of(studies) if cell not in tried]
        if not new:
            return total
        outcome = runner.run(new, find.store, setup, listener)
        tried.update(new)
        for name in ("done", "skipped", "failed", "left", "busy"):
            getattr(total, name).extend(getattr(outcome, name))
        if outcome.stopped:
            total.stopped = True
            return total
