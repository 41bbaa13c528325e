"""Open a report in headless Chromium as people will see it, and fail on what they should not see.

python tools/check_page.py docs/report.html --out /tmp/shots          desktop light and dark, phone, paper
python tools/check_page.py docs/report.html --tables 20 --plots 12    and at least so many tables and plots

Fails on any message on the console, on anything that scrolls the page sideways, on texts of a plot that overlap or leave it, and on
anything the page would load. The page is shown in a frame, because a window of Chromium has a least width.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TALLEST = 15_000
"""Pixels; a taller page is cut in its picture."""

_PROBE = """
<script>
(() => {
  const errors = [];
  addEventListener("error", (e) => errors.push(String(e.message || (e.target && e.target.outerHTML))), true);
  addEventListener("unhandledrejection", (e) => errors.push(String(e.reason)));
  // The corners of a text's own box, turned as the text is; less the room over and under its letters.
  const cornersOf = (e) => {
    const b = e.getBBox(), m = e.getScreenCTM();
    const [left, right, top, bottom] = [b.x + 0.5, b.x + b.width - 0.5, b.y + 1.5, b.y + b.height - 1.5];
    return [[left, top], [right, top], [right, bottom], [left, bottom]].map(([x, y]) => new DOMPoint(x, y).matrixTransform(m));
  };
  // Two turned boxes are apart where some side of one has all of the other beyond it.
  const beyond = (one, other) => one.some((p, i) => {
    const q = one[(i + 1) % 4], nx = q.y - p.y, ny = p.x - q.x;
    return other.every((r) => (r.x - p.x) * nx + (r.y - p.y) * ny >= 0);
  });
  const touch = (a, b) => !beyond(a, b) && !beyond(b, a);
  const look = (plot, found) => {
    const outer = plot.getBoundingClientRect();
    if (!outer.width) return;
    if ([...plot.querySelectorAll(".line, .dot, .hollow, .points")].some((e) => !e.getClientRects().length))
      found.push(`${plot.getAttribute("aria-label").slice(0, 40)}: marks are hidden`);
    const texts = [...plot.querySelectorAll("text")].map((e) => [e, cornersOf(e)]);
    texts.forEach(([e, corners], i) => {
      const name = `${plot.getAttribute("aria-label").slice(0, 40)}: ${e.textContent}`;
      if (corners.some((p) => p.x < outer.left - 1 || p.x > outer.right + 1 || p.y < outer.top - 1 || p.y > outer.bottom + 1))
        found.push(`${name} leaves the plot`);
      for (const [other, corners2] of texts.slice(i + 1))
        if (touch(corners, corners2)) found.push(`${name} overlaps ${other.textContent}`);
    });
  };
  addEventListener("load", () => setTimeout(() => {
    if (OPEN) document.querySelectorAll("details").forEach((d) => (d.open = true));
    setTimeout(() => {
      const found = [], tables = document.querySelectorAll("table.numbers"), plots = document.querySelectorAll("svg.plot");
      plots.forEach((plot) => look(plot, found));
      const root = document.documentElement;
      const apart = PAPER ? ".skip,svg,dialog,th,td" : ".scroll,.skip,svg,pre,dialog"; // paper does not scroll
      const wide = [...document.querySelectorAll("body *")].filter((e) => !e.closest(apart) &&
        e.getBoundingClientRect().right > innerWidth + 1).map((e) => `${e.tagName}.${e.className} (${(e.closest("[aria-label]") || root).ariaLabel || "page"})`).slice(0, 5);
      const loads = performance.getEntriesByType("resource").map((r) => r.name).filter((n) => !n.startsWith("data:"));
      parent.postMessage(JSON.stringify({ errors, found, wide, loads, tables: tables.length, plots: plots.length,
        width: innerWidth, scroll: root.scrollWidth, height: root.scrollHeight }), "*");
    }, 300);
  }, 100));
})();
</script>
"""
_WRAPPER = """<!doctype html><meta charset="utf-8"><style>body{margin:0}iframe{border:0;display:block}</style>
<iframe src="%s" style="width:%dpx;height:%dpx"></iframe><pre id="report" hidden></pre>
<script>addEventListener("message", (e) => (document.getElementById("report").textContent = e.data))</script>"""


@dataclass(frozen=True)
class Look:
    """One way to see the page; ``opened`` opens everything that opens, ``paper`` shows the style of the printed page on the screen."""

    name: str
    width: int
    height: int
    dark: bool = False
    opened: bool = False
    paper: bool = False


LOOKS = (
    Look("desktop-light", 1440, 900),
    Look("desktop-dark", 1440, 900, dark=True),
    Look("desktop-opened", 1440, 900, opened=True),
    Look("tablet-light", 820, 1180),
    Look("phone-light", 390, 844),
    Look("phone-dark", 390, 844, dark=True),
    Look("phone-opened", 390, 844, opened=True),
    Look("paper-style", 695, 1010, paper=True),
)


def browser() -> str | None:
    """Chromium's command, where it is installed."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def chromium(address: str, *options: str) -> tuple[str, list[str]]:
    """Run Chromium once; what it wrote, and the messages of the page's console."""
    program = browser()
    if program is None:
        sys.exit("no Chromium found; install the package chromium.")
    with tempfile.TemporaryDirectory() as profile:
        common = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--enable-logging=stderr",
            "--v=0",
        ]
        done = subprocess.run(
            [program, *common, f"--user-data-dir={profile}", "--virtual-time-budget=4000", *options, address],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    return done.stdout, [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


def see(page: Path, look: Look, work: Path, out: Path) -> tuple[dict[str, Any], list[str]]:
    """Measure the page under one look and write its pictures: the first screen and the whole page."""
    scheme = f"--blink-settings=preferredColorScheme={0 if look.dark else 1}"
    copy = work / f"{look.name}.html"
    content = page.read_text(encoding="utf-8")
    if look.paper:
        content = content.replace("@media print{", "@media all{").replace("@media screen", "@media tty")
    probe = _PROBE.replace("OPEN", str(look.opened).lower()).replace("PAPER", str(look.paper).lower())
    copy.write_text(content.replace("<head>", "<head>" + probe, 1), encoding="utf-8")
    wrapper = work / f"{look.name}-frame.html"
    wrapper.write_text(_WRAPPER % (copy.as_uri(), look.width, look.height), encoding="utf-8")
    window = max(500, look.width)
    dom, console = chromium(wrapper.as_uri(), scheme, f"--window-size={window},{look.height + 200}", "--dump-dom")
    match = re.search(r'<pre id="report"[^>]*>(.*?)</pre>', dom, re.DOTALL)
    if match is None or not match[1]:
        return {}, ["the page did not finish loading", *console]
    report = json.loads(html.unescape(match[1]))
    for name, height in (("", look.height), ("-whole", min(TALLEST, report["height"]))):
        wrapper.write_text(_WRAPPER % (copy.as_uri(), look.width, height), encoding="utf-8")
        shot = out / f"{look.name}{name}.png"
        chromium(wrapper.as_uri(), scheme, f"--window-size={window},{height}", f"--screenshot={shot}")
    return report, [*console, *problems(report)]


def problems(report: dict[str, Any]) -> list[str]:
    """What is wrong with a page that was measured."""
    wrong = [f"error: {message}" for message in report["errors"]]
    wrong += [f"in a plot: {message}" for message in report["found"]]
    wrong += [f"loads {name}" for name in report["loads"]]
    if report["scroll"] > report["width"]:
        wrong.append(f"scrolls sideways: {report['scroll']} px in {report['width']} px, because of {report['wide']}")
    return wrong


def on_paper(page: Path, out: Path) -> list[str]:
    """Print to PDF, and to pictures of its pages where pdftoppm is installed."""
    pdf = out / "print.pdf"
    # The dark setting on purpose: paper is white whatever the screen is.
    _, console = chromium(
        page.resolve().as_uri(),
        "--blink-settings=preferredColorScheme=0",
        "--no-pdf-header-footer",
        f"--print-to-pdf={pdf}",
    )
    if not pdf.is_file() or not pdf.read_bytes().startswith(b"%PDF"):
        return ["printing gave no PDF", *console]
    painter = shutil.which("pdftoppm")
    if painter:
        subprocess.run([painter, "-r", "60", "-png", str(pdf), str(out / "print")], check=False)
    return console


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("page", type=Path)
    words.add_argument("--out", type=Path, default=Path("page-check"), help="folder of the pictures")
    words.add_argument("--tables", type=int, default=1, help="least number of tables")
    words.add_argument("--plots", type=int, default=0, help="least number of plots")
    words.add_argument("--only", nargs="*", help="looks to take: " + ", ".join(look.name for look in LOOKS) + ", print")
    given = words.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for look in LOOKS:
            if given.only and look.name not in given.only:
                continue
            report, wrong = see(given.page, look, Path(folder), given.out)
            for kind in ("tables", "plots"):
                if report.get(kind, 0) < getattr(given, kind):
                    wrong.append(f"{report.get(kind, 0)} {kind}; at least {getattr(given, kind)} expected")
            size = (
                f"{report.get('tables', 0)} tables, {report.get('plots', 0)} plots, {report.get('height', 0):,} px tall"
            )
            bad += _tell(look.name, size, wrong)
    if not given.only or "print" in given.only:
        bad += _tell("print", "print.pdf", on_paper(given.page, given.out))
    print(f"pictures in {given.out}")
    return 1 if bad else 0


def _tell(name: str, size: str, wrong: list[str]) -> int:
    print(f"{name:16} {'FAILED' if wrong else 'ok':7} {size}")
    for line in wrong:
        print(f"    {line}")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
