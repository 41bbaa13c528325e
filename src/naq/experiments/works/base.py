"""A work: a function from a cell's configuration to its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from naq.errors import OptionError
from naq.experiments.bench import Bench
from naq.experiments.cells import Cell
from naq.options import nearest

Tell = Callable[[str, Mapping[str, Any]], None]


@dataclass(frozen=True, eq=False)
class Context:
    """What a work may use beside its configuration; none of it may change the result.

    Attributes:
        bench: graphs, loaded once per process.
        scratch: a folder of the cell's own for checkpoints, removed when it is done; None keeps none.
        cache: folder for neighbour tables, "" is the user's, None keeps none.
        tell: hears of the progress.
    """

    bench: Bench
    scratch: Path | None = None
    cache: str | Path | None = ""
    tell: Tell = lambda phase, facts: None


Compute = Callable[[Mapping[str, Any], Context], dict[str, Any]]
WORKS: dict[str, Compute] = {}


def register_work(name: str) -> Callable[[Compute], Compute]:
    """Decorator: makes a function known as the work ``name``. It returns JSON values and raises ``NaqError`` for what cannot be done."""

    def add(compute: Compute) -> Compute:
        if name in WORKS:
            raise OptionError(f"a work named {name!r} is registered already; choose another name.")
        WORKS[name] = compute
        return compute

    return add


def get_work(name: str) -> Compute:
    if name not in WORKS:
        raise OptionError(f"there is no work {name!r}; {nearest(name, WORKS)}")
    return WORKS[name]


def perform(cell: Cell, context: Context) -> dict[str, Any]:
    """The result of a cell."""
    return get_work(cell.work)(cell.config, context)
