"""Experiments by name, what a request needs of them, what there is of it, and computing the rest.

A request is expanded once, into one :class:`Study` per dataset: the groups of cells, and the records found of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naq.errors import Listener, OptionError
from naq.options import did_you_mean
from naq_paper.cells.cell import Cell
from naq_paper.cells.datasets import DatasetCache, identify
from naq_paper.cells.records import Find, Record
from naq_paper.cells.runners import Outcome, Runner, Setup
from naq_paper.cells.store import Store
from naq_paper.experiments.definition import make_experiment, read_definition
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup
from naq_paper.experiments.views import Missing, View

if TYPE_CHECKING:
    from naq_paper.experiments.long_table import LongTable
    from naq_paper.statistics import Score


@dataclass(frozen=True, eq=False)
class Contest:
    """Methods on the same tasks: ``where`` in words, ``at`` a way and shot; scores and their records by row."""

    where: str
    at: tuple[int, int]
    scores: Mapping[str, Score]
    trainings: Mapping[str, Sequence[Record]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment(ABC):
    """A table or an analysis: the fields are the keys of its TOML file, the class is the analysis that the file names.

    Attributes:
        name: of the file; what ``naq reproduce`` calls it.
        title, question: of its section in the report; the question is answered there.
        origin: where it is in the paper.
        order: place in the reading order; what has none comes last.
        kind: ``table`` or ``analysis``, which decides how many seeds a budget gives.
        datasets: the paper's, by our names; used if they are available and no other is given.
        needs: ``labels``, ``features`` or both; a dataset without them is left out with a sentence.
        group: a further name that ``naq reproduce`` knows it by, with others.
    """

    name: str
    title: str
    question: str
    origin: str
    order: int = 1000
    kind: str = "analysis"
    datasets: tuple[str, ...] = ("amazon-electronics", "cora-full")
    needs: tuple[str, ...] = ("labels", "features")
    group: str = ""

    @abstractmethod
    def cells(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        """Everything that the request needs of a dataset by row and column, in the order in which it is computed."""

    @abstractmethod
    def figures(self, study: Study) -> list[View]:
        """Tables, plots and sentences of a dataset, made from the results that exist: ``study.table``."""

    def contests(self, study: Study) -> list[Contest]:
        """Comparisons for the first screen of a report, the most important first."""
        return []


class Experiments(Mapping[str, Experiment]):
    """Every TOML file of some folders by its name, in reading order; read at first use."""

    def __init__(self, *folders: Path) -> None:
        self.folders = folders
        self._made: dict[str, Experiment] = {}

    @cached_property
    def _files(self) -> dict[str, tuple[Path, dict[str, Any]]]:
        found = [(file, read_definition(file)) for folder in self.folders for file in sorted(folder.glob("*.toml"))]
        found.sort(key=lambda one: one[1].get("order", 1000))
        return {file.stem: (file, data) for file, data in found}

    def __getitem__(self, name: str) -> Experiment:
        if name not in self._made:
            file, data = self._files[name]
            self._made[name] = make_experiment(data, file)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def find(self, name: str) -> Experiment:
        """The experiment of this name, or an ``OptionError`` with the nearest names."""
        if name not in self:
            raise OptionError(f"{name!r} is not a table or an analysis; {did_you_mean(name, self)}")
        return self[name]


EXPERIMENTS = Experiments(Path(__file__).parent / "paper")
"""Tables, then analyses, as a reader wants them."""


@dataclass(frozen=True, eq=False)
class Study:
    """A request on one dataset, expanded once into groups of cells, and what ``find`` finds of them."""

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

    @cached_property
    def table(self) -> LongTable:
        """Everything that is finished as one long table, from which all scores are taken."""
        from naq_paper.experiments.long_table import LongTable  # pandas is needed to show results, not to plan cells

        return LongTable.of(self)

    def scores(self, head: str | None = None) -> Mapping[Key, Score]:
        """Accuracies on test tasks by group, of the head that chose the checkpoints or another one."""
        return self.table.scores(head)

    def missing(self, key: Key, paper: float | str | None = None, paper_ci: float | None = None) -> Missing:
        """What a table shows in place of the number of a group."""
        failed = self.groups[key].records(self.find, done=False)
        return Missing(f"failed: {failed[0].error}" if failed else "not run", paper, paper_ci)

    def figures(self) -> list[View]:
        return self.experiment.figures(self)

    def contests(self) -> list[Contest]:
        return self.experiment.contests(self)


def expand(request: Request, find: Find) -> list[Study]:
    """The studies of a request, one per dataset."""
    experiment = EXPERIMENTS.find(request.experiment)
    return [
        Study(request, dataset, experiment, experiment.cells(request, dataset), find) for dataset in request.datasets
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
