"""Standard output and standard error that cannot end a computation: closed, full, without a reader, or in an encoding that lacks a character."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import Any


class Stopped(Exception):
    """Ctrl-C, after the command has said what is kept and how to go on."""


class _Steady(io.FileIO):
    """A file descriptor; once writing to it has failed, what is written goes nowhere."""

    failure: OSError | None = None

    def write(self, content: Any) -> int:
        try:
            return os.write(self.fileno(), content)
        except OSError as error:
            self.failure = error
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            return len(content)


@contextlib.contextmanager
def steady_streams() -> Iterator[list[str]]:
    """Replace ``sys.stdout`` and ``sys.stderr`` for a while; afterwards the list holds a sentence where output was lost.

    A reader that has read enough (``naq list | head``) is no loss. Streams that a test put there are left alone.
    """
    lost: list[str] = []
    before = sys.stdout, sys.stderr
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:
        pass  # a file opened later must not become standard output
    os.close(descriptor)
    raws = []
    for name, title in (("stdout", "standard output"), ("stderr", "standard error")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        elif _is_descriptor(stream):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
            raws.append((title, raw := _Steady(stream.fileno(), "w", closefd=False)))
            by_line = raw.isatty() or stream.line_buffering or stream.write_through
            setattr(
                sys, name, io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, "backslashreplace", None, by_line)
            )
    try:
        yield lost
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        for title, raw in raws:
            if raw.failure is not None and raw.failure.errno != errno.EPIPE:
                lost.append(f"{title} could not be written: {raw.failure.strerror}.")
        sys.stdout, sys.stderr = before


def _is_descriptor(stream: Any) -> bool:
    """Whether this is what Python started with; with PYTHONUNBUFFERED there is no buffer in between."""
    return isinstance(stream, io.TextIOWrapper) and type(getattr(stream.buffer, "raw", stream.buffer)) is io.FileIO
