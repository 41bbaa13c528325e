"""Calls of a function, computed in this process, in worker processes or on a Ray cluster.

Worker processes are started by ``multiprocessing`` (spawn), each with its share of the cores, and end with this process
however suddenly that ends. Calls of a worker that dies are made again by another one.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

from naq.errors import MissingDependency, NaqError, OptionError
from naq.options import did_you_mean
from naq.threads import available_cores, worker_environment

ENGINES = ("local", "processes", "ray")
ROUNDS = 4
"""How often workers may die in a row, without any result between, before it is an error."""
ANSWER = 5.0
"""Seconds in which a cluster has to answer."""
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""What opens a connection of gRPC, which a server answers at once. Ray itself waits for minutes if
nothing answers."""
Call = tuple[Any, ...]
Calls = Sequence[Call]
Smaller = Callable[[Call], Call]
"""The same call with less memory; the call itself if there is none."""


def no_smaller(call: Call) -> Call:
    return call


class Engine:
    """Who computes; this one does so itself, one call after the other.

    Attributes:
        machines: between which workers divide memory.
    """

    machines = 1

    def run(
        self, function: Callable[..., Any], calls: Calls, smaller: Smaller = no_smaller
    ) -> Iterator[tuple[int, Any]]:
        """The number of each call and its result, as they are finished.

        Args:
            function: one that can be imported.
            smaller: what is made of calls whose workers died twice, as they do where memory is short.
        """
        for number, given in enumerate(calls):
            yield number, function(*given)

    def close(self) -> None:
        """End the workers."""


