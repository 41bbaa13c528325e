"""``local``: the cells in this process, one after the other."""

from __future__ import annotations

from naq.grid.measurements import Context
from naq.grid.runners.base import Runner, Setup
from naq.grid.runners.computing import Throttled, record_of
from naq.grid.runners.pending import Pending


class LocalRunner(Runner):
    def _compute(self, pending: Pending, setup: Setup) -> None:
        while (planned := pending.next()) is not None:
            progress = Throttled(pending.listener, planned.cell.title)
            scratch = pending.store.scratch(planned.key)
            context = Context(self.dataset_cache(setup), scratch, setup.cache, progress)
            pending.finish(planned, record_of(planned.cell, planned.identity, context))
