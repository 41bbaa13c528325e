"""A studio on a free port in a thread of this process, and requests to it byte by byte."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import naq.classifier.estimator  # noqa: F401  (seconds, once, and not within a request)
from naq import Graph
from naq.text import NodeTable, SentenceVectors
from naq_studio.server import _server, bind_socket
from naq_studio.session import Session


def word_graph(n: int = 120, seed: int = 0, names: list[str] | None = None) -> Graph:
    """Three groups that words and edges tell apart; nodes are named after theirs."""
    random = np.random.default_rng(seed)
    group = np.arange(n) % 3
    counts = (random.random((n, 30)) < 0.08).astype(np.float32)
    for one in range(3):
        counts[group == one, 10 * one : 10 * one + 10] += random.random(((group == one).sum(), 10)) < 0.5
    edges = random.integers(0, n, size=(2, 6 * n))
    same = group[edges[0]] == group[edges[1]]
    edges = edges[:, same | (random.random(edges.shape[1]) < 0.1)]
    kinds, vocab = ("apple", "stone", "river"), [f"{kind}{i}" for kind in ("fruit", "rock", "water") for i in range(10)]
    names = [f"{kinds[group[i]]} {i}" for i in range(n)] if names is None else names
    return Graph(edges, sp.csr_array(counts), nodes=n, names=names, vocab=vocab, name="groups")


def wait_until(condition: Callable[[], Any], limit: float = 900.0) -> Any:
    """The value of the condition once it is true."""
    end = time.monotonic() + limit
    while not (value := condition()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)
    return value


def settled(session: Session) -> None:
    """Wait until everything in the background is done."""

    def done() -> bool:
        with session.lock:
            answered = session._answered == session._seen == session.version
            return session.model.phase == "failed" or (session.model.phase == "ready" and answered)

    wait_until(done)


def text_graph(n: int = 120) -> Graph:
    """The same groups; a table of nodes with a name to show, a sentence, a number, a category and a note, and text
    vectors, with those of the groups' names: fruit, rock and water."""
    random, graph, group = np.random.default_rng(1), word_graph(n), np.arange(n) % 3
    size, kind = 20 * group + random.normal(50, 6, n), (group > 0) ^ (random.random(n) < 0.1)
    words = sp.hstack([sp.csr_array(graph.features), sp.csr_array(np.ones((n, 1)))])  # the last word is everywhere
    numbers = np.stack([(size - size.mean()) / size.std(), kind == 0, kind == 1], axis=1)
    vocab = [*map(str, graph.vocab), "the", "size", "kind=big", "kind=small"]  # type: ignore[arg-type]
    blocks = [("words", 31), ("numbers", 1), ("categories", 2)]
    features = sp.csr_array(sp.hstack([words, sp.csr_array(numbers)]))
    ids = [f"id{i}" for i in range(n)]
    counts = graph.features
    texts = [", ".join(f"The {vocab[j]}" for j in counts[[i]].indices) for i in range(n)]  # type: ignore[index]
    columns = {
        "title": graph.names.tolist(),  # type: ignore[union-attr]
        "words": texts,
        "size": [f"{one:.3f}" for one in size],
        "kind": [("big", "small")[int(one)] for one in kind],
        "note": [f"note {i}" for i in range(n)],
    }
    vectors = (2 * np.eye(3, 8)[group] + random.normal(size=(n, 8))).astype(np.float16)
    names, rows = np.array(["fruit", "rock", "water"]), np.eye(3, 8, dtype=np.float32)
    made = Graph(graph.adjacency, features, names=ids, vocab=vocab, blocks=blocks, name="texts")
    table = NodeTable.of(columns, "title", ["words"])
    return made.with_table(table).with_text(
        SentenceVectors(vectors, "planted", False, class_names=names, class_rows=rows)
    )


@dataclass
class Studio:
    """A running server; ``cookie`` opens it."""

    session: Session
    port: int
    cookie: str
    key: str
    address: str

    def raw(self, content: bytes, limit: float = 300.0) -> tuple[int, bytes]:
        """The status and the whole answer; status 0 where the connection was closed without one."""
        answer = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=limit) as line:
            with suppress(ConnectionError, TimeoutError):  # refused before all of it was sent: the answer may be there
                line.sendall(content)
            with suppress(ConnectionError, TimeoutError):
                while piece := line.recv(1 << 16):
                    answer += piece
                    if _whole(answer):
                        break
        first = answer.split(b"\r\n", 1)[0].split()
        return (int(first[1]) if len(first) > 1 and first[1].isdigit() else 0), answer

    def request(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> tuple[int, bytes]:
        """One request as a browser with the cookie sends it, but for ``headers``; a header of None is left out."""
        own = {
            "Host": f"127.0.0.1:{self.port}", "Cookie": self.cookie, "X-Naq-Key": self.key,
            "Sec-Fetch-Site": "same-origin", "Connection": "close",
        }  # fmt: skip
        if method == "POST":
            own |= {
                "Origin": f"http://127.0.0.1:{self.port}",
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
            }
        own |= headers or {}
        lines = [f"{method} {path} HTTP/1.1", *(f"{key}: {value}" for key, value in own.items() if value is not None)]
        return self.raw("\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body)

    def act(self, **asked: Any) -> tuple[int, bytes]:
        return self.request("POST", "/api/act", body=json.dumps(asked).encode())

    def get(self, path: str) -> Any:
        status, answer = self.request("GET", path)
        assert status == 200, answer
        return json.loads(answer.split(b"\r\n\r\n", 1)[1])


def _whole(answer: bytes) -> bool:
    """Whether all is there that was announced; a stream of events has no end."""
    head, found, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    return bool(found) and (b"text/event-stream" in head or (length is not None and len(body) >= int(length[1])))


@contextmanager
def studio(graph: Graph, path: Path, *, learn: bool = False) -> Iterator[Studio]:
    """``learn``: also fit and predict in the background."""
    session = Session(graph, path)
    listener, _ = bind_socket(0)
    port = listener.getsockname()[1]
    server, keys = _server(session, port)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        if learn:
            session.start()
        yield Studio(session, port, f"{keys.cookie_name}={keys.cookie}", keys.key, keys.invite())
    finally:
        server.should_exit = True
        thread.join(timeout=120)
        session.stop()
        listener.close()
