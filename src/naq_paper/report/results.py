"""The results of a folder, by what they are of: the present code's, those of other versions, and what is damaged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from naq.errors import DataError
from naq_paper.cells.cell import Cell, Identity, versions_of
from naq_paper.cells.records import Find, Record
from naq_paper.cells.store import Store
from naq_paper.experiments.experiment import EXPERIMENTS
from naq_paper.experiments.folder import REQUESTS, Requests
from naq_paper.experiments.request import Request


@dataclass(frozen=True, eq=False)
class Results:
    """The records of a folder."""

    requests: Sequence[Request]  # what the folder was made for, in reading order
    by_cell: Mapping[tuple[str, str], Sequence[Record]]  # (cell, data): records of every code version, latest first
    paths: Mapping[str, str]  # where datasets lay that have no name of their own
    damaged: Sequence[str]  # keys of files that were no record and that nothing has replaced since
    unknown: Sequence[str]  # experiments that the folder was made for and this version does not have

    @classmethod
    def read(cls, folder: str | Path) -> Results:
        """What lies in a folder of ``naq reproduce``."""
        asked = Requests.load(folder)
        if not asked.requests:
            raise DataError(f"{folder} holds no results of naq reproduce (no {REQUESTS}); give the folder it wrote.")
        store = Store(folder)
        found: dict[tuple[str, str], list[Record]] = defaultdict(list)
        for record in (*store.records(), *store.failures()):
            found[record.cell.text, record.identity.data].append(record)
        for records in found.values():
            records.sort(key=lambda record: record.finished, reverse=True)
        order = list(EXPERIMENTS)
        known = [request for request in asked.requests if request.experiment in order]
        known.sort(key=lambda request: (order.index(request.experiment), request.profile != "default"))
        unknown = dict.fromkeys(request.experiment for request in asked.requests if request.experiment not in order)
        whole = {record.key for records in found.values() for record in records}
        # in a folder for reading only they could not be moved
        damaged = {path.name.partition(".")[0] for path in (store.folder / "damaged").glob("*.json")}
        damaged |= {Path(name).stem for name in store.set_aside}
        return cls(known, found, asked.paths, sorted(damaged - whole), list(unknown))

    def current(self, request: Request) -> Find:
        """Looks for results of the code as it is now."""

        def find(cell: Cell) -> Record | None:
            data = data_of(request, cell)
            key = Identity(data, versions_of(cell.measurement, cell.config)).key(cell)
            return next((r for r in self.by_cell.get((cell.text, data), ()) if r.key == key), None)

        return find

    def latest(self, request: Request) -> Find:
        """Looks for results of the code as it is now, else for the latest that any other code gave."""
        current = self.current(request)

        def find(cell: Cell) -> Record | None:
            found = self.by_cell.get((cell.text, data_of(request, cell)), ())
            return current(cell) or next((record for record in found if record.done), None)

        return find

    def of_version(self, request: Request, label: str) -> Find:
        """Looks for results of one other code version."""

        def find(cell: Cell) -> Record | None:
            found = self.by_cell.get((cell.text, data_of(request, cell)), ())
            return next((r for r in found if is_older(r) and version_label(r) == label), None)

        return find

    def other_versions(self) -> list[str]:
        """Code versions that are not the present one, latest result first."""
        latest: dict[str, str] = {}
        for record in (r for records in self.by_cell.values() for r in records):
            if is_older(record):
                label = version_label(record)
                latest[label] = max(latest.get(label, ""), record.finished)
        return sorted(latest, key=lambda label: latest[label], reverse=True)


def is_older(record: Record) -> bool:
    """Whether it is a result of other code than the present one."""
    return record.done and record.identity.versions != versions_of(record.cell.measurement, record.cell.config)


def version_label(record: Record) -> str:
    """What an older code version is called: the present versions that it does not have, e.g. ``before protonet 2``."""
    now = versions_of(record.cell.measurement, record.cell.config).split(", ")
    then = record.identity.versions.split(", ")
    newer = ", ".join(one for one in now if one and one not in then)
    return f"before {newer}" if newer else record.identity.versions


def data_of(request: Request, cell: Cell) -> str:
    """The hash that the request's dataset had."""
    dataset = cell.config.get("dataset")
    return "" if dataset is None else str(request.facts.get(str(dataset), {}).get("hash", ""))
