"""Files that are whole or absent: atomic writes, reads within memory, JSON, and the checksum of everything we write.

The checksum is BLAKE2b of the content, 16 bytes. It finds accidents, of the disk or of an editor. It is not a
signature: whoever changes a file on purpose can compute a new one.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from naq import device
from naq.errors import DataError

SIZE = 16


def checksum_of_bytes(content: bytes | bytearray) -> str:
    return hashlib.blake2b(content, digest_size=SIZE).hexdigest()


def checksum_of_json(value: Any) -> str:
    """Of JSON values: spaces and the order of keys do not count."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return checksum_of_bytes(text.encode())


def checksum_of_arrays(header: str, arrays: Mapping[str, np.ndarray]) -> str:
    """Of a text and of named arrays, with their types and shapes."""
    digest = hashlib.blake2b(header.encode(), digest_size=SIZE)
    for name in sorted(arrays):
        digest.update(f"{name}:{arrays[name].dtype}:{arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


NO_SPACE = "free some space or choose another folder"
"""Ends every message about a write that failed after it was begun: a fault of the disk, not of what was written."""


def write_atomically(path: str | Path, write: Callable[[Path], object]) -> Path:
    """Call ``write`` on a temporary file, then rename it: a reader sees the old or the new file, with the old mode."""
    path = Path(path)
    with ExitStack() as stack:
        try:
            if path.exists() and not path.is_file():
                raise DataError(f"cannot write {path}: it is a folder, a pipe or a device; give the name of a file.")
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = stack.enter_context(temporary_path(path))
        except DataError:
            raise
        except (OSError, ValueError) as error:
            raise DataError(f"cannot write {path}: {_reason(error)}; choose a folder you may write to.") from error
        try:
            mode = stat.S_IMODE((path if path.exists() else temporary).stat().st_mode) & 0o777
            write(temporary)
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.chmod(mode)  # some writers make a file of their own
            temporary.replace(path)
        except OSError as error:
            raise DataError(f"cannot write {path}: {_reason(error)}; {NO_SPACE}.") from error
    return path


LEFT = re.compile(r"\..+\.[0-9a-f]{8}\.naq\.tmp(\..*)?")
"""Names that :func:`temporary_path` gives."""
_cleared: set[Path] = set()


@contextmanager
def temporary_path(path: Path, *, folder: bool = False) -> Iterator[Path]:
    """A new file or folder next to ``path``, with the mode of what is there, that is gone when the block ends.

    It is locked while its process lives. What has no lock any more was left by a process that was killed; it is removed
    before this process writes to a folder for the first time.
    """
    if (parent := path.parent.absolute()) not in _cleared:
        _cleared.add(parent)
        _clear(parent)
    while True:
        ending = "" if folder else path.suffix[:20]
        temporary = path.parent / f".{path.name[:100]}.{secrets.token_hex(4)}.naq.tmp{ending}"
        kept = stat.S_IMODE(path.stat().st_mode) & 0o777 if path.exists() else None
        own = 0o700 if folder else 0o200  # what this process needs
        if folder:
            temporary.mkdir(0o777 if kept is None else kept | own)
        flags = os.O_RDONLY if folder else os.O_RDWR | os.O_CREAT | os.O_EXCL
        handle = os.open(temporary, flags, 0o666 if kept is None else kept)
        try:
            if kept is not None:
                temporary.chmod(kept | own)
            _lock(handle, wait=True)
            if temporary.exists():  # else another process found it before it was locked
                yield temporary
                return
        finally:
            os.close(handle)
            remove(temporary)


def remove(path: Path) -> None:
    """A file, a link or a folder, as far as that can be done."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _clear(folder: Path) -> None:
    with suppress(OSError), os.scandir(folder) as entries:
        for left in [Path(one.path) for one in entries if LEFT.fullmatch(one.name)]:
            with suppress(OSError):
                mode = os.O_RDONLY if left.is_dir() else os.O_RDWR
                handle = os.open(left, mode | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
                try:
                    if _lock(handle, wait=False):
                        remove(left)
                finally:
                    os.close(handle)


def _lock(handle: int, *, wait: bool) -> bool:
    """Whether the file is locked now; never where the system or the file system has no locks."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def replace_folder(new: Path, path: Path) -> None:
    """Give a folder a name; one that has it gets the new one's: at the same moment, or through :func:`recover`."""
    if not os.path.lexists(path):
        new.rename(path)
        return
    sys.audit("os.rename", new, path, -1, -1)
    if not _exchange(new, path):
        aside = path.parent / f".{path.name}.naq.old"
        path.rename(aside)
        new.rename(path)
        aside.rename(new)


def recover(path: Path) -> None:
    """Bring back a folder whose replacement was interrupted, and remove it where the new one is there."""
    aside = path.parent / f".{path.name}.naq.old"
    with suppress(OSError, ValueError):
        if os.path.lexists(aside):
            if os.path.lexists(path):
                remove(aside)
            else:
                aside.rename(path)


def _exchange(one: Path, two: Path) -> bool:
    """Whether two names were swapped in one step; not every file system can."""
    names = os.fsencode(one), os.fsencode(two)
    try:
        library = ctypes.CDLL(None)
        if sys.platform == "darwin":
            return bool(library.renamex_np(*names, 2) == 0)
        return bool(library.renameat2(-100, names[0], -100, names[1], 2) == 0)  # AT_FDCWD, RENAME_EXCHANGE
    except (AttributeError, OSError, TypeError):
        return False


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def file_of(path: str | Path, kind: str = "file") -> Path:
    """``path``, once it is known to be a regular file: a pipe would wait forever."""
    path = Path(path)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        raise DataError(f"{'' if kind == 'file' else kind + ' '}{path} does not exist.") from error
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path}: {_reason(error)}.") from error
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
        raise DataError(f"cannot read {path}: {_reason(error)}; check permissions and disk.") from error


