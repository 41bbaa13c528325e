"""The page as a browser shows it."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from chromium_under_test import browser, missing
from naq_paper.experiments.views import Label, Number, TableView
from naq_paper.report.render import write_page
from pages_under_test import A, page

TOOL = Path(__file__).resolve().parents[3] / "tools" / "check_page.py"


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_page", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


check = load_tool()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if why := missing():
        pytest.skip(why)
    with browser() as found:
        yield found


def shown(chromium: Any, path: Path, *, dark: bool = False) -> tuple[Any, list[str]]:
    """The page in a tab, and what it wrote to the console."""
    tab = chromium.new_page(viewport={"width": 1280, "height": 900}, color_scheme="dark" if dark else "light")
    said: list[str] = []
    tab.on("console", lambda message: said.append(message.text))
    tab.goto(path.as_uri())
    return tab, said


def test_a_phone_shows_the_page_without_errors_or_sideways_scrolling(chromium, tmp_path):
    path = write_page(page(), tmp_path / "report.html")
    report, wrong = check.see(chromium, path, check.Look("phone", 390, 844, opened=True), tmp_path)
    assert wrong == []
    assert report["width"] == 390 and report["plots"] == 4
    assert report["tables"] == 3  # the list of cells is made when it is opened
    assert (tmp_path / "phone.png").stat().st_size > 10_000


def test_what_is_wrong_is_found(chromium, tmp_path):
    path = write_page(page(), tmp_path / "report.html")
    broken = '<div style="width:3000px">wide</div><script>console.warn("boom"); missing()</script></body>'
    path.write_text(path.read_text(encoding="utf-8").replace("</body>", broken), encoding="utf-8")
    _, wrong = check.see(chromium, path, check.Look("desktop", 1200, 800), tmp_path)
    found = " ".join(wrong)
    assert "boom" in found and "missing is not defined" in found and "scrolls sideways" in found


@pytest.mark.parametrize(
    ("clicks", "order", "now"),
    [(0, ["70", "60"], "descending"), (1, ["60", "70"], "ascending"), (2, ["70", "60"], "descending")],
)
def test_a_table_starts_sorted_says_so_and_returns_to_that_order(chromium, tmp_path, clicks, order, now):
    rows = [[Label("B", "cut at 3 epochs"), Number(70.0, digits=0)], ["A", Number(60.0, digits=0)]]
    view = TableView("one", "One", ["method", "accuracy"], rows, sorted_by=1)
    path = write_page(page([view]), tmp_path / "report.html")
    tab, console = shown(chromium, path)
    for _ in range(clicks):
        tab.click(".table-view th.num button")
    table = tab.inner_html(".table-view table")
    assert console == [] and re.findall(r'class="value">(\d+)<', table) == order
    assert re.findall(r'aria-sort="(\w+)"', table) == [now] and 'class="remark">cut at 3 epochs<' in table


def test_a_click_on_a_number_shows_how_it_was_made(chromium, tmp_path):
    path = write_page(page(), tmp_path / "report.html")
    tab, console = shown(chromium, path)
    tab.locator("td[data-k]").nth(1).click()
    dialog = tab.inner_html("dialog[open]")
    assert console == [] and dialog.count("<article>") == 2 and A.cell.title in dialog and "perturbation" in dialog


@pytest.mark.parametrize(
    ("dark", "theme", "expected"),
    [(False, "", "rgb(255, 255, 255)"), (True, "", "rgb(18, 21, 27)"), (True, "light", "rgb(255, 255, 255)")],
)
def test_colours_follow_the_readers_setting_until_the_button_is_pressed(chromium, tmp_path, dark, theme, expected):
    path = write_page(page(), tmp_path / "report.html")
    tab, _ = shown(chromium, path, dark=dark)
    if theme:
        tab.click("#theme")
    assert tab.evaluate("getComputedStyle(document.documentElement).backgroundColor") == expected
