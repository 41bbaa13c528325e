from __future__ import annotations

import hashlib
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from naq.errors import DataError
from naq.io import DATASETS, load
from naq.io.download import _Redirects, download_file, obtain, sidecar, verify

BODY = bytes(range(256)) * 20_000
RIGHT = hashlib.sha256(BODY).hexdigest()


class Handler(BaseHTTPRequestHandler):
    files: ClassVar[dict[str, bytes]] = {}
    requests: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.requests.append(self.path)
        kind = self.path.rpartition("/")[2]
        body = self.files.get(kind, BODY)
        if kind == "absent":
            self.send_error(404)
            return
        if kind in ("away", "moved"):
            self.send_response(302)
            self.send_header("Location", "http://example.org/x" if kind == "away" else "/whole")
            self.end_headers()
            return
        if kind == "slow":
            self.send_response(200)
            self.end_headers()
            for _ in range(100):
                self.wfile.write(b"x")
                self.wfile.flush()
                time.sleep(0.02)
            return
        self.send_response(200)
        if kind in ("superscript", "huge", "negative"):
            self.send_header("Content-Length", {"superscript": "\xb2", "huge": "9" * 15, "negative": "-1"}[kind])
        elif kind != "unsized":
            self.send_header("Content-Length", str(len(body) + (1000 if kind in ("short", "stalled") else 0)))
        self.end_headers()
        if kind == "reset":
            self.wfile.write(body[:1000])
            # Closing with this option sends a reset instead of an orderly end.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            self.connection.close()
            return
        self.wfile.write(body)
        if kind == "stalled":
            self.wfile.flush()
            self.rfile.read(1)  # until the other side hangs up

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    Handler.files, Handler.requests = {}, []
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def nothing_left(path: Path) -> bool:
    return not path.parent.exists() or list(path.parent.iterdir()) == []


@pytest.mark.parametrize("kind", ["whole", "unsized", "moved"])
def test_download_file(server: str, tmp_path: Path, kind: str) -> None:
    path = download_file(f"{server}/{kind}", tmp_path / "deep" / "f.bin", sha256=RIGHT)
    assert path.read_bytes() == BODY
    assert list(path.parent.iterdir()) == [path]
    path.unlink()
    with pytest.raises(DataError, match="0" * 64):
        download_file(f"{server}/{kind}", path, sha256="0" * 64)
    assert nothing_left(path)


@pytest.mark.parametrize("kind", ["short", "reset", "absent", "stalled", "superscript", "huge", "negative", "away"])
def test_broken_downloads_keep_nothing(server: str, tmp_path: Path, kind: str) -> None:
    with pytest.raises(DataError, match=kind if kind != "away" else "address"):
        download_file(f"{server}/{kind}", tmp_path / "f.bin", timeout=0.5)
    assert nothing_left(tmp_path / "f.bin")
    (tmp_path / "f.bin").write_bytes(b"old")
    with pytest.raises(DataError):
        download_file(f"{server}/{kind}", tmp_path / "f.bin", timeout=0.5)
    assert (tmp_path / "f.bin").read_bytes() == b"old"


@pytest.mark.parametrize(
    "url", ["file:///etc/hostname", "ftp://example.org/x", "http://example.org/x", "http://[::1]:9/x"]
)
def test_addresses_that_are_not_taken_or_do_not_answer(tmp_path: Path, url: str) -> None:
    with pytest.raises(DataError, match="cannot be reached" if "9/x" in url else "address"):
        download_file(url, tmp_path / "f.bin")
    assert nothing_left(tmp_path / "f.bin")


def test_a_redirect_from_https_to_http_is_refused() -> None:
    request = urllib.request.Request("https://example.org/a")
    with pytest.raises(DataError, match="expected an https:// address"):
        _Redirects().redirect_request(request, None, 302, "", {}, "http://127.0.0.1/b")


def test_a_slow_or_large_download_is_given_up(server: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="given up"):
        download_file(f"{server}/slow", tmp_path / "f.bin", seconds=0.2)
    with pytest.raises(DataError, match="given up"):
        download_file(f"{server}/unsized", tmp_path / "f.bin", most=1000)
    assert nothing_left(tmp_path / "f.bin")


def test_first_download_is_recorded_and_held_to(server: str, tmp_path: Path) -> None:
    path = tmp_path / "f.bin"
    obtain(f"{server}/whole", path)
    assert sidecar(path).read_text() == f"{RIGHT}  f.bin\n"
    obtain(f"{server}/whole", path)
    assert Handler.requests == ["/whole"]
    path.write_bytes(BODY[:-1])
    with pytest.raises(DataError, match=r"f.bin has the SHA-256 .*; expected .* delete it and f.bin.sha256"):
        obtain(f"{server}/whole", path)
    path.unlink()
    obtain(f"{server}/whole", path)
    assert path.read_bytes() == BODY


def test_published_checksum_outranks_the_record(tmp_path: Path) -> None:
    path = tmp_path / "f.bin"
    path.write_bytes(BODY)
    assert verify(path, RIGHT) == path
    assert not sidecar(path).exists()
    with pytest.raises(DataError, match="expected 1111"):
        verify(path, "1111")
    sidecar(path).write_text("")
    with pytest.raises(DataError, match=r"expected the one in f.bin.sha256"):
        verify(path)


def test_downloading_switched_off(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"arxiv\.zip"):
        load("ogbn-arxiv", root=tmp_path / "none", download=False)
    assert not (tmp_path / "none").exists()


def test_a_mirror_is_tried_if_the_first_address_fails(server: str, tmp_path: Path) -> None:
    found = obtain(f"{server}/absent", tmp_path / "f", sha256=RIGHT, mirror=f"{server}/whole")
    assert found.read_bytes() == BODY and Handler.requests == ["/absent", "/whole"]
    with pytest.raises(DataError, match=r"/absent answered 404 .* its mirror .*/short"):
        obtain(f"{server}/absent", tmp_path / "g", mirror=f"{server}/short")
    assert not (tmp_path / "g").exists()


def test_a_named_dataset_over_the_wire(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_gpn: object
) -> None:
    folder = write_gpn({0: 0, 1: 1}, {2: 2}, stem="dblp")  # type: ignore[operator]
    Handler.files = {file.name: file.read_bytes() for file in folder.iterdir()}
    files = tuple(replace(one, url=f"{server}/{one.file}") for one in DATASETS["dblp"].files)
    monkeypatch.setitem(DATASETS, "dblp", replace(DATASETS["dblp"], files=files))
    graph = load("dblp", root=tmp_path / "root")
    assert (graph.name, graph.num_nodes) == ("dblp", 3)
    assert load("DBLP", root=tmp_path / "root", download=False).hash == graph.hash
    assert len(Handler.requests) == 3
