"""What the studio reads: its journal, its kept map, and requests byte by byte to a server that runs."""

from __future__ import annotations

import json
import random
import select
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import mutations
from damage_bench import Target, digest, small_graph
from naq.errors import LONGEST, DataError

PORT, COOKIE, KEY = 8735, "c" * 43, "k" * 43
"""As the requests name them: the same in every process, so that a seed gives the same bytes."""
ANSWER_SECONDS = 300.0


def _rows() -> list[list[Any]]:
    from naq_studio.board import Row

    return [
        [Row("make", label="red")],
        [Row("label", 1, "red"), Row("label", 2, "red"), Row("label", 3, "red")],
        [Row("make", label="=blue, or not"), Row("label", 4, "=blue, or not")],
        [Row("skip", 7)],
        [Row("undo")],
        [Row("none", 9)],
        [Row("rename", label="red", value="dark red")],
        [Row("label", 5, "dark red")],
    ]


def _board(board: Any) -> str:
    return digest(sorted(board.labels.items()), sorted(board.classes.items()), sorted(board.skipped), board.unknown)


def make_journal(folder: Path) -> Path:
    import naq.classifier.labels  # heavy: read by the first line by hand, and not of its making
    from naq_studio.journal import Journal

    _ = naq
    journal = Journal(folder / "g.studio.csv", small_graph())
    for step in _rows():
        journal.write(step)
    journal.close()
    (folder / ".g.studio.csv.lock").unlink(missing_ok=True)
    return folder / "g.studio.csv"


def read_journal(path: Path) -> str:
    """Opened, continued and opened again: what was repaired stays repaired, and a new step is kept."""
    from naq_studio.board import Row
    from naq_studio.journal import Journal

    journal = Journal(path, small_graph())
    found, problems = _board(journal.board), journal.problems
    journal.write([Row("unknown", value="on" if journal.board.unknown == "off" else "off")])
    expected = _board(journal.board)
    journal.close()
    assert all(len(one) <= LONGEST and one.isprintable() for one in problems), "a long sentence about a line"
    again = Journal(path, small_graph())
    kept = _board(again.board)
    again.close()
    assert kept == expected, "another journal after it was opened again"
    return found


def make_map(folder: Path) -> Path:
    from naq_studio.cache import write_layout

    write_layout(folder, "pca", np.random.default_rng(0).random((40, 2), dtype=np.float32))
    return folder / "pca.npz"


def read_map(path: Path) -> str | None:
    from naq_studio.cache import read_layout

    places = read_layout(path.parent, path.stem, 40)
    return None if places is None else digest(places)


class _Server:
    """One studio per process, on any port; it believes itself to be on :data:`PORT`."""

    def __init__(self) -> None:
        import naq.classifier.labels  # seconds, once, and not within a request
        from naq_studio.server import _server, bound_socket
        from naq_studio.session import Session

        _ = naq
        self.place = tempfile.TemporaryDirectory()
        self.session = Session(small_graph(), Path(self.place.name) / "g.studio.csv")
        listener, _ = bound_socket(0)
        self.port = listener.getsockname()[1]
        self.server, _ = _server(self.session, self.port)
        guard: Any = self.server.config.app
        guard.hosts, guard.keys.cookie_name = {f"127.0.0.1:{PORT}"}, f"naq-studio-{PORT}"
        guard.keys.cookie, guard.keys.key = COOKIE, KEY
        threading.Thread(target=self.server.run, kwargs={"sockets": [listener]}, daemon=True).start()
        self.header = self.session.journal.path.read_bytes()
        assert self.ask(_request("GET", "/api/search?q=node"), ANSWER_SECONDS), "the studio does not answer"

    def fresh(self) -> None:
        """Every trial starts with an empty journal."""
        from naq_studio.board import Board

        journal = self.session.journal
        journal.board, journal._step, self.session.version = Board(), 0, 1
        journal.path.write_bytes(self.header)

    def idle(self) -> None:
        """Wait until no request is worked on; the work goes on where the connection is gone."""
        while self.server.server_state.tasks:
            time.sleep(0.001)

    def ask(self, content: bytes, patience: float) -> bytes:
        """The whole answer. After ``patience`` a server that waits for more is told that there is none, and must then close the connection."""
        answer, ended = b"", False
        with socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_SECONDS) as line:
            try:
                line.sendall(content)
                while True:
                    if not ended and not answer and not select.select([line], [], [], patience)[0]:
                        line.shutdown(socket.SHUT_WR)
                        ended = True
                    piece = line.recv(1 << 16)
                    answer += piece
                    if not piece or b"text/event-stream" in answer:
                        return answer
                    if b"\r\n\r\n" in _final(answer) and not ended and not select.select([line], [], [], 0.05)[0]:
                        line.shutdown(socket.SHUT_WR)  # a connection that is kept for more requests
                        ended = True
            except ConnectionError:
                return answer


