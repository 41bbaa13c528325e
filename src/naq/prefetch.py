"""Asking for memory before it is needed, in compiled code: LLVM's ``prefetch``, which Numba has no name for."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

READ, KEEP, DATA = 0, 3, 1
"""LLVM's arguments: to be read, to be kept in all caches, data and not instructions."""


def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        place = cgutils.get_item_pointer(
            context,
            builder,
            kind,
            context.make_array(kind)(context, builder, arguments[0]),
            [arguments[1]],
            wraparound=False,
        )
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        call = builder.module.declare_intrinsic("llvm.prefetch", [byte], shape)
        builder.call(call, [builder.bitcast(place, byte), number(READ), number(KEEP), number(DATA)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


prefetch: Any = intrinsic(_prefetch)
"""``prefetch(array, index)`` starts to load ``array[index]`` into the cache and goes on; the index must be in range."""
