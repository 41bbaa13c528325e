"""One sentence where a memory-mapped file is cut while it is read.

Reading past the end of such a file, or from a disk that fails, is no error that Python could catch: the system sends SIGBUS, which ends the process without a word.
"""

from __future__ import annotations

import ctypes
import signal
from typing import Any, cast

SENTENCE = b"naq: a file of the graph was cut or cannot be read any more while the program read it; make the folder again and start again.\n"


def say_lost_pages() -> None:
    """Write the sentence and end with exit code 2 at SIGBUS.

    No Python code may run in such a handler: the interrupted thread may hold any lock. It is compiled, and calls the system alone.
    """
    import numba

    cfunc, types = numba.cfunc, cast(Any, numba.types)

    write = types.ExternalFunction("write", types.intp(types.int32, types.intp, types.intp))
    leave = types.ExternalFunction("_exit", types.void(types.int32))
    address, length = ctypes.addressof(_TEXT), len(SENTENCE)

    @cfunc(types.void(types.int32))
    def handler(number: int) -> None:
        write(2, address, length)
        leave(2)

    system = ctypes.CDLL(None)
    system.signal.argtypes, system.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    system.signal(signal.SIGBUS, handler.address)
    _KEPT.append(handler)


_TEXT = ctypes.create_string_buffer(SENTENCE)
_KEPT: list[object] = []
"""The compiled handler lives as long as the process."""
