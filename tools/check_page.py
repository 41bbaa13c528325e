"""Open a report in headless Chromium as people will see it, and fail on what they should not see.

python tools/check_page.py docs/report.html --out /tmp/shots

Fails on any message on the console, on anything that scrolls the page sideways, on texts of a plot that overlap or
leave it, and on anything the page would load.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from chromium_under_test import browser, missing

MEASURE = """async (opened) => {
  // The corners of a text's own box, turned as the text is; less the room over and under its letters.
  const cornersOf = (e) => {
    const b = e.getBBox(), m = e.getScreenCTM();
    const [left, right, top, bottom] = [b.x + 0.5, b.x + b.width - 0.5, b.y + 1.5, b.y + b.height - 1.5];
    const corners = [[left, top], [right, top], [right, bottom], [left, bottom]];
    return corners.map(([x, y]) => new DOMPoint(x, y).matrixTransform(m));
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
      const outside = (p) =>
        p.x < outer.left - 1 || p.x > outer.right + 1 || p.y < outer.top - 1 || p.y > outer.bottom + 1;
      if (corners.some(outside))
        found.push(`${name} leaves the plot`);
      for (const [other, corners2] of texts.slice(i + 1))
        if (touch(corners, corners2)) found.push(`${name} overlaps ${other.textContent}`);
    });
  };
  const found = [], root = document.documentElement;
  if (opened) document.querySelectorAll("details").forEach((d) => (d.open = true));
  await new Promise((done) => setTimeout(done, 100));  // what is opened is made afterwards
  const plots = document.querySelectorAll("svg.plot");
  plots.forEach((plot) => look(plot, found));
  const named = (e) => `${e.tagName}.${e.className} (${(e.closest("[aria-label]") || root).ariaLabel || "page"})`;
  const wide = [...document.querySelectorAll("body *")].filter((e) => !e.closest(".scroll,.skip,svg,pre,dialog") &&
    e.getBoundingClientRect().right > innerWidth + 1).map(named).slice(0, 5);
  return { found, wide, tables: document.querySelectorAll("table.numbers").length, plots: plots.length,
    width: innerWidth, scroll: root.scrollWidth, height: root.scrollHeight };
}"""


@dataclass(frozen=True)
class Look:
    """One way to see the page; ``opened`` opens everything that opens."""

    name: str
    width: int
    height: int
    dark: bool = False
    opened: bool = False


LOOKS = (
    Look("desktop-light", 1440, 900), Look("desktop-dark", 1440, 900, dark=True),
    Look("desktop-opened", 1440, 900, opened=True), Look("phone-light", 390, 844),
    Look("phone-dark", 390, 844, dark=True), Look("phone-opened", 390, 844, opened=True),
)  # fmt: skip


def see(chromium: Any, page: Path, look: Look, out: Path) -> tuple[dict[str, Any], list[str]]:
    """Sizes of the page under one look, and what is wrong; pictures of the first screen and of the whole page."""
    size = {"width": look.width, "height": look.height}
    tab = chromium.new_page(viewport=size, color_scheme="dark" if look.dark else "light")
    address, wrong, requests = page.absolute().as_uri(), list[str](), list[str]()
    tab.on("console", lambda message: wrong.append(f"console: {message.text}"))
    tab.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(address)
    report: dict[str, Any] = tab.evaluate(MEASURE, look.opened)
    for name, whole in (("", False), ("-whole", True)):
        tab.screenshot(path=out / f"{look.name}{name}.png", full_page=whole)
    tab.close()
    wrong += [f"loads {url}" for url in requests if url != address and not url.startswith("data:")]
    wrong += [f"in a plot: {message}" for message in report["found"]]
    if report["scroll"] > report["width"]:
        wrong.append(f"scrolls sideways: {report['scroll']} px in {report['width']} px, because of {report['wide']}")
    return report, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--out", type=Path, default=Path("page-check"), help="folder of the pictures")
    given = parser.parse_args()
    if why := missing():
        sys.exit(f"{why}; install the package chromium, and playwright.")
    given.out.mkdir(parents=True, exist_ok=True)
    bad = 0
    with browser() as chromium:
        for look in LOOKS:
            report, wrong = see(chromium, given.page, look, given.out)
            size = "{tables} tables, {plots} plots, {height:,} px tall".format_map(report)
            print(f"{look.name:16} {'FAILED' if wrong else 'ok':7} {size}")
            print("".join(f"    {line}\n" for line in wrong), end="")
            bad += bool(wrong)
    print(f"pictures in {given.out}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
