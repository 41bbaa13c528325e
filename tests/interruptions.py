"""Long work that is killed at its changes to files, or whose writes are cut off, and then goes on: a program.

    python tests/interruptions.py FOLDER import run:5     # every change of import, five changes of run

A change is a file that is opened to be written, named, removed, cut or given a mode, or a folder that is made, removed
or exchanged. Each kill is a separate process that ends as by ``kill -9``; another one completes the work. For each
kind, prints a line of JSON: kills, what differed from undisturbed work, and how many cut writes ended in one sentence.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import resource
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # GNU's OpenMP ends a forked process that uses it
    os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "NUMBA_THREADING_LAYER": "workqueue"}
sys.path.insert(0, str(Path(__file__).parent))

import file_formats as files
from naq.errors import DataError, NaqError
from naq.files import NO_SPACE, read_json, write_json

CHANGES = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.link", "os.symlink"}


def before_changes(folder: Path, then: Callable[[], object]) -> None:
    """Call ``then`` before every change in the folder, by Python's audit events; it stays so in this process."""
    start = f"{folder}{os.sep}"

    def heard(event: str, given: tuple[Any, ...]) -> None:
        reads = event == "open" and not given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        names = [os.fspath(one) for one in given[:2] if isinstance(one, str | os.PathLike)]
        if event in CHANGES and not reads and any(name.startswith(start) for name in names):
            then()

    sys.addaudithook(heard)


def die_at(number: int, folder: Path) -> None:
    """End this process before that change."""
    count = itertools.count(1)
    before_changes(folder, lambda: next(count) == number and os._exit(9))


def command(*words: object) -> str:
    """The program with these words, in this process; its message as an error where it did not end well."""
    from naq.cli.main import main

    said, before = io.StringIO(), sys.argv
    sys.argv = ["naq", *map(str, words)]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            main()
    except SystemExit as ended:
        if ended.code:
            raise DataError(said.getvalue()[-400:]) from ended
    finally:
        sys.argv = before
    return said.getvalue()


def _graph_file(folder: Path) -> Path:
    from naq.io import save_graph

    graph = folder.parent / "labelled.npz"
    return graph if graph.exists() else save_graph(graph, files.labelled_graph())


def run(folder: Path) -> Any:
    """One training with a checkpoint at every evaluation, and what it left."""
    from safetensors.numpy import load_file

    from naq.training import loop

    loop.CHECKPOINT_SECONDS = 0.0
    found = files.train(folder / "run", episodes=32, evaluate_every=8, cache=folder / "cache")
    names = {p.name for p in (folder / "run").iterdir() if p.name[0] != "."}
    left = sorted(names - {"curve.png", "damaged"})
    tensors = [load_file(folder / "run" / name) for name in left if name.endswith(".safetensors")]
    values = files.digest(*(part[name] for part in tensors for name in sorted(part)))
    return [found.accuracy, [e.accuracy for e in found.evaluations.values()], found.facts["best_step"], values, left]


def cells(folder: Path) -> Any:
    """A few cells, their records, the pack of them."""
    from naq_paper.cells.cell import Cell
    from naq_paper.cells.runners import make_runner
    from naq_paper.cells.store import Store
    from naq_paper.experiments.folder import pack_folder

    store = Store(folder / "results")
    with make_runner("local", 1) as runner:
        outcome = runner.run([Cell("empty", {"number": number}) for number in range(5)], store)
    files.write_requests(folder / "results")
    pack_folder(folder / "results", folder / "p.zip")
    kept = [[record.key, dict(record.result or {})] for record in store.records()]
    return [outcome.complete, kept, files.read_pack(folder / "p.zip") != "", store.set_aside]


def import_tables(folder: Path, more: tuple[str, ...] = ()) -> Any:
    """``naq import`` of two tables in the place of another graph: the old or the new one is there."""
    from naq.io import load, save_graph, save_mapped

    folder.mkdir(parents=True, exist_ok=True)
    edges, out = folder.parent / "edges.csv", folder / ("g" if more else "g.npz")
    if not edges.exists():
        files.write_tables("edges.csv", folder.parent)
    if not (folder / "old").exists():
        (save_mapped if more else save_graph)(out, files.small_graph())
        write_json(folder / "old", load(out).hash)
    old, between = read_json(folder / "old"), load(out).hash
    command("import", edges, "--nodes", edges.with_name("nodes.csv"), *more, "--out", out)
    new = load(out).hash
    assert between in (old, new) and old != new
    return [old, new, sorted(one.name for one in folder.iterdir())]


