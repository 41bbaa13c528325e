"""Reads that give little at a time, end early or fail, and clocks that jump: every reader, and every computation that goes on."""

from __future__ import annotations

import builtins
import errno
import io
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from damaged_files import TARGETS, Bench
from interrupted_work import WORK
from naq.errors import LONGEST, NaqError

YEAR = 365 * 24 * 3600.0


class _Raw(io.FileIO):
    """A file whose reads are changed by ``how``: (bytes asked for, place) to bytes that may be given, or an error."""

    how: Callable[[int, int], int]

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        most = type(self).how(len(view), self.tell())
        content = os.read(self.fileno(), most) if most else b""
        view[: len(content)] = content
        return len(content)

    def readall(self) -> bytes:
        pieces, size = [], max(1, os.fstat(self.fileno()).st_size)
        piece = bytearray(size)
        while got := self.readinto(piece):
            pieces.append(bytes(piece[:got]))
        return b"".join(pieces)


@contextmanager
def reads(how: Callable[[int, int], int], folder: Path, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every file under ``folder``, or the file itself, that Python opens for reading; what Rust, C++ and memory maps read themselves is not reached."""
    whole = builtins.open
    raw = type("Raw", (_Raw,), {"how": staticmethod(how)})

    def opened(file: Any, mode: str = "r", buffering: int = -1, *more: Any, **named: Any) -> Any:
        inside = isinstance(file, str | Path) and Path(file).absolute().is_relative_to(folder)
        if not inside or set(mode) & set("wax+"):
            return whole(file, mode, buffering, *more, **named)
        stream: Any = io.BufferedReader(raw(file, "r"))
        names = ("encoding", "errors", "newline")
        return stream if "b" in mode else io.TextIOWrapper(stream, **{n: v for n, v in named.items() if n in names})

    with patch.context() as patched:
        patched.setattr(builtins, "open", opened)
        patched.setattr(io, "open", opened)
        yield


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bench]:
    """The studio's requests are read from a socket."""
    names = [
        n for n, t in TARGETS.items() if (not t.resealed and t.share == 1 and n[:8] != "studio: ") or n[8:] == "journal"
    ]
    return {name: Bench(TARGETS[name], tmp_path_factory.mktemp("reads") / "x") for name in names}


OWN_READERS = {
    "studio: journal",
    "checkpoint",
    "classifier",
    "run: embedding",
    "run: weights",
    "parquet",
    "parquet: edges",
    "run: resumed",
}
"""safetensors and pyarrow open files themselves."""


def test_short_reads_change_nothing(benches: dict[str, Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, bench in benches.items():
        asked: list[int] = []

        def short(wanted: int, place: int, asked: list[int] = asked) -> int:
            asked.append(place)
            return min(wanted, 1 + place % 7)

        with reads(short, bench.folder, monkeypatch):
            assert bench._read(bench.folder / "made" / bench.path) == bench.expected, name
        assert len(asked) > 20 or name in OWN_READERS, f"{name}: the reads were not short"


@pytest.mark.parametrize("kind", ["ends early", "fails"])
def test_a_read_that_ends_early_or_fails_is_refused(
    kind: str, benches: dict[str, Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of the file: refused in one sentence, set aside, or, where there is no checksum, fewer lines."""
    faults = []
    for name, bench in benches.items():
        middle, reached = len(bench.content) // 2, [False]

        def how(wanted: int, at: int, middle: int = middle, reached: list[bool] = reached) -> int:
            if at + wanted <= middle:
                return wanted
            reached[0] = True
            if at >= middle and kind == "fails":
                raise OSError(errno.EIO, "Input/output error")
            return max(0, min(wanted, middle - at))

        only = bench.restore()
        try:
            with reads(how, only, monkeypatch):
                found = bench._read(only)
        except NaqError as error:
            assert len(str(error)) <= LONGEST, name
            continue
        except Exception as error:
            faults.append(f"{name}: {error!r}")
            continue
        allowed = found in (None, bench.expected) if bench.target.ours else kind == "ends early"
        if reached[0] and not allowed and name != "npy":  # of which only the header is read, the rest is mapped
            faults.append(f"{name}: {kind}, and {found} was read")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("jump", [-20 * YEAR, YEAR, 60 * YEAR])
@pytest.mark.parametrize("kind", ["run", "cells", "import", "shards", "studio"])
def test_a_clock_that_jumps_changes_nothing(
    kind: str, jump: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the work before the jump, half after it, with files of the future and of long ago in the folder."""
    now = time.time
    expected = WORK[kind](tmp_path / "whole")
    ended = 0

    class Ends(Exception):
        """In the place of a kill: the work ends at its third write."""

    sync = os.fsync

    def third(handle: int) -> None:
        nonlocal ended
        ended += 1
        sync(handle)
        if ended == 3:
            raise Ends

    with monkeypatch.context() as patched, pytest.raises((Ends, NaqError)):
        patched.setattr(os, "fsync", third)
        WORK[kind](tmp_path / "jumped")
        raise Ends  # it was over before
    for path in (tmp_path / "jumped").rglob("*"):
        os.utime(path, (now() - jump, now() - jump))
    jumped = {"at": jump}

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:  # type: ignore[override]
            return datetime.fromtimestamp(0, UTC) + timedelta(seconds=time.time())

    def other() -> float:
        jumped["at"] = -jumped["at"]  # back and forth, at every look
        return now() + jumped["at"]

    monkeypatch.setattr(time, "time", other)
    monkeypatch.setattr("naq_studio.journal.datetime", Clock)
    monkeypatch.setattr("naq_paper.cells.runners.datetime", Clock)
    found = WORK[kind](tmp_path / "jumped")
    assert found == expected
