"""Settings of the numeric libraries that must stand before they are imported, and what of them is in force.

Importing :mod:`naq` changes nothing. The command line and its worker processes call :func:`prepare_process` first; a program that uses
the library sets the same variables itself where it wants equal bits for any number of threads.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from contextlib import AbstractContextManager
from typing import Any

SETTINGS = {
    # Threads that spin while they wait take the cores from the next parallel region: on a busy machine a training step is twice as fast without.
    "OMP_WAIT_POLICY": "PASSIVE",
    # The order of MKL's additions is then the same for any number of threads.
    "MKL_CBWR": "AUTO,STRICT",
}


def prepare_process(environment: MutableMapping[str, str] | None = None) -> None:
    """Set what is not set yet, in this process or in the environment of one to be started; before torch and NumPy are imported."""
    chosen = os.environ if environment is None else environment
    for name, value in SETTINGS.items():
        chosen.setdefault(name, value)


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def limit_threads(count: int) -> None:
    """Let this process compute with so many threads."""
    import numba
    import torch

    torch.set_num_threads(count)
    numba.set_num_threads(min(count, vars(numba.config)["NUMBA_NUM_THREADS"]))


def arithmetic() -> dict[str, Any]:
    """What the last bits of a result depend on: threads of torch and numba, torch's CPU path, and MKL's reproducibility mode."""
    import numba
    import torch

    return {
        "torch_threads": torch.get_num_threads(),
        "numba_threads": numba.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "mkl_cbwr": os.environ.get("MKL_CBWR", ""),
    }


def one_blas_thread() -> AbstractContextManager[Any]:
    """NumPy's and SciPy's dense linear algebra on one thread: factorisations by OpenBLAS differ in their last bits with the number."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    return threadpool_limits(1, user_api="blas")
