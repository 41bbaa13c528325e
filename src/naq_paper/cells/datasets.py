"""Datasets, loaded once per process, with their tasks and their hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from naq.errors import NaqError
from naq.graph import Graph
from naq.io import load, split_for, tasks_path
from naq_paper.cells.cell import Cell, Identity, canonical, versions_of
from naq_paper.perturbations import Perturbed, apply_perturbation

KEPT = 2  # graphs that stay loaded; a further one replaces the oldest


class DatasetCache:
    """Datasets by name or path, and under perturbations; the last ones are kept.

    ``paths`` are those of datasets by the name that cells use, ``{"cora": "data/cora.npz"}``; others are names or paths
    themselves.
    """

    def __init__(self, paths: Mapping[str, str] | None = None) -> None:
        self.paths = dict(paths or {})
        self._graphs: dict[str, Graph] = {}
        self._perturbed: dict[str, Perturbed] = {}
        self._hashes: dict[str, str] = {}

    def source(self, dataset: str) -> str:
        """What :func:`naq.load` is given for a dataset."""
        return self.paths.get(dataset, dataset)

    def graph(self, dataset: str) -> Graph:
        if dataset not in self._graphs:
            _make_room(self._graphs)
            self._graphs[dataset] = load(self.source(dataset))
        return self._graphs[dataset]

    def tasks(self, dataset: str) -> Path | None:
        """Its task file, if it has one."""
        return tasks_path(self.source(dataset))

    def data_hash(self, dataset: str) -> str:
        """A hash of the graph and of its task file, or of the classes that tasks are drawn from if there is none."""
        if dataset not in self._hashes:
            file, split = self.tasks(dataset), self.perturbed(dataset, None).split
            drawn = b"" if split is None else canonical(asdict(split)).encode()
            tasks = hashlib.blake2b(drawn if file is None else file.read_bytes(), digest_size=8).hexdigest()
            self._hashes[dataset] = f"{self.graph(dataset).hash}.{tasks}"
        return self._hashes[dataset]

    def perturbed(self, dataset: str, perturbation: Mapping[str, Any] | None) -> Perturbed:
        """What a run on the dataset is given under a perturbation; None is the dataset as it is."""
        key = canonical([dataset, perturbation])
        if key not in self._perturbed:
            graph = self.graph(dataset)
            _make_room(self._perturbed)
            made = Perturbed(graph)
            if perturbation is not None:
                made = apply_perturbation(graph, split_for(self.source(dataset), graph), perturbation)
            # classes to draw tasks from, where no task file names them: a run knows the graph, not where it came from
            if made.split is None and self.tasks(dataset) is None and made.graph.num_classes:
                with suppress(NaqError):  # too few classes: a run raises the same error, others need no split
                    made = replace(made, split=split_for(self.source(dataset), self.graph(dataset)))
            self._perturbed[key] = made
        return self._perturbed[key]


def _make_room(kept: dict[str, Any]) -> None:
    while len(kept) >= KEPT:
        del kept[next(iter(kept))]


def identify(cell: Cell, dataset_cache: DatasetCache) -> Identity:
    """What the cell's result belongs to, with the data and the code as they are now."""
    dataset = cell.config.get("dataset")
    data = "" if dataset is None else dataset_cache.data_hash(str(dataset))
    return Identity(data, versions_of(cell.measurement, cell.config))
