"""Asking for memory before it is needed, in compiled code: LLVM's ``prefetch``, which Numba has no name for."""

from __future__ import annotations

from functools import partial
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

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
