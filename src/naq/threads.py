"""Settings of the numeric libraries that have to be made before they are imported, and those in force.

Importing :mod:`naq` changes nothing, except in processes that are forked later. The command line and its workers call
:func:`prepare_process`; a program that wants equal bits for any number of threads sets the same variables.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import MutableMapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from naq.errors import warn

SETTINGS = {
    # Threads that spin while they wait take cores from the next parallel region: twice the time on a busy machine.
    "OMP_WAIT_POLICY": "PASSIVE",
    # The order of MKL's additions is then the same for any number of threads.
    "MKL_CBWR": "AUTO,STRICT",
}


def prepare_process(environment: MutableMapping[str, str] | None = None) -> None:
    """Set what is not set yet in the environment of this process or another, before torch and NumPy are imported."""
    chosen = os.environ if environment is None else environment
    for name, value in SETTINGS.items():
        chosen.setdefault(name, value)
    count = chosen.get("NUMBA_NUM_THREADS", "1")
    if not (count.isascii() and count.isdigit() and len(count) < 5 and int(count) > 0):
        warn(f"NUMBA_NUM_THREADS is {count!r}, which is no number of threads; it is not used.", stacklevel=2)
        del chosen["NUMBA_NUM_THREADS"]
    if environment is None and "NUMBA_CACHE_DIR" not in chosen and not any(map(_writable, _code_folders())):
        folder = tempfile.mkdtemp(prefix="naq-numba-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        chosen["NUMBA_CACHE_DIR"] = folder


def _code_folders() -> list[Path]:
    """Where numba keeps compiled code: beside the source, or in the user's cache folder."""
    folders = [Path(__file__).parent / "__pycache__"]
    try:
        return [*folders, Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "numba"]
    except RuntimeError:  # a user without a home
        return folders


def _writable(folder: Path) -> bool:
    """Whether the folder can be written to, or made."""
    try:
        while not folder.exists():
            folder = folder.parent
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def worker_environment(threads: int) -> dict[str, str]:
    """Environment variables of a worker process of so many threads, in addition to those of this process."""
    environment = {name: os.environ[name] for name in SETTINGS if name in os.environ}
    prepare_process(environment)
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    return {**environment, **dict.fromkeys(names, str(threads))}


def limit_threads(count: int) -> None:
    """Let this process compute with so many threads."""
    import numba
    import torch

    torch.set_num_threads(count)
    numba.set_num_threads(min(count, vars(numba.config)["NUMBA_NUM_THREADS"]))


def _compile_for_one_thread() -> None:
    """In a forked process GNU's OpenMP crashes or hangs: torch gets one thread, our functions are compiled for one."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    parallel = sys.modules.get("numba.np.ufunc.parallel")
    if parallel is None or not parallel._is_initialized or parallel.threading_layer() != "omp":
        return
    from numba.core.caching import NullCache
    from numba.core.registry import CPUDispatcher

    for name, module in list(sys.modules.items()):
        for one in list(vars(module).values()) if name.startswith("naq") and module is not None else ():
            if isinstance(one, CPUDispatcher):
                function: Any = one
                function.targetoptions["parallel"] = False
                function._cache = NullCache()  # the one on the disk holds code for several threads
                function._reset_overloads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_compile_for_one_thread)


def arithmetic() -> dict[str, Any]:
    """What the last bits of a result depend on: threads of torch and numba, torch's CPU path, MKL's mode."""
    import numba
    import torch

    return {
        "torch_threads": torch.get_num_threads(), "numba_threads": numba.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(), "mkl_cbwr": os.environ.get("MKL_CBWR", ""),
    }  # fmt: skip


def one_blas_thread() -> AbstractContextManager[Any]:
    """NumPy's and SciPy's linear algebra on one thread: last bits of OpenBLAS differ with the number of threads."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    return threadpool_limits(1, user_api="blas")
