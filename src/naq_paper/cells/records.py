"""What is stored for a cell: its result, or why it failed, and how it was computed."""

from __future__ import annotations

import lzma
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from naq import device
from naq.errors import DataError
from naq.files import parse_json, read_bytes, sealed, verify_seal, write_atomically
from naq_paper.cells.cell import Cell, Identity, canonical

FORMAT = 3
"""Of a record, and of a pack of them; those of 1 and 2 have keys of another kind."""
OUTDATED = (1, 2)


class OutdatedRecords(DataError):
    """Results of an earlier version of naq, which ``tools/rekey.py`` turns into present ones."""

    def __init__(self, place: str | Path) -> None:
        super().__init__(
            f"{place} holds results of an earlier version of naq; run 'python tools/rekey.py {place}' of the "
            "repository once, which files them under the keys of this one."
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
        return sealed(content)

    @classmethod
    def from_json(cls, data: Any) -> Record:
        """The inverse of :meth:`to_json`; raises ``DataError`` for anything else and for a record that does not fit its key or checksum."""
        try:
            if data["format"] in OUTDATED:
                raise OutdatedRecords("this folder")
            if data["format"] != FORMAT:
                raise DataError(f"the record has format {data['format']!r}; expected {FORMAT}.")
            data = verify_seal(data)
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
            record.check_kinds()
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"this is no record of a cell ({error!r}).") from error
        return record

    def check_kinds(self) -> None:
        """Checks what the fields are, and that a result is not empty."""
        if self.result is not None and (not isinstance(self.result, dict) or not self.result):
            raise DataError("the record holds no result.")
        if self.error is not None and not isinstance(self.error, str):
            raise DataError("the record's error is no text.")
        if not isinstance(self.machine, dict) or not isinstance(self.cell.config, dict):
            raise DataError("the record does not say what was computed, or where.")
        if not math.isfinite(self.seconds) or not all(isinstance(v, str) for v in asdict(self.identity).values()):
            raise DataError("the record's seconds or identity are none.")


Find = Callable[[Cell], Record | None]
"""Looks up the record of a cell, finished or failed; None where there is none."""


def write_records(path: str | Path, records: Iterable[Record]) -> int:
    """Write records into one xz file and return how many; equal records give equal bytes."""
    rows = [record.to_json() for record in records]
    packed = lzma.compress(canonical(sealed({"format": FORMAT, "records": rows})).encode(), preset=6)
    write_atomically(path, lambda temporary: temporary.write_bytes(packed))
    return len(rows)


def read_records(path: str | Path) -> list[Record]:
    """The finished records in a file of :func:`write_records`, all of them checked."""
    return records_of(read_bytes(path, "pack of results"), path)


def records_of(content: bytes, path: str | Path) -> list[Record]:
    """The same from the content of such a file; ``path`` is for messages."""
    try:
        data = read_pack(content)
        if data.get("format") in OUTDATED:
            raise OutdatedRecords(path)
        if data.get("format") != FORMAT:
            raise DataError(f"it does not have format {FORMAT}")
        records = [Record.from_json(each) for each in verify_seal(data)["records"]]
        if not all(record.done for record in records):
            raise DataError("it holds records that are not finished")
    except OutdatedRecords:
        raise
    except (lzma.LZMAError, EOFError, ValueError, KeyError, TypeError, RecursionError, MemoryError) as error:
        reason = str(error).rstrip(".")
        raise DataError(f"{path} is no readable pack of results ({reason}); make or download it again.") from error
    return records


def read_pack(content: bytes) -> dict[str, Any]:
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
