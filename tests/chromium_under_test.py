"""Chromium without a screen, driven by playwright, drawing in software as any machine can."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SOFTWARE_GL = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox"]
WITHOUT_GL = ["--disable-gpu", "--disable-3d-apis", "--no-sandbox"]
LONG = 120.0
"""Seconds after which something will not come about any more, on a machine that does much else."""
READY = "window.naq && naq.store.state && naq.store.places && naq.store.state.learned && naq.store.queue.length"
SETTLED = "naq.store.busy === 0 && naq.store.state.answer === naq.store.state.version"
STILL = "naq.map.seen.places === naq.store.places && naq.map.points.moved === 1 && !naq.map.goal"


def program() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def missing() -> str | None:
    """Why no browser can be driven, or None."""
    if program() is None:
        return "no Chromium found"
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "playwright is not installed"
    return None


@contextmanager
def browser(*arguments: str, driver: Any = None) -> Iterator[Any]:
    """A browser; one driver serves several."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() if driver is None else nullcontext(driver) as own:
        opened = own.chromium.launch(executable_path=program(), args=list(arguments or SOFTWARE_GL))
        try:
            yield opened
        finally:
            opened.close()


def until(page: Any, expression: str, limit: float = LONG) -> Any:
    """The value of a JavaScript expression once it is true; the page's policy forbids playwright's own waiting."""
    end = time.monotonic() + limit
    while not (value := page.evaluate(f"() => {expression}")):
        if time.monotonic() > end:
            known = page.evaluate(
                "() => window.naq ? JSON.stringify({ ...naq.store.state, colours: 0, shapes: 0, "
                "problem: naq.store.problem, "
                "lost: naq.store.lost, places: naq.store.placesName }) : document.body.innerText"
            )
            raise TimeoutError(f"{expression} did not become true within {limit} s; the page knows {known[:1500]}")
        time.sleep(0.02)
    return value


class Page:
    """A tab, and what it complained about."""

    def __init__(self, context, address, ready=READY):
        self.tab = context.new_page()
        self.tab.set_default_timeout(1000 * LONG)
        self.complaints = []
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("console", self._heard)
        self.tab.goto(address)
        self.tab.wait_for_url("**/")  # by way of the page that keeps the key
        until(self.tab, ready)

    def _heard(self, message):
        if message.type == "error":
            self.complaints.append(f"{message.text} ({message.location['url']})")

    def see(self, expression):
        return until(self.tab, expression)

    def value(self, expression):
        return self.tab.evaluate(f"() => {expression}")

    def find(self, text):
        self.tab.fill("#search", text)
        self.see(f"[...document.querySelectorAll('#hits [role=option]')].some((e) => e.textContent.includes('{text}'))")
        self.tab.press("#search", "Enter")
        self.see(f"naq.store.current >= 0 && naq.store.names[naq.store.current] === '{text}'")

    def name(self, text):
        self.tab.keyboard.press("n")
        self.tab.keyboard.type(text)
        self.tab.keyboard.press("Enter")
