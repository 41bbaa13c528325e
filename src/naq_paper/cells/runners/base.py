"""What every runner is: cells go in, records are stored, and what became of each cell comes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from naq.progress import Listener
from naq_paper.cells.cell import Cell
from naq_paper.cells.datasets import DatasetCache
from naq_paper.cells.fingerprint import identify
from naq_paper.cells.runners.computing import Throttled, record_of, records_of, sentence_of
from naq_paper.cells.runners.pending import Failure, Outcome, Pending, Planned
from naq_paper.cells.store import Store
from naq_paper.measurements import Context
from naq_paper.measurements.train import group_of


@dataclass(frozen=True)
class Setup:
    """How cells are computed; none of it changes a result.

    Attributes:
        paths: paths of datasets by the name that cells use, see :class:`~naq_paper.cells.datasets.DatasetCache`.
        cache: folder for neighbour tables, "" is the user's, None keeps none.
        retry: compute again what failed in an earlier run; otherwise it is left alone.
        arrays: folder for arrays that cells leave for each other, which every worker has to see; None where cells leave none.
    """

    paths: Mapping[str, str] = field(default_factory=dict)
    cache: str | None = ""
    retry: bool = False
    arrays: str | None = None

    @property
    def arrays_folder(self) -> Path | None:
        return None if self.arrays is None else Path(self.arrays)


class Runner(ABC):
    """Computes the cells that a store lacks. A context manager: workers stay for the next :meth:`run` until it is closed."""

    def __init__(self) -> None:
        self._dataset_cache = DatasetCache()

    def run(
        self, cells: Sequence[Cell], store: Store, setup: Setup | None = None, listener: Listener | None = None
    ) -> Outcome:
        """Compute what is missing and return what became of every cell.

        Args:
            cells: equal ones count once.
            store: where results are looked up and stored.
            setup: see :class:`Setup`.
            listener: is called, in this process, with ``plan`` (cells, todo, skipped, left), ``begun`` (cell, key), ``progress`` (cell,
                phase, facts) and ``finished`` (cell, key, state, seconds, error).

        Ctrl-C ends the run: what is finished is stored, what is running can resume from its checkpoint another time.
        """
        setup, listener = setup or Setup(), listener or _silent
        outcome = Outcome()
        pending = Pending(store, setup.retry, outcome, listener)
        cells = list(dict.fromkeys(cells))
        store.prepare()
        try:
            store.sweep()
            for planned in self._plan(cells, store, setup, outcome):
                pending.add(planned)
            facts = {"todo": len(pending), "skipped": len(outcome.skipped), "left": len(outcome.left)}
            listener("plan", {"cells": len(cells), **facts})
            if len(pending):
                self._compute(pending, setup)
        except KeyboardInterrupt:
            outcome.stopped = True
            self.close()
        except BaseException:
            self.close()
            raise
        finally:
            pending.close()
        return outcome

    def close(self) -> None:
        """End the workers."""
        return

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @abstractmethod
    def _compute(self, pending: Pending, setup: Setup) -> None:
        """Take cells from ``pending`` until there are none, and tell it the record of each."""

    def dataset_cache(self, setup: Setup) -> DatasetCache:
        """The datasets of this process."""
        if self._dataset_cache.paths != dict(setup.paths):
            self._dataset_cache = DatasetCache(setup.paths)
        return self._dataset_cache

    def _plan(self, cells: Sequence[Cell], store: Store, setup: Setup, outcome: Outcome) -> Iterator[Planned]:
        """Yields what has to be computed; the others go to the outcome."""
        for cell in cells:
            try:
                planned = Planned(cell, identify(cell, self.dataset_cache(setup)))
            except Exception as error:
                outcome.failed.append(Failure(cell, sentence_of(error)))
                continue
            if store.get(planned.key) is not None:
                outcome.skipped.append(cell)
            elif not setup.retry and (failed := store.failure(planned.key)) is not None:
                outcome.left.append(Failure(cell, str(failed.error)))
            else:
                yield planned


TOGETHER = 8
"""Trainings side by side, at most: on an H200 an update takes 499, 380, 331 and 309 microseconds with one, two, four and eight (docs/scale.md)."""


class LocalRunner(Runner):
    """The cells in this process, one after the other; those that differ in their seed alone together, where that is faster."""

    def _compute(self, pending: Pending, setup: Setup) -> None:
        while (planned := pending.next()) is not None:
            others = self._others(planned, pending)
            given = [(each.cell, each.identity, self._context(each, pending, setup)) for each in (planned, *others)]
            records = records_of(given) if others else [record_of(*given[0])]
            for each, record in zip((planned, *others), records, strict=True):
                pending.finish(each, record)

    @staticmethod
    def _others(planned: Planned, pending: Pending) -> list[Planned]:
        """Cells that are computed with this one."""
        group = group_of(planned.cell)
        return [] if group is None else pending.more(lambda each: group_of(each.cell) == group, TOGETHER - 1)

    def _context(self, planned: Planned, pending: Pending, setup: Setup) -> Context:
        progress = Throttled(pending.listener, planned.cell.title)
        scratch = pending.store.scratch(planned.key)
        return Context(self.dataset_cache(setup), scratch, setup.cache, progress, setup.arrays_folder)


def _silent(phase: str, facts: Mapping[str, Any]) -> None:
    return
