"""Runners: compute the cells that a store lacks, in this process, in worker processes or on a Ray cluster."""

from __future__ import annotations

from naq.errors import OptionError
from naq.options import nearest
from naq.progress import Listener
from naq_paper.cells.runners.base import LocalRunner, Runner, Setup
from naq_paper.cells.runners.pending import Failure, Outcome

ENGINES = ("local", "processes", "ray")

__all__ = ["ENGINES", "Failure", "Listener", "Outcome", "Runner", "Setup", "make_runner"]


def make_runner(engine: str = "local", workers: int = 1, address: str | None = None) -> Runner:
    """The runner of that name; ``workers`` processes or Ray actors work at the same time.

    ``address`` is that of a running Ray cluster; without it and without ``RAY_ADDRESS``, one is started on this machine.
    """
    if engine not in ENGINES:
        raise OptionError(f"there is no engine {engine!r}; {nearest(engine, ENGINES)}")
    if workers < 1:
        raise OptionError(f"workers is {workers}; expected at least 1.")
    if address is not None and engine != "ray":
        raise OptionError(f"address is {address!r}, but the engine is {engine}; expected the engine ray with it.")
    if engine == "processes":
        from naq_paper.cells.runners.processes import ProcessRunner

        return ProcessRunner(workers)
    if engine == "ray":
        from naq_paper.cells.runners.ray import RayRunner

        return RayRunner(workers, address)
    return LocalRunner()
