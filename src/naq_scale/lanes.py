"""Memory by cache lines in compiled code: prefetching, arrays that begin with a line, and sums of rows.

Numba has no name for LLVM's ``prefetch``. It also loads and stores an array that is added to for every row; a value of
LLVM's ``<16 x float>`` stays in registers. Every number is added up in the order of the rows, whatever the width:
columns may be divided into tiles without changing a bit.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_model

LANES = 16
"""Float32 numbers of a line."""
READ, NEAR, FAR, DATA = 0, 3, 2, 1
"""LLVM's arguments: to be read, into the first cache or into the second, data and not instructions."""
WIDE = 4 * LANES
"""Columns that are added up at once."""
AHEAD = 32
"""Rows between the one that is prefetched and the one that is added."""


def _ask(cache: int, context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind = signature.args[0]
    made = context.make_array(kind)(context, builder, arguments[0])
    place = cgutils.get_item_pointer(context, builder, kind, made, [arguments[1]], wraparound=False)
    byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    shape = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
    call = builder.module.declare_intrinsic("llvm.prefetch", [byte], shape)
    builder.call(call, [builder.bitcast(place, byte), number(READ), number(cache), number(DATA)])
    return context.get_dummy_value()


def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    return types.void(array, types.intp), partial(_ask, NEAR)


def _prefetch_far(typing_context: Any, array: Any, index: Any) -> Any:
    return types.void(array, types.intp), partial(_ask, FAR)


prefetch: Any = intrinsic(_prefetch)
"""``prefetch(array, index)`` starts to load ``array[index]`` into the cache and goes on; the index must be in range."""
prefetch_far: Any = intrinsic(_prefetch_far)
"""The same into the second cache only, which waits for more lines at a time: for rows that are read much later."""


def line_aligned(shape: tuple[int, int]) -> np.ndarray:
    """(rows, columns) float32 without values that begins with a cache line: 64 numbers are four lines, not five."""
    line, size = 4 * LANES, 4 * shape[0] * shape[1]
    raw = np.empty(size + line, dtype=np.uint8)
    first = -raw.ctypes.data % line
    return raw[first : first + size].view(np.float32).reshape(shape)


class _Lanes(types.Type):  # type: ignore[misc]
    """Numba's name of sixteen float32 numbers."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


_LANES, _VECTOR = _Lanes(), ir.VectorType(ir.FloatType(), LANES)


@register_model(_Lanes)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    made = context.make_array(kind)(context, builder, array)
    place = cgutils.get_item_pointer(context, builder, kind, made, [index], wraparound=False)
    return builder.bitcast(place, _VECTOR.as_pointer())


def _load(typing_context: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_place(context, builder, signature.args[0], *arguments), align=4)

    return _LANES(array, types.intp), generate


def _store(typing_context: Any, array: Any, index: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _place(context, builder, signature.args[0], *arguments[:2]), align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, _LANES), generate


def _add(typing_context: Any, one: Any, two: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fadd(*arguments)

    return _LANES(_LANES, _LANES), generate


load_lanes: Any = intrinsic(_load)
"""``load_lanes(array, index)``: sixteen numbers of a flat float32 array from ``index`` on, which must be in range."""
store_lanes: Any = intrinsic(_store)
"""``store_lanes(array, index, lanes)`` writes them."""
add_lanes: Any = intrinsic(_add)
"""``add_lanes(one, two)``: their sums."""


@njit(cache=True)
def add_rows(rows: Any, width: Any, indices: Any, begin: Any, end: Any, total: Any, place: Any) -> None:
    """Add the rows ``indices[begin:end]`` to ``total[place : place + width]``, one after the other.

    Rows that come next, those of later indices among them, are prefetched.

    Shapes:
        - rows: (n x width,) float32, rows one after the other; ``total`` (at least place + width,) float32
        - indices: (m,), m >= end, each below n
    """
    last, first = len(indices) - 1, 0
    while first + WIDE <= width:
        at = place + first
        a, b = load_lanes(total, at), load_lanes(total, at + LANES)
        c, d = load_lanes(total, at + 2 * LANES), load_lanes(total, at + 3 * LANES)
        for e in range(begin, end):
            coming = np.int64(indices[min(e + AHEAD, last)]) * width + first
            for k in range(0, WIDE, LANES):
                prefetch_far(rows, coming + k)
            row = np.int64(indices[e]) * width + first
            a, b = add_lanes(a, load_lanes(rows, row)), add_lanes(b, load_lanes(rows, row + LANES))
            c = add_lanes(c, load_lanes(rows, row + 2 * LANES))
            d = add_lanes(d, load_lanes(rows, row + 3 * LANES))
        store_lanes(total, at, a)
        store_lanes(total, at + LANES, b)
        store_lanes(total, at + 2 * LANES, c)
        store_lanes(total, at + 3 * LANES, d)
        first += WIDE
    while first + LANES <= width:
        a = load_lanes(total, place + first)
        for e in range(begin, end):
            prefetch_far(rows, np.int64(indices[min(e + AHEAD, last)]) * width + first)
            a = add_lanes(a, load_lanes(rows, np.int64(indices[e]) * width + first))
        store_lanes(total, place + first, a)
        first += LANES
    if first < width:
        for e in range(begin, end):
            prefetch_far(rows, np.int64(indices[min(e + AHEAD, last)]) * width + first)
            row = np.int64(indices[e]) * width
            for k in range(first, width):
                total[place + k] += rows[row + k]
