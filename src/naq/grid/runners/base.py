"""What runners share: what is asked of them, what is left to do, what came of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any

from naq.grid.cells import Cell, Identity
from naq.grid.datasets import DatasetCache
from naq.grid.fingerprint import identify
from naq.grid.runners.compute import Computed, sentence_of
from naq.grid.store import Store
from naq.progress import Listener

LOOK_AHEAD = 64
"""Cells that a worker may let pass for one of a dataset that it holds."""


@dataclass(frozen=True)
class Setup:
    """How cells are computed; none of it changes a result.

    Attributes:
        paths: paths of datasets by the name that cells use, see :class:`~naq.grid.datasets.DatasetCache`.
        cache: folder for neighbour tables, "" is the user's, None keeps none.
        retry: compute again what failed in an earlier run; otherwise it is left alone.
    """

    paths: Mapping[str, str] = field(default_factory=dict)
    cache: str | None = ""
    retry: bool = False

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "paths": dict(self.paths)}


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
        busy: another process that is alive computes them.
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


@dataclass(frozen=True)
class Planned:
    """A cell that is to be computed, with the identity that this process gave it."""

    cell: Cell
    identity: Identity
    key: str

    @property
    def dataset(self) -> str | None:
        return self.cell.config.get("dataset")


class Pending:
    """What is left to do. Cells that another process works on come again after the others.

    Cells are handed out in order, but a worker is given the next one of a dataset that it holds, for loading takes long.
    """

    def __init__(self, cells: Sequence[Planned]) -> None:
        self._todo = list(cells)
        self.busy: list[Planned] = []
        self._moved = False

    def __len__(self) -> int:
        """Cells that can be handed out now."""
        return len(self._todo) if self._todo or not self._moved else len(self.busy)

    def next(self, holds: Sequence[str | None] = ()) -> Planned | None:
        if not self._todo and self._moved:
            self._todo, self.busy, self._moved = self.busy, [], False
        if not self._todo:
            return None
        near = self._todo[:LOOK_AHEAD] if holds else []
        return self._todo.pop(next((place for place, planned in enumerate(near) if planned.dataset in holds), 0))

    def settle(self, planned: Planned, state: str) -> None:
        """Hear what became of a cell; only where something moves it is worth asking for the busy ones again."""
        if state == "busy":
            self.busy.append(planned)
        else:
            self._moved = True


class Runner(ABC):
    """Computes the cells that a store lacks. A context manager: workers stay for the next :meth:`run` until it is closed."""

    def __init__(self) -> None:
        self._bench: DatasetCache | None = None

    def run(
        self, cells: Sequence[Cell], store: Store, setup: Setup | None = None, listener: Listener | None = None
    ) -> Outcome:
        """Compute what is missing and say what became of every cell.

        Args:
            cells: asked for; equal ones count once.
            store: where results are looked up and filed.
            setup: see :class:`Setup`.
            listener: hears, in this process, of ``plan`` (cells, todo, skipped, left), ``begun`` (cell, key), ``progress`` (cell, phase,
                facts) and ``finished`` (cell, key, state, seconds, error).

        Ctrl-C ends the run: what is finished is filed, what is running can go on from its checkpoint another time.
        """
        setup, listener = setup or Setup(), listener or _silent
        outcome = Outcome()
        store.prepare()
        try:
            store.sweep()
            todo = self._plan(list(dict.fromkeys(cells)), store, setup, outcome)
            listener(
                "plan",
                {
                    "cells": len(todo) + len(outcome.skipped) + len(outcome.left) + len(outcome.failed),
                    "todo": len(todo),
                    "skipped": len(outcome.skipped),
                    "left": len(outcome.left),
                },
            )
            pending = Pending(todo)
            if todo:
                self._compute(pending, store, setup, listener, outcome)
            for planned in pending.busy:
                (outcome.busy if store.get(planned.key) is None else outcome.skipped).append(planned.cell)
        except KeyboardInterrupt:
            outcome.stopped = True
            self.close()
        except BaseException:
            self.close()
            raise
        finally:
            store.claims.release_all()
        return outcome

    def close(self) -> None:
        """End workers that still wait for work."""
        return

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @abstractmethod
    def _compute(self, pending: Pending, store: Store, setup: Setup, listener: Listener, outcome: Outcome) -> None:
        """Compute all that is pending, and settle each."""

    def dataset_cache(self, setup: Setup) -> DatasetCache:
        """The graphs of this process."""
        if self._bench is None or self._bench.paths != dict(setup.paths):
            self._bench = DatasetCache(setup.paths)
        return self._bench

    def _plan(self, cells: Sequence[Cell], store: Store, setup: Setup, outcome: Outcome) -> list[Planned]:
        """What has to be computed; the others go to the outcome."""
        todo = []
        for cell in cells:
            try:
                identity = identify(cell, self.dataset_cache(setup))
            except Exception as error:
                outcome.failed.append(Failure(cell, sentence_of(error)))
                continue
            key = identity.key(cell)
            if store.get(key) is not None:
                outcome.skipped.append(cell)
            elif not setup.retry and (failed := store.failure(key)) is not None:
                outcome.left.append(Failure(cell, str(failed.error)))
            else:
                todo.append(Planned(cell, identity, key))
        return todo

    def _settle(
        self, planned: Planned, computed: Computed, pending: Pending, listener: Listener, outcome: Outcome
    ) -> None:
        """Enter what became of a cell."""
        cell = planned.cell
        pending.settle(planned, computed.state)
        if computed.state == "done":
            outcome.done.append(cell)
        elif computed.state == "skipped":
            outcome.skipped.append(cell)
        elif computed.state == "failed":
            outcome.failed.append(Failure(cell, computed.error or ""))
        if computed.state != "busy":
            facts = {"state": computed.state, "seconds": computed.seconds, "error": computed.error}
            listener("finished", {"cell": cell.title, "key": planned.key, **facts})


def _silent(phase: str, facts: Mapping[str, Any]) -> None:
    return
