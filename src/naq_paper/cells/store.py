"""A folder of results: one JSON file per cell, written whole or not at all.

cells/KEY.json     finished cells
failed/KEY.json    cells that failed, with their error
damaged/           files that were no record, set aside
claims/KEY.lock    locked by the process that computes the cell
running/KEY/       checkpoints of a cell that runs or was stopped

A lock belongs to the operating system, which releases it when its process ends, however it ends. Hosts may share a
folder if its file system has locks that work between hosts (NFS 4, Lustre with ``flock``).
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from naq.errors import DataError
from naq.files import own_folder, parse_json, set_aside, write_json
from naq_paper.cells.records import OutdatedRecords, Record

ABANDONED = 14 * 24 * 3600.0  # seconds after which the checkpoints of a stopped cell are removed
LARGEST = 1 << 28  # bytes of one record; results have some kilobytes, vectors of a few nodes some megabytes


class Store:
    """The results in ``folder``, which several processes may share; ``set_aside`` names damaged files."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise DataError(f"{self.folder} is a file; give a folder for results.")
        self.set_aside: list[str] = []

    def prepare(self) -> None:
        """Make the folders; raises ``DataError`` if they cannot be written to or hold results of an earlier version."""
        try:
            for name in ("cells", "failed", "claims", "running"):
                own_folder(self.folder / name)
        except OSError as error:
            reason = error.strerror or error
            raise DataError(f"results cannot be written to {self.folder}: {reason}; choose another folder.") from error
        next(self.records(), None)  # raises for a folder of outdated records, which would all be computed again

    def get(self, key: str) -> Record | None:
        """The finished record of a cell; a damaged one is set aside and counts as none."""
        return self._read(self._file("cells", key), done=True)

    def failure(self, key: str) -> Record | None:
        """The record of a cell that failed."""
        return self._read(self._file("failed", key), done=False)

    def put(self, record: Record) -> None:
        """Store a record. A result replaces an earlier failure; a failure never replaces a result."""
        key = record.key
        try:
            if record.done:
                write_json(self._file("cells", key), record.to_json())
                self._file("failed", key).unlink(missing_ok=True)
            elif not self._file("cells", key).exists():
                write_json(self._file("failed", key), record.to_json())
        except (ValueError, TypeError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"the record of {record.cell.title} cannot be written as JSON ({error}).") from error

    def records(self) -> Iterator[Record]:
        """All finished records, by key; damaged ones are set aside."""
        return self._all("cells", done=True)

    def failures(self) -> Iterator[Record]:
        """All records of cells that failed, by key."""
        return self._all("failed", done=False)

    def lock_file(self, key: str) -> Path:
        return self.folder / "claims" / f"{key}.lock"

    def lock(self, key: str) -> FileLock | None:
        """The lock of a cell, held until it is released; None if it is held already, here or by another process."""
        lock = FileLock(self.lock_file(key), thread_local=False)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return None
        except OSError as error:
            reason = error.strerror or error
            raise DataError(f"cannot lock {lock.lock_file}: {reason}; choose another folder.") from error
        return lock

    def unlock(self, key: str, lock: FileLock) -> None:
        """Release a lock. The file of a finished cell goes with it: whoever locks another one finds the result.

        That of an unfinished cell stays, for a process that has opened it may be about to lock it.
        """
        if self._file("cells", key).exists():
            self.lock_file(key).unlink(missing_ok=True)
        lock.release()

    def scratch(self, key: str) -> Path:
        """The folder for checkpoints of a cell; what writes there through :mod:`naq.files` makes it."""
        place = self.folder / "running" / key
        if place.is_symlink():  # it may lead anywhere
            place.unlink()
        return place

    def discard(self, key: str) -> None:
        """Remove the cell's scratch folder."""
        if (scratch := self.scratch(key)).exists():
            shutil.rmtree(scratch, ignore_errors=True)

    def sweep(self) -> None:
        """Remove what ended processes left: locks and checkpoints of finished cells, checkpoints two weeks old.

        Younger checkpoints of a stopped cell stay: it resumes from them.
        """
        now = time.time()
        for entry in _entries(self.folder / "claims"):
            if self._file("cells", Path(entry.name).stem).exists():
                Path(entry.path).unlink(missing_ok=True)
        for entry in _entries(self.folder / "running"):
            key = entry.name
            old = self._file("cells", key).exists() or now - _changed(entry) > ABANDONED
            if old and (lock := self.lock(key)) is not None:
                self.discard(key)
                self.unlock(key, lock)

    def _file(self, place: str, key: str) -> Path:
        return self.folder / place / f"{key}.json"

    def _all(self, place: str, *, done: bool) -> Iterator[Record]:
        names = (entry.name for entry in _entries(self.folder / place))
        for name in sorted(name for name in names if name.endswith(".json") and not name.startswith(".")):
            if (record := self._read(self.folder / place / name, done=done)) is not None:
                yield record

    def _read(self, path: Path, *, done: bool) -> Record | None:
        try:
            return _checked(path, done=done)
        except FileNotFoundError:
            return None
        except OutdatedRecords:
            raise OutdatedRecords(self.folder) from None
        except (IsADirectoryError, DataError):
            pass
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror or error}; check its permissions.") from error
        aside = set_aside(path, folder=self.folder / "damaged")
        try:  # another process may have put a whole file there meanwhile
            record = _checked(aside or path, done=done, name=path.stem)
        except FileNotFoundError:
            return None
        except (OSError, DataError):
            self.set_aside.append(f"{path.parent.name}/{path.name}")  # in a read-only folder it stays where it is
            return None
        if aside is not None:
            aside.rename(path)
        return record


def _checked(path: Path, *, done: bool, name: str = "") -> Record:
    if not stat.S_ISREG(path.stat().st_mode):
        raise DataError(f"{path} is not a file.")
    with path.open("rb") as stream:
        if os.fstat(stream.fileno()).st_size > LARGEST:
            raise DataError(f"{path} has more than {LARGEST:,} bytes.")
        content = stream.read()
    try:
        record = Record.from_json(parse_json(content))
    except ValueError as error:
        raise error if isinstance(error, DataError) else DataError(f"{path} is not JSON ({error}).") from error
    if record.key != (name or path.stem) or record.done != done:
        raise DataError(f"{path} holds the record of another cell.")
    return record


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _changed(entry: os.DirEntry[str]) -> float:
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except OSError:
        return time.time()
