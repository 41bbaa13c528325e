"""The most memory that a piece of work took, beyond what the process held before; on Linux."""

# ruff: noqa: SIM105
from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Made = TypeVar("Made")
STATUS = Path("/proc/self/status")
RESET = Path("/proc/self/clear_refs")


def with_peak(work: Callable[[], Made]) -> tuple[Made, int | None]:
    """What the work gave, and bytes; None where the system does not say.

    Memory that was freed but not yet given back to the system is given back first: reused, it would not be seen.
    """
    _give_back()
    try:
        RESET.write_text("5")  # resets VmHWM, see proc(5)
        before = _status("VmRSS")
    except (OSError, ValueError):
        return work(), None
    made = work()
    return made, max(0, _status("VmHWM") - before)


def _status(name: str) -> int:
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise ValueError(f"{STATUS} has no {name}.")


def _give_back() -> None:
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):  # not the GNU C library
        pass
