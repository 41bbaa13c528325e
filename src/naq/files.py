"""Files that are either whole or absent, and npz archives that cannot run code."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from naq.errors import DataError


def memory_bytes() -> int:
    """Physical memory of this machine; an array that claims more is an error before memory is taken."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def write_atomically(path: str | Path, write: Callable[[Path], None]) -> Path:
    """Call ``write`` on a temporary file beside ``path``, then rename: a reader sees the old file or the new one."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp" + path.suffix)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}; choose a folder you may write to.") from error
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise DataError(
            f"cannot write {path}: {error.strerror or error}; free some space or choose another folder."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
    return path


def write_json(path: str | Path, value: Any) -> Path:
    """Write ``value`` as indented JSON, atomically; NaN is an error."""
    text = json.dumps(value, indent=2, sort_keys=False, allow_nan=False) + "\n"

    def write(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8")

    return write_atomically(path, write)


def read_json(path: str | Path) -> Any:
    """Read JSON, with one clear sentence if it is absent or damaged."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist.") from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(f"{path} is not readable JSON ({error}); delete it and make it again.") from error


def write_npz(path: str | Path, arrays: Mapping[str, np.ndarray], *, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    """Write arrays as npz with fixed timestamps, so that equal content gives equal bytes."""
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise DataError(f"array {name!r} holds Python objects; only numbers and strings can be saved.")

    def write(temporary: Path) -> None:
        with zipfile.ZipFile(temporary, "w", compression) as archive:
            for name, array in arrays.items():
                entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
                entry.compress_type = compression
                with archive.open(entry, "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(array, order="C"), allow_pickle=False)

    return write_atomically(path, write)


def read_npz(path: str | Path, *, kind: str = "npz file", only: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """Read every array of an npz without pickle, or ``only`` some; headers are checked before memory is taken."""
    path = Path(path)
    if not path.exists():
        raise DataError(f"{kind} {path} does not exist.")
    if path.is_dir():
        raise DataError(f"{path} is a folder; expected a {kind}.")
    arrays: dict[str, np.ndarray] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                if only is not None and entry.filename.removesuffix(".npy") not in only:
                    continue
                if not entry.filename.endswith(".npy"):
                    raise DataError(
                        f"{path} holds {entry.filename!r}, which is no array; expected a {kind} of .npy members."
                    )
                with archive.open(entry) as member:
                    arrays[entry.filename[:-4]] = _read_array(member, entry, path)
    except DataError:
        raise
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, NotImplementedError, RuntimeError) as error:
        raise DataError(
            f"{path} is not a readable {kind} ({error}); it may be truncated: make or download it again."
        ) from error
    except Exception as error:  # zlib and lzma have error classes of their own
        raise DataError(f"{path} is damaged ({error}); make or download it again.") from error
    return arrays


def _read_array(member: Any, entry: zipfile.ZipInfo, path: Path) -> np.ndarray:
    version = np.lib.format.read_magic(member)
    reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if reader is None:
        raise DataError(f"{path}: array {entry.filename} has npy version {version}; expected 1.0 or 2.0.")
    shape, fortran, dtype = reader(member)
    if dtype.hasobject:
        raise DataError(
            f"{path}: array {entry.filename} holds pickled objects, which are never read; save plain numbers or strings."
        )
    count = 1
    for side in shape:
        count *= int(side)
    size = count * max(1, dtype.itemsize)  # NumPy widens strings of no characters to one
    if any(side < 0 for side in shape) or size > memory_bytes() or size > entry.file_size:
        raise DataError(
            f"{path}: array {entry.filename} claims {size:,} bytes but its member has {entry.file_size:,}; the file is damaged."
        )
    if size == 0:
        return np.empty(shape, dtype=dtype)
    data = member.read(size)
    if len(data) != size:
        raise DataError(f"{path}: array {entry.filename} is truncated ({len(data):,} of {size:,} bytes).")
    return np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C").copy()