def _final(answer: bytes) -> bytes:
    """Without "100 Continue" before it."""
    return answer.partition(b"\r\n\r\n")[2] if answer.startswith(b"HTTP/1.1 100") else answer


@cache
def _server() -> _Server:
    return _Server()


def _request(method: str, path: str, body: bytes = b"") -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: 127.0.0.1:{PORT}",
        f"Cookie: naq-studio-{PORT}={COOKIE}",
        f"X-Naq-Key: {KEY}",
        "Sec-Fetch-Site: same-origin",
        "Connection: close",
    ]
    if method == "POST":
        lines += [
            f"Origin: http://127.0.0.1:{PORT}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def make_request(method: str, path: str, asked: Any = None) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        body = b"" if asked is None else json.dumps(asked).encode()
        (folder / "request").write_bytes(_request(method, path, body))
        return folder / "request"

    return make


def read_request(path: Path) -> str:
    """The board and the answer afterwards. A refusal is an answer of 4xx or none, and must change nothing; 5xx is a bug."""
    from naq_studio.journal import Journal

    server = _server()
    server.fresh()
    empty = _board(server.session.journal.board)
    patience = 0.1 if path.parent.name == "trial" else ANSWER_SECONDS  # what is damaged may wait for more for ever
    answer = _final(server.ask(path.read_bytes(), patience))
    if not answer:
        server.idle()
        if _board(server.session.journal.board) != empty:  # we hung up before it was answered
            server.fresh()
            answer = _final(server.ask(path.read_bytes(), ANSWER_SECONDS))
    words = answer.split(b"\r\n", 1)[0].split()
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    after = _board(server.session.journal.board)
    if not 200 <= status < 400:
        assert status < 500 and (status or not answer), f"the studio answered {answer[:300]!r}"
        assert after == empty, "a request was refused and yet something changed"
        raise DataError(answer.partition(b"\r\n\r\n")[2].decode("utf-8", "replace") or "refused")
    journal = server.session.journal
    copy = path.with_name("copy.csv")
    copy.write_bytes(journal.path.read_bytes())
    again = Journal(copy, small_graph())
    assert _board(again.board) == after and not again.problems, "the journal does not hold what was done"
    again.close()
    return digest(after, status, answer.partition(b"\r\n\r\n")[2])


def rebuilt_request(content: bytes, draw: random.Random) -> bytes:
    """Other lines of the head, or another body with its right length."""
    head, _, body = content.partition(b"\r\n\r\n")
    if body and draw.random() < 0.7:
        body = mutations.rebuilt_json(body, draw)
        lines = [one for one in head.split(b"\r\n") if not one.startswith(b"Content-Length")]
        lines.append(b"Content-Length: %d" % len(body))
    else:
        lines = head.split(b"\r\n")
        place, kind = draw.randrange(len(lines)), draw.random()
        word = draw.choice((*mutations.WORDS, *map(str, mutations.NUMBERS), "%00", "%2e%2e/", "chunked", "\r\n\r\n"))
        junk = word.encode("utf-8", "surrogatepass")
        if kind < 0.2:
            del lines[place]
        elif kind < 0.4:
            lines.insert(place + 1, lines[place])
        elif kind < 0.6:
            name, mark, _ = lines[place].partition(b": ")
            lines[place] = name + mark + junk
        elif kind < 0.8:
            parts = lines[0].split(b" ")
            parts[draw.randrange(len(parts))] = junk
            lines[0] = b" ".join(parts)
        else:
            more = (
                b"Transfer-Encoding: chunked",
                b"Expect: 100-continue",
                b"Upgrade: websocket",
                b"Host: other",
                b"X: ",
            )
            lines.append(draw.choice(more) + junk)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


_TABLE = "node,class\nnode 1,red\nnode 2,blue\n3,red\n"
STUDIO = (
    Target("studio: journal", make_journal, read_journal, mutations.rebuilt_text, False),
    Target("studio: map", make_map, read_map, mutations.rebuilt_zip, True),
    Target(
        "studio: label",
        make_request("POST", "/api/act", {"action": "label", "nodes": [1, 2, 5], "new": "red"}),
        read_request,
        rebuilt_request,
        False,
    ),
    Target(
        "studio: import",
        make_request("POST", "/api/import", {"text": _TABLE}),
        read_request,
        rebuilt_request,
        False,
    ),
    Target("studio: search", make_request("GET", "/api/search?q=node%201"), read_request, rebuilt_request, False),
)
