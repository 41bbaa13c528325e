"""The classifier and the maps of one graph, made in the background or read from the cache."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from naq.classifier.storage import CLASSIFIER
from naq.errors import DataError, NaqError
from naq.graph import Graph
from naq_studio.cache import first_layout, graph_folder, read_layout, write_layout

if TYPE_CHECKING:
    from naq.classifier import FewShotNodeClassifier

METHOD = "naq-plus"
PHASES = {
    "first": "Drawing a first map",
    "learn": "Learning from the graph (needs no labels)",
    "load": "Reading what was learned before",
    "arrange": "Arranging the map",
    "ready": "Ready",
    "failed": "Stopped",
}


class Model:
    """Made by :meth:`run` in a separate thread; ``changed`` is called after every phase.

    Attributes:
        phase: one of :data:`PHASES`.
        since: when it began (``time.monotonic``).
        failure: one sentence where the phase is ``failed``.
        layouts: by name, (n, 2) float32.
        classifier: None until it is there.
    """

    def __init__(self, graph: Graph, changed: Callable[[], None]) -> None:
        self.graph, self.changed, self.seed = graph, changed, 0
        self.phase, self.since, self.failure = "first", time.monotonic(), ""
        self.layouts: dict[str, np.ndarray] = {}
        self.classifier: FewShotNodeClassifier | None = None
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False
        self._lock = threading.Lock()

    def run(self) -> None:
        """Everything, from the cache where it is there."""
        try:
            self._run()
        except NaqError as error:
            self._fail(str(error))
        except Exception as error:
            self._fail(f"{type(error).__name__}: {error}")

    def stop(self) -> None:
        """End the process that prepares, if one runs."""
        with self._lock:
            self._stopped = True
            if self._process is not None:
                self._process.kill()

    def _run(self) -> None:
        folder = graph_folder(self.graph, METHOD, self.seed)
        for name in ("pacmap", "pca"):
            if (places := read_layout(folder, name, self.graph.num_nodes)) is not None:
                self.layouts[name] = places
        if "pca" not in self.layouts:
            self.layouts["pca"] = first_layout(self.graph, self.seed)
            with contextlib.suppress(DataError):  # a folder that cannot be written costs a second at the next start
                write_layout(folder, "pca", self.layouts["pca"])
        with tempfile.TemporaryDirectory(prefix="naq-studio-") as temporary:
            if not _writable(folder):
                folder = Path(temporary)
            if not self._load(folder) or "pacmap" not in self.layouts:
                self._prepare(folder, Path(temporary))
        self._enter("ready")

    def _load(self, folder: Path) -> bool:
        """Read the classifier, where it is there and whole."""
        if not (folder / CLASSIFIER).is_file():
            self.changed()
            return False
        self._enter("load")
        from naq.classifier import FewShotNodeClassifier

        try:
            classifier = FewShotNodeClassifier.load(folder / CLASSIFIER, self.graph)
        except DataError:
            (folder / CLASSIFIER).unlink(missing_ok=True)
            return False
        _ = classifier.views_  # which take seconds, and the first answer shall not
        self.classifier = classifier
        self.changed()
        return True

    def _prepare(self, folder: Path, temporary: Path) -> None:
        """Run :mod:`naq_studio.prepare` and take over what it writes, as it is written."""
        from naq.io.npz import save_graph

        self._enter("learn" if self.classifier is None else "arrange")
        # -P: nothing is imported from the current folder, where people keep files of any name.
        path = save_graph(temporary / "graph.npz", self.graph.without_labels(), compression=zipfile.ZIP_STORED)
        command = [sys.executable, "-P", "-m", "naq_studio.prepare", str(path), str(folder), METHOD, str(self.seed)]
        with (temporary / "errors.txt").open("w+", encoding="utf-8") as errors:
            with self._lock:
                if self._stopped:
                    return
                self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
            with self._process as process:
                for line in process.stdout or ():
                    self._heard(line, folder)
            code = self._process.returncode
            errors.seek(0)
            lines = errors.read()[-400:].strip().splitlines()
        if code and not self._stopped and self.phase != "failed":
            raise DataError(f"the process that learns ended with code {code}{': ' + lines[-1] if lines else ''}")

    def _heard(self, line: str, folder: Path) -> None:
        try:
            facts: dict[str, Any] = json.loads(line)
        except ValueError:
            return  # a library printed something
        phase = facts.get("phase")
        if phase == "learned":
            self._load(folder)
        elif phase == "arrange":
            self._enter("arrange")
        elif phase == "arranged" and (places := read_layout(folder, "pacmap", self.graph.num_nodes)) is not None:
            self.layouts["pacmap"] = places
            self.changed()
        elif phase == "failed":
            self._fail(str(facts.get("text")))

    def _enter(self, phase: str) -> None:
        if self.phase != "failed":
            self.phase, self.since = phase, time.monotonic()
        self.changed()

    def _fail(self, why: str) -> None:
        self.failure = why
        self._enter("failed")


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
