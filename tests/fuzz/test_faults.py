"""A disk that is full at any write, and a process that ends at any write: for a run, for cells and packs, for an import."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load

import kill_at_each_write as killing
from damaged_files import _labelled
from interrupted_work import WORK
from naq.errors import NaqError, OptionError


@pytest.mark.parametrize("kind", WORK)
def test_a_disk_that_is_full_at_any_write_is_one_sentence_and_nothing_is_lost(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, sync = WORK[kind], os.fsync
    expected = work(tmp_path / "whole")
    count, at = 0, 0

    def full(handle: int) -> None:
        nonlocal count
        count += 1
        if count == at:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(handle)

    monkeypatch.setattr(os, "fsync", full)
    refused = 0
    some = {"run": 4, "cells": 2, "reproduce": 9, "studio": 3, "shards": 2, "import": 3, "predict": 2, "embed": 15}
    every = "NAQ_FUZZ" in os.environ
    for at in range(2 if kind == "reproduce" and not every else 1, 40, 1 if every else some.get(kind, 1)):
        count = 0
        folder = tmp_path / f"full-{at}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = work(folder)
            except NaqError as error:
                assert "No space left" in str(error)
                refused += 1
                count = -(10**9)
                found = work(folder)
        assert found == expected, f"write {at}"
        if 0 <= count < at:
            break
    assert refused >= 1
    assert not [p for p in tmp_path.rglob("*") if ".tmp" in p.name], "a temporary file was left"


EVERY = {"run": 40, "cells": 50, "import": 12, "predict": 6, "embed": 80, "reproduce": 80, "shards": 40, "studio": 12}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What came of kills at every so many writes, by kind of work."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    words = [f"{kind}:{every}" for kind, every in EVERY.items()]
    command = [sys.executable, killing.__file__, tmp_path_factory.mktemp("killed"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, env=environment)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["kind"]: row for row in rows}


@pytest.mark.parametrize("kind", EVERY)
def test_killed_at_any_write_it_goes_on_to_the_same_result(kind: str, killed: dict[str, dict[str, Any]]) -> None:
    found = killed[kind]
    assert found["kills"] >= found["points"] // EVERY[kind] > 0, found
    assert found["wrong"] == found["twice"] == [], found
    assert found["full"] >= 1, "no write was cut off"


def test_only_one_of_two_runs_is_admitted_to_a_folder(tmp_path: Path) -> None:
    """Started at the same moment, with different settings: one runs, the others are refused."""
    from naq import run

    for attempt in range(5):
        barrier, outcomes = threading.Barrier(4), []

        def start(seed: int, folder: Path = tmp_path / f"r{attempt}") -> None:
            barrier.wait()  # noqa: B023
            try:
                run(_labelled(), "smooth", way=2, seed=seed, out=folder, baseline=False)
                outcomes.append("done")  # noqa: B023
            except OptionError as error:
                outcomes.append(str(error))  # noqa: B023

        threads = [threading.Thread(target=start, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcomes.count("done") == 1, outcomes
        assert all(o == "done" or "another run is using" in o or "with another seed" in o for o in outcomes)


def test_after_a_failed_start_the_corrected_command_is_admitted(tmp_path: Path) -> None:
    from naq import run

    wrong = ({"options": {"latent": 10**9}}, {"episodes": 10**12}, {"options": {"latent": 10**30}})
    for number, more in enumerate(wrong):
        out = tmp_path / f"r{number}"
        with pytest.raises(NaqError, match="of memory"):
            run(_labelled(), "naq-feat/protonet", way=2, out=out, cache=None, **more)
        assert not out.exists()

    def broken(phase: str, facts: object) -> None:
        raise ZeroDivisionError("a bug, anywhere")

    with pytest.raises(ZeroDivisionError):
        run(_labelled(), "naq-feat/protonet", way=2, out=tmp_path / "r", cache=None, listener=broken)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("name", ["a$b", "caf\udce9", "x" * 300, "\x1b[31m", "[/bold]"])
def test_a_picture_is_never_worth_a_result(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from naq import run
    from naq.graph import Graph

    graph = _labelled()
    named = Graph(graph.adjacency, graph.features, graph.labels, name=name)
    small = {
        "way": 2,
        "episodes": 16,
        "evaluate_every": 8,
        "options": {"latent": 8},
        "episode": {"queries": 3},
        "cache": None,
    }
    run(named, "naq-feat/protonet", out=tmp_path / "r", baseline=False, **small)
    assert (tmp_path / "r" / "curve.png").stat().st_size > 1000
    if name == "a$b":
        monkeypatch.setattr("naq.run.figure.draw_curve", lambda *_: 1 / 0)
        with pytest.warns(UserWarning, match=r"the picture curve\.png could not be drawn"):
            found = run(named, "naq-feat/protonet", seed=1, out=tmp_path / "s", baseline=False, **small)
        again = run(named, "naq-feat/protonet", seed=1, out=tmp_path / "s", baseline=False, **small)
        assert again.accuracy == found.accuracy


@pytest.mark.parametrize("damage", ["cut", "gone", "another's"])
def test_a_finished_run_with_damaged_weights_is_not_done(damage: str, tmp_path: Path) -> None:
    from naq import run

    def make() -> float:
        small = {
            "episodes": 16,
            "evaluate_every": 8,
            "options": {"latent": 8},
            "episode": {"queries": 3},
            "cache": None,
        }
        return run(_labelled(), "naq-feat/protonet", way=2, out=tmp_path / "r", baseline=False, **small).accuracy

    expected, weights = make(), tmp_path / "r" / "weights.safetensors"
    whole = weights.read_bytes()
    if damage == "cut":
        weights.write_bytes(whole[:-7])
    elif damage == "gone":
        weights.unlink()
    else:
        weights.write_bytes((tmp_path / "r" / "embedding.safetensors").read_bytes())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert make() == expected
    found, before = load(weights.read_bytes()), load(whole)
    assert set(found) == set(before) and all(np.array_equal(found[name], before[name]) for name in before)
    assert (damage == "gone") != any("weights.safetensors" in str(w.message) for w in caught)
