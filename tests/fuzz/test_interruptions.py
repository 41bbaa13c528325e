"""Work that is killed at any change to a file, or whose disk is full, goes on to the same result."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load

import interruptions
from file_formats import labelled_graph, train
from naq import run
from naq.errors import NaqError, OptionError

POINTS = {
    "import": "", "import --mmap": "", "run": ":4", "cells": ":4", "reproduce": ":3", "shards": ":3", "studio": ":4",
}  # fmt: skip


@pytest.mark.parametrize("kind", POINTS)
def test_killed_at_any_change_it_goes_on_to_the_same_result(kind: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    some = "" if "NAQ_FUZZ" in os.environ else POINTS[kind]
    words = [sys.executable, interruptions.__file__, str(tmp_path / "x"), kind + some]
    done = subprocess.run(words, capture_output=True, text=True, timeout=3000, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] >= min(3, found["changes"]) and found["wrong"] == found["left"] == [], found
    assert found["cut"] >= 1 or kind == "studio", found


@pytest.mark.parametrize(("kind", "writes"), [("run", (1, 5)), ("import", (1, 3)), ("cells", (2, 6))])
def test_a_full_disk_is_one_sentence_and_nothing_is_lost(kind, writes, tmp_path: Path, monkeypatch) -> None:
    work, sync = interruptions.WORK[kind], os.fsync
    expected, left = work(tmp_path / "whole"), 0

    def full(handle: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(handle)

    monkeypatch.setattr(os, "fsync", full)
    for at in writes:
        left = at
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = work(tmp_path / f"full-{at}")  # a write that can be gone without is a warning
            except NaqError as error:
                assert "No space left" in str(error)
                found = work(tmp_path / f"full-{at}")
        assert found == expected and left <= 0, f"write {at}"
    assert not list(tmp_path.rglob("*.naq.tmp*"))


def test_only_one_of_two_runs_is_admitted_to_a_folder(tmp_path: Path) -> None:
    """Started at the same moment, with different settings: one runs, the others are refused."""
    barrier, outcomes = threading.Barrier(4), []

    def start(seed: int) -> None:
        barrier.wait()
        try:
            run(labelled_graph(), "smooth", way=2, seed=seed, out=tmp_path / "r", baseline=False)
            outcomes.append("done")
        except OptionError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=start, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("done") == 1, outcomes
    assert all(o == "done" or "another run is using" in o or "with another seed" in o for o in outcomes)


def test_after_a_failed_start_the_corrected_command_is_admitted(tmp_path: Path) -> None:
    for more in ({"options": {"latent": 10**9}}, {"episodes": 10**12}):
        with pytest.raises(NaqError, match="of memory"):
            run(labelled_graph(), "naq-feat/protonet", way=2, out=tmp_path / "r", cache=None, **more)
        assert not (tmp_path / "r").exists()

    def broken(phase: str, facts: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "r", listener=broken)
    assert not (tmp_path / "r").exists()


def test_a_picture_that_cannot_be_drawn_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("naq.run.folder.draw_curve", lambda *_: 1 / 0)
    with pytest.warns(UserWarning, match=r"curve\.png"):
        found = train(tmp_path / "s")
    assert train(tmp_path / "s").accuracy == found.accuracy


@pytest.mark.parametrize("damage", ["cut", "gone", "another's"])
def test_a_finished_run_with_damaged_weights_is_not_done(damage: str, tmp_path: Path) -> None:
    expected, weights = train(tmp_path / "r").accuracy, tmp_path / "r" / "weights.safetensors"
    whole = weights.read_bytes()
    if damage == "gone":
        weights.unlink()
    else:
        weights.write_bytes(whole[:-7] if damage == "cut" else (tmp_path / "r" / "embedding.safetensors").read_bytes())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert train(tmp_path / "r").accuracy == expected
    found, before = load(weights.read_bytes()), load(whole)
    assert set(found) == set(before) and all(np.array_equal(found[name], before[name]) for name in before)
    assert (damage == "gone") != any("weights.safetensors" in str(w.message) for w in caught)
