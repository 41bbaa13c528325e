"""What every reader does first: a regular file, no larger than it may be."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from naq import memory
from naq.errors import DataError


def file_of(path: str | Path, kind: str = "file") -> Path:
    """``path``, once it is known to be a regular file: a pipe would wait for ever."""
    path = Path(path)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        raise DataError(f"{'' if kind == 'file' else kind + ' '}{path} does not exist.") from error
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}.") from error
    if stat.S_ISDIR(mode):
        raise DataError(f"{path} is a folder; expected a {kind}.")
    if not stat.S_ISREG(mode):
        raise DataError(f"{path} is a pipe or a device; expected a {kind}: copy its content into a file.")
    return path


@contextmanager
def open_file(path: str | Path, kind: str = "file") -> Iterator[BufferedReader]:
    """The bytes of a regular file; a disk that fails, then or while it is read, is a ``DataError``."""
    path = file_of(path, kind)
    try:
        with path.open("rb") as stream:
            yield stream
    except OSError as error:
        raise DataError(
            f"cannot read {path}: {error.strerror or error}; check its permissions and the disk."
        ) from error


def read_bytes(path: str | Path, kind: str = "file", *, most: int | None = None) -> bytes:
    """The content of a regular file of ``most`` bytes; without it, as large as free memory allows."""
    with open_file(path, kind) as stream:
        size = os.fstat(stream.fileno()).st_size
        if most is not None and size > most:
            raise DataError(f"{path} has {size:,} bytes; expected a {kind} of {most:,} at most.")
        memory.require(2 * size, f"reading {path}", "use a larger machine", DataError)
        return stream.read()


def set_aside(path: Path, *, folder: Path | None = None) -> Path | None:
    """Move a damaged file out of the way, into a folder ``damaged`` beside it; where that cannot be done, None."""
    place = folder or path.parent / "damaged"
    aside = place / f"{path.stem[:100]}.{uuid.uuid4().hex}{path.suffix}"
    try:
        place.mkdir(exist_ok=True)
        path.rename(aside)
    except OSError:
        return None
    return aside
