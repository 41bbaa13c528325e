"""How quick the studio is in a browser that draws in software: start to map, key to colour, frames per second.

    python benchmarks/studio_speed.py                     all parts
    python benchmarks/studio_speed.py warm label frames   some of: cold warm label frames

``cold`` begins with an empty cache folder; compiled code of an earlier run may be there, nothing of the graph is.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import naq
from measuring import ROOT
from naq_studio.answers import VersionedPrediction
from naq_studio.board import Entry

sys.path.insert(0, str(ROOT / "tests"))

from chromium_under_test import browser, until
from studio_under_test import studio

BIG = 100_000
DRAWN = "window.naq && naq.store.places && naq.map.last && naq.map.points.moved === 1"
FRAMES = """() => new Promise((done) => {
    const map = naq.map, began = performance.now(); let count = 0, most = 1; map.measuring = true;
    const step = () => {
        count++; most = Math.max(most, map.every);
        const t = performance.now() - began;
        if (t > 6000) return done({ fps: (1000 * count) / t, every: map.every, most });
        if (t < 3000) map.pan(6 * Math.sin(t / 300), 4 * Math.cos(t / 400));
        else map.zoom(Math.exp(0.02 * Math.sin(t / 500)));
        requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
})"""


@contextmanager
def opened(chromium: Any, cache: Path, labels: Path) -> Iterator[Any]:
    """A page of ``naq studio debian``, whose process ends with it."""
    command = [sys.executable, "-m", "naq", "studio", "debian", "--no-browser", "--port", "0", "--labels", str(labels)]
    environment = os.environ | {"NAQ_CACHE": str(cache), "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        address = next(found[1] for line in process.stdout if (found := re.search(r"Open (\S+)", line)))
        page = chromium.new_page(viewport={"width": 1360, "height": 850})
        page.goto(address)
        yield page
        page.close()
    finally:
        process.terminate()
        process.wait()


def starts(chromium: Any, cache: Path, labels: Path) -> str:
    """Seconds from the command to the map, to predictions and to the final map."""
    began, took = time.monotonic(), {}
    ready = "naq.store.state.phase === 'ready' && naq.store.placesName === 'pacmap' && naq.map.points.moved === 1"
    with opened(chromium, cache, labels) as page:
        for name, expression in {"map": DRAWN, "classifier": "naq.store.state.learned", "PaCMAP": ready}.items():
            until(page, expression, 600)
            took[name] = time.monotonic() - began
    return ", ".join(f"{name} {seconds:.1f} s" for name, seconds in took.items())


def labels(chromium: Any, cache: Path, journal: Path) -> str:
    """Milliseconds from each key press to the pixels of the new prediction."""
    took: list[float] = []
    with opened(chromium, cache, journal) as page:
        until(page, f"{DRAWN} && naq.store.state.learned && naq.store.queue.length > 4", 600)
        pressed = "addEventListener('keydown', () => { window.pressed = performance.now(); }, true);"
        page.evaluate(f"() => {{ naq.map.measuring = true; {pressed} }}")
        for name in ("one", "two", "three"):
            page.fill("#class-name", name)
            page.press("#class-name", "Enter")
            time.sleep(0.5)
        until(page, "naq.store.state.answer === naq.store.state.version", 60)
        for turn in range(15):
            until(page, "naq.store.queue.length > 1 && naq.store.busy === 0", 60)
            time.sleep(1.0)
            before = page.evaluate("() => document.body.dataset.drawn")
            page.evaluate("() => { naq.map.drawnAt = 0; }")
            page.keyboard.press(str(turn % 3 + 1))
            until(page, f"document.body.dataset.drawn !== '{before}' && naq.map.drawnAt > 0", 60)
            took.append(page.evaluate("() => naq.map.drawnAt - pressed"))
    return f"key press to pixels, median {statistics.median(took):.0f} ms, worst {max(took):.0f} ms of {len(took)}"


def frames(chromium: Any, folder: Path) -> str:
    """Frames per second while 100,000 coloured nodes are panned and zoomed."""
    random = np.random.default_rng(0)
    graph = naq.Graph(random.integers(0, BIG, (2, 3 * BIG)), nodes=BIG, name="big")
    with studio(graph, folder / "big.csv") as running:
        session, chances = running.session, random.dirichlet(np.full(10, 0.3), BIG).astype(np.float32)
        session.model.layouts["pacmap"] = np.clip(random.standard_normal((BIG, 2)) / 3, -1, 1).astype(np.float32)
        session.model.phase = "ready"
        session.write([Entry("label", node, f"class {node % 10}") for node in range(100)])
        best = chances.argmax(1).astype(np.int16)
        session.answer = VersionedPrediction(
            session.version, np.arange(10), chances, best, chances.max(1), None, "", []
        )
        page = chromium.new_page(viewport={"width": 1360, "height": 850})
        page.goto(running.address)
        until(page, f"{DRAWN} && naq.store.given", 60)
        found = page.evaluate(FRAMES)
        page.close()
    drawn = f"one of {found['every']:.1f} nodes drawn while moving (at worst one of {found['most']:.1f})"
    return f"{BIG:,} nodes: {found['fps']:.0f} frames per second; {drawn}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["cold", "warm", "label", "frames"])
    given = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name, browser() as chromium:
        folder = Path(name)
        if {"cold", "warm", "label"} & set(given.parts):
            print("cold:", starts(chromium, folder / "cache", folder / "cold.csv"), flush=True)
        if "warm" in given.parts:
            print("warm:", starts(chromium, folder / "cache", folder / "warm.csv"), flush=True)
        if "label" in given.parts:
            print(labels(chromium, folder / "cache", folder / "label.csv"), flush=True)
        if "frames" in given.parts:
            print(frames(chromium, folder), flush=True)


if __name__ == "__main__":
    main()
