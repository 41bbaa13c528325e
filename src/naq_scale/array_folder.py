"""A folder of plain .npy files and a sealed manifest.json that names each with shape, type, size and checksum.

Arrays are memory-mapped when they are read and streamed when they are written, so that neither takes the memory of an
array. A folder appears under its name once it is whole. The checksum is SHA-256 of an array's bytes, without the header
of its file; the header must say what the manifest says.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from naq.errors import DataError
from naq.files import (
    NO_SPACE,
    open_file,
    parse_json,
    read_bytes,
    recover,
    replace_folder,
    sealed,
    temporary_path,
    verify_seal,
)

MANIFEST = "manifest.json"
HEADER_BYTES = 128
"""Of every array file: its length may be known last, and the header is then written anew in its place."""
CHUNK = 1 << 24
"""Bytes that are written, read and summed at once."""
LARGEST_MANIFEST = 1 << 20
OWN = frozenset({"format", "version", "arrays"})
"""Entries of every manifest, next to the facts of its kind."""


class ArrayFile:
    """One .npy file that is written from front to end, a piece at a time; ``row`` is the shape of one entry."""

    def __init__(self, path: Path, dtype: Any, row: tuple[int, ...] = ()) -> None:
        self.path, self.dtype, self.row = path, np.dtype(dtype).newbyteorder("<"), row
        if self.dtype.hasobject:
            raise DataError(f"array {path.stem!r} holds Python objects; only numbers and strings can be saved.")
        self.length = 0
        self._digest = hashlib.sha256()
        self._stream: BinaryIO = path.open("wb")
        self._stream.write(bytes(HEADER_BYTES))

    def append(self, piece: np.ndarray) -> None:
        """Add entries; they are converted to the type of the file."""
        if piece.shape[1:] != self.row:
            raise DataError(f"array {self.path.stem!r}: a piece has shape {piece.shape}; expected (any, {self.row}).")
        step = max(1, CHUNK // max(1, self.dtype.itemsize * int(np.prod(self.row))))
        for start in range(0, len(piece), step):
            part = np.ascontiguousarray(piece[start : start + step], dtype=self.dtype)
            data = part.view(np.uint8).data if part.dtype.itemsize else b""
            self._digest.update(data)
            self._stream.write(data)
        self.length += len(piece)

    def close(self) -> dict[str, Any]:
        """Finish the file; its entry in the manifest."""
        shape = (self.length, *self.row)
        self._stream.seek(0)
        self._stream.write(_header(shape, self.dtype))
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        size, digest = self.path.stat().st_size, self._digest.hexdigest()
        return {"shape": list(shape), "dtype": self.dtype.str, "bytes": size, "sha256": digest}

    def abandon(self) -> None:
        """Close the file as it is, also where the disk has no room for the rest."""
        with contextlib.suppress(OSError):
            self._stream.close()


def _header(shape: tuple[int, ...], dtype: np.dtype) -> bytes:
    text = f"{{'descr': {dtype.str!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    room = HEADER_BYTES - 10
    if len(text) >= room:
        raise DataError(f"an array of type {dtype} and {len(shape)} dimensions has no place in a folder of arrays.")
    return b"\x93NUMPY\x01\x00" + room.to_bytes(2, "little") + text.ljust(room - 1).encode("ascii") + b"\n"


class FolderWriter:
    """Arrays on their way to a folder: :meth:`array` opens one, :meth:`put` writes one at once. Made by
    :func:`new_folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: dict[str, Any] = {}
        self.files: dict[str, ArrayFile] = {}

    def array(self, name: str, dtype: Any, row: tuple[int, ...] = ()) -> ArrayFile:
        """A file to append to; it is closed with the folder."""
        self.files[name] = ArrayFile(self.folder / f"{name}.npy", dtype, row)
        return self.files[name]

    def put(self, name: str, values: np.ndarray, dtype: Any = None) -> None:
        """A whole array."""
        self.array(name, values.dtype if dtype is None else dtype, values.shape[1:]).append(values)


@contextlib.contextmanager
def new_folder(path: str | Path, kind: str, version: int) -> Iterator[FolderWriter]:
    """A folder of arrays that is there whole when the block ends, and not at all where it fails.

    A folder of the same kind under this name is replaced; anything else that is there is an error.
    """
    path = Path(path)
    recover(path)
    manifest, mode = path / MANIFEST, None
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        try:
            read_manifest(path, kind)
        except DataError:
            why = f"exists and is not a folder of format {kind!r}; it is not replaced"
            raise DataError(f"{path} {why}: choose another name.") from None
        mode = stat.S_IMODE(manifest.stat().st_mode)
    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = stack.enter_context(temporary_path(path, folder=True))
        except OSError as error:
            why = f"{error.strerror or error}; choose a folder you may write to."
            raise DataError(f"cannot write {path}: {why}") from error
        writer = FolderWriter(temporary)
        try:
            yield writer
            entries = {name: file.close() for name, file in writer.files.items()}
            content = sealed({"format": kind, "version": version, **writer.facts, "arrays": entries})
            with (temporary / MANIFEST).open("wb") as stream:
                stream.write(json.dumps(content, indent=2, allow_nan=False).encode() + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
            if mode is not None:
                for part in temporary.iterdir():
                    part.chmod(mode)
            replace_folder(temporary, path)
        except OSError as error:
            raise DataError(f"cannot write {path}: {error.strerror or error}; {NO_SPACE}.") from error
        finally:
            for array in writer.files.values():
                array.abandon()


def read_manifest(
    path: str | Path, kind: str, version: int | None = None, facts: frozenset[str] | None = None
) -> dict[str, Any]:
    """The manifest, once its checksum fits and it is of this format and, if given, of this version.

    Args:
        facts: the entries that may be there; anything else is a damaged name. Manifests of earlier versions have no
            checksum.
    """
    path = Path(path)
    file, again = path / MANIFEST, "make the folder again."
    try:
        manifest = parse_json(read_bytes(file, "manifest", most=LARGEST_MANIFEST))
    except DataError as error:
        raise DataError(
            f"{path} has no readable {MANIFEST} ({error}); expected a folder of format {kind!r}."
        ) from error
    except ValueError as error:
        raise DataError(f"{file} is not readable JSON ({error}); {again}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != kind:
        raise DataError(f"{file} is not of format {kind!r}; the folder belongs to another program.")
    try:
        manifest = verify_seal(manifest, unsealed=True)
    except DataError as error:
        raise DataError(f"{file} is damaged: {error.args[0].rstrip('.')}; {again}") from error
    found = manifest.get("version")
    if version is not None and found != version:
        raise DataError(
            f"{path} has version {found!r} of format {kind!r}, but this program reads version {version}; {again}"
        )
    if not isinstance(manifest.get("arrays"), dict):
        raise DataError(f"{file} lists no arrays; {again}")
    if facts is not None and (unknown := sorted(set(manifest) - OWN - facts)):
        raise DataError(f"{file}: the entry {unknown[0]!r} is unknown; {again}")
    return manifest


def open_arrays(path: str | Path, manifest: Mapping[str, Any], known: frozenset[str]) -> dict[str, np.ndarray]:
    """The arrays of the manifest, memory-mapped read-only; sizes, shapes and types are checked, contents are not read.

    Args:
        known: names that may occur; no other file is opened.
    """
    path = Path(path)
    arrays: dict[str, np.ndarray] = {}
    for name, entry in manifest["arrays"].items():
        if name not in known:
            raise DataError(f"{path / MANIFEST} lists an array {name!r}, which is unknown; make the folder again.")
        arrays[name] = _mapped(path / f"{name}.npy", entry)
    return arrays


def _mapped(file: Path, entry: Any) -> np.ndarray:
    shape, dtype, size, _ = _describe(file, entry)
    try:
        with open_file(file, "array") as stream:
            head, there = stream.read(HEADER_BYTES), os.fstat(stream.fileno()).st_size
    except DataError as error:
        raise DataError(f"{file} cannot be read ({error}); make the folder again.") from error
    if there != size:
        raise DataError(
            f"{file} has {there:,} bytes, not {size:,} as {MANIFEST} says; it is truncated: make the folder again."
        )
    if head != _header(shape, dtype) or HEADER_BYTES + dtype.itemsize * math.prod(shape) != size:
        raise DataError(f"{file} is not the array that {MANIFEST} describes ({shape}, {dtype}); make the folder again.")
    if 0 in shape:
        return np.empty(shape, dtype=dtype)
    return np.memmap(file, dtype=dtype, mode="r", offset=HEADER_BYTES, shape=shape)


def _describe(file: Path, entry: Any) -> tuple[tuple[int, ...], np.dtype, int, str]:
    """Shape, type, bytes and checksum that a manifest gives an array."""
    wrong = f"{file.parent / MANIFEST} describes {file.name} wrongly"
    try:
        shape, dtype = tuple(entry["shape"]), np.dtype(str(entry["dtype"]))
        size, checksum = entry["bytes"], entry["sha256"]
    except (KeyError, TypeError, ValueError, SyntaxError) as error:
        raise DataError(f"{wrong} ({error}); make the folder again.") from error
    if dtype.hasobject:
        raise DataError(f"{file} holds pickled objects, which are never read; save plain numbers or strings.")
    sides = [*shape, size]
    if any(type(side) is not int or not 0 <= side < 2**62 for side in sides) or dtype.kind not in "biufU":
        raise DataError(f"{wrong} (shape {shape}, type {dtype}, {size} bytes); make the folder again.")
    if (dtype.itemsize == 0 and 0 not in shape) or not 1 <= len(shape) <= 2 or not isinstance(checksum, str):
        raise DataError(f"{wrong} (shape {shape}, type {dtype}, checksum {checksum!r}); make the folder again.")
    return shape, dtype, size, checksum


def check_sums(path: str | Path, manifest: Mapping[str, Any]) -> None:
    """Read every array once and compare its bytes with the manifest's checksum."""
    for name, entry in manifest["arrays"].items():
        digest, file = hashlib.sha256(), Path(path) / f"{name}.npy"
        with open_file(file, "array") as stream:
            stream.seek(HEADER_BYTES)
            while piece := stream.read(CHUNK):
                digest.update(piece)
        if digest.hexdigest() != entry["sha256"]:
            raise DataError(f"{file} does not have the checksum of {MANIFEST}; it is damaged: make the folder again.")
