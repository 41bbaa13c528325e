"""Cells in actors on a Ray cluster, a local one unless an address or ``RAY_ADDRESS`` names another.

Actors that see the folder of the store find the checkpoints of a stopped cell there; others need not see it.
"""

from __future__ import annotations

import logging
import os
import socket
from concurrent.futures import Future
from typing import Any

from naq.errors import MissingDependency, NaqError
from naq_paper.cells.computing import sentence_of
from naq_paper.cells.records import Record
from naq_paper.cells.workers import Order, PoolRunner, Slot, Worker, threads_of, worker_environment

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""No usage statistics are sent, and no warning on machines without an accelerator."""
ANSWER = 5.0
"""Seconds in which a cluster has to answer."""
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""What opens a gRPC connection, which a server answers at once. Ray itself waits for minutes if nobody answers."""
CORES = 1
"""That a worker reserves of a cluster, and the threads that it computes with there: more would take the cores of others."""


class RayRunner(PoolRunner):
    def __init__(self, workers: int, address: str | None = None) -> None:
        super().__init__(workers)
        self._ray = import_ray()
        self.lost = self._ray.exceptions.RayActorError
        self._address = address or os.environ.get("RAY_ADDRESS")
        self._own_cluster = self._connected = False
        if self._address is not None and not self._ray.is_initialized():
            check_answers(self._address)

    def _connect(self) -> None:
        options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        if self._address is None:
            options |= {"address": "local", "num_cpus": self.workers, "include_dashboard": False}
            self._own_cluster = True
        else:
            options["address"] = self._address
        try:
            self._ray.init(**options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            where = self._address or "this machine"
            raise NaqError(f"the Ray cluster at {where} cannot be used: {sentence_of(error)}") from error
        self._connected = True

    def _start(self) -> Slot:
        if not self._ray.is_initialized():
            self._connect()
        threads = threads_of(self.workers) if self._own_cluster else CORES
        gpus = min(1.0, self._ray.cluster_resources().get("GPU", 0.0) / self.workers)
        environment = {"env_vars": worker_environment(threads)}
        kind = self._ray.remote(Worker).options(num_cpus=CORES, num_gpus=gpus, max_restarts=0, runtime_env=environment)
        return _RaySlot(self._ray, kind.remote(threads))

    def close(self) -> None:
        super().close()
        if self._connected:
            self._ray.shutdown()
            self._own_cluster = self._connected = False


class _RaySlot(Slot):
    def __init__(self, ray: Any, actor: Any) -> None:
        super().__init__()
        self._ray, self.actor = ray, actor
        self.started = actor.__ray_ready__.remote().future()

    def submit(self, order: Order) -> Future[Record]:
        return self.actor.compute.remote(order).future()  # type: ignore[no-any-return]

    def close(self) -> None:
        if self._ray.is_initialized():
            self._ray.kill(self.actor)


def check_answers(address: str) -> None:
    """Raises ``NaqError`` if no gRPC server answers at ``host:port`` or ``ray://host:port``; Ray checks other addresses."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        with socket.create_connection((host, int(port)), timeout=ANSWER) as there:
            there.settimeout(ANSWER)
            there.sendall(GREETING)
            if os.environ.get("RAY_USE_TLS", "0") == "0" and not there.recv(1):
                raise OSError("what listens there speaks no gRPC")
    except OSError as error:
        silent = isinstance(error, TimeoutError)
        why = f"nothing came within {ANSWER:g} s" if silent else error.strerror or error
        advice = "start one with 'ray start --head', or leave the address out"
        raise NaqError(f"no Ray cluster answers at {address} ({why}); {advice}.") from error


def import_ray() -> Any:
    """Ray, or the line that installs it."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise MissingDependency(
            'the engine ray needs Ray, which is not installed: pip install "naq[ray]", or choose the engine processes.'
        ) from error
    return ray
