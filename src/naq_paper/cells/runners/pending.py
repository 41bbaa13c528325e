"""The cells of a run that are left to compute: each is handed out under its lock, and its record is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from filelock import FileLock

from naq.progress import Listener
from naq_paper.cells.cell import Cell, Identity
from naq_paper.cells.records import Record
from naq_paper.cells.runners.computing import disk_full, out_of_memory
from naq_paper.cells.store import Store

LOOK_AHEAD = 64
"""Cells that a worker may pass over for one of a dataset that it holds."""


@dataclass(frozen=True)
class Failure:
    cell: Cell
    sentence: str


@dataclass
class Outcome:
    """What became of the cells.

    Attributes:
        done: computed now.
        skipped: were finished before, or by another process meanwhile.
        failed: failed now.
        left: failed in an earlier run and were left alone.
        busy: another process computes them.
        stopped: Ctrl-C ended the run before all was done.
    """

    done: list[Cell] = field(default_factory=list)
    skipped: list[Cell] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    left: list[Failure] = field(default_factory=list)
    busy: list[Cell] = field(default_factory=list)
    stopped: bool = False

    @property
    def complete(self) -> bool:
        """Every cell that was asked for has its result."""
        return not (self.failed or self.left or self.busy or self.stopped)


@dataclass(frozen=True, eq=False)
class Planned:
    """A cell that is to be computed, with the identity that this process gave it."""

    cell: Cell
    identity: Identity

    @cached_property
    def key(self) -> str:
        return self.identity.key(self.cell)

    @property
    def dataset(self) -> str | None:
        return self.cell.config.get("dataset")


class Pending:
    """Hands out cells in order, but a worker is given the next one of a dataset that it holds, because loading takes long.

    Cells that another process computes come again after the others.
    """

    def __init__(self, store: Store, retry: bool, outcome: Outcome, listener: Listener) -> None:
        self.store, self.listener = store, listener
        self._todo: list[Planned] = []
        self._busy: list[Planned] = []
        self._retry, self._outcome = retry, outcome
        self._locks: dict[str, FileLock] = {}
        self._settled = False

    def __len__(self) -> int:
        """Cells that can be handed out now."""
        return len(self._todo) or (len(self._busy) if self._settled else 0)

    def add(self, planned: Planned) -> None:
        self._todo.append(planned)

    def next(self, held: Sequence[str | None] = ()) -> Planned | None:
        """A cell to compute, locked until its record comes; None if there is none at the moment."""
        while self:
            if not self._todo:  # only after another cell was settled is it worth trying the busy ones again
                self._todo, self._busy, self._settled = self._busy, [], False
            near = self._todo[:LOOK_AHEAD] if held else []
            planned = self._todo.pop(next((i for i, each in enumerate(near) if each.dataset in held), 0))
            if self._hand_out(planned):
                return planned
        return None

    def more(self, like: Callable[[Planned], bool], most: int) -> list[Planned]:
        """At most so many further cells that are ``like`` one that was handed out, locked as it is."""
        alike = [each for each in self._todo if like(each)][:most]
        for planned in alike:
            self._todo.remove(planned)
        return [planned for planned in alike if self._hand_out(planned)]

    def finish(self, planned: Planned, record: Record, *, keep: bool = False) -> None:
        """Store the record of a cell; its checkpoints are removed unless memory ran out or they are to be kept.

        A failure for want of space on the disk is told but not stored: the same command goes on later.
        """
        if not disk_full(record):
            self.store.put(record)
            if not keep and not out_of_memory(record):
                self.store.discard(planned.key)
        self.settle(planned, "done" if record.done else "failed", record.seconds, record.error)

    def settle(self, planned: Planned, state: str, seconds: float = 0.0, error: str | None = None) -> None:
        """Note what became of a cell, and unlock it."""
        if state == "failed":
            self._outcome.failed.append(Failure(planned.cell, error or ""))
        else:
            (self._outcome.done if state == "done" else self._outcome.skipped).append(planned.cell)
        self._settled = True
        self._unlock(planned.key)
        facts = {"cell": planned.cell.title, "key": planned.key}
        self.listener("finished", {**facts, "state": state, "seconds": seconds, "error": error})

    def close(self) -> None:
        """Unlock what was not finished; cells of other processes count as busy unless they have been finished meanwhile."""
        for key in list(self._locks):
            self._unlock(key)
        for planned in self._busy:
            found = self.store.get(planned.key)
            (self._outcome.busy if found is None else self._outcome.skipped).append(planned.cell)

    def _hand_out(self, planned: Planned) -> bool:
        """Whether the cell is to be computed now: then it is locked and announced."""
        if self._lock(planned):
            self.listener("begun", {"cell": planned.cell.title, "key": planned.key})
            return True
        return False

    def _lock(self, planned: Planned) -> bool:
        """Whether the cell is to be computed now; otherwise it is busy or settled."""
        key = planned.key
        lock = self.store.lock(key)
        if lock is None:
            self._busy.append(planned)
            return False
        self._locks[key] = lock
        # another process may have finished it since the run was planned
        if self.store.get(key) is not None:
            self.settle(planned, "skipped")
        elif not self._retry and (failed := self.store.failure(key)) is not None:
            self.settle(planned, "failed", failed.seconds, failed.error)
        else:
            return True
        return False

    def _unlock(self, key: str) -> None:
        if key in self._locks:
            self.store.unlock(key, self._locks.pop(key))
