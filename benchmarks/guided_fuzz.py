"""Fuzzing guided by coverage (Atheris): inputs that reach new code are kept and changed further.

    python benchmarks/guided_fuzz.py tables --runs 1000000      # archives, studio, classifier
    python benchmarks/guided_fuzz.py all --runs 100000

The first byte of an input is the number of its kind, the rest is the content of the file. Kinds, readers and damage
(well formed, checksums computed anew) are those of ``tests/file_formats.py``; a kind without a checksum has its bytes
changed too. What reaches new code is kept in build/fuzz, where the next run starts. A fault ends the run and is
written there.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOUND = ROOT / "build" / "fuzz"
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

ARRAYS = ("graph", "tasks", "neighbour table", "cached table", "episodes", "studio: map", "graph folder: manifest.json")
TARGETS = {
    "tables": [
        *(f"table: {name}" for name in ("edges.csv", "nodes.csv", "edges.csv.gz", "edges.tsv", "nodes.parquet",
        "v.npy")),
        *("labels", "graphml", "mat", "mat: edges", "ogb"),
    ],
    "archives": [
        *(f"{name}, resealed" for name in ARRAYS), "graph", "cora-full",
        *(f"graph folder: {name}.npy" for name in ("adj_indices", "adj_indptr", "attr_data", "labels", "names")),
    ],
    "studio": ["studio: journal", "requests"],
    "classifier": [*(f"{name}, resealed" for name in ("classifier", "checkpoint", "run: embedding")), "checkpoint"],
}  # fmt: skip
PORT = 8735
BETWEEN = b"\n~~\n"
REQUESTS = BETWEEN.join((
    b'POST /api/act\n{"action": "make", "name": "red", "colour": 3}', b"GET /api/export/repeat.py\n",
    b'POST /api/act\n{"action": "label", "nodes": [1, 2], "class": 0}', b"GET /api/state\n", b"GET /api/arrays\n",
    b'POST /api/import\n{"text": "node,class\\nnode 1,red\\nnode 2,blue\\n3,red\\n"}', b"GET /api/node/3\n",
    b'POST /api/act\n{"action": "accept", "above": 0.9}', b'POST /api/act\n{"action": "undo"}',
    b"GET /api/search?q=node%201\n", b"POST /api/invite\n{}", b'POST /api/act\n{"action": "none", "nodes": [5]}',
))  # fmt: skip


@cache
def damaged(name: str) -> Any:
    from file_formats import FORMATS, DamagedFile

    return DamagedFile(FORMATS[name], Path(tempfile.mkdtemp(prefix="naq-fuzz-")) / "x")


def seeds(target: str) -> list[bytes]:
    """A whole input of each kind."""
    wholes = [REQUESTS if name == "requests" else damaged(name).content for name in TARGETS[target]]
    return [bytes([place]) + whole for place, whole in enumerate(wholes)]


def attempt(target: str, data: bytes) -> None:
    """One input; an ``AssertionError`` where it ends in anything but a result or a refusal."""
    if len(data) < 2:
        return
    name = TARGETS[target][data[0] % len(TARGETS[target])]
    if name == "requests":
        studio()(data[1:])
        return
    outcome = damaged(name).trial(data[1:])
    assert not outcome.startswith("FAULT"), f"{name}: {outcome}"


def change(target: str, mutate: Callable[[bytes, int], bytes], data: bytes, most: int, seed: int) -> bytes:
    """Well-formed damage, or other bytes; files with our checksums are always whole around what changed."""
    from file_formats import change_inside

    draw, place = random.Random(seed), data[0] % len(TARGETS[target]) if data else 0
    name, content = TARGETS[target][place], data[1:] or b"x"
    sealed = name.endswith("resealed")
    if sealed or (name != "requests" and draw.random() < 0.5):
        try:
            content = change_inside(content, draw, sealed)
        except Exception:  # damaged beyond what can be taken apart: from the start again
            content = damaged(name).content
    else:
        content = mutate(content, most - 1)
    return (bytes([place]) + content)[:most]


@cache
def studio() -> Callable[[bytes], None]:
    """Answers requests to a studio in this process; a refusal changes nothing, the journal has what was done."""
    import file_formats
    from naq_studio.board import Board
    from naq_studio.journal import Journal
    from naq_studio.server import _server
    from naq_studio.session import Session

    folder = Path(tempfile.mkdtemp(prefix="naq-fuzz-"))
    session = Session(file_formats.small_graph(), folder / "g.studio.csv")
    server, keys = _server(session, PORT)
    app: Any = server.config.app
    loop, header, digest = asyncio.new_event_loop(), session.journal.path.read_bytes(), file_formats.board_digest

    async def ask(head: bytes, body: bytes) -> tuple[int, bytes]:
        method, _, address = head.decode("latin-1").partition(" ")
        path, _, query = address.partition("?")
        own = f"127.0.0.1:{PORT}"
        headers = {
            "host": own, "cookie": f"{keys.cookie_name}={keys.cookie}", "x-naq-key": keys.key, "origin": f"http://{own}",
            "content-type": "application/json", "content-length": str(len(body)),
        }  # fmt: skip
        scope = {
            "type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": path, "root_path": "",
            "raw_path": path.encode("latin-1"), "query_string": query.encode("latin-1"), "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", PORT),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }  # fmt: skip
        given, answer = [{"type": "http.request", "body": body, "more_body": False}], [0, b""]

        async def receive() -> Any:
            return given.pop() if given else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            answer[0] = message.get("status", answer[0])
            answer[1] += message.get("body", b"")

        await app(scope, receive, send)
        return answer[0], answer[1]

    def requests(content: bytes) -> None:
        journal = session.journal
        journal.board, journal._step, session.version = Board(), 0, 1
        journal.path.write_bytes(header)
        for request in content.split(BETWEEN)[:12]:
            head, _, body = request.partition(b"\n")
            before = digest(journal.board)
            status, answer = loop.run_until_complete(ask(head, body))
            assert 200 <= status < 500 and len(answer) < 10_000_000, f"{request[:200]!r}: {status}, {answer[:500]!r}"
            assert status < 400 or digest(journal.board) == before, (
                f"{request[:200]!r}: refused, but it changed something"
            )
        copy = folder / "copy.csv"
        copy.write_bytes(journal.path.read_bytes())
        again = Journal(copy, session.graph)
        kept, problems = digest(again.board), again.problems
        again.close()
        assert kept == digest(journal.board) and not problems, f"the journal does not have what was done: {problems}"

    return requests


def compiled() -> list[str]:
    """Modules that numba compiles, which cannot be traced."""
    files = [path for path in (ROOT / "src").rglob("*.py") if "numba" in path.read_text()]
    return [".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in files]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=[*TARGETS, "all"])
    parser.add_argument("--runs", type=int, default=1_000_000)
    given = parser.parse_args()
    if given.target == "all":
        for target in TARGETS:
            subprocess.run([sys.executable, __file__, target, "--runs", str(given.runs)], check=True)
        return
    import atheris

    os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    kept = FOUND / given.target
    kept.mkdir(parents=True, exist_ok=True)
    with atheris.instrument_imports(include=["naq", "naq_studio", "naq_scale", "naq_paper"], exclude=compiled()):
        for number, content in enumerate(seeds(given.target)):
            (kept / f"seed-{number:02}").write_bytes(content)
            attempt(given.target, content)  # imports and compiles what it needs
    limits = ("-timeout=60", "-rss_limit_mb=4096", "-max_len=200000", "-len_control=0", f"-artifact_prefix={kept}-")
    atheris.Setup(
        [sys.argv[0], f"-runs={given.runs}", *limits, str(kept)],
        partial(attempt, given.target),
        custom_mutator=partial(change, given.target, lambda data, most: atheris.Mutate(data, most)),
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
