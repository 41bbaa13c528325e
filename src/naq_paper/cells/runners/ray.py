"""``ray``: actors on a Ray cluster, a local one unless an address or ``RAY_ADDRESS`` names another.

Actors that see the folder of the store find the checkpoints of a stopped cell there; others need not see it.
"""

from __future__ import annotations

import logging
import os
import socket
from typing import Any

from naq.errors import MissingDependency, NaqError
from naq_paper.cells.runners.computing import sentence_of
from naq_paper.cells.runners.pool import WAIT, Answer, Order, PoolRunner, Slot, Worker, threads_of, worker_environment

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""No usage statistics are sent, and no warning on machines without an accelerator."""
ANSWER = 5.0
"""Seconds in which a cluster has to answer."""
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""What opens a connection of gRPC, which a server answers at once. Ray itself waits for minutes where nobody answers."""
CORES = 1
"""That a worker reserves of a cluster, and the threads that it computes with there: more would take the cores of others."""
ADVICE = "start one with 'ray start --head', or leave the address out"


class RayRunner(PoolRunner):
    def __init__(self, workers: int, address: str | None = None) -> None:
        super().__init__(workers)
        self._ray = import_ray()
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
            raise NaqError(
                f"the Ray cluster at {self._address or 'this machine'} cannot be used: {sentence_of(error)}"
            ) from error
        self._connected = True

    def _start(self) -> Slot:
        if not self._ray.is_initialized():
            self._connect()
        threads = threads_of(self.workers) if self._own_cluster else CORES
        gpus = min(1.0, self._ray.cluster_resources().get("GPU", 0.0) / self.workers)
        environment = {"env_vars": worker_environment(threads)}
        kind = self._ray.remote(Worker).options(num_cpus=CORES, num_gpus=gpus, max_restarts=0, runtime_env=environment)
        return _RaySlot(self._ray, kind.remote(threads))

    def _wait(self) -> list[Slot]:
        slots = {slot.answer: slot for slot in self._slots if slot.answer is not None}
        answered, _ = self._ray.wait(list(slots), num_returns=1, timeout=WAIT) if slots else ([], [])
        return [slots[answer] for answer in answered]

    def close(self) -> None:
        super().close()
        if self._connected:
            self._ray.shutdown()
            self._own_cluster = self._connected = False


class _RaySlot(Slot):
    def __init__(self, ray: Any, actor: Any) -> None:
        super().__init__()
        self._ray, self.actor = ray, actor
        self.answer = actor.__ray_ready__.remote()

    def send(self, order: Order) -> None:
        self.answer = self.actor.compute.remote(order)

    def receive(self) -> list[tuple[str, Any]]:
        answer, self.answer = self.answer, None
        try:
            found = self._ray.get(answer)
        except self._ray.exceptions.RayActorError as error:
            how = "Ray reports that its actor is gone"
            return [("exit", (how, "" if self.ready else sentence_of(error)))]
        except self._ray.exceptions.RayError as error:
            return [("answer", Answer(error=sentence_of(error)))]
        return [("answer", found) if self.ready else ("ready", None)]

    def close(self) -> None:
        if self._ray.is_initialized():
            self._ray.kill(self.actor)


def check_answers(address: str) -> None:
    """Raise one sentence where nothing listens, or what listens does not answer, at ``host:port`` or ``ray://host:port``; other addresses are left to Ray."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        with socket.create_connection((host, int(port)), timeout=ANSWER) as there:
            there.settimeout(ANSWER)
            there.sendall(GREETING)
            if os.environ.get("RAY_USE_TLS", "0") == "0" and not there.recv(1):
                raise OSError("what listens there speaks no gRPC")
    except TimeoutError as error:
        raise NaqError(f"{_nobody(address)} (nothing came within {ANSWER:g} s); {ADVICE}.") from error
    except OSError as error:
        raise NaqError(f"{_nobody(address)} ({error.strerror or error}); {ADVICE}.") from error


def _nobody(address: str) -> str:
    return f"no Ray cluster answers at {address}"


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
