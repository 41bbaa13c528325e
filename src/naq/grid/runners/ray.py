"""``ray``: actors on a Ray cluster, a local one unless ``RAY_ADDRESS`` names another.

The actors need not see the store: they return records as JSON and this process files them, so its claims and its disk are the only
ones that matter. Where they do see it, a stopped cell finds its checkpoints again.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from naq.errors import DataError, MissingDependency, NaqError
from naq.grid.cells import Cell, Identity
from naq.grid.claims import Claim
from naq.grid.datasets import DatasetCache
from naq.grid.fingerprint import identify
from naq.grid.records import Record
from naq.grid.runners.base import Outcome, Pending, Planned, Runner, Setup
from naq.grid.runners.compute import (
    CHANGED,
    Computed,
    death,
    known_outcome,
    lost_record,
    out_of_memory,
    record_of,
    sentence_of,
)
from naq.grid.store import Store
from naq.progress import Listener
from naq.protocol.machine import available_cores, limit_threads

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""No reports to Ray's makers, and no warning on machines without an accelerator."""
HELD = 2
"""Datasets that an actor keeps loaded."""


class RayRunner(Runner):
    """Args:
    workers: actors that compute at the same time.
    """

    def __init__(self, workers: int) -> None:
        super().__init__()
        self.workers = workers
        self._ray = import_ray()
        self._crew: list[_Member] = []
        self._own_cluster = False

    def _compute(self, pending: Pending, store: Store, setup: Setup, listener: Listener, outcome: Outcome) -> None:
        self._connect()
        while len(pending) or any(member.planned for member in self._crew):
            self._hire(len(pending))
            for member in self._crew:
                while member.ready and member.planned is None and (planned := pending.next(member.holds)) is not None:
                    computed = self._give(member, planned, store, setup, listener)
                    if computed is not None:
                        self._settle(planned, computed, pending, listener, outcome)
            waiting = {member.answer: member for member in self._crew if member.answer is not None}
            if not waiting:
                continue
            answered, _ = self._ray.wait(list(waiting), num_returns=1, timeout=1.0)
            for member in (waiting[answer] for answer in answered):
                if member.ready:
                    self._finish(member, store, pending, listener, outcome)
                else:
                    self._welcome(member)

    def _connect(self) -> None:
        ray = self._ray
        if ray.is_initialized():
            return
        options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        if not os.environ.get("RAY_ADDRESS"):
            options |= {"num_cpus": self.workers, "include_dashboard": False}
            self._own_cluster = True
        ray.init(**options)

    def _hire(self, wanted: int) -> None:
        idle = sum(member.planned is None for member in self._crew)
        for _ in range(min(wanted - idle, self.workers - len(self._crew))):
            threads = max(1, available_cores() // self.workers) if self._own_cluster else None
            gpus = min(1.0, self._ray.cluster_resources().get("GPU", 0.0) / self.workers)
            remote = self._ray.remote(_Actor).options(num_cpus=1, num_gpus=gpus, max_restarts=0)
            actor = remote.remote(threads)
            self._crew.append(_Member(actor, answer=actor.ready.remote()))

    def _welcome(self, member: _Member) -> None:
        try:
            member.ready = self._ray.get(member.answer)
        except self._ray.exceptions.RayError as error:
            raise NaqError(f"a Ray actor cannot start: {sentence_of(error)}") from error
        member.answer = None

    def _give(
        self, member: _Member, planned: Planned, store: Store, setup: Setup, listener: Listener
    ) -> Computed | None:
        """Hand out a cell under a claim of this process; what became of it if there is nothing to compute."""
        claim = store.claims.take(planned.key)
        if claim is None:
            return Computed("busy")
        if (known := known_outcome(store, planned.key, retry=setup.retry)) is not None:
            claim.release()
            return known
        listener("begun", {"cell": planned.cell.title, "key": planned.key})
        order = {
            "claim": str(claim.path.resolve()),
            "token": claim.owner.token,
            "scratch": str(store.scratch(planned.key).resolve()),
            **setup.to_json(),
            "measurement": planned.cell.measurement,
            "config": dict(planned.cell.config),
            "expected": asdict(planned.identity),
        }
        member.planned, member.claim, member.since = planned, claim, time.monotonic()
        if planned.dataset is not None and planned.dataset not in member.holds:
            member.holds = [*member.holds, planned.dataset][-HELD:]
        member.answer = member.actor.compute.remote(json.dumps(order))
        return None

    def _finish(self, member: _Member, store: Store, pending: Pending, listener: Listener, outcome: Outcome) -> None:
        planned, claim = member.planned, member.claim
        assert planned is not None and claim is not None
        record, error, stuck = None, None, False
        try:
            answer = json.loads(self._ray.get(member.answer))
            record = None if answer["record"] is None else Record.from_json(answer["record"])
            error, stuck = answer["error"], "stuck" in answer
        except self._ray.exceptions.RayActorError:
            self._crew.remove(member)
            sentence = death("Ray reports that its actor is gone")
            record = lost_record(planned.cell, planned.identity, sentence, time.monotonic() - member.since)
        except self._ray.exceptions.RayError as caught:
            error = sentence_of(caught)
        if stuck:
            raise DataError(CHANGED)
        if record is not None:
            store.put(record)
            if member in self._crew and not out_of_memory(record):
                store.discard(planned.key)
        claim.release()
        member.planned, member.claim, member.answer = None, None, None
        computed = Computed("failed", error=error) if record is None else Computed.of(record)
        self._settle(planned, computed, pending, listener, outcome)

    def close(self) -> None:
        crew, self._crew = self._crew, []
        if not self._ray.is_initialized():
            return
        for member in crew:
            self._ray.kill(member.actor)
        if self._own_cluster:
            self._ray.shutdown()
            self._own_cluster = False


@dataclass(eq=False)
class _Member:
    """An actor, seen from the runner."""

    actor: Any
    ready: bool = False
    planned: Planned | None = None
    claim: Claim | None = None
    answer: Any = None
    since: float = 0.0
    holds: list[str | None] = field(default_factory=list)


class _Actor:
    """Lives in a process of the cluster; graphs stay loaded between cells."""

    def __init__(self, threads: int | None) -> None:
        if threads is not None:
            limit_threads(threads)
        self._bench: DatasetCache | None = None

    def ready(self) -> bool:
        """Answers when the process has started and everything is imported."""
        return True

    def compute(self, text: str) -> str:
        order = json.loads(text)
        cell, expected = Cell(order["measurement"], order["config"]), Identity(**order["expected"])
        if self._bench is None or self._bench.paths != order["paths"]:
            self._bench = DatasetCache(order["paths"])
        try:
            identity = identify(cell, self._bench)
        except Exception as error:
            return json.dumps({"record": None, "error": sentence_of(error)})
        if identity != expected:
            return json.dumps({"record": None, "error": CHANGED, "stuck": True})
        with _scratch(order) as scratch:
            record = record_of(cell, identity, self._bench, scratch, order["cache"], lambda phase, facts: None)
        return json.dumps({"record": record.to_json(), "error": None})


@contextmanager
def _scratch(order: Mapping[str, str]) -> Iterator[Path]:
    """The store's own folder where this machine sees the store, which the claim proves; else one that is gone afterwards."""
    try:
        shared = order["token"] in Path(order["claim"]).read_text(encoding="utf-8")
    except OSError:
        shared = False
    if shared:
        yield Path(order["scratch"])
    else:
        with tempfile.TemporaryDirectory(prefix="naq-") as folder:
            yield Path(folder)


def import_ray() -> Any:
    """Ray, or the line that installs it."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise MissingDependency(
            'the engine ray needs Ray, which is not installed: pip install "naq[ray]", or choose the engine processes.'
        ) from error
    return ray
