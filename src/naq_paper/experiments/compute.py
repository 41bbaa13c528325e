"""Computing what requests need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from naq.progress import Listener
from naq_paper.cells.cell import Cell
from naq_paper.cells.datasets import DatasetCache, identify
from naq_paper.cells.records import Record
from naq_paper.cells.runners import Outcome, Runner, Setup
from naq_paper.cells.store import Store
from naq_paper.experiments.experiment import Study


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
        """Forget what was read."""
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
