"""Two hundred hostile requests: all refused, nothing written, the server still answers; names that would be code."""

from __future__ import annotations

import ast
import csv
import http.client
import io
import json
import socket
import stat
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from naq import Graph
from naq_studio import security, server
from naq_studio.board import Entry
from naq_studio.exports import code, labels_csv
from naq_studio.routes import static_files
from naq_studio.security import Keys
from naq_studio.session import Session
from studio_under_test import Studio, studio, wait_until, word_graph

PATHS = ["/", "/static/app.js", "/api/state", "/api/names", "/api/arrays", "/api/layout/pca", "/api/node/1",
         "/api/search?q=a", "/api/word/1", "/api/columns", "/api/column/0", "/api/values/0", "/api/holding/0?q=a",
         "/api/edges/pca?box=0,0,1,1", "/api/regions/pca", "/api/text/1", "/api/image/1",
         "/api/export/labels.csv", "/api/export/repeat.py", "/api/events"]  # fmt: skip


@pytest.fixture(scope="module")
def open_studio(tmp_path_factory):
    path = tmp_path_factory.mktemp("studio") / "j.csv"
    with studio(word_graph(30), path) as running:
        running.session.write([Entry("label", 1, "mine")])
        yield running


UNDO = b'{"action":"undo"}'


def strangers(s: Studio):
    """Requests of someone without the cookie, or from elsewhere."""
    (name, value), token = s.cookie.split("="), s.address.split("token=")[1]
    for path in PATHS:
        yield "no cookie", ("GET", path, {"Cookie": None})
    for cookie in ("", name, f"{name}=", f"{name}=x",
                   f"{name}={'a' * 43}", s.cookie[:-1], s.cookie.upper(), s.cookie + "x",
                   "a=b; c=d", f"{name}-x={value}", "\x7f=;;=", "," * 3000):  # fmt: skip
        yield "wrong cookie", ("GET", "/api/state", {"Cookie": cookie})
        yield "wrong cookie", ("POST", "/api/act", {"Cookie": cookie}, UNDO)
    for key in (None, "", "x", s.key[:-1], s.key + "x", value):  # a server of another user has the cookie
        for path in PATHS[2:]:
            yield "wrong key", ("GET", path, {"X-Naq-Key": key})
        yield "wrong key", ("GET", f"/api/events?key={key}")
        yield "wrong key", ("POST", "/api/act", {"X-Naq-Key": key}, UNDO)
    for one in ("", "x", "a" * 32, "%00", token[:-1], token + "&token=x", "../..", "é"):
        yield "wrong token", ("GET", f"/?token={one}", {"Cookie": None})
    for host in ("evil.example", f"evil.example:{s.port}", "127.0.0.1", f"127.0.0.1:{s.port + 1}", "localhost",
                 f"localhost.evil.example:{s.port}",
                 f"127.0.0.1.evil.example:{s.port}", f"0.0.0.0:{s.port}", f"[::1]:{s.port}", f"127.1:{s.port}",
                 f"2130706433:{s.port}", "", f"127.0.0.1:{s.port}@evil.example",
                 f" evil.example:{s.port}", f"127.0.0.1:{s.port},evil.example",
                 f"127.0.0.1:{s.port}\r\nHost: evil.example"):  # fmt: skip
        yield "other host (DNS rebinding)", ("GET", "/api/state", {"Host": host})
        origin = {"Host": host, "Origin": f"http://{host.split(chr(13))[0]}"}
        yield "other host (DNS rebinding)", ("POST", "/api/act", origin, UNDO)
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{s.port}", f"http://127.0.0.1:{s.port + 1}",
                   f"http://127.0.0.1:{s.port}.evil.example", "http://127.0.0.1",
                   f"http://localhost:{s.port}", "", "file://", f"http://127.0.0.1:{s.port}/",
                   f"http://evil@127.0.0.1:{s.port}"):  # fmt: skip
        yield "other origin", ("POST", "/api/act", {"Origin": origin}, UNDO)
        yield "other origin", ("GET", "/api/state", {"Origin": origin})
    for site in ("cross-site", "same-site", "CROSS-SITE", "", "same-origin, cross-site", "none"):
        yield "other site", ("POST", "/api/act", {"Sec-Fetch-Site": site}, UNDO)
        if site != "none":
            yield "other site", ("GET", "/api/state", {"Sec-Fetch-Site": site})
    yield "no origin at all", ("POST", "/api/act", {"Origin": None, "Sec-Fetch-Site": None}, UNDO)


