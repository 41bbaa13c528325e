"""Standard output and standard error that cannot end a computation: closed, full, without a reader, or in an encoding that lacks a character."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import IO, Any


class Stopped(Exception):
    """Ctrl-C, after the command has said what is kept and how to go on."""


class _Steady(io.RawIOBase):
    """A file descriptor; once writing to it has failed, what is written goes nowhere."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.failure: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.descriptor

    def isatty(self) -> bool:
        return os.isatty(self.descriptor)

    def write(self, content: Any) -> int:
        try:
            return os.write(self.descriptor, content)
        except OSError as error:
            self.failure = error
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self.descriptor)
            return len(content)


@contextlib.contextmanager
def steady_streams() -> Iterator[list[str]]:
    """Replace ``sys.stdout`` and ``sys.stderr`` for a while; afterwards the list holds a sentence where output was lost.

    A reader that has read enough (``naq list | head``) is no loss. Streams that a test put there are left alone.
    """
    lost: list[str] = []
    before = sys.stdout, sys.stderr
    _fill_descriptors()
    raws = []
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, _nowhere())
        elif _is_descriptor(stream):
            raws.append((f"standard {'output' if name == 'stdout' else 'error'}", raw := _Steady(stream.fileno())))
            setattr(sys, name, _wrapped(stream, raw))
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


def _nowhere() -> IO[str]:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123


def _fill_descriptors() -> None:
    """A file opened later must not become standard output."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(descriptor)


def _is_descriptor(stream: Any) -> bool:
    """Whether this is what Python started with."""
    if not isinstance(stream, io.TextIOWrapper):
        return False
    return isinstance(getattr(stream.buffer, "raw", stream.buffer), io.FileIO)  # PYTHONUNBUFFERED: no buffer in between


def _wrapped(stream: io.TextIOWrapper, raw: _Steady) -> IO[str]:
    with contextlib.suppress(OSError, ValueError):
        stream.flush()
    terminal = raw.isatty()
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=terminal or stream.line_buffering or stream.write_through,
    )
