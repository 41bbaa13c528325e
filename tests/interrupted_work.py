"""Computations that are killed, run out of disk, read little by little or meet another time of day: each goes on in the folder it is given.

Each returns what must be the same whatever happened: numbers to their bits, and what is left in the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import damaged_files as files
from naq.errors import DataError
from naq.files import NO_SPACE, read_json, write_json


def run(folder: Path) -> Any:
    """One training with checkpoints, and what it left."""
    from safetensors.numpy import load_file

    from naq import run as train
    from naq.training import loop

    loop.CHECKPOINT_SECONDS = 0.0
    options = {"options": {"latent": 8}, "episode": {"queries": 3}, "cache": folder / "cache", "baseline": False}
    found = train(
        files._labelled(), "naq-feat/protonet", way=2, episodes=32, evaluate_every=8, out=folder / "run", **options
    )
    names = {p.name for p in (folder / "run").iterdir() if not p.name.startswith(".")}
    left = sorted(names - {"curve.png", "damaged"})  # a picture is nothing to lose
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
    wanted = [Cell("empty", {"number": number}) for number in range(5)]
    with make_runner("local", 1) as runner:
        outcome = runner.run(wanted, store)
    files._make_requests(folder / "results")
    pack_folder(folder / "results", folder / "p.zip")
    kept = [record.to_json() for record in store.records()]
    return [
        outcome.complete,
        [[r["key"], r["result"]] for r in kept],
        files._read_pack(folder / "p.zip") != "",
        store.set_aside,
    ]


def replaced(folder: Path, names: Sequence[str], old: Callable[[], Any], new: Callable[[], Any], read: Any) -> Any:
    """What is in the folder once ``new`` has replaced what ``old`` wrote there; whatever happened between, one of both is there."""
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / "old"
    if not mark.exists():
        old()
        write_json(mark, {name: read(folder / name) for name in names})
    before, found = read_json(mark), {name: read(folder / name) for name in names}
    new()
    after = {name: read(folder / name) for name in names}
    for name in names:
        assert found[name] in (before[name], after[name]) and before[name] != after[name], name
    return [before, after, sorted(one.name for one in folder.iterdir())]


def import_tables(folder: Path) -> Any:
    """``naq import``: two tables to a graph file and to a graph folder, in the place of others."""
    from naq.io import load, save_graph
    from naq_scale.mapped import save_mapped

    tables = folder.parent / "edges.csv", folder.parent / "nodes.csv"
    edges, nodes = tables if tables[1].exists() else files._tables(folder.parent)

    def old() -> None:
        save_graph(folder / "g.npz", files.small_graph())
        save_mapped(folder / "g", files.small_graph())

    def new() -> None:
        command("import", edges, "--nodes", nodes, "--out", folder / "g.npz")
        command("import", edges, "--nodes", nodes, "--mmap", "--out", folder / "g")

    return replaced(folder, ["g.npz", "g"], old, new, lambda path: load(path).hash)


def predict(folder: Path) -> Any:
    """``naq predict``: the table and the page, in the place of others."""
    graph, labels = _graph_file(folder), folder.parent / "few.csv"
    labels.write_text("node,class\n" + "".join(f"{node},{'abc'[node % 3]}\n" for node in range(9)))
    words = ["predict", graph, "--labels", labels, "--out", folder / "p.csv", "--report", folder / "p.html"]

    def old() -> None:
        for name in ("p.csv", "p.html"):
            (folder / name).write_text("old")

    def read(path: Path) -> str:
        return hashlib.sha256(path.read_text().replace(str(folder), "").encode()).hexdigest()  # the page names it

    return replaced(folder, ["p.csv", "p.html"], old, lambda: command(*words), read)


def embed(folder: Path) -> Any:
    """``naq embed``: vectors in the place of others, in one piece and in shards."""
    graph = _graph_file(folder)
    whole, parts = folder / "v.npy", folder / "w.npy"

    def old() -> None:
        command("embed", graph, "--out", whole, "--method", "smooth")
        command("embed", graph, "--out", parts, "--method", "smooth")

    def new() -> None:
        command("embed", graph, "--out", whole)
        command("embed", graph, "--out", parts, "--shards", 3)

    return replaced(folder, ["v.npy", "w.npy"], old, new, lambda path: files.digest(np.load(path)))


def _graph_file(folder: Path) -> Path:
    from naq.io import save_graph

    graph = folder.parent / "labelled.npz"
    return graph if graph.exists() else save_graph(graph, files._labelled())


def command(*words: object) -> str:
    """The program with these words, in this process; its sentence as an error where it did not end well."""
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


def reproduce(folder: Path) -> Any:
    """``naq reproduce``: a method that trains and one that does not, the page, the records."""
    from naq.training import loop
    from naq_paper.cells.store import Store

    loop.CHECKPOINT_SECONDS = 0.0
    graph, out = _graph_file(folder), folder / "out"
    words = ["reproduce", "methods", "-d", graph, "-m", "smooth", "-m", "naq-feat/protonet", "--way", 2, "--shot", 1]
    words += ["--seeds", 1, "--episodes", 32, "--set", "protonet.latent=8", "--episode", "queries=3"]
    said = command(*words, "--no-cache", "--quick", "--engine", "local", "--out", out)
    store, kept = Store(out), []
    for record in store.records():
        result = dict(record.result or {})
        kept.append([record.key, result["evaluations"], [result.get("history") or {}][0].get("loss")])
    if len(kept) < 2 and NO_SPACE in said:
        raise DataError(said)
    assert (out / "report.html").stat().st_size > 1000
    return json.loads(json.dumps([kept, [f.error for f in store.failures()], store.set_aside]))


def shards(folder: Path) -> Any:
    """``naq neighbors`` in shards: the table, and nothing else is left."""
    graph, out = _graph_file(folder), folder / "made" / "t.npz"
    command("neighbors", graph, "-k", 4, "--engine", "local", "--shards", 5, "--out", out)
    return [files._read_table(out), sorted(p.name for p in out.parent.iterdir())]


def studio(folder: Path) -> Any:
    """Some actions in the studio, by requests. What was answered is noted; it must be there after every start, and nothing twice."""
    from damaged_studio import _board
    from naq_studio.server import _server, bound_socket
    from naq_studio.session import Session

    folder.mkdir(parents=True, exist_ok=True)
    session = Session(files.small_graph(), folder / "g.studio.csv")
    listener, _ = bound_socket(0)
    port = listener.getsockname()[1]
    server, keys = _server(session, port)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    noted = os.open(folder / "answered", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        board, answered = session.journal.board, (folder / "answered").read_text().split()
        for node in map(int, answered):
            assert board.labels.get(node) is not None, f"the label of node {node} was answered and is lost"
        for node in range(0, 12, 2):
            there = [node in board.labels, node + 1 in board.labels]
            assert there[0] == there[1], "half of an action is there"
            if not there[0]:
                _label(port, keys, [node, node + 1], f"class {node % 3}")
            if str(node) not in answered:
                os.write(noted, f"{node}\n".encode())
        lines = [one.split(",") for one in session.journal.path.read_text().splitlines()[1:]]
        steps = [one[0] for one in lines if one[2] == "make" or one[3] in map(str, range(0, 12, 2))]
        return [_board(board), len(lines), len(steps), len({one[0] for one in lines}), session.journal.problems[1:]]
    finally:
        os.close(noted)
        server.should_exit = True
        thread.join(timeout=120)
        session.stop()
        listener.close()


def _label(port: int, keys: Any, nodes: list[int], name: str) -> None:
    import http.client

    body = json.dumps({"action": "label", "nodes": nodes, "new": name})
    headers = {
        "Cookie": f"{keys.cookie_name}={keys.cookie}",
        "X-Naq-Key": keys.key,
        "Origin": f"http://127.0.0.1:{port}",
        "Sec-Fetch-Site": "same-origin",
        "Content-Type": "application/json",
    }
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    line.request("POST", "/api/act", body, headers)
    answer = line.getresponse()
    text = answer.read().decode()
    line.close()
    if answer.status != 200:
        raise DataError(text)


WORK: dict[str, Callable[[Path], Any]] = {
    "run": run,
    "cells": cells,
    "import": import_tables,
    "predict": predict,
    "embed": embed,
    "reproduce": reproduce,
    "shards": shards,
    "studio": studio,
}
