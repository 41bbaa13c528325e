"""How quick the studio is in a browser that draws in software: start to map, key to colour, frames per second.

python benchmarks/studio_speed.py                     all parts
python benchmarks/studio_speed.py warm label frames   some of: cold warm label frames

``cold`` empties no cache of yours: it uses a folder of its own. Compiled code of an earlier run may be there, nothing of the graph is.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from chromium_under_test import browser, until

BIG = 100_000
DRAWN = "window.naq && naq.store.places && naq.map.last && naq.map.points.moved === 1"


def start(cache: Path, journal: Path) -> tuple[subprocess.Popen[str], str]:
    """``naq studio debian``, once it has printed its address."""
    command = [sys.executable, "-m", "naq", "studio", "debian", "--no-browser", "--port", "0", "--labels", str(journal)]
    environment = os.environ | {"NAQ_CACHE": str(cache), "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"Open (\S+)", line):
            return process, found[1]
    raise SystemExit("naq studio printed no address.")


def open_debian(chromium: Any, cache: Path, journal: Path) -> dict[str, float]:
    """Seconds from the command to the map, to predictions and to the final map."""
    began = time.monotonic()
    process, address = start(cache, journal)
    try:
        page = chromium.new_page(viewport={"width": 1360, "height": 850})
        page.goto(address)
        until(page, DRAWN, 120)
        took = {"map": time.monotonic() - began}
        until(page, "naq.store.state.learned", 600)
        took["classifier"] = time.monotonic() - began
        until(
            page,
            "naq.store.state.phase === 'ready' && naq.store.placesName === 'pacmap' && naq.map.points.moved === 1",
            600,
        )
        took["PaCMAP"] = time.monotonic() - began
        page.close()
    finally:
        process.terminate()
        process.wait()
    return took


def labels(chromium: Any, cache: Path, journal: Path) -> list[float]:
    """Milliseconds from each key press to the pixels of the new prediction."""
    process, address = start(cache, journal)
    took: list[float] = []
    try:
        page = chromium.new_page(viewport={"width": 1360, "height": 850})
        page.goto(address)
        until(page, f"{DRAWN} && naq.store.state.learned && naq.store.queue.length > 4", 600)
        page.evaluate(
            "() => { naq.map.measuring = true; addEventListener('keydown', () => { window.pressed = performance.now(); }, true); }"
        )
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
        page.close()
    finally:
        process.terminate()
        process.wait()
    return took


def frames(chromium: Any, folder: Path) -> dict[str, float]:
    """Frames per second while 100,000 coloured nodes are panned and zoomed, and of how many one is drawn meanwhile."""
    import numpy as np

    import naq
    from naq_studio.answers import Answer
    from naq_studio.board import Row
    from studio_under_test import studio

    random = np.random.default_rng(0)
    graph = naq.Graph(random.integers(0, BIG, (2, 3 * BIG)), nodes=BIG, name="big")
    with studio(graph, folder / "big.csv") as running:
        session = running.session
        session.model.layouts["pacmap"] = np.clip(random.standard_normal((BIG, 2)) / 3, -1, 1).astype(np.float32)
        session.model.phase = "ready"
        session.write([Row("label", node, f"class {node % 10}") for node in range(100)])
        chances = random.dirichlet(np.full(10, 0.3), BIG).astype(np.float32)
        ids = np.arange(10)
        session.answer = Answer(
            session.version, ids, chances, chances.argmax(1).astype(np.int16), chances.max(1), None, ""
        )
        page = chromium.new_page(viewport={"width": 1360, "height": 850})
        page.goto(running.address)
        until(page, f"{DRAWN} && naq.store.given", 60)
        found = page.evaluate(
            """() => new Promise((done) => {
                const map = naq.map, began = performance.now(); let count = 0, most = 1; map.measuring = true;
                const step = () => {
                    count++; most = Math.max(most, map.every);
                    const t = performance.now() - began;
                    if (t > 6000) return done({ fps: (1000 * count) / t, every: map.every, most });
                    if (t < 3000) map.pan(6 * Math.sin(t / 300), 4 * Math.cos(t / 400)); else map.zoom(Math.exp(0.02 * Math.sin(t / 500)));
                    requestAnimationFrame(step);
                };
                requestAnimationFrame(step);
            })"""
        )
        page.close()
    return dict(found)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("parts", nargs="*", default=["cold", "warm", "label", "frames"])
    words.add_argument("--cache", type=Path, help="for warm and label: a cache in which debian was prepared before")
    given = words.parse_args()
    parts = given.parts
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {threading.active_count()} thread here")
    with tempfile.TemporaryDirectory() as name, browser() as chromium:
        folder = Path(name)
        if "cold" in parts:
            took = open_debian(chromium, folder / "cold", folder / "cold.csv")
            print("cold: " + ", ".join(f"{key} {value:.1f} s" for key, value in took.items()))
        cache = given.cache or folder / "cold"
        if {"warm", "label"} & set(parts):
            open_debian(chromium, cache, folder / "prepare.csv")
        if "warm" in parts:
            took = open_debian(chromium, cache, folder / "warm.csv")
            print("warm: " + ", ".join(f"{key} {value:.1f} s" for key, value in took.items()))
        if "label" in parts:
            took_ms = labels(chromium, cache, folder / "label.csv")
            print(
                f"key press to pixels, 34,169 nodes: median {statistics.median(took_ms):.0f} ms, worst {max(took_ms):.0f} ms of {len(took_ms)}"
            )
        if "frames" in parts:
            found = frames(chromium, folder)
            print(
                f"100,000 nodes: {found['fps']:.0f} frames per second; one of {found['every']:.1f} nodes drawn while moving (at worst one of {found['most']:.1f})"
            )
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
