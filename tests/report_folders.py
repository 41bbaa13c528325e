"""Folders of results as ``naq reproduce`` leaves them, with made-up records."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from naq_paper.cells.cell import Cell, Identity, versions_of
from naq_paper.cells.records import Record
from naq_paper.cells.store import Store
from naq_paper.experiments import experiment as experiments
from naq_paper.experiments.experiment import expand
from naq_paper.experiments.folder import Requests
from naq_paper.experiments.request import Request

FACTS = {
    "nodes": 100,
    "edges": 300,
    "features": 16,
    "classes": 20,
    "hash": "da1a",
    "tasks": None,
    "homophily": 0.5,
    "base": 8,
    "valid": 6,
    "test": 6,
    "most_classes": 6,
}
MACHINE = {"device": "cpu", "processor": "Intel(R) Xeon(R)", "cores": 2, "threads": 1, "versions": {"torch": "2"}}


def make_request(experiment: str = "label-noise", dataset: str = "toy", **more) -> Request:
    return Request(experiment, (dataset,), budget="quick", facts={dataset: FACTS}, **more)


def nothing(cell: Cell) -> None:
    return None


def cells_of(request: Request) -> list[Cell]:
    return experiments.cells_of(expand(request, nothing))


def trained(cell: Cell, accuracy: float, noise: float = 0.02) -> dict:
    """What a training would have said; the tasks are the same for every method, their difficulty too."""
    difficulty = np.random.default_rng(0).normal(0, 0.1, 60)
    own = np.random.default_rng(zlib.crc32(cell.text.encode())).normal(0, noise, 60)
    per_task = [float(x) for x in np.clip(accuracy + difficulty + own, 0, 1)]
    found = {cell.config["head"]: {"per_task": per_task}}
    history = None if cell.config["method"] == "smooth" else {"steps": [16, 32], "valid_accuracy": [0.3, 0.4]}
    facts = {"valid_accuracy": accuracy, "unit": "episodes", "steps_trained": 32, "reads_base_labels": False}
    return {
        "config": dict(cell.config),
        "data": {"tasks": "t"},
        "evaluations": found,
        "history": history,
        "facts": facts,
    }


def record(cell: Cell, accuracy: float = 0.5, *, data: str = "da1a", versions: str | None = None, **more) -> Record:
    identity = Identity(data, versions_of(cell.measurement, cell.config) if versions is None else versions)
    given = {"result": trained(cell, accuracy), "error": None, "seconds": 30.0, "machine": MACHINE, "finished": "2026"}
    return Record(cell, identity, **(given | more))


def fill(folder, requests: list[Request], make: Callable[[Cell], Record | None] = record) -> Store:
    """A folder as ``naq reproduce`` leaves it; ``make`` gives the record of a cell, or None."""
    store = Store(folder)
    store.prepare()
    kept = Requests.load(folder)
    kept.add(requests, {})
    kept.save(folder)
    for cell in {cell: None for request in requests for cell in cells_of(request)}:
        if (made := make(cell)) is not None:
            store.put(made)
    return store
