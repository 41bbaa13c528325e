"""Claims: a cell belongs to one process at a time, also between machines that share a folder.

``claims/<key>`` names its owner: host, process, when that process started (a process id is used again some day) and a token. It is
made by a hard link, so it appears at once, whole, and for one process only. A claim is *stale* when its process on this host is gone,
or when on another host its heartbeat (the file's time) stopped minutes ago.

A stale claim is never replaced: two takers could remove each other's. Its successor is linked at a name made of its token,
``claims/.<key>.<token>``, which again only one of them can make. The owner is the last of this chain; a release removes the first
link first, and who appends to a chain looks whether its first link still stands.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import TracebackType

from naq.errors import DataError
from naq.grid.cells import digest

BEAT = 30.0
"""Seconds between two signs of life of a claim."""
SILENT = 300.0
"""Seconds without a sign of life after which a claim of another host is stale."""


@dataclass(frozen=True)
class Owner:
    host: str
    pid: int
    start: str
    token: str

    def alive(self) -> bool | None:
        """Whether the process runs; None if that cannot be seen from this host."""
        if self.host != this_host():
            return None
        start = process_start(self.pid)
        return start is not None and start == self.start


class Claim:
    """The right to compute a cell, until it is released; a context manager."""

    def __init__(self, claims: Claims, key: str, path: Path, owner: Owner) -> None:
        self.key, self.path, self.owner = key, path, owner
        self._claims = claims

    def release(self) -> None:
        self._claims.release(self)

    def __enter__(self) -> Claim:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


class Claims:
    """The claims of one folder, as one process sees them."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._held: dict[str, Claim] = {}
        self._lock = threading.Lock()
        self._stop: threading.Event | None = None

    def take(self, key: str) -> Claim | None:
        """The claim of a cell; None if a process that is alive has it."""
        for _ in range(5):  # a chain that changes under our eyes is looked at again
            links, last, slot = self._chain(key)
            if last is not None and self._lives(links[-1], last):
                return None
            owner = Owner(this_host(), os.getpid(), process_start(os.getpid()) or "", uuid.uuid4().hex)
            claim = Claim(self, key, slot, owner)
            with self._lock:
                self._held[owner.token] = claim  # before it exists, so that Ctrl-C leaves none that nobody releases
            if self._create(slot, owner):
                if not links or slot in self._chain(key)[0]:
                    self._start_beating()
                    return claim
                slot.unlink(missing_ok=True)  # the chain was released meanwhile: nobody will look here
            self._forget(claim)
        return None

    def release(self, claim: Claim) -> None:
        """Give the cell free; a claim that was taken over while its owner was silent is left to its new owner."""
        links, last, _ = self._chain(claim.key)
        if last == claim.owner:
            for link in links:
                link.unlink(missing_ok=True)
        self._forget(claim)

    def release_all(self) -> None:
        """Release what this object still holds, and end its heartbeat."""
        for claim in list(self._held.values()):
            self.release(claim)
        if self._stop is not None:
            self._stop.set()
            self._stop = None

    def clear(self, key: str) -> None:
        """Remove the claim of a process that is gone."""
        if (claim := self.take(key)) is not None:
            claim.release()

    def owner(self, key: str) -> Owner | None:
        """The living owner of a cell."""
        links, last, _ = self._chain(key)
        return last if last is not None and self._lives(links[-1], last) else None

    def claimed(self) -> list[str]:
        """Cells with a claim, stale or not."""
        return sorted(entry.name for entry in _entries(self.folder) if not entry.name.startswith("."))

    def sweep(self) -> None:
        """Remove links that no chain leads to, left by processes that died while they claimed or released."""
        found = [Path(entry.path) for entry in _entries(self.folder) if entry.name.startswith(".")]
        if not found:
            return
        reachable = {link for key in self.claimed() for link in self._chain(key)[0]}
        now = self._now()
        for path in found:
            if path not in reachable and _age(path, now) > SILENT:
                path.unlink(missing_ok=True)

    def _forget(self, claim: Claim) -> None:
        with self._lock:
            self._held.pop(claim.owner.token, None)

    def _chain(self, key: str) -> tuple[list[Path], Owner | None, Path]:
        """The links of a cell's claim, the owner of the last, and where a successor would stand."""
        links: list[Path] = []
        owner: Owner | None = None
        path = self.folder / key
        while True:
            try:
                text = path.read_text(encoding="utf-8")
            except FileNotFoundError:
                return links, owner, path
            except OSError as error:
                raise DataError(f"cannot read {path}: {error.strerror or error}; choose another folder.") from error
            links.append(path)
            owner = _parsed(text, path)
            path = self.folder / f".{key}.{owner.token}"

    def _lives(self, path: Path, owner: Owner) -> bool:
        alive = owner.alive()
        return _age(path, self._now()) <= SILENT if alive is None else alive

    def _now(self) -> float:
        """The time by the clock that stamps the files: on a network file system not this machine's."""
        probe = self.folder / f".clock.{uuid.uuid4().hex}.tmp"
        try:
            probe.touch()
            return probe.stat().st_mtime
        except OSError:
            return time.time()
        finally:
            probe.unlink(missing_ok=True)

    def _create(self, path: Path, owner: Owner) -> bool:
        """Make the file, whole and exclusively; False if there is one."""
        temporary = self.folder / f".claim.{owner.token}.tmp"
        try:
            temporary.write_text(json.dumps(asdict(owner)), encoding="utf-8")
            try:
                os.link(temporary, path)
            except FileExistsError:
                return temporary.stat().st_nlink == 2  # over a network a link may be made and its answer lost
            except OSError:
                return _create_without_links(path, temporary.read_bytes())
        except OSError as error:
            raise DataError(
                f"cannot write {path}: {error.strerror or error}; choose a folder you may write to."
            ) from error
        finally:
            temporary.unlink(missing_ok=True)
        return True

    def _start_beating(self) -> None:
        if self._stop is None:
            self._stop = threading.Event()
            threading.Thread(target=self._beat, args=(self._stop,), name="naq-claims", daemon=True).start()

    def _beat(self, stop: threading.Event) -> None:
        while not stop.wait(BEAT):
            with self._lock:
                held = list(self._held.values())
            for claim in held:
                try:
                    os.utime(claim.path)
                except OSError:
                    continue  # released meanwhile, or the network is away: the next beat tries again


@cache
def this_host() -> str:
    """This machine since its last start, and the space its process ids belong to: containers have their own."""
    parts = [socket.gethostname()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    except OSError:
        pass  # no such files outside Linux; the name has to do
    return "/".join(parts)


def process_start(pid: int) -> str | None:
    """A mark of when the process started, "" where none is to be had; None if there is no such process or it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None if Path("/proc/self/stat").exists() else _answers(pid)
    return None if fields[0] in "ZX" else fields[19]


def _answers(pid: int) -> str | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass  # it is there, and another user's
    return ""


def _create_without_links(path: Path, content: bytes) -> bool:
    """For file systems without hard links: a moment after its creation the file is still empty."""
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return False
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    return True


def _parsed(text: str, path: Path) -> Owner:
    """The owner; what cannot be read is somebody's of whom only the heartbeat is known."""
    try:
        return Owner(**json.loads(text))
    except (ValueError, TypeError):
        return Owner("", 0, "", digest(path.name))


def _age(path: Path, now: float) -> float:
    try:
        return now - path.stat().st_mtime
    except OSError:
        return 0.0


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except FileNotFoundError:
        return
