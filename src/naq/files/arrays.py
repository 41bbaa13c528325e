"""Arrays in files: zip and npz archives and safetensors that cannot run code, checked in size before memory is taken.

An npz of ours has a checksum of each member in its comment, so one that was renamed or removed is noticed too.
Archives of others, and of earlier versions, have none: their members are checked by their CRC.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from naq import device
from naq.errors import DataError
from naq.files.disk import SIZE, checksum_of_arrays, checksum_of_bytes, file_of, parse_json, write_atomically

STEPS = {zipfile.ZIP_STORED: 1 << 20, zipfile.ZIP_DEFLATED: 1 << 20, zipfile.ZIP_LZMA: 1 << 12}
"""Bytes of a packed member to read at once, by its packing: 4 KB of LZMA become at most 30 MB."""
MARK = b"naq-npz-1 "
"""Starts the comment of an npz; JSON follows: the checksum of each member."""


class Members(Mapping[str, bytes]):
    """The members of an open zip by name; reading one checks its size and its CRC.

    Attributes:
        comment: of the archive.
    """

    def __init__(self, archive: zipfile.ZipFile, path: Path) -> None:
        self.path, self.comment, self._archive = path, archive.comment, archive
        self._entries = {entry.filename: entry for entry in archive.infolist()}
        if len(self._entries) < len(archive.infolist()):
            raise DataError(f"{path} has a member twice; the file is damaged.")

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def size(self, name: str) -> int:
        """Bytes that the member claims to have."""
        return self._entries[name].file_size

    def __getitem__(self, name: str) -> bytes:
        entry = self._entries[name]
        if (step := STEPS.get(entry.compress_type)) is None:
            raise DataError(f"{self.path}: member {name!r} is packed in an unusual way; pack it by deflate.")
        with self._archive.open(entry) as stream:
            content = b"".join(iter(partial(stream.read, step), b""))  # zipfile unpacks whole what it reads at once
        if len(content) != entry.file_size or zlib.crc32(content) != entry.CRC:
            raise DataError(f"{self.path}: member {name!r} does not have the size and the CRC that it claims to have.")
        return content


@contextmanager
def open_zip(path: str | Path, kind: str, *, copies: float = 2.0) -> Iterator[Members]:
    """The members of a zip file; any error in it, when it is opened or while members are read, is a ``DataError``.

    Args:
        copies: memory that reading takes, as a multiple of what the largest member claims to have.
    """
    path = file_of(path, kind)
    try:
        with zipfile.ZipFile(path) as archive:
            members = Members(archive, path)
            largest = max(map(members.size, members), default=0)
            device.require(copies * largest, f"a member of {path}", "use a larger machine", DataError)
            yield members
    except DataError:
        raise
    except MemoryError as error:
        raise DataError(f"{path} needs more memory than there is; use a larger machine.") from error
    except Exception as error:  # zipfile, zlib and NumPy's parser of headers fail in many ways
        raise DataError(f"{path} is not a readable {kind} ({error}); make or download it again.") from error


def write_npz(path: str | Path, arrays: Mapping[str, np.ndarray], *, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    """Write arrays as npz with fixed timestamps, so that equal content gives equal bytes."""
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise DataError(f"array {name!r} holds Python objects; only numbers and strings can be saved.")
        if not is_text(np.asarray(array)):
            raise DataError(f"array {name!r} holds half a character (a lone surrogate), which is not text; correct it.")

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
            content, title = members[name], f"{path}: array {name.removesuffix('.npy')}"
            if checksums is not None and checksums[name.removesuffix(".npy")] != checksum_of_bytes(content):
                raise DataError(f"{title} does not fit its checksum; make the file again.")
            arrays[name.removesuffix(".npy")] = _array(content, title)
    return arrays


def _checksums(members: Members, ours: bool) -> dict[str, str] | None:
    """Of an archive of ours by array; None for one of others."""
    if not members.comment.startswith(MARK):
        if ours or members.comment.startswith(MARK[:4]):
            raise DataError(f"{members.path} has no checksums or damaged ones; make it again.")
        return None
    found = parse_json(members.comment[len(MARK) :])
    if not isinstance(found, dict) or {f"{name}.npy" for name in found} != set(members):
        raise DataError(f"{members.path} does not hold the arrays that its checksums name; make it again.")
    return found


def _array(content: bytes, title: str) -> np.ndarray:
    """The array of an npy file: NumPy fills memory only with what is there, whatever the header claims."""
    stream = io.BytesIO(content)
    array = np.lib.format.read_array(stream, allow_pickle=False)
    # strings of no characters are widened to one when they are used, which would take memory
    if stream.read(1) or (array.nbytes == 0 and array.size > 1_000_000):
        raise DataError(
            f"{title} claims {array.size:,} entries, which its {len(content):,} bytes are not: it is damaged."
        )
    if not is_text(array):
        raise DataError(f"{title} holds bytes that are not text; the file is damaged.")
    return np.asarray(array, order="C")


def is_text(array: np.ndarray) -> bool:
    """Whether all characters of an array of strings exist: NumPy keeps any number. True for numbers."""
    if array.dtype.kind != "U" or array.dtype.itemsize == 0:
        return True
    codes = np.ascontiguousarray(array).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
    return not ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))).any()


def write_tensors(path: str | Path, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> str:
    """Write arrays as safetensors, facts as JSON in the header; returns the checksum of both."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    text = json.dumps(dict(facts), allow_nan=False)
    flat = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    checksum = checksum_of_arrays(text, flat)

    def write(temporary: Path) -> None:
        try:
            save_file(flat, temporary, metadata={"facts": text, "checksum": checksum})
        except SafetensorError as error:  # such as a full disk
            raise OSError(str(error)) from error

    write_atomically(path, write)
    return checksum


def read_tensors(path: str | Path, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What :func:`write_tensors` wrote, once its checksum fits."""
    arrays, text, stated, found = _tensors(path, kind)
    if stated != found:
        raise DataError(f"{path} is damaged: its content does not fit its checksum; make the {kind} again.")
    try:
        facts = parse_json(text)
        if not isinstance(facts, dict):
            raise ValueError("not an object")
    except ValueError as error:
        raise DataError(f"{path} is not a {kind}: its facts are not JSON ({error}).") from error
    return arrays, facts


def checksum_of(path: str | Path, kind: str) -> str:
    """The checksum of what a file of :func:`write_tensors` holds now."""
    return _tensors(path, kind)[3]


def _tensors(path: str | Path, kind: str) -> tuple[dict[str, np.ndarray], str, str | None, str]:
    """Arrays, facts, the checksum that is stated and the one of the content."""
    from safetensors import SafetensorError, safe_open

    path = file_of(path, kind)
    device.require(path.stat().st_size, f"reading {path}", "use a larger machine", DataError)
    try:
        with safe_open(path, framework="numpy") as archive:
            stored = archive.metadata() or {}
            arrays = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise DataError(f"{path} is not a readable {kind} ({error}); it may be truncated: make it again.") from error
    text = stored.get("facts", "{}")
    return arrays, text, stored.get("checksum"), checksum_of_arrays(text, arrays)
