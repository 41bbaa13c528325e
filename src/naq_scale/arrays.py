"""Arrays that are too large for a record, in a folder that everyone who computes sees: files named by their SHA-256, each there whole or not at all.

A grid of arrays (:class:`~naq_scale.blocks.Pieces`) is a JSON file that lists them, named by its content too. So a cell that names its inputs names their
bits, and is never taken for one with others.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from naq.errors import DataError
from naq.files import NO_SPACE, read_sealed, write_sealed
from naq_paper.cells.cell import canonical, digest
from naq_scale.array_folder import ArrayFile, sha256_of
from naq_scale.blocks import Pieces

Entry = Mapping[str, Any]
"""Of one array: shape, dtype, bytes, sha256; ``turned`` where it is the transpose of what is in the file."""


class FileArray:
    """An array in a file that is open only while it is read: there may be more of them than a process may have open files."""

    def __init__(self, path: Path, entry: Entry) -> None:
        self.path, self.entry = path, entry
        self.shape = tuple(entry["shape"][::-1] if entry.get("turned") else entry["shape"])
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> np.ndarray:
        try:
            found = np.load(self.path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise DataError(f"{self.path} cannot be read ({error}); start again: it is computed anew.") from error
        return (found.T if self.entry.get("turned") else found)[rows]


class SharedArrays:
    """The arrays in ``folder``, which is made."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def put(self, array: np.ndarray | FileArray) -> Entry:
        """Write an array, unless it is here; columns stay together where they lie together, since BLAS adds in an order that depends on it."""
        if isinstance(array, FileArray):
            return array.entry
        turned = array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous
        plain = np.ascontiguousarray(array.T if turned else array)
        try:
            with tempfile.TemporaryDirectory(dir=self.folder, prefix=".put-") as place:
                file = self.writer(Path(place), "array", plain)
                try:
                    file.append(plain)
                    return {**self.keep(file), "turned": bool(turned)}
                finally:
                    file.abandon()
        except OSError as error:
            raise disk_error(error, self.folder) from error

    def writer(self, place: Path, name: str, like: np.ndarray) -> ArrayFile:
        """A file to append to, in a folder of the same file system; then :meth:`keep` it."""
        place.mkdir(parents=True, exist_ok=True)
        return ArrayFile(place / f"{name}.npy", like.dtype, like.shape[1:])

    def keep(self, file: ArrayFile) -> Entry:
        """Give a file its name."""
        entry = file.close()
        file.path.replace(self._path(entry))
        return entry

    def open(self, entry: Entry, *, verify: bool = False) -> FileArray:
        """The array; ``DataError`` where it is missing, truncated or another one. ``verify`` reads it once."""
        try:
            path = self._path(entry)
            if path.stat().st_size != entry["bytes"]:
                raise DataError(f"{path} is truncated.")
            array = FileArray(path, entry)
            if verify and sha256_of(path) != entry["sha256"]:
                raise DataError(f"{path} does not fit its checksum.")
            head = np.load(path, mmap_mode="r", allow_pickle=False)
            if list(head.shape) != entry["shape"] or head.dtype != np.dtype(entry["dtype"]):
                raise DataError(f"{path} holds another array.")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"an array of a shard cannot be read ({error}).") from error
        return array

    def put_grid(self, pieces: Pieces) -> str:
        """Write a grid; its name."""
        grid = [[dict(self.put(array)) for array in line] for line in pieces.grid]
        name = digest(canonical(grid), 16)
        write_sealed(self._grid(name), {"format": 2, "grid": grid})
        return name

    def open_grid(self, name: str) -> Pieces:
        grid = read_sealed(self._grid(name))["grid"]
        return Pieces([[FileArray(self._path(entry), entry) for entry in line] for line in grid])

    def forget(self, entry: Any) -> None:
        """Remove an array that is damaged, if it is there."""
        if isinstance(entry, dict) and isinstance(entry.get("sha256"), str):
            self._path(entry).unlink(missing_ok=True)

    def _path(self, entry: Entry) -> Path:
        name = entry["sha256"]
        if not (isinstance(name, str) and len(name) == 64 and set(name) <= set("0123456789abcdef")):
            raise DataError(f"an array is called {name!r}; expected a SHA-256.")
        return self.folder / f"{name}.npy"

    def _grid(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def disk_error(error: OSError, folder: Path) -> DataError:
    """One sentence for an array that could not be written."""
    return DataError(f"cannot write to {folder}: {error.strerror or error}; {NO_SPACE}.")
