"""Where memory, the disk or a file ends in the middle: one sentence, an exit code, nothing half-written."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import numpy as np
import pytest

import naq
from generate import generate
from naq.errors import DataError, OptionError
from naq_scale.blocks.smoothing import bytes_of_blocks
from naq_scale.tiles import mapped_rows, new_mapped


@pytest.fixture
def folder(tmp_path):
    return generate(tmp_path / "graph", 3000, 12_000, features=8)


def left_in(place):
    return {path.name for path in place.iterdir()}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError("Unable to allocate 1.49 GiB for an array with shape (2,)"), "1.49 GiB"),
        (RuntimeError("can't allocate memory: you tried to allocate 268435456 bytes. Error"), "268435456 bytes"),
        (MemoryError(), "memory"),
    ],
)
@pytest.mark.parametrize(("command", "option"), [("neighbors", "-k"), ("run", "latent=")])
def test_memory_that_ends_names_bytes_and_an_option(folder, call, monkeypatch, error, said, command, option):
    def no_room(*_, **__):
        raise error

    monkeypatch.setattr("naq.io.load", no_room)
    code, _, err = call(command, folder)
    assert code == 1 and said in err and option in err and "free" in err


def test_blocks_ask_for_their_memory_first(folder, monkeypatch):
    monkeypatch.setattr("naq.device.SMALL", 0)
    monkeypatch.setattr("naq.device.room", lambda: bytes_of_blocks(3000, 384, 1 << 16) - 1)
    with pytest.raises(OptionError, match="dim"):
        naq.embed(naq.load(folder), out=folder.parent / "x.npy")
    assert left_in(folder.parent) == {"graph"}
    monkeypatch.setattr("naq.device.room", lambda: 32.0 * 3000 * 3000)
    with pytest.raises(OptionError, match="scores"):
        naq.feature_neighbors(naq.load(folder), 3)


def test_a_graph_whose_file_was_cut_gives_no_result(folder, monkeypatch):
    graph = naq.load(folder)
    graph.check_files()
    os.truncate(folder / "attr.npy", 90_000)  # the rest of its last page reads as zeros, later pages end the process
    for use in (
        lambda: naq.embed(graph, out=folder.parent / "x.npy"),
        lambda: naq.diffusion_neighbors(graph, 3, method="push"),
        lambda: naq.run(graph, method="smooth", way=2),
    ):
        with pytest.raises(DataError, match="attr"):
            use()
    assert left_in(folder.parent) == {"graph"}


def test_a_file_that_is_cut_while_it_is_read_is_one_sentence(folder):
    script = (
        "import os, sys; from pathlib import Path; from naq.cli.terminal import load_shown\n"
        "graph = load_shown(sys.argv[1])\n"
        "os.truncate(Path(sys.argv[1], 'attr.npy'), 4096)\n"
        "print(graph.features.sum())\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(folder)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.splitlines()[-1].startswith("naq: a file of the graph was cut")


def test_the_place_of_mapped_vectors_is_taken_first(tmp_path, monkeypatch):
    asked = []

    def full(handle, start, size):
        asked.append(size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    made = new_mapped(tmp_path / "some.npy", (3, 2))
    made[:] = 1
    assert np.load(tmp_path / "some.npy").tolist() == [[1, 1]] * 3
    monkeypatch.setattr(os, "posix_fallocate", full)
    for path, place in ((tmp_path / "x.npy", "x.npy"), (None, "TMPDIR")):
        with pytest.raises(DataError, match=rf"space|{place}") as caught:
            mapped_rows(path, lambda file, folder: new_mapped(file, (100, 10)) and None)
        assert place in str(caught.value)
    assert asked == [4000 + 128] * 2 and left_in(tmp_path) == {"some.npy"}
