"""Where arithmetic runs, ``cpu`` or a CUDA device that is there, and how much memory there is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naq.errors import NaqError, OptionError

if TYPE_CHECKING:
    import torch

    from naq.graph import Graph

SHARE = 0.6
"""Of what is free, so much is taken at most: estimates are not exact and others run beside us."""


def free_bytes(device: torch.device) -> float:
    """Bytes that a training may take on this device: a share of what is free there."""
    if device.type == "cuda":
        import torch

        return SHARE * torch.cuda.mem_get_info(device)[0]
    return SHARE * room()


def room() -> float:
    """Bytes that this process may still take on this machine: what is free, in its container, within its own limit."""
    return min(_machine(), _group(), _limit())


SMALL = 1 << 26
"""Bytes that are always there."""


def require(needed: float, what: str, advice: str, error: type[NaqError] = OptionError) -> None:
    """Raise an ``error`` where so many bytes are not free: before they are taken, not when all memory is gone."""
    if needed > SMALL and needed > (free := room()):
        raise error(f"{what} needs {needed / 1e9:,.1f} GB of memory, but {free / 1e9:,.1f} GB are free; {advice}.")


def half(block: int, hopeless: NaqError) -> int:
    """Half of what was tried at once when the memory of a device ran out; raises ``hopeless`` where that was one."""
    import torch

    if block == 1:
        raise hopeless
    torch.cuda.empty_cache()
    return block // 2


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


def _limit() -> float:
    """What ``ulimit -v`` leaves to this process."""
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most == resource.RLIM_INFINITY:
            return float("inf")
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        return max(0.0, float(most - taken))
    except (ImportError, OSError, ValueError, IndexError):  # another system
        return float("inf")


def keep_pages() -> bool:
    """Let freed memory stay with the process instead of going back to the system; whether that could be arranged.

    Training makes and frees the same large tensors over and over; the system would fill every page of each with zeros.
    Peak memory grows by up to a quarter.
    """
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # not the GNU C library
        return False
    mmap_max, trim_threshold = -4, -1  # of <malloc.h>
    return bool(mallopt(mmap_max, 0)) and bool(mallopt(trim_threshold, 2**31 - 1))


WEIGHT_COPIES = 4
"""A weight, its gradient and two moments of the optimiser."""


def check_widths(graph: Graph, options: Mapping[str, Any]) -> None:
    """Raise an ``OptionError`` where weights of these widths, or a vector for every node, do not fit into memory."""
    latent = int(options.get("latent", 0))
    hidden = int(options.get("hidden", 0)) or 2 * latent
    widest = max(latent, hidden)
    if widest < 1:
        return
    weights = WEIGHT_COPIES * (max(graph.num_features, 1) * min(widest, hidden) + hidden * max(latent, 1))
    vectors = graph.num_nodes * max(latent, 1)
    what = " and ".join(f"{name}={options[name]:,}" for name in ("latent", "hidden") if name in options)
    require(min(4 * (weights + vectors), 10**300), f"a model with {what}", "lower them")


def checked_device(device: str | torch.device) -> torch.device:
    """The device, once a number has been put there and read back; ``OptionError`` where that cannot be done."""
    import torch

    try:
        found = torch.device(device)
        if found.type not in ("cpu", "cuda"):
            raise RuntimeError("another kind of device")
        if found != torch.device("cpu"):
            torch.zeros(1, device=found).cpu()
        return found
    except (RuntimeError, AssertionError, ValueError, TypeError, OverflowError) as error:
        if "," in str(device):
            raise OptionError(f"device is {str(device)!r}; give one: several are for 'naq reproduce'.") from error
        raise OptionError(
            f"device is {str(device)!r}, which cannot be used here; choose 'cpu'{_others(torch.cuda.device_count())}."
        ) from error


def _others(count: int) -> str:
    if not count:
        return " (no CUDA device is found; 'naq doctor' says more)"
    return " or 'cuda'" if count == 1 else f" or 'cuda:0' to 'cuda:{count - 1}'"
