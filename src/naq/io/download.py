"""Downloads that are either whole and checked or absent.

Few of the public files come with a published checksum. Where none is known, the SHA-256 of the first
download is kept next to the file and every later load is held to it.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import IO, Any

from naq.errors import DataError, warn
from naq.files import open_file, write_atomically


def dataset_root(root: str | Path | None = None) -> Path:
    """Where datasets are kept: the argument, else ``NAQ_DATA``, else ``~/.cache/naq/data``."""
    chosen = root or os.environ.get("NAQ_DATA") or Path("~/.cache/naq/data")
    try:
        return Path(chosen).expanduser()
    except RuntimeError as error:
        raise DataError(f"there is no home folder for {chosen}; set NAQ_DATA to a folder for datasets.") from error


def obtain(url: str, path: Path, *, sha256: str | None = None, download: bool = True, mirror: str = "") -> Path:
    """``path`` itself, downloaded from ``url`` or its ``mirror`` if absent, and verified either way."""
    if not path.is_file():
        if not download:
            raise DataError(f"{path} does not exist and downloading is switched off; {_by_hand(url, path)}.")
        try:
            download_file(url, path, sha256=sha256)
        except DataError as error:
            if not mirror:
                raise
            try:
                download_file(mirror, path, sha256=sha256)
            except DataError as other:
                raise DataError(f"{str(error).rstrip('.')}; its mirror failed too: {other}") from other
    return verify(path, sha256)


def download_file(
    url: str, path: Path, *, sha256: str | None = None, timeout: float = 30.0, seconds: float = 3 * 3600.0,
    most: int = 8 << 30,
) -> Path:  # fmt: skip
    """Download ``url`` to ``path`` atomically; a short or wrong body leaves nothing behind.

    Args:
        timeout: seconds without a byte; ``seconds`` of the whole download: a server may send a byte at a time.
        most: bytes of the file; the largest of the paper's datasets has 1.4 GB.
    """
    _check_address(url)

    def write(temporary: Path) -> None:
        with _open(url, path, timeout) as response, temporary.open("wb") as out:
            found = _copy(response, out, url, path, most, seconds)
        if sha256 is not None and found != sha256:
            raise DataError(f"{url} has the SHA-256 {found}; expected {sha256}: it was changed, nothing kept.")

    sidecar(path).unlink(missing_ok=True)
    return write_atomically(path, write)


def verify(path: Path, sha256: str | None = None) -> Path:
    """``path``, once it has the right checksum: the published one, else the one recorded at first sight."""
    with open_file(path, "download") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    record = sidecar(path)
    if sha256 is None and record.is_file():
        sha256 = (record.read_text(encoding="utf-8", errors="replace").split() or [""])[0]
    if sha256 is None:
        try:
            write_atomically(record, lambda place: place.write_bytes(f"{found}  {path.name}\n".encode()))
        except DataError as error:
            warn(f"the checksum of {path.name} could not be recorded: {error}", stacklevel=2)
    elif found != sha256:
        raise DataError(
            f"{path} has the SHA-256 {found}; expected {sha256 or 'the one in ' + record.name}: "
            f"delete it and {record.name} to download it again."
        )
    return path


def sidecar(path: Path) -> Path:
    """Where the checksum of the first download is kept."""
    return path.with_name(path.name + ".sha256")


def _by_hand(url: str, path: Path) -> str:
    return f"download {url} elsewhere and put it at {path}"


def _check_address(url: str) -> None:
    """https, so that nobody on the way changes a file; plain http only to this machine itself."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" and (parts.scheme != "http" or parts.hostname not in ("127.0.0.1", "::1", "localhost")):
        raise DataError(f"{url} is not an address that files are taken from; expected https://.")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirect only to an address that would be taken itself."""

    max_redirections = 5

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        _check_address(newurl)
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise DataError(f"{req.full_url} leads to {newurl}; expected an https:// address.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open(url: str, path: Path, timeout: float) -> Any:
    request = urllib.request.Request(url, headers={"User-Agent": "naq"})
    try:
        return urllib.request.build_opener(_Redirects).open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        raise DataError(f"{url} answered {error.code} {error.reason}; {_by_hand(url, path)}.") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, DataError):
            raise
        reason = getattr(error, "reason", None) or error
        raise DataError(
            f"{path.name} is needed, but {url} cannot be reached ({reason}); {_by_hand(url, path)}."
        ) from error


def _copy(response: Any, out: IO[bytes], url: str, path: Path, most: int, seconds: float) -> str:
    """Copy the body and return its SHA-256; a body shorter than announced is an error."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    length = response.headers.get("Content-Length")
    if length is not None and not (length.isascii() and length.isdigit() and int(length[:16]) <= most):
        raise DataError(f"{url} announces a length of {length!r}; expected a number of at most {most:,} bytes.")
    total, done = None if length is None else int(length), 0
    end, digest = time.monotonic() + seconds, hashlib.sha256()
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(path.name, total=total)
        while True:
            try:
                piece = response.read1(1 << 20)
            except (OSError, http.client.HTTPException) as error:
                raise DataError(f"download of {url} broke off after {done:,} bytes ({error}); try again.") from error
            if not piece:
                break
            done += len(piece)
            if done > most or time.monotonic() > end:
                limits = f"it has more than {most:,} or takes more than {seconds / 3600:.1f} hours"
                raise DataError(f"the download of {url} was given up: {limits}; {_by_hand(url, path)}.")
            out.write(piece)
            digest.update(piece)
            bar.update(task, advance=len(piece))
    if total is not None and done != total:
        raise DataError(f"the download of {url} broke off after {done:,} of {total:,} bytes; try again.")
    return digest.hexdigest()
