"""What is stored for a cell: its result, or why it failed, and how it was computed."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from naq.errors import DataError
from naq.files import memory_bytes, write_atomically
from naq.grid.cells import Cell, Identity

FORMAT = 1
PACK_FORMAT = 1


@dataclass(frozen=True, eq=False)
class Record:
    """One finished or failed cell.

    Attributes:
        result: what the measurement returned, JSON values; None if it failed.
        error: one sentence; None if it succeeded.
        seconds: wall clock of the measurement.
        machine: processor, cores, device, versions of libraries.
        finished: UTC, ``2026-01-31T12:00:00Z``.
    """

    cell: Cell
    identity: Identity
    result: Mapping[str, Any] | None
    error: str | None
    seconds: float
    machine: Mapping[str, Any] = field(default_factory=dict)
    finished: str = ""

    @property
    def key(self) -> str:
        return self.identity.key(self.cell)

    @property
    def done(self) -> bool:
        return self.result is not None

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "key": self.key,
            "measurement": self.cell.measurement,
            "config": dict(self.cell.config),
            "identity": asdict(self.identity),
            "seconds": round(self.seconds, 3),
            "machine": dict(self.machine),
            "finished": self.finished,
            "error": self.error,
            "result": None if self.result is None else dict(self.result),
        }

    @classmethod
    def from_json(cls, data: Any) -> Record:
        """The inverse of :meth:`to_json`; raises ``DataError`` for anything else and for a record that does not fit its key."""
        try:
            if data["format"] != FORMAT:
                raise DataError(f"the record has format {data['format']!r}; expected {FORMAT}.")
            record = cls(
                Cell(str(data["measurement"]), data["config"]),
                Identity(**data["identity"]),
                data["result"],
                data["error"],
                float(data["seconds"]),
                data["machine"],
                str(data["finished"]),
            )
            if (record.result is None) == (record.error is None) or record.key != data["key"]:
                raise DataError("the record does not fit its key.")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"this is no record of a cell ({error!r}).") from error
        return record


Find = Callable[[Cell], Record | None]
"""Looks up the record of a cell, finished or failed; None where there is none."""


def write_records(path: str | Path, records: Iterable[Record]) -> int:
    """Write records into one xz file and return how many; equal records give equal bytes."""
    rows = [record.to_json() for record in records]
    text = json.dumps({"format": PACK_FORMAT, "records": rows}, sort_keys=True, separators=(",", ":"), allow_nan=False)
    packed = lzma.compress(text.encode(), preset=6)
    write_atomically(path, lambda temporary: _write(temporary, packed))
    return len(rows)


def read_records(path: str | Path) -> list[Record]:
    """The finished records in a file of :func:`write_records`, all of them checked."""
    try:
        reader = lzma.LZMADecompressor()
        text = reader.decompress(Path(path).read_bytes(), max_length=memory_bytes() // 4)
        if not reader.eof:
            raise DataError("it ends too early or is too large")
        data = json.loads(text, parse_constant=no_number)
        if not isinstance(data, dict) or data.get("format") != PACK_FORMAT:
            raise DataError(f"it does not have format {PACK_FORMAT}")
        records = [Record.from_json(each) for each in data["records"]]
        if not all(record.done for record in records):
            raise DataError("it holds records that are not finished")
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist.") from error
    except (OSError, lzma.LZMAError, EOFError, ValueError, KeyError, TypeError, RecursionError) as error:
        reason = str(error).rstrip(".")
        raise DataError(f"{path} is no readable pack of results ({reason}); make or download it again.") from error
    return records


def no_number(constant: str) -> Any:
    """For ``json.loads(parse_constant=)``: NaN and Infinity are errors."""
    raise ValueError(f"{constant} is no number")


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
