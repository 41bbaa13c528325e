"""Numeric arrays of MATLAB 5 files (``.mat``), dense and sparse.

SciPy's reader ends the process on some damaged files, so the few kinds of arrays that datasets hold are read here:
https://www.mathworks.com/help/pdf_doc/matlab/matfile_format.pdf. Cells, structures, text and objects are passed over.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from naq import device
from naq.errors import DataError
from naq.files import read_bytes

STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
"""Numbers as they are stored, by the type of a data element."""
CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
"""Numbers as they are meant, by the class of an array: whole doubles are stored as bytes."""
SPARSE, MATRIX, COMPRESSED = 5, 14, 15
COMPLEX = 0x08


class _Bad(ValueError):
    """The file is damaged."""


class _Element(NamedTuple):
    kind: int
    content: memoryview


def read_mat(path: str | Path, names: Collection[str]) -> dict[str, np.ndarray | sp.csc_array]:
    """The arrays of these names; one clear sentence where the file is no MATLAB 5 file or is damaged."""
    content = read_bytes(path, ".mat file")
    found: dict[str, np.ndarray | sp.csc_array] = {}
    try:
        order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
        if content[:8] == b"\x89HDF\r\n\x1a\n" or content[:19] == b"MATLAB 7.3 MAT-file":
            raise _Bad("it is of MATLAB 7.3; save it with -v7")
        if order is None or int.from_bytes(content[124:126], "little" if order == "<" else "big") != 0x0100:
            raise _Bad("its header is not that of MATLAB 5")
        taken = len(content)
        for element in _elements(memoryview(content)[128:], order, padded=False):
            if element.kind == COMPRESSED:
                matrix, size = _unpacked(element.content, order, taken, path)
                taken += size
            else:
                matrix = element
            if matrix.kind != MATRIX:
                raise _Bad(f"an array has type {matrix.kind}")
            name, array = _array(matrix.content, order, names)
            if array is not None:
                if name in found:
                    raise _Bad(f"{name} is there twice")
                found[name] = array
    except (_Bad, zlib.error) as error:
        raise DataError(f"{path} is not a readable .mat file ({error}); download it again.") from error
    return found


def _elements(content: memoryview, order: str, *, padded: bool = True) -> Iterator[_Element]:
    """Data elements one after the other; within an array each ends at a multiple of 8 bytes."""
    place = 0
    endian: str = "little" if order == "<" else "big"
    while place < len(content):
        if place + 8 > len(content):
            raise _Bad("it ends within a tag")
        word = int.from_bytes(content[place : place + 4], endian)  # type: ignore[arg-type]
        if word >> 16:  # a small element: type, size and up to four bytes in eight
            kind, size, start = word & 0xFFFF, word >> 16, place + 4
            if size > 4:
                raise _Bad("a small element is too large")
            end = place + 8
        else:
            kind, start = word, place + 8
            size = int.from_bytes(content[place + 4 : place + 8], endian)  # type: ignore[arg-type]
            end = start + size + (-size % 8 if padded else 0)
        if start + size > len(content):
            raise _Bad("it ends within an array")
        yield _Element(kind, content[start : start + size])
        place = end


def _unpacked(packed: memoryview, order: str, taken: int, path: str | Path) -> tuple[_Element, int]:
    """The one array of a compressed element. Its tag says how large it is, before the rest is unpacked."""
    reader = zlib.decompressobj()
    tag = reader.decompress(packed, 8)
    size = int.from_bytes(tag[4:], "little" if order == "<" else "big")
    device.require(2 * (taken + size), f"reading {path}", "use a larger machine", DataError)
    content = tag + reader.decompress(reader.unconsumed_tail, size + 1)
    if not reader.eof and not reader.unconsumed_tail:
        content += reader.flush(1)
    if len(content) != 8 + size or not reader.eof:
        raise _Bad("a compressed array is cut off or longer than it says")
    return next(_elements(memoryview(content), order)), size


def _array(content: memoryview, order: str, names: Collection[str]) -> tuple[str, np.ndarray | sp.csc_array | None]:
    """The name, and the array if it is asked for."""
    parts = _elements(content, order)
    flags = _whole(next(parts, None), order, 2, "flags")
    dims = _whole(next(parts, None), order, 2, "dimensions")
    title = next(parts, None)
    if title is None:
        raise _Bad("an array has no name")
    name = bytes(title.content).decode("utf-8", "replace")
    if name not in names:
        return name, None
    kind = int(flags[0]) & 0xFF
    if int(flags[0]) >> 8 & COMPLEX:
        raise _Bad(f"{name} holds complex numbers")
    if len(dims) != 2 or (dims < 0).any():
        raise _Bad(f"{name} has the dimensions {dims[:4].tolist()}")
    if kind == SPARSE:
        return name, _sparse(list(parts), order, int(dims[0]), int(dims[1]), name)
    if kind not in CLASSES:
        raise _Bad(f"{name} is no array of numbers")
    values = _numbers(next(parts, None), order, name)
    if len(values) != math.prod(map(int, dims)):
        raise _Bad(f"{name} has {len(values):,} numbers for the dimensions {dims.tolist()}")
    with np.errstate(invalid="ignore"):
        return name, values.astype(CLASSES[kind]).reshape(dims, order="F")


def _sparse(parts: list[_Element], order: str, rows: int, columns: int, name: str) -> sp.csc_array:
    if len(parts) != 3:
        raise _Bad(f"{name} is no sparse matrix of real numbers")
    indices, indptr = (_whole(part, order, 0, name) for part in parts[:2])
    values = _numbers(parts[2], order, name)
    if len(indptr) != columns + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any() or indptr[-1] > len(indices):
        raise _Bad(f"{name} has damaged column pointers")
    used = int(indptr[-1])  # room may be reserved for more
    indices, values = indices[:used], values[:used]
    if len(values) != used or (used and (indices.min() < 0 or indices.max() >= rows)):
        raise _Bad(f"{name} has damaged row numbers")
    return sp.csc_array((values.astype(np.float64), indices, indptr), shape=(rows, columns))


def _numbers(element: _Element | None, order: str, name: str) -> np.ndarray:
    if element is None or element.kind not in STORED:
        raise _Bad(f"{name} holds no numbers")
    kind = np.dtype(order + STORED[element.kind])
    if len(element.content) % kind.itemsize:
        raise _Bad(f"{name} ends within a number")
    return np.frombuffer(element.content, kind).astype(kind.newbyteorder("="))


def _whole(element: _Element | None, order: str, least: int, name: str) -> np.ndarray:
    values = _numbers(element, order, name)
    if values.dtype.kind not in "iu" or len(values) < least or values.dtype.itemsize > 4:
        raise _Bad(f"{name} are no whole numbers")
    return values.astype(np.int64)