def climbers(s: Studio):
    """With the cookie: paths that want to reach the file system, and methods that are not there."""
    for path in ("/static/../routes.py", "/static/%2e%2e/routes.py", "/static/..%2froutes.py",
                 "/static/..%5croutes.py", "/static/%2fetc%2fpasswd", "/static//etc/passwd", "/static/....//",
                 "/static/",
                 "/static/app.js%00.png", "/static/app.js/", "/static/.", "/static/..", "/static/%252e%252e",
                 "/../../etc/passwd", "//etc/passwd", "/etc/passwd", "/static/C:%5cwindows", "/static/~root",
                 "/api/export/../../etc/passwd", "/api/export/%2e%2e%2fj.csv", "/api/export/j.csv",
                 "/api/layout/../../x", "/api/layout/%2e%2e", "/api/layout/pacmap.npz", "/api/node/-1",
                 "/api/node/999999",
                 "/api/node/1e3", "/api/node/%00", "/api/node/99999999999999999999999999", "/api/word/-1",
                 "/api/word/999999", "/api/word/x", "/api/column/999999", "/api/column/-1", "/api/column/__proto__",
                 "/api/values/9", "/api/holding/9?q=a", "/api/text/999999", "/api/image/1", "/api/image/..%2fj.csv",
                 "/api/edges/..%2fpca?box=0,0,1,1", "/api/edges/pca", "/api/edges/pca?box=0,0,1", "/api/regions/j.csv",
                 "/api/edges/pca?box=a,b,c,d", "/.git/config", "/static/prepare.py", "/api"):  # fmt: skip
        yield "traversal", ("GET", path)
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"):
        yield "method", (method, "/api/state")
    yield "method", ("POST", "/api/state", {}, b"{}")
    yield "method", ("GET", "/api/act")
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "x", "Sec-WebSocket-Version": "13"}
    yield "websocket", ("GET", "/api/act", upgrade)


def oversized(s: Studio):
    yield "long path", ("GET", "/" + "a" * 5_000)
    yield "long query", ("GET", "/api/search?q=" + "a" * 5_000)
    yield "long header", ("GET", "/api/state", {"X": "a" * 200_000})
    yield "huge length", ("POST", "/api/act", {"Content-Length": "1000000000"}, b"{}")
    yield "absurd length", ("POST", "/api/act", {"Content-Length": "9" * 400}, b"{}")
    yield "negative length", ("POST", "/api/act", {"Content-Length": "-1"}, b"{}")
    yield "5 MB", ("POST", "/api/act", {}, b'"' + b"a" * 5_000_000 + b'"')
    yield "5 MB import", ("POST", "/api/import", {}, b'"' + b"a" * 5_000_000 + b'"')
    yield "deep", ("POST", "/api/act", {}, b"[" * 1_000_000)
    yield "many nodes", ("POST", "/api/act", {}, json.dumps({"action": "none", "nodes": [0] * 400_000}).encode())
    chunked = {"Content-Length": None, "Transfer-Encoding": "chunked"}
    yield "chunked", ("POST", "/api/act", chunked, b"2\r\n{}\r\n0\r\n\r\n")


