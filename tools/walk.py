"""What a reader of the code meets: functions, files and depth of four walks through the package, and what each imports.

``python tools/walk.py [--walk NAME]``. Every walk runs in a separate process on the bundled graph and is traced
with its threads: functions that are entered (without bodies of modules and classes, lambdas and comprehensions),
their files, and the longest chain of frames, all inside ``src``; then the modules of the packages that were
imported, and their lines.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
INLINE = {"<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"}
LABELS = {"bash": "shells", "zsh": "shells", "vim": "editors", "nano": "editors"}
RUN = ("run", "debian", "-m", "naq-feat/protonet", "--episodes", "32", "--set", "evaluate_every=16")


class Trace:
    """Counts what is entered below ``SOURCE`` while it is in force."""

    def __init__(self) -> None:
        self.entered: set[tuple[str, str, int]] = set()
        self.deepest = 0
        self._local = threading.local()
        self._inside = f"{SOURCE}{os.sep}"

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not code.co_flags & CO_OPTIMIZED or code.co_name in INLINE:
            return
        if not code.co_filename.startswith(self._inside):
            return
        depth = getattr(self._local, "depth", 0) + (1 if event == "call" else -1)
        self._local.depth = max(depth, 0)
        if event == "call":
            self.entered.add((code.co_filename, code.co_qualname, code.co_firstlineno))
            self.deepest = max(self.deepest, depth)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]

    def counts(self) -> dict[str, int]:
        files = {file for file, _, _ in self.entered}
        return {"functions": len(self.entered), "files": len(files), "depth": self.deepest}


def imported() -> dict[str, Path]:
    """Modules of this repository by name."""
    files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
    return {name: Path(file) for name, file in files.items() if file and Path(file).is_relative_to(SOURCE)}


def sizes(modules: dict[str, Path]) -> dict[str, Any]:
    """How many modules, of which packages, and their lines."""
    packages: dict[str, int] = {}
    for name in modules:
        packages[name.partition(".")[0]] = packages.get(name.partition(".")[0], 0) + 1
    lines = sum(len(path.read_text().splitlines()) for path in modules.values())
    return {"modules": len(modules), "lines": lines, "packages": packages}


def command(*words: str) -> dict[str, Any]:
    """The command line in this process; what it prints is dropped."""
    from naq.cli import main

    sys.argv = ["naq", *words]
    trace, code, shown = Trace(), None, io.StringIO()
    with contextlib.redirect_stdout(shown), trace.running():
        try:
            main()
        except SystemExit as stop:
            code = stop.code
    if code:
        raise SystemExit(f"naq {' '.join(words)} ended with {code}: {shown.getvalue()}")
    return {**trace.counts(), **sizes(imported())}


def run() -> dict[str, Any]:
    return command(*RUN, "--no-baseline", "--set", "cache=false", "--out", "run")


def predict() -> dict[str, Any]:
    rows = "".join(f"{node},{name}\n" for node, name in LABELS.items())
    Path("few.csv").write_text(f"node,class\n{rows}")
    return command("predict", "debian", "--labels", "few.csv", "--out", "predictions.csv")


def plan() -> dict[str, Any]:
    return command("reproduce", "label-scarcity", "--plan", "--out", "reproduce")


def fit() -> dict[str, Any]:
    import naq

    graph = naq.load("debian")
    trace = Trace()
    with trace.running():
        naq.FewShotNodeClassifier().fit(graph, LABELS).predict()
    return {**trace.counts(), **sizes(imported())}


WALKS: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "run": ("naq run debian -m naq-feat/protonet", run), "predict": ("naq predict debian", predict),
    "fit": ("FewShotNodeClassifier().fit, .predict", fit), "plan": ("naq reproduce label-scarcity --plan", plan),
}  # fmt: skip


def in_new_process(name: str) -> dict[str, Any]:
    """A walk, in an empty folder."""
    paths = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": paths, "NAQ_DATA": str(Path(folder) / "no-data")}
        words = [sys.executable, __file__, "--walk", name]
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name} failed: {done.stderr}")
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description="Walks through the code, traced.")
    parser.add_argument("--walk", choices=WALKS, help="this one alone, in this process and folder, as JSON")
    given = parser.parse_args()
    if given.walk:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            print(json.dumps(WALKS[given.walk][1]()))
        return
    titles = ("functions", "files", "depth", "modules", "lines")
    print(f"{'walk':40}" + "".join(f"{title:>11}" for title in titles) + "  modules by package")
    for name, (title, _) in WALKS.items():
        walk = in_new_process(name)
        packages = ", ".join(f"{package} {count}" for package, count in sorted(walk["packages"].items()))
        print(f"{title:40}" + "".join(f"{walk[t]:>11,}" for t in titles) + f"  {packages}", flush=True)


if __name__ == "__main__":
    main()
