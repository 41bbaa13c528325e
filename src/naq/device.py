"""Where arithmetic runs: ``cpu``, or a CUDA device that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from naq.errors import OptionError

if TYPE_CHECKING:
    import torch


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
        raise OptionError(
            f"device is {str(device)!r}, which cannot be used here; choose 'cpu'{_others(torch.cuda.device_count())}."
        ) from error


def _others(count: int) -> str:
    if not count:
        return " (no CUDA device is found; 'naq doctor' says more)"
    return " or 'cuda'" if count == 1 else f" or 'cuda:0' to 'cuda:{count - 1}'"
