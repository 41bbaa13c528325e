"""Fuzzing guided by coverage (Atheris): inputs that reach new code are kept and changed further.

    python benchmarks/guided_fuzz.py tables --runs 1000000      # archives, studio, classifier
    python benchmarks/guided_fuzz.py all --runs 100000

The first byte of an input says which kind of file it is, the rest is its content; files with checksums are written as flat text and sealed before
they are read, so that what is changed reaches the code behind the checksums. An input that ends in anything but a sentence is written to the
folder build/fuzz and ends the run. The inputs in ``tests/fuzz/corpus`` are where it starts, and ``tests/fuzz/test_guided.py`` reads them without Atheris.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CORPUS, FOUND = ROOT / "tests" / "fuzz" / "corpus", ROOT / "build" / "fuzz"
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

Kind = tuple[str, Callable[[bytes], bytes], Callable[[bytes], bytes]]
"""A kind of ``damaged_files.TARGETS``, the file of an input, and the input of a whole file."""


def same(content: bytes) -> bytes:
    return content


def flat(parts: list[tuple[bytes, bytes]]) -> bytes:
    """Named parts, one behind the other, each after its sizes."""
    return b"".join(b"%c%s%s%s" % (len(name), name, len(inside).to_bytes(3, "big"), inside) for name, inside in parts)


def unflat(content: bytes) -> list[tuple[bytes, bytes]]:
    """The parts of any bytes."""
    parts, place = [], 0
    while place < len(content):
        name = content[place + 1 : place + 1 + content[place]]
        place += 1 + len(name)
        size = int.from_bytes(content[place : place + 3], "big")
        parts.append((name, content[place + 3 : place + 3 + size]))
        place += 3 + size
    return parts


def npz_of(content: bytes, ours: bool) -> bytes:
    """A whole zip of members, with our checksums."""
    from naq.files.archives import MARK
    from naq.files.disk import checksum_of_bytes

    out, members = io.BytesIO(), {name.decode("latin-1"): inside for name, inside in unflat(content)}
    with zipfile.ZipFile(out, "w") as archive:
        for name, inside in members.items():
            archive.writestr(zipfile.ZipInfo(name), inside)
        sums = {name.removesuffix(".npy"): checksum_of_bytes(inside) for name, inside in members.items()}
        archive.comment = (MARK + json.dumps(sums).encode())[:65535] if ours else b""
    return out.getvalue()


def of_npz(content: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return flat([(entry.filename.encode(), archive.read(entry)) for entry in archive.infolist()])


def tensors_of(content: bytes) -> bytes:
    """A file of tensors: the first part is the facts, others are npy; what cannot be read is left out."""
    import numpy as np
    import safetensors.numpy

    from naq.files.disk import checksum_of_arrays

    (_, facts), *parts = unflat(content) or [(b"", b"")]
    arrays = {}
    for name, inside in parts:
        try:
            array = np.load(io.BytesIO(inside), allow_pickle=False)
            safetensors.numpy.save({"x": array})
        except Exception:  # no reader of ours
            continue
        arrays[name.decode("latin-1")] = np.asarray(array, order="C")
    text = facts.decode("utf-8", "replace")
    return safetensors.numpy.save(arrays, metadata={"facts": text, "checksum": checksum_of_arrays(text, arrays)})


def of_tensors(content: bytes) -> bytes:
    import numpy as np
    import safetensors.numpy

    size = int.from_bytes(content[:8], "little")
    parts = [(b"", json.loads(content[8 : 8 + size])["__metadata__"]["facts"].encode())]
    for name, array in safetensors.numpy.load(content).items():
        np.save(out := io.BytesIO(), array)
        parts.append((name.encode(), out.getvalue()))
    return flat(parts)


def sealed_of(content: bytes) -> bytes:
    from naq.files import parse_json, sealed

    try:
        return json.dumps(sealed(parse_json(content))).encode()
    except (ValueError, AttributeError, RecursionError):
        return content


def zipped(content: bytes) -> bytes:
    """OGB's zip of packed tables."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, inside in {name.decode("latin-1"): inside for name, inside in unflat(content)}.items():
            archive.writestr(zipfile.ZipInfo(name), gzip.compress(inside, 1))
    return out.getvalue()


