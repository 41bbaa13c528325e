"""npz archives that cannot run code.

Beside the CRC of each member, an archive of ours has in its comment a checksum of each: so a member that was renamed or taken away is
noticed too. Archives of others, and of earlier versions, have none.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import math
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import IO

import numpy as np

from naq import memory
from naq.errors import DataError
from naq.files.checksums import SIZE
from naq.files.json_files import parse_json
from naq.files.writing import write_atomically
from naq.files.zips import Members, open_zip

MARK = b"naq-npz-1 "
"""Starts the comment; JSON follows: the checksum of each member."""


def write_npz(path: str | Path, arrays: Mapping[str, np.ndarray], *, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    """Write arrays as npz with fixed timestamps, so that equal content gives equal bytes."""
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise DataError(f"array {name!r} holds Python objects; only numbers and strings can be saved.")

    def write(temporary: Path) -> None:
        checksums = {}
        with zipfile.ZipFile(temporary, "w", compression) as archive:
            for name, array in arrays.items():
                entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
                entry.compress_type = compression
                with archive.open(entry, "w", force_zip64=True) as member:
                    both = _Hashed(member)
                    np.lib.format.write_array(both, np.asarray(array, order="C"), allow_pickle=False)
                checksums[name] = both.digest.hexdigest()
            archive.comment = MARK + json.dumps(checksums, separators=(",", ":")).encode()

    return write_atomically(path, write)


class _Hashed:
    """Writes to a stream and to a checksum."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.digest = stream, hashlib.blake2b(digest_size=SIZE)

    def write(self, content: bytes) -> int:
        self.digest.update(content)
        return self.stream.write(content)


def read_npz(
    path: str | Path, *, kind: str = "npz file", only: Collection[str] | None = None, ours: bool = False
) -> dict[str, np.ndarray]:
    """Read every array of an npz without pickle, or ``only`` some; sizes are checked, in total, before memory is taken.

    Args:
        ours: whether only an archive with our checksums is accepted.
    """
    path = Path(path)
    arrays: dict[str, np.ndarray] = {}
    with open_zip(path, kind, copies=0) as members:
        checksums = _checksums(members, ours)
        wanted = [name for name in members if only is None or name.removesuffix(".npy") in only]
        memory.require(
            sum(map(members.size, wanted)), f"reading the arrays of {path}", "use a larger machine", DataError
        )
        for name in wanted:
            if not name.endswith(".npy"):
                raise DataError(f"{path} holds {name!r}, which is no array; expected a {kind} of .npy members.")
            arrays[name[:-4]], checksum = _array(members, name)
            if checksums is not None and checksums[name[:-4]] != checksum:
                raise DataError(f"{path}: array {name} does not fit its checksum; make the file again.")
    return arrays


def _checksums(members: Members, ours: bool) -> dict[str, str] | None:
    """Of an archive of ours by array; None for one of others."""
    if not members.comment.startswith(MARK):
        if ours or members.comment.startswith(MARK[:4]):
            raise DataError(f"{members.path} has no checksums or damaged ones; make it again.")
        return None
    try:
        found = parse_json(members.comment[len(MARK) :])
        if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
            raise ValueError("no checksums")
    except ValueError as error:
        raise DataError(f"{members.path} has damaged checksums ({error}); make it again.") from error
    if {f"{name}.npy" for name in found} != set(members):
        raise DataError(f"{members.path} does not hold the arrays that its checksums name; make it again.")
    return found


def _array(members: Members, name: str) -> tuple[np.ndarray, str]:
    """An array and the checksum of its member."""
    digest = hashlib.blake2b(digest_size=SIZE)
    with closing(members.pieces(name)) as pieces:
        array = _read_into_its_own_memory(members, name, _hashed(pieces, digest))
    return array, digest.hexdigest()


def _read_into_its_own_memory(members: Members, name: str, pieces: Iterator[bytes]) -> np.ndarray:
    """Piece by piece, so that the content is held once; all pieces are read."""
    path, first = members.path, next(pieces, b"")
    member = io.BytesIO(first)
    version = np.lib.format.read_magic(member)
    reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if reader is None:
        raise DataError(f"{path}: array {name} has npy version {version}; expected 1.0 or 2.0.")
    shape, fortran, dtype = reader(member)
    if dtype.hasobject:
        raise DataError(
            f"{path}: array {name} holds pickled objects, which are never read; save plain numbers or strings."
        )
    count = math.prod(map(int, shape))
    size, there = count * dtype.itemsize, members.size(name) - member.tell()
    if any(side < 0 for side in shape) or size != there:
        raise DataError(
            f"{path}: array {name} claims {size:,} bytes but its member has {there:,}; the file is damaged."
        )
    # NumPy widens strings of no characters to one, which takes memory for numbers of them that no file holds.
    if size == 0 and count > there + 1_000_000:
        raise DataError(f"{path}: array {name} claims {shape} entries of no bytes; the file is damaged.")
    content, place = np.empty(size, dtype=np.uint8), 0
    for piece in itertools.chain([first[member.tell() :]], pieces):
        if place + len(piece) > size:
            raise DataError(f"{path}: array {name} has more bytes than its member claims; the file is damaged.")
        content[place : place + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
        place += len(piece)
    if size == 0:
        return np.empty(shape, dtype=dtype)
    array = content.view(dtype)
    if not is_text(array):
        raise DataError(f"{path}: array {name} holds bytes that are no text; the file is damaged.")
    return np.ascontiguousarray(array.reshape(shape, order="F" if fortran else "C")).reshape(shape)


def _hashed(pieces: Iterator[bytes], digest: hashlib.blake2b) -> Iterator[bytes]:
    for piece in pieces:
        digest.update(piece)
        yield piece


def is_text(array: np.ndarray) -> bool:
    """Whether all characters of an array of strings exist: NumPy keeps any number, which Python cannot read. True for numbers."""
    if array.dtype.kind != "U" or array.dtype.itemsize == 0:
        return True
    codes = np.ascontiguousarray(array).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
    return not (codes > 0x10FFFF).any()
