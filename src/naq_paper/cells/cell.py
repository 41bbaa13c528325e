"""A cell: a computation that depends on nothing but its configuration, the data and the code.

A cell's ``measurement`` names a function of :mod:`naq_paper.measurements`, its ``config`` is what that function is
given: JSON values with every default written out, so that two experiments that need the same training share it. Its key
is a hash of measurement, configuration, data and versions of the code; a result is stored under the key and is never
computed twice.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any


def canonical(value: Any) -> str:
    """One text for equal values: keys sorted, no spaces; raises ``ValueError`` for NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(text: str, size: int = 12) -> str:
    return hashlib.blake2b(text.encode(), digest_size=size).hexdigest()


@dataclass(frozen=True, eq=False)
class Cell:
    """What is to be computed. ``measurement`` is a name of ``MEASUREMENTS``, ``config`` are JSON values."""

    measurement: str
    config: Mapping[str, Any]

    @cached_property
    def text(self) -> str:
        return canonical({"measurement": self.measurement, "config": self.config})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cell) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def title(self) -> str:
        """A short line for progress and logs: ``debian naq-feat/protonet 5-way 1-shot seed 0``."""
        config = self.config
        parts = [str(config.get("dataset", "")), str(config.get("method") or config.get("peer") or self.measurement)]
        if "way" in config:
            parts.append(f"{config['way']}-way" + (f" {config['shot']}-shot" if "shot" in config else ""))
        perturbation = config.get("perturbation")
        if perturbation:
            parts.append(" ".join(f"{v}" if k == "name" else f"{k}={v}" for k, v in perturbation.items()))
        if "seed" in config:
            parts.append(f"seed {config['seed']}")
        return " ".join(part for part in parts if part)


def titles(cells: Sequence[Cell]) -> list[str]:
    """A line per cell; cells of the same title, such as the candidates of a setting, also say in what they differ."""
    flat = [
        {**cell.config, **(cell.config.get("options") or {}), **(cell.config.get("episode") or {})} for cell in cells
    ]
    groups: dict[str, list[int]] = defaultdict(list)
    for i, cell in enumerate(cells):
        groups[cell.title].append(i)
    lines = [cell.title for cell in cells]
    for group in groups.values():
        names = {name for i in group for name in flat[i]} - {"options", "episode"}
        differ = sorted(name for name in names if len({str(flat[i].get(name)) for i in group}) > 1)
        for i in group:
            words = [f"{name}={flat[i][name]}" for name in differ if name in flat[i]]
            lines[i] += f" ({', '.join(words)})" if words else ""
    return lines


@dataclass(frozen=True)
class Identity:
    """What a result belongs to, next to its cell."""

    data: str  # hash of the dataset and its tasks, "" for a measurement without one
    versions: str = ""  # of the code, see VERSIONS; "" where all of it is of version 1

    def key(self, cell: Cell) -> str:
        """The name of the cell's file."""
        return digest(f"{cell.text}|{self.data}|{self.versions}")


VERSIONS: dict[str, int] = {"practice": 2}
"""By the name of a measurement, learner, embedder, kind of episodes, head, perturbation or peer, e.g. ``"protonet":
2``."""


def versions_of(measurement: str, config: Mapping[str, Any]) -> str:
    """The versions above 1 of what computes a cell, e.g. ``protonet 2, train 3``."""
    method, peer, head = (str(config.get(name) or "") for name in ("method", "peer", "head"))
    perturbation = str((config.get("perturbation") or {}).get("name", ""))
    names = {measurement, method, *method.split("/"), peer, head, perturbation}
    return ", ".join(f"{name} {VERSIONS[name]}" for name in sorted(names) if VERSIONS.get(name, 1) != 1)