def unzipped(content: bytes) -> bytes:
    return flat([(name, gzip.decompress(inside)) for name, inside in unflat(of_npz(content))])


OURS: tuple[Any, Any] = (partial(npz_of, ours=True), of_npz)
TENSORS: tuple[Any, Any] = (tensors_of, of_tensors)
KINDS: dict[str, list[Kind]] = {
    "tables": [
        *((name, same, same) for name in ("csv: edges", "csv: nodes", "tsv: edges", "labels", "graphml", "npy", "parquet")),
        ("csv.gz", partial(gzip.compress, compresslevel=1), gzip.decompress), ("mat", same, same), ("mat: edges", same, same),
        ("ogb", zipped, unzipped),
    ],
    "archives": [
        *((f"{name}, resealed", *OURS) for name in ("graph", "tasks", "neighbour table", "cached table", "episodes", "studio: map")),
        ("graph", same, same), ("cora-full", partial(npz_of, ours=False), of_npz),
        ("graph folder: manifest, resealed", sealed_of, same),
        *((f"graph folder: {name}", same, same) for name in ("edges", "pointers", "features", "labels", "names")),
    ],
    "studio": [("studio: journal", same, same)],
    "classifier": [
        ("classifier, resealed", *TENSORS), ("checkpoint, resealed", *TENSORS), ("run: embedding, resealed", *TENSORS),
        ("checkpoint", same, same),
    ],
}  # fmt: skip
"""By target; the studio also has requests, see :func:`ask`."""
REQUESTS = [
    (b'POST /api/act\n{"action": "make", "name": "red", "colour": 3}', b'POST /api/act\n{"action": "label", "nodes": [1, 2], "new": "blue"}'),
    (b'POST /api/act\n{"action": "label", "nodes": [3], "class": 0}', b'POST /api/act\n{"action": "merge", "class": 0, "into": 1}'),
    (b'POST /api/import\n{"text": "node,class\\nnode 1,red\\nnode 2,blue\\n3,red\\n"}', b"GET /api/export/repeat.py\n", b"GET /api/state\n"),
    (b'POST /api/act\n{"action": "accept", "above": 0.9}', b'POST /api/act\n{"action": "undo"}', b"GET /api/node/3\n", b"GET /api/word/2\n"),
    (b"GET /api/search?q=node%201\n", b"GET /api/arrays\n", b"GET /api/names\n", b"POST /api/invite\n{}", b"GET /api/events?key=k\n"),
    (b'POST /api/act\n{"action": "unknown", "value": "on"}', b'POST /api/act\n{"action": "none", "nodes": [5]}', b"GET /api/export/labels.csv\n"),
]  # fmt: skip
BETWEEN = b"\n~~\n"


@cache
def bench(name: str) -> Any:
    from damaged_files import TARGETS, Bench

    return Bench(TARGETS[name], Path(tempfile.mkdtemp(prefix="naq-fuzz-")) / "x")


def attempt(target: str, content: bytes) -> None:
    """One input; an ``AssertionError`` where it ends in anything but a sentence."""
    if not content:
        return
    kinds = KINDS[target]
    place = content[0] % (len(kinds) + (target == "studio"))
    if place == len(kinds):
        studio()(content[1:])
        return
    name, made, _ = kinds[place]
    trial = bench(name).read(made(content[1:]))
    assert not trial.fault, f"{name}: {trial.outcome}: {trial.detail}"


def seeds(target: str) -> list[bytes]:
    """The whole file of each kind."""
    found = [bytes([place]) + back(bench(name).content) for place, (name, _, back) in enumerate(KINDS[target])]
    return found + ([b"\x01" + BETWEEN.join(one) for one in REQUESTS] if target == "studio" else [])


