from __future__ import annotations

import hashlib
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from naq.errors import DataError
from naq.io import DATASETS, catalog, dataset_root, load
from naq.io.download import _Redirects, fetch, obtain, sidecar, verify

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
        if kind == "away":
            self.send_response(302)
            self.send_header("Location", "http://example.org/x")
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
        if kind == "moved":
            self.send_response(302)
            self.send_header("Location", "/whole")
            self.end_headers()
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
def test_fetch(server: str, tmp_path: Path, kind: str) -> None:
    path = fetch(f"{server}/{kind}", tmp_path / "deep" / "f.bin", sha256=RIGHT)
    assert path.read_bytes() == BODY
    assert list(path.parent.iterdir()) == [path]


def test_wrong_checksum_keeps_nothing(server: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"/whole has the SHA-256 {RIGHT}; expected {'0' * 64}: it was changed"):
        fetch(f"{server}/whole", tmp_path / "f.bin", sha256="0" * 64)
    assert nothing_left(tmp_path / "f.bin")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("short", r"broke off after 5,120,000 of 5,121,000 bytes; try again"),
        ("reset", r"broke off after [\d,]+ (of 5,120,000 )?bytes"),
        ("absent", r"answered 404 Not Found; download .*/absent elsewhere and put it at .*f.bin"),
    ],
)
def test_broken_downloads_keep_nothing(server: str, tmp_path: Path, kind: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        fetch(f"{server}/{kind}", tmp_path / "f.bin")
    assert nothing_left(tmp_path / "f.bin")


def test_stalled_download_times_out(server: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"broke off after .* bytes .*timed out"):
        fetch(f"{server}/stalled", tmp_path / "f.bin", timeout=2.0)
    assert nothing_left(tmp_path / "f.bin")


def test_interrupted_by_the_user(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: object) -> str:
        args[1].write(b"half")  # type: ignore[attr-defined]
        raise KeyboardInterrupt

    monkeypatch.setattr("naq.io.download._copy", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch(f"{server}/whole", tmp_path / "f.bin")
    assert nothing_left(tmp_path / "f.bin")


def test_an_older_file_survives_a_failed_download(server: str, tmp_path: Path) -> None:
    path = tmp_path / "f.bin"
    path.write_bytes(b"old")
    with pytest.raises(DataError):
        fetch(f"{server}/short", path)
    assert path.read_bytes() == b"old"


def test_connection_refused(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/f.bin"
        message = rf"f.bin is needed, but {url} cannot be reached \(.*refused.*\); download {url} elsewhere and"
        with pytest.raises(DataError, match=message):
            fetch(url, tmp_path / "f.bin")
    assert nothing_left(tmp_path / "f.bin")


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://example.org/x", "http://example.org/x"])
def test_only_the_web(tmp_path: Path, url: str) -> None:
    with pytest.raises(DataError, match="is not an address that files are taken from"):
        fetch(url, tmp_path / "f.bin")


@pytest.mark.parametrize("kind", ["superscript", "huge", "negative"])
def test_a_length_that_is_no_number_is_refused(server: str, tmp_path: Path, kind: str) -> None:
    with pytest.raises(DataError, match="announces a length of"):
        fetch(f"{server}/{kind}", tmp_path / "f.bin")
    assert nothing_left(tmp_path / "f.bin")


def test_a_redirect_leads_to_no_other_kind_of_address(server: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not an address that files are taken from"):
        fetch(f"{server}/away", tmp_path / "f.bin")
    request = urllib.request.Request("https://example.org/a")
    with pytest.raises(DataError, match="expected an https:// address"):
        _Redirects().redirect_request(request, None, 302, "", {}, "http://127.0.0.1/b")


def test_a_slow_or_large_download_is_given_up(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("naq.io.download.DEADLINE", 0.2)
    with pytest.raises(DataError, match="was given up after"):
        fetch(f"{server}/slow", tmp_path / "f.bin")
    monkeypatch.undo()
    monkeypatch.setattr("naq.io.download.LARGEST", 1000)
    with pytest.raises(DataError, match="was given up after"):
        fetch(f"{server}/unsized", tmp_path / "f.bin")
    assert nothing_left(tmp_path / "f.bin")


def test_every_dataset_comes_over_https() -> None:
    assert all(remote.url.startswith("https://") for dataset in DATASETS.values() for remote in dataset.files)


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
    message = r"arxiv.zip does not exist and downloading is switched off; download http.*arxiv.zip elsewhere"
    with pytest.raises(DataError, match=message):
        load("ogbn-arxiv", root=tmp_path / "none", download=False)
    assert not (tmp_path / "none").exists()


def test_a_named_dataset_over_the_wire(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_gpn: object
) -> None:
    folder = write_gpn({0: 0, 1: 1}, {2: 2}, stem="dblp")  # type: ignore[operator]
    Handler.files = {file.name: file.read_bytes() for file in folder.iterdir()}
    monkeypatch.setattr(catalog, "_GPN", f"{server}/")
    local = catalog._gpn("dblp", "dblp", set(), "", (3, 2, 2, 2))
    monkeypatch.setitem(DATASETS, "dblp", local)
    graph = load("dblp", root=tmp_path / "root")
    assert (graph.name, graph.num_nodes) == ("dblp", 3)
    assert load("DBLP", root=tmp_path / "root", download=False).hash == graph.hash
    assert len(Handler.requests) == 3


def test_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NAQ_DATA", str(tmp_path / "env"))
    assert dataset_root(tmp_path) == tmp_path
    assert dataset_root() == tmp_path / "env"
    monkeypatch.delenv("NAQ_DATA")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert dataset_root() == tmp_path / ".cache" / "naq" / "data"
    assert list(tmp_path.iterdir()) == []


def test_progress_only_on_a_terminal(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch(f"{server}/whole", tmp_path / "f.bin")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    fetch(f"{server}/whole", tmp_path / "f.bin")
    out, err = capsys.readouterr()
    assert out == "" and "f.bin" in err