def malformed(s: Studio):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
                 "application/json; charset=utf-7", "", None):  # fmt: skip
        yield "type", ("POST", "/api/act", {"Content-Type": kind}, UNDO)
    bad = ['', '{', '[]', 'null', '1', '"undo"', 'NaN', '{"action": 1}', '{"action": null}', '{"action": "dance"}',
           '{"action": "undo\\u0000"}', '{"action": "label"}',
           '{"action": "label", "nodes": [], "class": 0}', '{"action": "label", "nodes": [99], "class": 0}',
           '{"action": "label", "nodes": [-1], "class": 0}', '{"action": "label", "nodes": ["1"], "class": 0}',
           '{"action": "label", "nodes": [true], "class": 0}', '{"action": "label", "nodes": [1.5], "class": 0}',
           '{"action": "label", "nodes": [NaN], "class": 0}', '{"action": "label", "nodes": 3, "class": 0}',
           '{"action": "label", "nodes": [2], "class": 77}', '{"action": "label", "nodes": [2], "class": "mine"}',
           '{"action": "label", "nodes": [2], "class": null}', '{"action": "label", "nodes": [2], "new": ""}',
           '{"action": "label", "nodes": [2], "new": "\\ud800"}', '{"action": "label", "nodes": [2], "new": 3}',
           '{"action": "make", "name": "\\u0007"}', '{"action": "make", "name": "mine"}',
           '{"action": "make", "name": "a", "colour": 50}',
           '{"action": "make", "name": "a", "colour": -1}', '{"action": "make", "name": "a", "colour": true}',
           '{"action": "rename", "class": 0, "name": "   "}', '{"action": "rename", "class": true, "name": "b"}',
           '{"action": "merge", "class": 0, "into": 0}', '{"action": "merge", "class": 0, "into": 9}',
           '{"action": "recolour", "class": 0, "colour": "red"}', '{"action": "delete", "class": -1}',
           '{"action": "delete"}', '{"action": "keep", "nodes": [99]}', '{"action": "keep"}',
           '{"action": "accept", "above": 2}', '{"action": "accept", "above": "1"}',
           '{"action": "accept", "above": 0.5}', '{"action": "unknown", "value": "maybe"}',
           '{"action": "expect", "text": "a\\nb"}', '{"action": "expect", "text": []}',
           '{"action": "describe", "class": 0, "value": 7}']  # fmt: skip
    for body in bad:
        yield "body", ("POST", "/api/act", {}, body.encode())
    for body in ("", "[]", "null", '{"above": 2}', '{"above": NaN}', '{"above": "1"}', '{"above": 0.5}',
                 '{"right": [true], "check": null}', '{"check": {}, "right": {}}'):  # fmt: skip
        yield "check", ("POST", "/api/check", {}, body.encode())
    for body in ("", "[]", "{}", '{"nodes": [1], "columns": 0}', '{"nodes": [1], "columns": [9]}',
                 '{"nodes": [1], "columns": ["__proto__"]}', '{"nodes": [1], "columns": [true]}',
                 '{"nodes": [-1], "columns": [0]}', '{"nodes": "all", "columns": [0]}'):  # fmt: skip
        yield "cells", ("POST", "/api/cells", {}, body.encode())
    yield "many cells", ("POST", "/api/cells", {}, json.dumps({"nodes": [1, 2], "columns": [0] * 99_999}).encode())
    yield "long name", ("POST", "/api/act", {}, json.dumps({"action": "make", "name": "a" * 5_000}).encode())
    yield "not UTF-8", ("POST", "/api/act", {}, b'{"action": "\xff\xfe"}')
    for body in ("[]", '{"text": 1}', '{"text": ""}', '{"text": "a,b\\n1,2"}'):
        yield "import", ("POST", "/api/import", {}, body.encode())