class Processes(Engine):
    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool: ProcessPoolExecutor | None = None

    def run(
        self, function: Callable[..., Any], calls: Calls, smaller: Smaller = no_smaller
    ) -> Iterator[tuple[int, Any]]:
        left, lost, deaths = dict(enumerate(calls)), 0, 0
        while left:
            try:
                futures = self._submit(function, left)
                for future in as_completed(list(futures)):
                    number, result = futures.pop(future), future.result()
                    del left[number]
                    lost = 0
                    yield number, result
            except BrokenProcessPool as error:
                self.close()
                lost, deaths = lost + 1, deaths + 1
                before, left = left, {number: again(call, deaths, smaller) for number, call in left.items()}
                if lost >= ROUNDS and all(left[number] is before[number] for number in left):
                    what = f"worker processes died {lost} times in a row"
                    raise NaqError(f"{what}; use fewer workers if memory is short.") from error

    def _submit(self, function: Callable[..., Any], calls: Mapping[int, Call]) -> dict[Any, int]:
        if self._pool is None:
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.workers, mp_context=spawn, initializer=prepare_worker)
        # The processes are started by the first call, with what the environment holds then.
        with environment_of_workers(max(1, available_cores() // self.workers)):
            return {self._pool.submit(function, *given): number for number, given in calls.items()}

    def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            for process in list((pool._processes or {}).values()):
                process.kill()  # files are written whole or not at all
            pool.shutdown(cancel_futures=True)


def again(call: Call, deaths: int, smaller: Smaller) -> Call:
    """What is computed after so many deaths: first the same, since a machine may fail for any reason."""
    return call if deaths < 2 else smaller(call)


@contextmanager
def environment_of_workers(threads: int) -> Iterator[None]:
    """The environment of workers with this many threads; Ctrl-C does not reach processes that are started in it."""
    resource_tracker.ensure_running()  # which changes the mask of signals
    before, mask = dict(os.environ), signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ.update(worker_environment(threads))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def prepare_worker() -> None:
    """What a worker process does first."""

    def end_with_parent() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


class Ray(Engine):
    """Tasks on a cluster: a running one if there is an address or ``RAY_ADDRESS``, else one that is started here."""

    def __init__(self, workers: int, address: str | None = None) -> None:
        self.workers, self._ray = workers, import_ray()
        address = address or os.environ.get("RAY_ADDRESS")
        self._threads = 1 if address else max(1, available_cores() // workers)  # others compute on a cluster too
        self._started = not self._ray.is_initialized()
        if self._started:
            connect(self._ray, workers, address)
        self.machines = max(1, sum(one["Alive"] for one in self._ray.nodes()))

    def run(
        self, function: Callable[..., Any], calls: Calls, smaller: Smaller = no_smaller
    ) -> Iterator[tuple[int, Any]]:
        environment = {"env_vars": worker_environment(self._threads)}
        # Ray's own retries would repeat a call that takes too much memory as it is, for ever.
        remote = self._ray.remote(function).options(num_cpus=1, max_retries=0, runtime_env=environment)
        waiting, deaths = list(enumerate(calls))[::-1], Counter[int]()
        running: dict[Any, tuple[int, Call]] = {}
        while waiting or running:
            while waiting and len(running) < self.workers:
                number, call = waiting.pop()
                running[remote.remote(*call)] = number, call
            for one in self._ray.wait(list(running), num_returns=1)[0]:
                number, call = running.pop(one)
                try:
                    yield number, self._ray.get(one)
                except self._ray.exceptions.RayTaskError as error:
                    raise error.cause from None
                except self._ray.exceptions.RayError as error:
                    deaths[number] += 1
                    waiting.append((number, again(call, deaths[number], smaller)))
                    if deaths[number] >= ROUNDS and waiting[-1][1] is call:
                        raise NaqError(f"Ray could not compute a call: {str(error).splitlines()[0]}") from error

    def close(self) -> None:
        if self._started:
            self._ray.shutdown()


def check_engine(name: str, workers: int, address: str | None) -> None:
    """Raise an ``OptionError`` if the engine is unknown or does not fit the other options."""
    if name not in ENGINES:
        raise OptionError(f"engine {name!r} is unknown; {did_you_mean(name, ENGINES)}")
    if workers < 1:
        raise OptionError(f"--workers is {workers}; expected at least 1.")
    if address is not None and name != "ray":
        raise OptionError(f"address is {address!r}, but the engine is {name}; expected the engine ray with it.")


@contextmanager
def make_engine(name: str = "local", workers: int = 1, address: str | None = None) -> Iterator[Engine]:
    """The engine of that name; its workers end with the block."""
    check_engine(name, workers, address)
    engine = Engine() if name == "local" else Processes(workers) if name == "processes" else Ray(workers, address)
    try:
        yield engine
    finally:
        engine.close()


def connect(ray: Any, workers: int, address: str | None) -> None:
    """Join the Ray cluster there, or start one of ``workers`` on this machine."""
    own = {} if address else {"num_cpus": workers, "include_dashboard": False}
    if address is not None:
        check_cluster(address)
    try:
        ray.init(address=address or "local", logging_level=logging.ERROR, log_to_driver=False, **own)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise NaqError(f"the Ray cluster at {address or 'this machine'} cannot be used: {error}") from error


def check_cluster(address: str) -> None:
    """Raise a ``NaqError`` where nothing answers at ``host:port`` or ``ray://host:port``; others are left to Ray."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        with socket.create_connection((host, int(port)), timeout=ANSWER) as there:
            there.settimeout(ANSWER)
            there.sendall(GREETING)
            if os.environ.get("RAY_USE_TLS", "0") == "0" and not there.recv(1):
                raise OSError("what listens there speaks no gRPC")
    except (OSError, OverflowError) as error:
        silent = isinstance(error, TimeoutError)
        why = f"nothing came within {ANSWER:g} s" if silent else getattr(error, "strerror", None) or error
        advice = "start one with 'ray start --head', or leave the address out"
        raise NaqError(f"no Ray cluster answers at {address} ({why}); {advice}.") from error


def import_ray() -> Any:
    """Ray, or the line that installs it. It sends no usage statistics and does not warn of a missing accelerator."""
    os.environ.update({"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"} | os.environ)
    try:
        import ray
    except ImportError as error:
        install = 'pip install "naq[ray]", or choose the engine processes'
        raise MissingDependency(f"the engine ray needs Ray, which is not installed: {install}.") from error
    return ray