@cache
def studio() -> Callable[[bytes], None]:
    """Answers requests to a studio in this process, and checks that a refusal changed nothing and the journal holds what was done."""
    import damaged_studio
    from naq_studio.journal import Journal
    from naq_studio.server import _server
    from naq_studio.session import Session

    folder = Path(tempfile.mkdtemp(prefix="naq-fuzz-"))
    session = Session(damaged_studio.small_graph(), folder / "g.studio.csv")
    app: Any = _server(session, damaged_studio.PORT)[0].config.app
    loop, header, board = asyncio.new_event_loop(), session.journal.path.read_bytes(), damaged_studio._board

    async def ask(head: bytes, body: bytes) -> tuple[int, bytes]:
        method, _, address = head.decode("latin-1").partition(" ")
        path, _, query = address.partition("?")
        headers = {
            "host": f"127.0.0.1:{damaged_studio.PORT}", "cookie": f"{app.keys.cookie_name}={app.keys.cookie}", "x-naq-key": app.keys.key,
            "origin": f"http://127.0.0.1:{damaged_studio.PORT}", "content-type": "application/json", "content-length": str(len(body)),
        }  # fmt: skip
        query = query.replace("key=k", f"key={app.keys.key}")
        scope = {
            "type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": path, "raw_path": path.encode("latin-1"),
            "query_string": query.encode("latin-1"), "root_path": "", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 1),
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
        from naq_studio.board import Board

        journal = session.journal
        journal.board, journal._step, session.version = Board(), 0, 1
        journal.path.write_bytes(header)
        for request in content.split(BETWEEN)[:8]:
            head, _, body = request.partition(b"\n")
            before = board(journal.board)
            status, answer = loop.run_until_complete(ask(head, body))
            assert 200 <= status < 500 and len(answer) < 10_000_000, f"{request[:200]!r}: {status}, {answer[:500]!r}"
            assert status < 400 or board(journal.board) == before, (
                f"{request[:200]!r}: refused, and yet it changed something"
            )
        copy = folder / "copy.csv"
        copy.write_bytes(journal.path.read_bytes())
        again = Journal(copy, session.graph)
        kept, problems = board(again.board), again.problems
        again.close()
        assert kept == board(journal.board) and not problems, f"the journal does not hold what was done: {problems}"

    return requests


def untraced() -> set[str]:
    """Modules that are not traced: those compiled by numba cannot be."""
    files = {
        path for package in (ROOT / "src").iterdir() for path in package.rglob("*.py") if "numba" in path.read_text()
    }
    return {".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in files}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=[*KINDS, "all"])
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--seeds", action="store_true", help="write the whole files to tests/fuzz/corpus")
    given = parser.parse_args()
    if given.target == "all":
        for target in KINDS:
            subprocess.run([sys.executable, __file__, target, "--runs", str(given.runs)], check=True)
        return
    kept, found = CORPUS / given.target, FOUND / given.target
    if given.seeds:
        kept.mkdir(parents=True, exist_ok=True)
        for number, content in enumerate(seeds(given.target)):
            (kept / f"seed-{number:02}").write_bytes(content)
        return
    import atheris

    os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    found.mkdir(parents=True, exist_ok=True)
    with atheris.instrument_imports(include=["naq", "naq_studio", "naq_scale", "naq_paper"], exclude=list(untraced())):
        for content in sorted(kept.iterdir()):
            attempt(given.target, content.read_bytes())  # imports and compiles what it needs
    options = [
        f"-runs={given.runs}",
        "-timeout=60",
        "-rss_limit_mb=4096",
        "-max_len=20000",
        "-len_control=0",
        f"-artifact_prefix={found}-",
    ]
    atheris.Setup([sys.argv[0], *options, str(found), str(kept)], partial(attempt, given.target))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
