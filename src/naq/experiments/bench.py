"""Graphs at hand: loaded once per process, with their tasks and their hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from naq.data import load, split_for, tasks_path
from naq.experiments.cells import canonical
from naq.experiments.changes import Changed, apply_change
from naq.graph import Graph

KEPT = 2
"""Graphs that stay loaded; a further one replaces the oldest."""


class Bench:
    """Datasets by name or path, and what changes make of them; the last ones are kept.

    Args:
        places: paths of datasets by the name that cells use, e.g. ``{"cora": "data/cora.npz"}``. A dataset that is not among them
            is a name of ``naq list datasets`` or a path.
    """

    def __init__(self, places: Mapping[str, str] | None = None) -> None:
        self.places = dict(places or {})
        self._graphs: dict[str, Graph] = {}
        self._changed: dict[str, Changed] = {}
        self._hashes: dict[str, str] = {}

    def source(self, dataset: str) -> str:
        """What :func:`naq.load` is given for a dataset."""
        return self.places.get(dataset, dataset)

    def graph(self, dataset: str) -> Graph:
        if dataset not in self._graphs:
            _make_room(self._graphs)
            self._graphs[dataset] = load(self.source(dataset))
        return self._graphs[dataset]

    def tasks(self, dataset: str) -> Path | None:
        """Its task file, if it has one."""
        return tasks_path(self.source(dataset))

    def data_hash(self, dataset: str) -> str:
        """A hash of the graph and of its task file."""
        if dataset not in self._hashes:
            file = self.tasks(dataset)
            tasks = hashlib.blake2b(file.read_bytes() if file is not None else b"", digest_size=8).hexdigest()
            self._hashes[dataset] = f"{self.graph(dataset).hash}.{tasks}"
        return self._hashes[dataset]

    def changed(self, dataset: str, change: Mapping[str, Any] | None) -> Changed:
        """What a run on the dataset is given under a change; None changes nothing."""
        graph = self.graph(dataset)
        if change is None:
            return Changed(graph)
        key = canonical([dataset, change])
        if key not in self._changed:
            _make_room(self._changed)
            self._changed[key] = apply_change(graph, split_for(self.source(dataset), graph), change)
        return self._changed[key]


def _make_room(kept: dict[str, Any]) -> None:
    while len(kept) >= KEPT:
        del kept[next(iter(kept))]
