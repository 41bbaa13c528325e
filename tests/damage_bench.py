"""One kind of file that is damaged again and again: its reader, and what one trial of it gave.

A reader may refuse (one sentence of at most 500 characters, as a ``NaqError``), set the file aside, or accept it. It may never raise anything else,
and a file of ours with another content may never be accepted.
"""

from __future__ import annotations

import hashlib
import random
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import mutations
from naq.errors import LONGEST, NaqError
from naq.graph import Graph
from naq_paper.measurements.practice import with_peak


@dataclass(frozen=True)
class Target:
    """One kind of file.

    Attributes:
        make: writes it, and what goes with it, into a folder; returns the file that is to be damaged.
        read: its content as a text, or None where the file was set aside; only a ``NaqError`` may come out.
        rebuild: changes what is inside and builds a well-formed file around it.
        ours: whether it has a checksum, so that no other content is accepted.
        share: of the trials that other kinds get, where one takes long.
        resealed: whether all damage is by ``rebuild``, which computes checksums anew.
    """

    name: str
    make: Callable[[Path], Path]
    read: Callable[[Path], str | None]
    rebuild: mutations.Mutate
    ours: bool
    share: float = 1.0
    resealed: bool = False


def digest(*parts: Any) -> str:
    """One text for equal contents."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.dtype.kind}{part.shape}".encode())
            found.update(np.ascontiguousarray(part).tobytes())
        else:
            found.update(repr(part).encode("utf-8", "surrogatepass"))
    return found.hexdigest()


@cache
def small_graph() -> Graph:
    draw = np.random.default_rng(0)
    n, d = 40, 12
    edges = draw.integers(0, n, (2, 120))
    words = sp.random(n, d, 0.3, random_state=0, format="csr")
    words.data[:] = draw.integers(1, 9, words.nnz)
    names = [f"node {i}" for i in range(n)]
    return Graph(edges, words, np.arange(n) % 4, names=names, class_names=list("abcd"), nodes=n, name="small")


@dataclass(frozen=True)
class Trial:
    """What came of one damaged file: ``refused``, ``same`` (accepted with the same content), ``other`` (accepted, nobody can tell), or a
    fault: ``silent``, ``traceback``, ``long``."""

    outcome: str
    detail: str = ""

    @property
    def fault(self) -> bool:
        return self.outcome in ("silent", "traceback", "long")


class Bench:
    """Damages one kind of file again and again, each time by a number.

    Attributes:
        peak: bytes that the last trial took at most while it read, where ``measured``.
    """

    def __init__(self, target: Target, folder: Path, *, measured: bool = False) -> None:
        self.measured, self.peak = measured, 0
        self.target, self.folder = target, folder
        made = folder / "made"
        made.mkdir(parents=True)
        self.path = target.make(made).relative_to(made)
        self.files = {p.relative_to(made): p.read_bytes() for p in made.rglob("*") if p.is_file()}
        self.content = self.files[self.path]
        self.expected = self._read(made / self.path)
        assert self.expected is not None, f"{target.name}: the whole file is not accepted"

    def _read(self, path: Path) -> str | None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.target.read(path)

    def damage(self, seed: int) -> bytes:
        draw = random.Random(f"{self.target.name}/{seed}")
        by_chance = draw.random() < 0.5 and not self.target.resealed
        return (mutations.damaged if by_chance else self.target.rebuild)(self.content, draw)

    def trial(self, seed: int) -> Trial:
        return self.trial_of(self.damage(seed))

    def restore(self, content: bytes | None = None) -> Path:
        """The folder of the trial as it was made, with another ``content`` of the file."""
        place = self.folder / "trial"
        shutil.rmtree(place, ignore_errors=True)
        for file, whole in self.files.items():
            (place / file).parent.mkdir(parents=True, exist_ok=True)
            (place / file).write_bytes(whole if content is None or file != self.path else content)
        return place / self.path

    def trial_of(self, content: bytes) -> Trial:
        if content == self.content:
            return Trial("same")
        path = self.restore(content)
        if not self.measured:
            return self._attempt(path)
        trial, peak = with_peak(lambda: self._attempt(path))
        self.peak = peak or 0
        return trial

    def read(self, content: bytes) -> Trial:
        """What comes of any content, also of the whole one."""
        return self._attempt(self.restore(content))

    def _attempt(self, path: Path) -> Trial:
        try:
            found = self._read(path)
        except NaqError as error:
            text = str(error)
            ok = len(text) <= LONGEST and text.isprintable()
            return Trial("refused" if ok else "long", text[:200])
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            import traceback

            return Trial("traceback", "".join(traceback.format_exception(error))[-1500:])
        if found is None:
            return Trial("refused")
        if found == self.expected:
            return Trial("same")
        return Trial("silent" if self.target.ours else "other", "another content was accepted")
