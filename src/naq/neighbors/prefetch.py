"""Memory by lines of the cache: asked for before it is needed (LLVM's ``prefetch``, which Numba has no name for), and arrays
that begin with a line."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

LANES = 16
"""Float32 numbers of a line."""
READ, NEAR, FAR, DATA = 0, 3, 2, 1
"""LLVM's arguments: to be read, into the first cache or into the second, data and not instructions."""


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
"""The same into the second cache only, which waits for more lines at a time than the first: for many rows, asked for long before they are read."""


def line_aligned(shape: tuple[int, int]) -> np.ndarray:
    """(rows, columns) float32 without values, beginning with a line of the cache: a row of 64 numbers is four lines, where one
    that begins elsewhere touches five."""
    line, size = 4 * LANES, 4 * shape[0] * shape[1]
    raw = np.empty(size + line, dtype=np.uint8)
    first = -raw.ctypes.data % line
    return raw[first : first + size].view(np.float32).reshape(shape)
