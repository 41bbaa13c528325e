"""What is stored for a cell: its result, or why it failed, and on what it was computed: no host name, no paths."""

from __future__ import annotations

import lzma
import math
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from naq import device
from naq.errors import DataError
from naq.files import parse_json, sealed, verify_seal
from naq.run.result import versions
from naq.threads import available_cores
from naq_paper.cells.cell import Cell, Identity, canonical

FORMAT = 3
"""Of a record, and of a pack of them; those of 1 and 2 have keys of another kind."""
OUTDATED = (1, 2)


class OutdatedRecords(DataError):
    """Results of an earlier version of naq, whose keys have another form."""

    def __init__(self, place: str | Path) -> None:
        super().__init__(
            f"{place} holds results of an earlier version of naq; read them with that version or compute them again."
        )


@dataclass(frozen=True, eq=False)
class Record:
    """One finished or failed cell."""

    cell: Cell
    identity: Identity
    result: Mapping[str, Any] | None  # what the measurement returned, JSON values; None if it failed
    error: str | None  # one sentence; None if it succeeded
    seconds: float  # wall clock of the measurement
    machine: Mapping[str, Any] = field(default_factory=dict)  # processor, cores, device, versions of libraries
    finished: str = ""  # UTC, 2026-01-31T12:00:00Z

    @property
    def key(self) -> str:
        return self.identity.key(self.cell)

    @property
    def done(self) -> bool:
        return self.result is not None

    def to_json(self) -> dict[str, Any]:
        content = {
            "format": FORMAT, "key": self.key, "measurement": self.cell.measurement, "config": dict(self.cell.config),
            "identity": asdict(self.identity), "seconds": round(self.seconds, 3), "machine": dict(self.machine),
            "finished": self.finished, "error": self.error,
            "result": None if self.result is None else dict(self.result),
        }  # fmt: skip
        return sealed(content)

    @classmethod
    def from_json(cls, data: Any) -> Record:
        """The inverse of :meth:`to_json`; raises ``DataError`` for anything else and if key or checksum do not fit."""
        try:
            if data["format"] in OUTDATED:
                raise OutdatedRecords("this folder")
            if data["format"] != FORMAT:
                raise DataError(f"the record has format {data['format']!r}; expected {FORMAT}.")
            data = verify_seal(data)
            cell, identity = Cell(str(data["measurement"]), data["config"]), Identity(**data["identity"])
            result, error, machine = data["result"], data["error"], data["machine"]
            record = cls(cell, identity, result, error, float(data["seconds"]), machine, str(data["finished"]))
            if (result is None) == (error is None) or record.key != data["key"]:
                raise DataError("the record does not fit its key.")
            sound = isinstance(error, str) if result is None else bool(result) and isinstance(result, dict)
            sound = sound and isinstance(machine, dict) and isinstance(cell.config, dict)
            sound = sound and math.isfinite(record.seconds)
            if not sound or not all(isinstance(value, str) for value in asdict(identity).values()):
                raise DataError("the record's result, error, machine, seconds or identity is not of its type.")
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as caught:
            if isinstance(caught, DataError):
                raise
            raise DataError(f"this is not a record of a cell ({caught!r}).") from caught
        return record


Find = Callable[[Cell], Record | None]
"""Looks up the record of a cell, finished or failed; None if there is none."""


def pack_records(records: Iterable[Record]) -> bytes:
    """Records as the content of one xz file; equal records give equal bytes."""
    rows = [record.to_json() for record in records]
    return lzma.compress(canonical(sealed({"format": FORMAT, "records": rows})).encode(), preset=6)


def unpack_records(content: bytes, path: str | Path) -> list[Record]:
    """The finished records that were packed, all of them checked; ``path`` is named in errors."""
    try:
        data = _unpack(content)
        if data.get("format") in OUTDATED:
            raise OutdatedRecords(path)
        if data.get("format") != FORMAT:
            raise ValueError(f"it does not have format {FORMAT}")
        records = [Record.from_json(each) for each in verify_seal(data)["records"]]
        if not all(record.done for record in records):
            raise ValueError("it holds records that are not finished")
    except OutdatedRecords:
        raise
    except (lzma.LZMAError, EOFError, ValueError, KeyError, TypeError, RecursionError, MemoryError) as error:
        reason = str(error).rstrip(".")
        raise DataError(f"{path} is not a readable pack of results ({reason}); make or download it again.") from error
    return records


def _unpack(content: bytes) -> dict[str, Any]:
    """The JSON of a pack, not yet checked."""
    reader = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=1 << 28)
    # JSON of results shrinks to a tenth, hardly to a hundredth; its objects take ten times the text
    most = int(min(1000 * len(content) + (1 << 20), device.room() / 12))
    text = reader.decompress(content, max_length=most)
    if not reader.eof or reader.unused_data:
        raise DataError("it ends too early, or is too large, or something follows it")
    data = parse_json(text)
    if not isinstance(data, dict):
        raise DataError("it is no JSON object")
    return data


@cache
def machine(device: str = "cpu") -> dict[str, Any]:
    """Processor, cores, threads, device and versions of this process."""
    import torch

    name = device
    if device.startswith("cuda"):
        try:
            name = f"{device} ({torch.cuda.get_device_name(device)})"
        except (RuntimeError, AssertionError, ValueError):
            name = f"{device} (not there)"
    return {
        "processor": processor(), "cores": available_cores(), "threads": torch.get_num_threads(),
        "platform": f"{platform.system()} {platform.machine()}", "device": name, "versions": versions(),
    }  # fmt: skip


def device_words(machine: Mapping[str, Any]) -> str:
    """``NVIDIA H200`` of a record's machine; ``cpu`` if no accelerator computed."""
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
