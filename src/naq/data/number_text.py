"""Tables of numbers as plain text, read in blocks: edge lists and feature tables of public datasets.

A block is parsed by a compiled loop that accepts only numbers it can convert exactly as ``float()`` would (15
digits, powers of ten up to 22). Any other block goes to the slow parser, which reads it or names the fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from gzip import GzipFile
from typing import IO, Any

import numpy as np
from numba import njit

from naq.errors import DataError
from naq.files import memory_bytes

BLOCK = 1 << 23
_POWERS = np.array([10.0**p for p in range(23)])
_LARGEST = (2**53 - 10) // 10
_SEPARATOR = re.compile(rb"[,\t ]")


def read_numbers(
    stream: IO[bytes] | GzipFile,
    title: str,
    *,
    columns: int | None = None,
    rows: int | None = None,
    dtype: Any = np.float32,
) -> np.ndarray:
    """A (rows, columns) array from lines of numbers split by comma, tab or space; blank lines are skipped.

    Args:
        title: the file's name in error messages.
        columns: expected numbers per line; those of the first line if None.
        rows: expected lines. Giving it saves memory, since the result is then filled in place.
        dtype: a whole-number type refuses fractions and what it cannot hold.
    """
    target = np.dtype(dtype)
    pieces: list[np.ndarray] = []
    whole = None
    done = size = 0
    for block in _blocks(stream, title):
        if columns is None:
            columns = _first_width(block)
        if rows is not None and whole is None:
            _check_memory(rows * columns * target.itemsize, title)
            whole = np.empty((rows, columns), dtype=target)
        piece = _converted(_block_numbers(block, columns, title, done), target, title, done)
        if whole is None:
            pieces.append(piece)
            size += piece.nbytes
            _check_memory(size, title)
        else:
            if done + len(piece) > len(whole):
                raise DataError(f"{title} has more than the {rows:,} rows it should have; download it again.")
            whole[done : done + len(piece)] = piece
        done += len(piece)
    if rows is not None and done != rows:
        raise DataError(f"{title} has {done:,} rows; expected {rows:,}: it may be truncated, download it again.")
    if whole is not None:
        return whole
    return np.concatenate(pieces) if pieces else np.empty((0, columns or 0), dtype=target)


def _check_memory(size: int, title: str) -> None:
    if size > memory_bytes():
        raise DataError(f"{title} needs {size:,} bytes, more than this machine's memory; use a larger machine.")


def _blocks(stream: IO[bytes] | GzipFile, title: str) -> Iterator[bytes]:
    """Blocks that end where a line ends."""
    rest = b""
    while block := stream.read(BLOCK):
        cut = block.rfind(b"\n") + 1
        if cut == 0 and len(rest) + len(block) > 4 * BLOCK:
            raise DataError(f"{title} has a line over {BLOCK:,} bytes; expected lines of a few numbers.")
        if cut == 0:
            rest += block
            continue
        yield rest + block[:cut]
        rest = block[cut:]
    if rest.strip():
        yield rest


def _first_width(block: bytes) -> int:
    line = block.lstrip(b"\r\n").split(b"\n", 1)[0].rstrip(b"\r")
    return len(_SEPARATOR.split(line))


def _block_numbers(block: bytes, columns: int, title: str, done: int) -> np.ndarray:
    text = np.frombuffer(block, dtype=np.uint8)
    out = np.empty((block.count(b"\n") + 1, columns), dtype=np.float64)
    rows = _parse(text, out, _POWERS)
    return out[:rows] if rows >= 0 else _slow_numbers(block, columns, title, done)


@njit(cache=True, nogil=True)
def _digits(text: np.ndarray, at: int) -> tuple[int, int, int]:
    """Digits and point from ``at`` as (mantissa, power of ten, end); end is -1 for no or too many digits."""
    mantissa, power, seen, fraction = 0, 0, False, False
    while at < len(text):
        digit = int(text[at]) - 48
        if 0 <= digit <= 9:
            if mantissa > _LARGEST:
                return 0, 0, -1
            mantissa = mantissa * 10 + digit
            seen = True
            power -= fraction
        elif digit == -2 and not fraction:
            fraction = True
        else:
            break
        at += 1
    return mantissa, power, at if seen else -1


@njit(cache=True, nogil=True)
def _exponent(text: np.ndarray, at: int) -> tuple[int, int]:
    """The exponent that starts at the ``e`` at ``at``, if there is one, as (exponent, end)."""
    if at >= len(text) or (text[at] != 101 and text[at] != 69):
        return 0, at
    at += 1
    minus = at < len(text) and text[at] == 45
    if minus or (at < len(text) and text[at] == 43):
        at += 1
    exponent, point, end = _digits(text, at)
    if end < 0 or point != 0 or text[end - 1] == 46:
        return 0, -1
    return -exponent if minus else exponent, end


@njit(cache=True, nogil=True)
def _parse(text: np.ndarray, out: np.ndarray, powers: np.ndarray) -> int:
    """Fill ``out`` and return the number of rows, or -1 at anything that is not a short plain number."""
    end, columns = len(text), out.shape[1]
    at = row = 0
    while at < end:
        if text[at] == 10 or text[at] == 13:
            at += 1
            continue
        for column in range(columns):
            negative = at < end and text[at] == 45
            mantissa, power, at = _digits(text, at + negative)
            if at < 0:
                return -1
            exponent, at = _exponent(text, at)
            power += exponent
            if at < 0 or power < -22 or power > 22:
                return -1
            value = mantissa / powers[-power] if power < 0 else mantissa * powers[power]
            out[row, column] = -value if negative else value
            if column < columns - 1:
                if at >= end or (text[at] != 44 and text[at] != 9 and text[at] != 32):
                    return -1
                at += 1
        if at < end and text[at] != 10 and text[at] != 13:
            return -1
        row += 1
    return row


def _slow_numbers(block: bytes, columns: int, title: str, done: int) -> np.ndarray:
    rows: list[list[float]] = []
    for line in re.split(rb"[\r\n]+", block):
        if not line:
            continue
        fields, place = _SEPARATOR.split(line), f"{title}, row {done + len(rows) + 1}"
        if len(fields) != columns:
            raise DataError(f"{place}: found {len(fields)} values; expected {columns}.")
        try:
            rows.append([_number(field) for field in fields])
        except ValueError:
            shown = line[:60].decode("utf-8", "replace")
            raise DataError(f"{place}: {shown!r} is not a row of plain numbers.") from None
    return np.array(rows, dtype=np.float64).reshape(len(rows), columns)


def _number(field: bytes) -> float:
    if b"_" in field:  # Python reads 1_000 as a number, files of data do not
        raise ValueError(field)
    return float(field)


def _converted(values: np.ndarray, target: np.dtype, title: str, done: int) -> np.ndarray:
    if target.kind not in "iu":
        return values.astype(target)
    limits = np.iinfo(target)
    # The largest exact float64 bounds 64-bit types; NaN fails every comparison.
    fits = (values >= max(limits.min, -(2**53))) & (values <= min(limits.max, 2**53)) & (values == np.floor(values))
    if not fits.all():
        row, column = np.argwhere(~fits)[0]
        found = values[row, column]
        raise DataError(
            f"{title}, row {done + int(row) + 1}: found {found:g}; expected a whole number to {limits.max:,}."
        )
    return values.astype(target)