def read_bytes(path: str | Path, kind: str = "file", *, most: int | None = None) -> bytes:
    """The content of a regular file of ``most`` bytes; without it, as large as free memory allows."""
    with open_file(path, kind) as stream:
        size = os.fstat(stream.fileno()).st_size
        if most is not None and size > most:
            raise DataError(f"{path} has {size:,} bytes; expected a {kind} of {most:,} at most.")
        device.require(2 * size, f"reading {path}", "use a larger machine", DataError)
        return stream.read()


def open_in_place(path: Path, flags: int) -> int:
    """A handle of a regular file that is changed in place; a link is refused, since it may lead anywhere."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link, and may lead anywhere")
    own = os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags | own, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is a pipe or a device")
    return handle


def own_folder(folder: Path) -> Path:
    """A folder inside one that was named, made where it is not there; a link in its place is refused."""
    folder.mkdir(parents=True, exist_ok=True)
    if folder.is_symlink():
        raise OSError(errno.ELOOP, f"{folder} is a link, and may lead anywhere")
    return folder


def set_aside(path: Path, *, folder: Path | None = None) -> Path | None:
    """Move a damaged file into a folder ``damaged`` next to it; None if that cannot be done."""
    place = folder or path.parent / "damaged"
    aside = place / f"{path.stem[:100]}.{uuid.uuid4().hex}{path.suffix}"
    try:
        own_folder(place)
        path.rename(aside)
    except OSError:
        return None
    return aside


def cache_folder() -> Path | None:
    """``$NAQ_CACHE``, or ``naq`` in the user's cache folder; None for a user who has no home."""
    given = os.environ.get("NAQ_CACHE") or os.environ.get("XDG_CACHE_HOME")
    if given:
        return Path(given) / ("" if os.environ.get("NAQ_CACHE") else "naq")
    try:
        return Path.home() / ".cache" / "naq"
    except RuntimeError:
        return None


SEAL = "checksum"


def write_json(path: str | Path, value: Any) -> Path:
    """Write ``value`` as indented JSON, atomically; NaN is an error."""
    text = json.dumps(value, indent=2, sort_keys=False, allow_nan=False) + "\n"
    return write_atomically(path, lambda temporary: temporary.write_bytes(text.encode()))


def read_json(path: str | Path) -> Any:
    """Read JSON, with one clear sentence if it is absent or damaged."""
    content = read_bytes(path, "JSON file")
    try:
        return parse_json(content)
    except ValueError as error:
        raise DataError(f"{path} is not readable JSON ({error}); delete it and make it again.") from error


def parse_json(content: bytes | str) -> Any:
    """JSON values; a ``ValueError`` for anything else, for NaN, text that is not UTF-8 and brackets too deep."""
    text = content.decode("utf-8") if isinstance(content, bytes) else content

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not a number")

    try:
        return json.loads(text, parse_constant=refuse)
    except RecursionError as error:
        raise ValueError("its brackets are too deep") from error


def sealed(value: Mapping[str, Any]) -> dict[str, Any]:
    """``value`` with the checksum of all its other entries."""
    content = {name: each for name, each in value.items() if name != SEAL}
    return {**content, SEAL: checksum_of_json(content)}


def verify_seal(value: Any, *, unsealed: bool = False) -> dict[str, Any]:
    """The entries without the checksum, once it fits them.

    Args:
        unsealed: whether a value without a checksum is accepted, as earlier versions wrote it.
    """
    if not isinstance(value, dict) or (SEAL not in value and not unsealed):
        raise DataError("it has no checksum.")
    content = {name: each for name, each in value.items() if name != SEAL}
    try:
        fits = value.get(SEAL, "") == (checksum_of_json(content) if SEAL in value else "")
    except (ValueError, RecursionError):  # numbers or brackets that no writer of ours makes
        fits = False
    if not fits:
        raise DataError("its content does not fit its checksum.")
    return content


def write_sealed(path: str | Path, value: Mapping[str, Any]) -> Path:
    """Write ``value`` as JSON with its checksum."""
    return write_json(path, sealed(value))


def read_sealed(path: str | Path, first: int = 2) -> dict[str, Any]:
    """What :func:`write_sealed` wrote.

    Args:
        first: the first ``format`` that has a checksum; a file of an earlier one, or of none, is read without.
    """
    value = read_json(path)
    try:
        number = value.get("format", 0) if isinstance(value, dict) else first
        return verify_seal(value, unsealed=type(number) is int and number < first)
    except DataError as error:
        raise DataError(f"{path} is damaged: {error}") from error


FORMULA = tuple("=+-@\t\r\n＝＋－＠")
"""A spreadsheet computes a cell that starts with one of these, so an apostrophe is written before it."""


def escape_cell(cell: str) -> str:
    """A cell that no spreadsheet computes; :func:`unescape_cell` undoes it exactly."""
    return "'" + cell if cell.startswith((*FORMULA, "'")) else cell


def unescape_cell(cell: str) -> str:
    """Without the apostrophe that keeps a spreadsheet from computing the cell."""
    return cell[1:] if len(cell) > 1 and cell[0] == "'" and cell[1] in (*FORMULA, "'") else cell
