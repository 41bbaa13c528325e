"""Which code a result is of: versions that are kept by hand, and raised in the commit that changes a number.

``tests/golden.json`` holds numbers of every method, table and head. Where it has to change, the version of what changed is
raised in ``VERSIONS``, and results of before count as older. What is not in the table has version 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from naq_paper.cells.cell import Cell, Identity
from naq_paper.cells.datasets import DatasetCache

VERSIONS: dict[str, int] = {}
"""By the name of a measurement, learner, embedder, kind of episodes, head, perturbation or peer, e.g. ``"protonet": 2``."""


def versions_of(measurement: str, config: Mapping[str, Any]) -> str:
    """The versions above 1 of what computes a cell, e.g. ``protonet 2, train 3``."""
    method, peer, head = (str(config.get(name) or "") for name in ("method", "peer", "head"))
    perturbation = str((config.get("perturbation") or {}).get("name", ""))
    names = {measurement, method, *method.split("/"), peer, head, perturbation}
    return ", ".join(f"{name} {VERSIONS[name]}" for name in sorted(names) if VERSIONS.get(name, 1) != 1)


def identify(cell: Cell, dataset_cache: DatasetCache) -> Identity:
    """What the cell's result belongs to, with the data and the code as they are now."""
    dataset = cell.config.get("dataset")
    data = "" if dataset is None else dataset_cache.data_hash(str(dataset))
    return Identity(data, versions_of(cell.measurement, cell.config))
