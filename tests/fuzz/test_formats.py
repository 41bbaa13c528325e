"""Every file format, damaged; ``make fuzz`` takes as many damaged files of each as ``NAQ_FUZZ`` says."""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from file_formats import FORMATS, DamagedFile, check_file_format, json_text
from naq.errors import LONGEST, NaqError, plain
from naq.files import parse_json

SEEDS = int(os.environ.get("NAQ_FUZZ", "40"))


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files(name: str, tmp_path: Path) -> None:
    check_file_format(FORMATS[name], tmp_path / "x", range(SEEDS))


def test_the_check_would_notice(tmp_path: Path) -> None:
    """A reader without a checksum, and one that crashes."""
    careless = replace(FORMATS["table: edges.csv"], ours=True)
    with pytest.raises(AssertionError, match="another content"):
        check_file_format(careless, tmp_path / "a", range(60))
    whole = DamagedFile(careless, tmp_path / "b").content
    crash = replace(careless, read=lambda path: "whole" if path.read_bytes() == whole else str(1 / 0))
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        check_file_format(crash, tmp_path / "c", range(3))


class _Raw(io.FileIO):
    """A file whose reads are changed by ``how``: (bytes asked for, place) to bytes that may be given, or an error."""

    how: Callable[[int, int], int]

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        content = os.read(self.fileno(), type(self).how(len(view), self.tell()))
        view[: len(content)] = content
        return len(content)

    def readall(self) -> bytes:
        pieces, piece = [], bytearray(max(1, os.fstat(self.fileno()).st_size))
        while got := self.readinto(piece):
            pieces.append(bytes(piece[:got]))
        return b"".join(pieces)


@contextlib.contextmanager
def reads(how: Callable[[int, int], int], path: Path, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Changes how Python reads this file; what Rust, C++, other processes and memory maps read is not reached."""
    whole, raw = builtins.open, type("Raw", (_Raw,), {"how": staticmethod(how)})

    def opened(file: Any, mode: str = "r", buffering: int = -1, *more: Any, **named: Any) -> Any:
        if not isinstance(file, str | Path) or Path(file).absolute() != path or set(mode) & set("wax+"):
            return whole(file, mode, buffering, *more, **named)
        stream: Any = io.BufferedReader(raw(file, "r"))
        names = ("encoding", "errors", "newline")
        return stream if "b" in mode else io.TextIOWrapper(stream, **{n: v for n, v in named.items() if n in names})

    with patch.context() as patched:
        patched.setattr(builtins, "open", opened)
        patched.setattr(io, "open", opened)
        yield


@pytest.mark.parametrize("name", [name for name, one in FORMATS.items() if not one.resealed])
def test_reads_that_are_short_end_early_or_fail(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = DamagedFile(FORMATS[name], tmp_path / "x")
    path, middle, reached = file.restore(), len(file.content) // 2, False
    with reads(lambda wanted, place: min(wanted, 1 + place % 7), path, monkeypatch):
        assert file.read(path) == file.truth
    for kind in ("ends early", "fails"):

        def how(wanted: int, place: int, kind: str = kind) -> int:
            nonlocal reached
            if place + wanted <= middle:
                return wanted
            reached = True
            if place >= middle and kind == "fails":
                raise OSError(errno.EIO, "Input/output error")
            return max(0, min(wanted, middle - place))

        path, reached = file.restore(), False
        try:
            with reads(how, path, monkeypatch):
                found = file.read(path)
        except NaqError as error:
            assert len(str(error)) <= LONGEST
        else:  # of an .npy only the header is read, the rest is mapped
            allowed = found in (None, file.truth) if file.format.ours else kind == "ends early" or name.endswith(".npy")
            assert allowed or not reached, f"{kind}, and {found} was read"


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda x: st.lists(x) | st.dictionaries(st.text(), x),
)


@settings(max_examples=4 * SEEDS, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=ANY_JSON, name=st.sampled_from(["cell", "requests", "run: config", "run: metrics"]))
def test_any_json_in_the_place_of_ours(value: object, name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    if name not in _files:
        _files[name] = DamagedFile(FORMATS[name], tmp_path_factory.mktemp("json") / "x")
    assert not (outcome := _files[name].trial(json_text(value).encode("utf-8", "surrogatepass"))).startswith("FAULT"), (
        outcome
    )


_files: dict[str, DamagedFile] = {}


def test_deep_brackets_and_long_numbers_are_not_json_of_ours() -> None:
    for text in ("[" * 100_000 + "]" * 100_000, '{"a":' * 50_000, "9" * 5000, "NaN", "-Infinity"):
        with pytest.raises(ValueError):
            parse_json(text)


@settings(max_examples=10 * SEEDS, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text(max_size=3000))
def test_a_message_is_one_printable_line_of_bounded_length(text: str) -> None:
    for message in (plain(text), str(NaqError(text))):
        assert len(message) <= LONGEST and message.isprintable() and message.isascii() >= text.isascii()
