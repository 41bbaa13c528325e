"""``local``: the cells in this process, one after the other."""

from __future__ import annotations

from naq.grid.runners.base import Outcome, Pending, Runner, Setup
from naq.grid.runners.compute import compute_cell
from naq.grid.store import Store
from naq.progress import Listener


class LocalRunner(Runner):
    def _compute(self, pending: Pending, store: Store, setup: Setup, listener: Listener, outcome: Outcome) -> None:
        dataset_cache = self.dataset_cache(setup)
        while (planned := pending.next()) is not None:
            computed = compute_cell(planned.cell, store, dataset_cache, setup.cache, listener, retry=setup.retry)
            self._settle(planned, computed, pending, listener, outcome)