def garbage(s: Studio):
    host = f"Host: 127.0.0.1:{s.port}\r\n".encode()
    full = host + f"Cookie: {s.cookie}\r\nX-Naq-Key: {s.key}\r\n".encode()
    act = b"POST /api/act HTTP/1.1\r\n" + full + b"Content-Type: application/json\r\n"
    post, leap = act + b"Sec-Fetch-Site: same-origin\r\n", b'{"action":"leap"}'
    yield b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256))
    yield b"GET\r\n\r\n"
    yield b"GET /api/state\r\n\r\n"
    yield b"GET /api/state HTTP/9.9\r\n" + full + b"\r\n"
    yield b"GET /api/state HTTP/1.1\r\n\r\n"
    yield b"GET http://evil.example/api/state HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    yield b"GET /api/state HTTP/1.1\r\n" + host + host + b"\r\n"
    yield b"GET /api/state HTTP/1.1\r\nHost : x\r\n\r\n"
    yield b"GET /\x00 HTTP/1.1\r\n" + full + b"\r\n"
    yield post + b"Content-Length: 2\r\nContent-Length: 17\r\n\r\n{}"
    yield post + b"Content-Length: 17\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    yield post + b"Content-Length: 17, 17\r\n\r\n" + leap
    yield post + b"Content-Length: 100\r\n\r\n{"
    yield act + b"Origin: a\r\nOrigin: b\r\nContent-Length: 17\r\n\r\n" + leap
    yield b"\r\n" * 1000
    yield b"A" * 200_000


def test_hostile_requests_are_refused(open_studio):
    s = open_studio
    before = s.session.journal.path.read_bytes()
    asked = [*strangers(s), *climbers(s), *oversized(s), *malformed(s)]
    raw = list(garbage(s))
    assert len(asked) + len(raw) >= 200
    for what, request in asked:
        status, answer = s.request(*request)
        cut_off = status == 0 and len(request[-1]) > 1 << 16  # answered before all of it was sent
        assert 400 <= status < 500 or cut_off, (what, request[:3], status, answer[:300])
        assert b"Traceback" not in answer and b"root:" not in answer
    for content in raw:
        status, answer = s.raw(content, limit=0.5)
        assert status == 0 or 400 <= status < 500, (content[:80], status, answer[:300])
    assert s.session.journal.path.read_bytes() == before
    assert s.get("/api/state")["labels"] == 1


def test_the_token_works_once_and_becomes_a_cookie_and_a_key(open_studio):
    s = open_studio
    path = s.address[s.address.index("/?") :]
    stranger = {"Cookie": None, "X-Naq-Key": None, "Sec-Fetch-Site": "cross-site"}  # as from a file
    status, answer = s.request("GET", path, stranger)
    head, _, body = answer.lower().partition(b"\r\n\r\n")
    assert status == 200 and b"samesite=strict" in head and b"httponly" in head and s.key.lower().encode() in body
    for headers in (stranger, stranger | {"Sec-Fetch-Site": "none"}, {"X-Naq-Key": None}):  # the last has the cookie
        status, answer = s.request("GET", path, headers)
        assert status == (303 if "Cookie" not in headers else 403) and s.key.encode() not in answer
        assert s.key.encode() not in s.request("GET", "/", headers)[1]
    status, answer = s.request("POST", "/api/invite", {}, b"{}")
    again = json.loads(answer.split(b"\r\n\r\n", 1)[1])["address"]
    assert s.request("GET", again[again.index("/?") :], stranger)[0] == 200
    assert s.request("GET", f"/api/events?key={s.key}", {"X-Naq-Key": None})[0] == 200


def test_two_starts_on_a_port_have_other_secrets():
    one, two = Keys(8735), Keys(8735)
    assert one.cookie_name != two.cookie_name and one.cookie_name.startswith("naq-studio-8735-")
    assert len({one.cookie, one.key, two.cookie, two.key}) == 4


def test_no_command_line_has_the_token(tmp_path, monkeypatch):
    """The browser is given a file that nobody else may read, and that is gone when the studio ends."""
    told, opened = [], []

    def browse(page):
        path = Path(unquote(urlsplit(page).path))
        opened.append((page, path, stat.S_IMODE(path.stat().st_mode), path.read_text()))

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(server.webbrowser, "open", browse)
    monkeypatch.setattr(Session, "start", lambda self: None)
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: wait_until(lambda: opened))
    server.serve(word_graph(30), tmp_path / "j.csv", port=0, say=told.append)
    page, path, mode, text = opened[0]
    token = text.split("token=")[1].split('"')[0]
    assert page.startswith("file:") and token not in page and mode == 0o600 and not path.exists()
    assert path.parent == tmp_path and not any(token in line for line in told)  # that of the terminal is another


