"""What is filed for a cell: its result, or why it failed, and how it was made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from naq.errors import DataError
from naq.grid.cells import Cell, Identity

FORMAT = 1


@dataclass(frozen=True, eq=False)
class Record:
    """One finished or failed cell.

    Attributes:
        result: what the measurement returned, JSON values; None if it failed.
        error: one sentence; None if it is done.
        seconds: wall clock of the work.
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
        """The inverse of :meth:`to_json`; what is not a record, or does not bear its own key, is refused."""
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
"""The record of a cell, where there is a finished one."""
