"""Zip and npz archives that cannot run code, their members held to sizes, CRCs and checksums, and all together to memory.

An npz of ours has in its comment a checksum of each member: so one that was renamed or taken away is noticed too. Archives of
others, and of earlier versions, have none.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np

from naq import device
from naq.errors import DataError
from naq.files.disk import SIZE, checksum_of_bytes, file_of, parse_json, write_atomically

STEPS = {zipfile.ZIP_STORED: 1 << 20, zipfile.ZIP_DEFLATED: 1 << 20, zipfile.ZIP_LZMA: 1 << 12}
"""Bytes of a packed member to read at once, by its packing: 4 KB of LZMA become at most 30 MB. Others have no such limit."""


def _check_end(path: Path) -> None:
    """A comment that was cut off is noticed by nobody else."""
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - (1 << 16) - 22))
        tail = stream.read()
    place = tail.rfind(b"PK\5\6")
    if place >= 0 and len(tail) != place + 22 + int.from_bytes(tail[place + 20 : place + 22], "little"):
        raise DataError(f"{path} is cut off at its end, or something follows it; make or download it again.")


class Members(Mapping[str, bytes]):
    """The members of an open zip by name; reading one checks it.

    Attributes:
        comment: of the archive.
    """

    def __init__(self, archive: zipfile.ZipFile, path: Path) -> None:
        self.path, self.comment = path, archive.comment
        self._archive = archive
        self._entries: dict[str, zipfile.ZipInfo] = {}
        for entry in archive.infolist():
            if entry.filename in self._entries:
                raise DataError(f"{path} holds {entry.filename!r} twice; the file is damaged.")
            self._entries[entry.filename] = entry

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def size(self, name: str) -> int:
        """Bytes that the member claims to have."""
        return self._entries[name].file_size

    def __getitem__(self, name: str) -> bytes:
        """The whole content; zipfile compares its CRC only where the size is right, and unpacks whole what it reads at once."""
        entry = self._entries[name]
        if (step := STEPS.get(entry.compress_type)) is None:
            raise DataError(f"{self.path}: member {name!r} is packed in an unusual way; pack it by deflate.")
        with self._archive.open(entry) as stream:
            content = b"".join(iter(partial(stream.read, step), b""))
        if len(content) != entry.file_size or zlib.crc32(content) != entry.CRC:
            raise DataError(f"{self.path}: member {name!r} does not have the size and the CRC that it claims to have.")
        return content


@contextmanager
def open_zip(path: str | Path, kind: str, *, copies: float = 2.0) -> Iterator[Members]:
    """The members of a zip file; whatever is wrong with it, then or while members are read, is a ``DataError``.

    Args:
        copies: memory that reading takes, as a multiple of what the largest member claims to have.
    """
    path = file_of(path, kind)
    try:
        with zipfile.ZipFile(path) as archive:
            _check_end(path)
            members = Members(archive, path)
            largest = max((members.size(name) for name in members), default=0)
            device.require(copies * largest, f"a member of {path}", "use a larger machine", DataError)
            yield members
    except DataError:
        raise
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, NotImplementedError, RuntimeError) as error:
        raise DataError(f"{path} is not a readable {kind} ({error}); it may be truncated; get it again.") from error
    except MemoryError as error:
        raise DataError(f"{path} needs more memory than there is; use a larger machine.") from error
    except Exception as error:  # zlib and lzma have error classes of their own
        raise DataError(f"{path} is damaged ({error}); make or download it again.") from error


MARK = b"naq-npz-1 "
"""Starts the comment; JSON follows: the checksum of each member."""


def write_npz(path: str | Path, arrays: Mapping[str, np.ndarray], *, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    """Write arrays as npz with fixed timestamps, so that equal content gives equal bytes."""
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise DataError(f"array {name!r} holds Python objects; only numbers and strings can be saved.")
        if not is_text(np.asarray(array)):
            raise DataError(f"array {name!r} holds half a character (a lone surrogate), which is no text; correct it.")

    def write(temporary: Path) -> None:
        checksums = {}
        with zipfile.ZipFile(temporary, "w", compression) as archive:
            for name, array in arrays.items():
                entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
                stored = np.asarray(array).dtype in (np.float16, np.int8)  # vectors do not shrink
                entry.compress_type = zipfile.ZIP_STORED if stored else compression
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
        needed = sum(map(members.size, wanted)) + 2 * max(map(members.size, wanted), default=0)
        device.require(needed, f"reading the arrays of {path}", "use a larger machine", DataError)
        for name in wanted:
            if not name.endswith(".npy"):
                raise DataError(f"{path} holds {name!r}, which is no array; expected a {kind} of .npy members.")
            content = members[name]
            if checksums is not None and checksums[name[:-4]] != checksum_of_bytes(content):
                raise DataError(f"{path}: array {name} does not fit its checksum; make the file again.")
            arrays[name[:-4]] = _array(content, f"{path}: array {name}")
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


def _array(content: bytes, title: str) -> np.ndarray:
    """The array of an npy file, once its header is known to fit it."""
    member = io.BytesIO(content)
    version = np.lib.format.read_magic(member)
    reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if reader is None:
        raise DataError(f"{title} has npy version {version}; expected 1.0 or 2.0.")
    shape, fortran, dtype = reader(member)
    if dtype.hasobject:
        raise DataError(f"{title} holds pickled objects, which are never read; save numbers or text.")
    count = math.prod(map(int, shape))
    size, there = count * dtype.itemsize, len(content) - member.tell()
    if any(side < 0 for side in shape) or size != there:
        raise DataError(f"{title} claims {size:,} bytes, its member has {there:,}; the file is damaged.")
    # NumPy widens strings of no characters to one, which takes memory for numbers of them that no file holds.
    if size == 0 and count > 1_000_000:
        raise DataError(f"{title} claims {shape} entries of no bytes; the file is damaged.")
    if size == 0:
        return np.empty(shape, dtype=dtype)
    array = np.frombuffer(content, dtype, offset=member.tell())
    if not is_text(array):
        raise DataError(f"{title} holds bytes that are no text; the file is damaged.")
    return np.array(array.reshape(shape, order="F" if fortran else "C"), order="C")


def is_text(array: np.ndarray) -> bool:
    """Whether all characters of an array of strings exist: NumPy keeps any number, also halves of characters. True for numbers."""
    if array.dtype.kind != "U" or array.dtype.itemsize == 0:
        return True
    codes = np.ascontiguousarray(array).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
    return not ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))).any()
