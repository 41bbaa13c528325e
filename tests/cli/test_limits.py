"""Where memory, the disk or a file ends in the middle: one sentence, an exit code, nothing half-written."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import naq
from generate import generate
from naq.cli.main import main
from naq.errors import DataError, OptionError
from naq_scale.blocks.smoothing import bytes_of_blocks
from naq_scale.tiles import mapped_rows, new_mapped


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return generate(tmp_path / "graph", 3000, 12_000, features=8)


def fails(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: object) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["naq", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0), capfd.readouterr().err.splitlines()[-1]


def left_in(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()}


OUT = {"neighbors": "x.npz", "embed": "x.npy"}


@pytest.mark.parametrize("command", ["neighbors", "embed", "episodes"])
@pytest.mark.parametrize(
    ("out", "said"), [("taken.npy", "a folder; expected the name of a file"), ("file/x.npy", "is no folder")]
)
def test_out_is_checked_before_anything_is_computed(folder, capfd, monkeypatch, command, out, said):
    (folder.parent / "taken.npy").mkdir()
    (folder.parent / "file").touch()
    before = left_in(folder.parent)
    for more in ((), ("--shards", "2")) if command != "episodes" else ((),):
        code, sentence = fails(capfd, monkeypatch, command, folder, *more, "--out", folder.parent / out)
        assert code == 2 and said in sentence
    assert left_in(folder.parent) == before


@pytest.mark.parametrize("command", ["neighbors", "embed"])
def test_no_workers_is_an_error_with_every_engine(folder, capfd, monkeypatch, command):
    for engine in ("local", "processes", "ray"):
        done = fails(
            capfd,
            monkeypatch,
            command,
            folder,
            "--engine",
            engine,
            "--workers",
            "0",
            "--out",
            folder.parent / OUT[command],
        )
        assert done == (2, "naq: --workers is 0; expected at least 1.")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            MemoryError("Unable to allocate 1.49 GiB for an array with shape (2,)"),
            "not enough memory: 1.49 GiB could not",
        ),
        (RuntimeError("can't allocate memory: you tried to allocate 268435456 bytes. Error"), "268435456 bytes could"),
        (MemoryError(), "a block could not be had"),
    ],
)
@pytest.mark.parametrize(("command", "option"), [("embed", "--set dim="), ("neighbors", "-k"), ("run", "latent=")])
def test_memory_that_ends_names_bytes_and_an_option(folder, capfd, monkeypatch, error, said, command, option):
    def no_room(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("naq.io.load", no_room)
    out = () if command == "run" else ("--out", folder.parent / OUT[command])
    code, sentence = fails(capfd, monkeypatch, command, folder, *out)
    assert code == 1 and said in sentence and option in sentence and "GB are free" in sentence


def test_blocks_ask_for_their_memory_first(folder, monkeypatch):
    monkeypatch.setattr("naq.device.SMALL", 0)
    monkeypatch.setattr("naq.device.room", lambda: bytes_of_blocks(3000, 384, 1 << 16) - 1)
    with pytest.raises(OptionError, match=r"blocks of 3,000 rows of 384 numbers needs 0\.0 GB of memory.*\(dim\)"):
        naq.embed(naq.load(folder), out=folder.parent / "x.npy")
    assert left_in(folder.parent) == {"graph"}
    monkeypatch.setattr("naq.device.room", lambda: 32.0 * 3000 * 3000)
    with pytest.raises(OptionError, match="a block of 3,000 x 3,000 scores"):
        naq.feature_neighbors(naq.load(folder), 3)


def test_a_graph_whose_file_was_cut_gives_no_result(folder, monkeypatch):
    graph = naq.load(folder)
    graph.check_files()
    os.truncate(
        folder / "attr.npy", 90_000
    )  # the rest of its last page reads as zeros, the pages after it end the process
    for use in (
        lambda: naq.embed(graph, out=folder.parent / "x.npy"),
        lambda: naq.diffusion_neighbors(graph, 3, method="push"),
        lambda: naq.run(graph, method="smooth", way=2),
    ):
        with pytest.raises(DataError, match=r"attr\.npy has 90,000 bytes, but had 96,128 when it was opened"):
            use()
    assert left_in(folder.parent) == {"graph"}


def test_a_file_that_is_cut_while_it_is_read_is_one_sentence(folder):
    script = (
        "import os, sys; from pathlib import Path; from naq.cli.progress import load_shown\n"
        "graph = load_shown(sys.argv[1])\n"
        "os.truncate(Path(sys.argv[1], 'attr.npy'), 4096)\n"
        "print(graph.features.sum())\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(folder)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.splitlines()[-1].startswith("naq: a file of the graph was cut")


def test_the_place_of_mapped_vectors_is_taken_first(tmp_path, monkeypatch):
    asked = []

    def full(handle: int, start: int, size: int) -> None:
        asked.append(size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    made = new_mapped(tmp_path / "some.npy", (3, 2))
    made[:] = 1
    assert np.load(tmp_path / "some.npy").tolist() == [[1, 1]] * 3
    monkeypatch.setattr(os, "posix_fallocate", full)
    for path, place in ((tmp_path / "x.npy", "x.npy"), (None, "TMPDIR")):
        with pytest.raises(DataError, match=rf"No space left on device; free some space.*|{place}") as caught:
            mapped_rows(path, lambda file, folder: new_mapped(file, (100, 10)) and None)
        assert place in str(caught.value)
    assert asked == [4000 + 128] * 2 and left_in(tmp_path) == {"some.npy"}
