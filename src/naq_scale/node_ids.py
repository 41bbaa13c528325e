"""Ids of nodes, numbers or text, to the numbers of their rows: a hash table of plain arrays, no object per node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit, prange

from naq.errors import DataError
from naq.random import mixed
from naq_scale.lanes import prefetch
from naq_scale.mapped import index_type

AHEAD = 16
"""Ids whose slots are prefetched."""
LOAD = 0.7
"""Share of the slots that are taken at most."""


def compares_text(kind: Any) -> bool:
    """Whether ids of this type are compared as text, as are numbers that int64 does not hold; what are neither texts
    nor whole numbers is an error."""
    if pa.types.is_dictionary(kind):
        return compares_text(kind.value_type)
    if pa.types.is_integer(kind):
        return bool(kind == pa.uint64())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return True
    raise DataError(f"ids have the type {kind}; expected whole numbers or text: convert them.")


def keys_of(column: pa.ChunkedArray, text: bool) -> tuple[np.ndarray, np.ndarray]:
    """(m, 1) uint64 numbers or (m, 2) hashes of texts without spaces around them, and (m,) which are missing."""
    if not text:
        missing = column.is_null().to_numpy()
        return pc.fill_null(column, 0).cast(pa.int64()).to_numpy().view(np.uint64)[:, None], missing
    texts = pc.utf8_trim_whitespace(column.cast(pa.large_string())).combine_chunks()
    texts = texts if isinstance(texts, pa.LargeStringArray) else texts.chunk(0)
    missing = pc.fill_null(pc.equal(texts, ""), True).to_numpy(zero_copy_only=False)
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(texts.buffers()[2] or b"\0", np.uint8)
    return hash_texts(offsets, content), missing


def find_ids(names: Sequence[str], keys: np.ndarray, slots: np.ndarray, text: bool) -> list[int]:
    """The row of each id as a person writes it, -1 if there is none."""
    fits = [row for row, name in enumerate(names) if text or _is_int64(name)]
    found = np.full(len(names), -1)
    if fits:
        wanted = pa.chunked_array([pa.array([names[row] for row in fits], pa.string())])
        found[fits] = find_rows(keys, slots, keys_of(wanted if text else wanted.cast(pa.int64()), text)[0])
    return found.tolist()


def _is_int64(name: str) -> bool:
    return name.isascii() and name.removeprefix("-").isdigit() and len(name) < 21 and abs(int(name)) < 1 << 63


def build_slots(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(power of two,) the row of each slot, -1 if empty; and (pairs, 2) rows that have the key of an earlier row."""
    size = 1 << int(np.ceil(np.log2(max(2, len(keys) / LOAD))))
    slots: np.ndarray = np.full(size, -1, dtype=index_type(len(keys)))
    again = np.empty(len(keys), dtype=bool)
    _insert(keys, slots, again)
    rows = np.flatnonzero(again)
    return slots, np.stack([_find(keys, slots, keys[rows]), rows], axis=1)


def find_rows(keys: np.ndarray, slots: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """(m,) int64 the row of each wanted key, -1 if there is none."""
    return np.asarray(_find(keys, slots, wanted))


@njit(cache=True, parallel=True)
def hash_texts(offsets: Any, content: Any) -> Any:
    """(m, 2) uint64: 128 bits of each text, so that no two texts of a graph have the same."""
    out = np.empty((len(offsets) - 1, 2), dtype=np.uint64)
    for i in prange(len(out)):
        one, two = np.uint64(offsets[i + 1] - offsets[i]), np.uint64(0x9E3779B97F4A7C15)
        for start in range(offsets[i], offsets[i + 1], 8):
            value = np.uint64(0)
            for k in range(start, min(start + 8, offsets[i + 1])):
                value = (value << np.uint64(8)) | np.uint64(content[k])
            one, two = mixed(one ^ value), mixed(two + value * np.uint64(0xD6E8FEB86659FD93)) ^ one
        out[i, 0], out[i, 1] = one, two
    return out


@njit(cache=True, inline="always")
def _home(keys: Any, i: Any, mask: Any) -> Any:
    return np.int64(mixed(keys[i, 0]) & np.uint64(mask))


@njit(cache=True)
def _insert(keys: Any, slots: Any, again: Any) -> None:
    mask = len(slots) - 1
    for i in range(len(keys)):
        prefetch(slots, _home(keys, min(i + AHEAD, len(keys) - 1), mask))
        place, again[i] = _home(keys, i, mask), False
        while slots[place] >= 0:
            if (keys[slots[place]] == keys[i]).all():
                again[i] = True
                break
            place = (place + 1) & mask
        else:
            slots[place] = i


@njit(cache=True, parallel=True)
def _find(keys: Any, slots: Any, wanted: Any) -> Any:
    found, mask, width = np.empty(len(wanted), dtype=np.int64), len(slots) - 1, keys.shape[1]
    for i in prange(len(wanted)):
        prefetch(slots, _home(wanted, min(i + AHEAD, len(wanted) - 1), mask))
        place, row = _home(wanted, i, mask), np.int64(-1)
        while slots[place] >= 0:
            other = np.int64(slots[place])
            if keys[other, 0] == wanted[i, 0] and keys[other, width - 1] == wanted[i, width - 1]:
                row = other
                break
            place = (place + 1) & mask
        found[i] = row
    return found