def reproduce(folder: Path) -> Any:
    """``naq reproduce``: a method that trains and one that does not, the page, the records."""
    from naq.training import loop
    from naq_paper.cells.store import Store

    loop.CHECKPOINT_SECONDS = 0.0
    out = folder / "out"
    words = ["reproduce", "methods", "-d", _graph_file(folder), "-m", "smooth", "-m", "naq-feat/protonet", "--way", 2]
    words += ["--shot", 1, "--seeds", 1, "--episodes", 32, "--set", "protonet.latent=8", "--episode", "queries=3"]
    said = command(*words, "--no-cache", "--quick", "--engine", "local", "--out", out)
    store = Store(out)
    kept = [[one.key, dict(one.result or {})["evaluations"]] for one in store.records()]
    if len(kept) < 2 and NO_SPACE in said:
        raise DataError(said)
    assert (out / "report.html").stat().st_size > 1000
    return json.loads(json.dumps([kept, [one.error for one in store.failures()], store.set_aside]))


def shards(folder: Path) -> Any:
    """``naq neighbors`` in shards: the table, and nothing else is left."""
    out = folder / "made" / "t.npz"
    command("neighbors", _graph_file(folder), "-k", 4, "--engine", "local", "--shards", 5, "--out", out)
    return [files.read_neighbors(out), sorted(p.name for p in out.parent.iterdir())]


def studio(folder: Path) -> Any:
    """Actions of two labels in the studio's journal: each is there whole or not at all, and nothing twice."""
    from naq_studio.board import Entry
    from naq_studio.journal import Journal

    folder.mkdir(parents=True, exist_ok=True)
    journal = Journal(folder / "g.studio.csv", files.small_graph())
    for node in range(0, 12, 2):
        there = [one in journal.board.labels for one in (node, node + 1)]
        assert there[0] == there[1], "half of an action is there"
        if not there[0]:
            journal.write([Entry("label", one, f"class {node % 3}") for one in (node, node + 1)])
    board, lines = journal.board, journal.path.read_text().splitlines()
    journal.close()
    return [files.board_digest(board), len(lines), len({line.split(",")[0] for line in lines})]


WORK: dict[str, Callable[[Path], Any]] = {
    "import": import_tables, "import --mmap": partial(import_tables, more=("--mmap",)), "run": run, "cells": cells,
    "reproduce": reproduce, "shards": shards, "studio": studio,
}  # fmt: skip


def in_child(work: Callable[[Path], Any], folder: Path, at: int = 0, limit: int | None = None) -> tuple[int, Any, int]:
    """Exit code, result and number of changes of the work in another process; 2 for a write that was cut off."""
    answer = folder.with_suffix(".json")
    answer.unlink(missing_ok=True)
    if (pid := os.fork()) == 0:
        try:
            warnings.simplefilter("ignore")
            os.fsync = lambda handle: None  # a kill loses nothing that was written, and waiting for the disk is slow
            count = itertools.count(1)
            done = 0

            def change() -> None:
                nonlocal done
                done = next(count)
                if done == at:
                    os._exit(9)

            before_changes(folder, change)
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            result = work(folder)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            answer.write_text(json.dumps([result, done]))
            os._exit(0)
        except NaqError as error:
            os._exit(2 if "too large" in str(error) else 1)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code, *(json.loads(answer.read_text()) if code == 0 else (None, 0))


def interrupt(kind: str, place: Path, points: int | None) -> dict[str, Any]:
    """Kills at ``points`` changes from the first to the last, or at all with a second limit on the size of a file."""
    place.mkdir(parents=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        WORK[kind](place / "first")  # what is imported and compiled now, every child has
    code, expected, count = in_child(WORK[kind], place / "whole")
    assert code == 0
    kills, wrong, cut = 0, [], 0
    chosen = {1 + i * (count - 1) // max(1, (points or count) - 1) for i in range(points or count)}
    for at in sorted(chosen):
        code, _, _ = in_child(WORK[kind], place / f"killed-{at}", at)
        kills += code == 9
        code, found, _ = in_child(WORK[kind], place / f"killed-{at}")
        if code != 0 or found != expected:
            wrong.append([at, code, found])
    for limit in (100, 700) if points is None else (700,):
        first, _, _ = in_child(WORK[kind], place / f"cut-{limit}", limit=limit)
        cut += first == 2
        code, found, _ = in_child(WORK[kind], place / f"cut-{limit}")
        if first not in (0, 2) or code != 0 or found != expected:
            wrong.append([f"at most {limit} bytes", first, code, found])
    left = [str(one) for one in place.rglob("*.naq.tmp*")]
    return {"kind": kind, "changes": count, "kills": kills, "wrong": wrong, "cut": cut, "left": left}


if __name__ == "__main__":
    for word in sys.argv[2:]:
        name, _, some = word.partition(":")
        print(json.dumps(interrupt(name, Path(sys.argv[1]) / name, int(some) if some else None)), flush=True)
