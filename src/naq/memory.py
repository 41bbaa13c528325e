"""How much memory there is to work with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

SHARE = 0.6
"""Of what is free, so much is taken at most: estimates are not exact and others run beside us."""


def free_bytes(device: torch.device) -> float:
    """Bytes that a training may take on this device: a share of what is free there."""
    if device.type == "cuda":
        import torch

        return SHARE * torch.cuda.mem_get_info(device)[0]
    return SHARE * min(_machine(), _group())


def _machine() -> float:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    return 8.0 * 1024**3  # no such file outside Linux: a modest laptop


def _group(folder: str = "/sys/fs/cgroup") -> float:
    """What a container may still take."""
    try:
        limit = Path(folder, "memory.max").read_text().strip()
        return float("inf") if limit == "max" else float(limit) - float(Path(folder, "memory.current").read_text())
    except (OSError, ValueError):
        return float("inf")


def keep_pages() -> bool:
    """Let freed memory stay with the process instead of going back to the system; whether that could be arranged.

    An epoch on a whole graph makes and frees the same large tensors over and over. By default the C library asks the system for each of them,
    and the system fills every page with zeros first, which takes time of its own. Peak memory grows by up to a quarter.
    """
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # not the GNU C library
        return False
    mmap_max, trim_threshold = -4, -1  # of <malloc.h>
    return bool(mallopt(mmap_max, 0)) and bool(mallopt(trim_threshold, 2**31 - 1))
