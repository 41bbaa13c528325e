"""What a record was computed on, as far as a reader of the number wants to know: no host name, no paths."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from naq.run.result import versions
from naq.threads import available_cores


@cache
def machine(device: str = "cpu") -> dict[str, Any]:
    """Processor, cores, threads, device and versions of this process."""
    import torch

    return {
        "processor": processor(),
        "cores": available_cores(),
        "threads": torch.get_num_threads(),
        "platform": f"{platform.system()} {platform.machine()}",
        "device": _device_name(device),
        "versions": versions(),
    }


def device_words(machine: Mapping[str, Any]) -> str:
    """``NVIDIA H200`` of a record's machine; ``cpu`` where no accelerator computed."""
    device = str(machine.get("device", "cpu"))
    return device.partition("(")[2].rstrip(")") or device


def processor() -> str:
    """The processor's name."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _device_name(device: str) -> str:
    import torch

    if not device.startswith("cuda"):
        return device
    try:
        return f"{device} ({torch.cuda.get_device_name(device)})"
    except (RuntimeError, AssertionError, ValueError):
        return f"{device} (not there)"