def test_a_request_that_does_not_arrive_is_given_up(open_studio, monkeypatch):
    monkeypatch.setattr(security, "PATIENCE", 0.3)
    s = open_studio
    start = f"Host: 127.0.0.1:{s.port}\r\nCookie: {s.cookie}\r\nX-Naq-Key: {s.key}\r\n".encode()
    whole = b"GET /api/state HTTP/1.1\r\n" + start + b"\r\n"
    post = b"POST /api/act HTTP/1.1\r\nContent-Type: application/json\r\n"
    post += b"Sec-Fetch-Site: same-origin\r\nContent-Length: 9\r\n"
    for sent in (b"", b"G", whole[:-2], post + start + b"\r\n{"):
        with socket.create_connection(("127.0.0.1", s.port), timeout=30) as line:
            line.sendall(sent)
            assert line.recv(1) == b""
    line = http.client.HTTPConnection("127.0.0.1", s.port, timeout=30)  # a slow tab keeps its connection
    for _ in range(2):
        time.sleep(0.6 if line.sock else 0)
        line.request("GET", "/api/state", headers={"Cookie": s.cookie, "X-Naq-Key": s.key})
        assert line.getresponse().read().startswith(b"{")
    line.sock.sendall(b"GET ")
    assert line.sock.recv(1) == b""
    line.close()


def test_cookies_of_others_do_no_harm(open_studio):
    others = 'a={"b":1}; c="d;e"; \xe9=\xfc; f; ' + open_studio.cookie + "; g=h"
    assert open_studio.request("GET", "/api/state", {"Cookie": others})[0] == 200


@pytest.mark.parametrize("headers", ({}, {"Cookie": None}, {"Host": "x"}))
@pytest.mark.parametrize("path", ("/", "/api/state", "/nothing"))
def test_every_answer_has_the_headers(open_studio, path, headers):
    head = open_studio.request("GET", path, headers)[1].split(b"\r\n\r\n")[0].lower().decode()
    policy = next(line for line in head.split("\r\n") if line.startswith("content-security-policy"))
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert "nosniff" in head and "no-referrer" in head and "cache-control: no-store" in head
    assert "access-control" not in head and "server:" not in head


def test_only_this_computer_is_listened_to_and_the_page_needs_nothing_from_elsewhere():
    listener, _ = server.bind_socket(0)
    assert listener.getsockname()[0] == "127.0.0.1"
    listener.close()
    for name, (content, _) in static_files().items():
        text = content.decode()
        if name.endswith((".js", ".css", ".html")) and name != "preact.js":
            banned = "http://", "https://", "innerHTML", "eval(", "dangerouslySetInnerHTML", "<script>", 'style="'
            assert not any(one in text for one in banned[: 5 if name.endswith(".js") else None]), name


HOSTILE = ('""";import os;os.abort();"""', "''';boom('", "a\\", "\\'+boom()+'", "\n\rboom()\n", "{boom()}",
           "%s#\udc80\u2028\x00", "</script><b>", "=1+1")  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_is_code_in_what_is_exported(tmp_path, name):
    plain, names = word_graph(30), [f"{one}{number}" for number, one in enumerate((HOSTILE * 4)[:30])]
    graph = Graph(plain.adjacency, plain.features, names=names, vocab=plain.vocab, name=name)
    session = Session(graph.with_source(f"/g/{name}"), tmp_path / "j.csv", read_with={"nodes": "/n/" + name})
    session.write([Entry("label", node, "one") for node in range(9)] + [Entry("label", 9, "=<b>2")])
    tree = ast.parse(code(session).encode("utf-8", "replace"))
    words = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert words == {"naq", "graph", "labels", "classifier", "write_predictions", "print"}
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert {f"/g/{name}", f"/n/{name}", "one", "=<b>2"} <= texts
    assert not any(cell.startswith("=") for row in csv.reader(io.StringIO(labels_csv(session))) for cell in row)
    session.stop()
