"""``local``: the cells in this process, one after the other."""

from __future__ import annotations

from naq.experiments.runners.base import Outcome, Pending, Runner, Setup
from naq.experiments.runners.compute import compute_cell
from naq.experiments.store import Store
from naq.experiments.works.base import Tell


class LocalRunner(Runner):
    def _compute(self, pending: Pending, store: Store, setup: Setup, tell: Tell, outcome: Outcome) -> None:
        bench = self.bench(setup)
        while (planned := pending.next()) is not None:
            computed = compute_cell(planned.cell, store, bench, setup.cache, tell, retry=setup.retry)
            self._settle(planned, computed, pending, tell, outcome)
