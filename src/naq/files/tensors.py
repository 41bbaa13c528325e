"""Arrays and facts about them in one safetensors file, with a checksum over both in its header."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from naq import device
from naq.errors import DataError
from naq.files.disk import SIZE, checksum_of_arrays, file_of, parse_json, write_atomically

LARGE = 1 << 28
"""Bytes of arrays from which on they are written in pieces: the library copies all of them first."""
PIECE = 1 << 22
"""Numbers that are written at once."""
KINDS = {"<f4": "F32", "<f8": "F64", "<i4": "I32", "<i8": "I64", "|u1": "U8", "|b1": "BOOL"}


def write_tensors(path: str | Path, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> str:
    """Write arrays, and facts as JSON in the header; the checksum of both comes back."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    text = json.dumps(dict(facts), allow_nan=False)
    flat = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    checksum = checksum_of_arrays(text, flat)

    def write(temporary: Path) -> None:
        try:
            metadata = {"facts": text, "checksum": checksum}
            known = all(array.dtype.newbyteorder("<").str in KINDS for array in flat.values())
            if known and sum(array.nbytes for array in flat.values()) >= LARGE:
                _write_in_pieces(temporary, flat, metadata)
            else:
                save_file(flat, temporary, metadata=metadata)
        except SafetensorError as error:  # a full disk is no OSError there
            raise OSError(str(error)) from error

    write_atomically(path, write)
    return checksum


def _write_in_pieces(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """What the library writes, without its copy of all arrays: the length of the header (8 bytes), the header as JSON, the arrays in the order of their names."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name in sorted(arrays):
        begin, end = end, end + arrays[name].nbytes
        kind = KINDS[arrays[name].dtype.newbyteorder("<").str]
        header[name] = {"dtype": kind, "shape": list(arrays[name].shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(arrays):
            flat = arrays[name].reshape(-1)
            for start in range(0, len(flat), PIECE):
                piece = flat[start : start + PIECE]
                stream.write(np.ascontiguousarray(piece, dtype=piece.dtype.newbyteorder("<")).data)


def read_tensors(path: str | Path, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What :func:`write_tensors` wrote, once its checksum fits."""
    with _opened(path, kind) as archive:
        device.require(Path(path).stat().st_size, f"reading {path}", "use a larger machine", DataError)
        stored = archive.metadata() or {}
        arrays = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118
    text, checksum = stored.get("facts", "{}"), stored.get("checksum")
    if checksum is None or checksum != checksum_of_arrays(text, arrays):
        raise DataError(f"{path} is damaged: its content does not fit its checksum; make the {kind} again.")
    try:
        facts = parse_json(text)
        if not isinstance(facts, dict):
            raise ValueError("no object")
    except ValueError as error:
        raise DataError(f"{path} is no {kind}: its facts are no JSON ({error}).") from error
    return arrays, facts


def checksum_of(path: str | Path, kind: str) -> str:
    """The checksum of what the file holds now, which may be more than memory."""
    with _opened(path, kind) as archive:
        digest = hashlib.blake2b((archive.metadata() or {}).get("facts", "{}").encode(), digest_size=SIZE)
        for name in sorted(archive.keys()):
            for array, shape in _pieces_of(archive, name):
                if shape is not None:
                    digest.update(f"{name}:{array.dtype}:{shape}".encode())
                digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _pieces_of(archive: Any, name: str) -> Iterator[tuple[np.ndarray, tuple[int, ...] | None]]:
    """An array in pieces of its rows; with the first comes the shape of the whole."""
    part = archive.get_slice(name)
    shape = tuple(part.get_shape())
    rows = max(1, PIECE // max(1, math.prod(shape[1:])))
    if not shape or shape[0] <= rows:
        yield archive.get_tensor(name), shape
        return
    for start in range(0, shape[0], rows):
        yield part[start : min(start + rows, shape[0])], shape if start == 0 else None


@contextmanager
def _opened(path: str | Path, kind: str) -> Iterator[Any]:
    """The open file; whatever is wrong with it, then or while it is read, is a ``DataError``."""
    from safetensors import SafetensorError, safe_open

    path = file_of(path, kind)
    try:
        with safe_open(path, framework="numpy") as archive:
            yield archive
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is not a readable {kind} ({error}); it may be truncated: make it again.") from error
