"""A measurement: a function from a cell's configuration to its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from naq.errors import OptionError
from naq.grid.cells import Cell
from naq.grid.datasets import DatasetCache
from naq.options import nearest
from naq.progress import Listener


@dataclass(frozen=True, eq=False)
class Context:
    """What a measurement may use beside its configuration; none of it may change the result.

    Attributes:
        dataset_cache: graphs, loaded once per process.
        scratch: a folder of the cell's own for checkpoints, removed when it is done; None keeps none.
        cache: folder for neighbour tables, "" is the user's, None keeps none.
        listener: hears of the progress.
    """

    dataset_cache: DatasetCache
    scratch: Path | None = None
    cache: str | Path | None = ""
    listener: Listener = lambda phase, facts: None


Compute = Callable[[Mapping[str, Any], Context], dict[str, Any]]
MEASUREMENTS: dict[str, Compute] = {}


def register_measurement(name: str) -> Callable[[Compute], Compute]:
    """Decorator: makes a function known as the measurement ``name``. It returns JSON values and raises ``NaqError`` for what cannot be done."""

    def add(compute: Compute) -> Compute:
        if name in MEASUREMENTS:
            raise OptionError(f"a measurement named {name!r} is registered already; choose another name.")
        MEASUREMENTS[name] = compute
        return compute

    return add


def get_measurement(name: str) -> Compute:
    if name not in MEASUREMENTS:
        raise OptionError(f"there is no measurement {name!r}; {nearest(name, MEASUREMENTS)}")
    return MEASUREMENTS[name]


def perform(cell: Cell, context: Context) -> dict[str, Any]:
    """The result of a cell."""
    return get_measurement(cell.measurement)(cell.config, context)
