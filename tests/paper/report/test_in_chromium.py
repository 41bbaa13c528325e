"""The page as a browser shows it."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from naq_paper.experiments.views import Label, Number, TableView
from naq_paper.report.render import write_page
from pages_under_test import page

TOOL = Path(__file__).resolve().parents[3] / "tools" / "check_page.py"


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_page", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


check = load_tool()
needs_chromium = pytest.mark.skipif(check.browser() is None, reason="needs Chromium")


@needs_chromium
def test_a_phone_shows_the_page_without_errors_or_sideways_scrolling(tmp_path):
    path = write_page(page(), tmp_path / "report.html")
    report, wrong = check.see(path, check.Look("phone", 390, 844, opened=True), tmp_path, tmp_path)
    assert wrong == []
    assert report["width"] == 390 and report["plots"] == 4
    assert report["tables"] == 6  # the list of cells is made when it is opened
    assert (tmp_path / "phone.png").stat().st_size > 10_000


@needs_chromium
def test_what_is_wrong_is_found(tmp_path):
    path = write_page(page(), tmp_path / "report.html")
    broken = '<div style="width:3000px">wide</div><script>console.warn("boom"); missing()</script></body>'
    path.write_text(path.read_text(encoding="utf-8").replace("</body>", broken), encoding="utf-8")
    _, wrong = check.see(path, check.Look("desktop", 1200, 800), tmp_path, tmp_path)
    found = " ".join(wrong)
    assert "boom" in found and "missing is not defined" in found and "scrolls sideways" in found


@needs_chromium
@pytest.mark.parametrize("cards", [1, 2, 3])
def test_the_advice_leaves_no_empty_card(tmp_path, cards):
    """Cards on the last line reach the right edge of their box, however many there are."""
    path = write_page(page(), tmp_path / "report.html")
    card = '<article><p class="short">smooth</p><p>58.5 %: the highest mean.</p></article>'
    box = f'<div class="advice"><h2>What should I use?</h2>{card * cards}<p class="note">A rule.</p></div><div class="answers">'
    measure = (
        "<script>const box = document.querySelector('.advice'), last = [...box.querySelectorAll('article')].pop();"
        "document.title = `${Math.round(box.getBoundingClientRect().right - last.getBoundingClientRect().right)} px left`</script></body>"
    )
    text = path.read_text(encoding="utf-8").replace('<div class="answers">', box, 1).replace("</body>", measure)
    path.write_text(text, encoding="utf-8")
    dom, console = check.chromium(path.as_uri(), "--dump-dom", "--window-size=1280,900")
    assert console == [] and "<title>1 px left</title>" in dom  # its border


@needs_chromium
def test_sorting_puts_the_best_first_and_names_families_in_rows(tmp_path):
    path = write_page(page(), tmp_path / "report.html")
    click = (
        "<script>document.querySelectorAll('.table-view tr.columns button')[1].click();"
        "const shown = [...document.querySelectorAll('.table-view tr.family')].filter((r) => r.getClientRects().length);"
        "document.title = `${shown.length} headings`</script></body>"
    )
    path.write_text(path.read_text(encoding="utf-8").replace("</body>", click), encoding="utf-8")
    dom, console = check.chromium(path.as_uri(), "--dump-dom")
    table = re.search(r'<table class="numbers sorted">.*?</table>', dom, re.DOTALL)
    assert table is not None and console == []
    assert re.findall(r'class="value">([\d.]+)<', table[0])[::2][:2] == ["61.50", "60.00"]
    assert "<title>0 headings</title>" in dom
    assert table[0].count('class="family-of"') == 3


@needs_chromium
@pytest.mark.parametrize(("clicks", "order", "now"), [(0, ["70", "60"], "descending"), (1, ["60", "70"], "ascending"), (2, ["70", "60"], "descending")])  # fmt: skip
def test_a_table_starts_sorted_says_so_and_returns_to_that_order(tmp_path, clicks, order, now):
    rows = [[Label("B", "cut at 3 epochs"), Number(70.0, digits=0)], ["A", Number(60.0, digits=0)]]
    view = TableView("one", "One", ["method", "accuracy"], rows, sorted_by=1)
    path = write_page(page([view]), tmp_path / "report.html")
    click = "<script>" + "document.querySelector('.table-view th.num button').click();" * clicks + "</script></body>"
    path.write_text(path.read_text(encoding="utf-8").replace("</body>", click), encoding="utf-8")
    dom, console = check.chromium(path.as_uri(), "--dump-dom")
    table = dom.split('class="table-view"')[1].split("</table>")[0]
    assert console == [] and re.findall(r'class="value">(\d+)<', table) == order
    assert re.findall(r'aria-sort="(\w+)"', table) == [now] and 'class="remark">cut at 3 epochs<' in table


@needs_chromium
def test_a_click_on_a_number_shows_how_it_was_made(tmp_path):
    path = write_page(page(), tmp_path / "report.html")
    click = "<script>document.querySelectorAll('td[data-k]')[1].click()</script></body>"
    path.write_text(path.read_text(encoding="utf-8").replace("</body>", click), encoding="utf-8")
    dom, console = check.chromium(path.as_uri(), "--dump-dom")
    shown = dom.split("<dialog")[1]
    assert console == [] and shown.startswith(' open=""')
    assert shown.count("<article>") == 2 and "debian cell a" in shown and "perturbation" in shown


@needs_chromium
@pytest.mark.parametrize(
    ("dark", "theme", "expected"),
    [(False, "", "rgb(255, 255, 255)"), (True, "", "rgb(18, 21, 27)"), (True, "light", "rgb(255, 255, 255)")],
)
def test_colours_follow_the_readers_setting_until_the_button_is_pressed(tmp_path, dark, theme, expected):
    path = write_page(page(), tmp_path / "report.html")
    read = "document.title = getComputedStyle(document.documentElement).backgroundColor"
    press = "document.getElementById('theme').click();" if theme else ""
    text = path.read_text(encoding="utf-8").replace("</body>", f"<script>{press}{read}</script></body>")
    path.write_text(text, encoding="utf-8")
    dom, _ = check.chromium(path.as_uri(), f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--dump-dom")
    assert f"<title>{expected}</title>" in dom


@needs_chromium
def test_texts_that_overlap_are_found_and_turned_ones_that_only_come_near_are_not(tmp_path):
    def plot(name: str, x: int, y: int) -> str:
        place = f'x="{x}" y="{y}" transform="rotate(-38 {x} {y})"'
        turned = f'<text {place} font-size="13" text-anchor="end">MAML long</text>'
        texts = f'<text x="30" y="40" font-size="13">0</text>{turned}'
        return f'<svg class="plot" aria-label="{name}" viewBox="0 0 200 120" width="200" height="120">{texts}</svg>'

    # The upright box of the first turned text holds the 0, its letters pass beside it.
    plots = plot("beside", 70, 45) + plot("through", 60, 20)
    path = tmp_path / "report.html"
    path.write_text(f"<html><head></head><body>{plots}</body></html>", encoding="utf-8")
    _, wrong = check.see(path, check.Look("small", 600, 400), tmp_path, tmp_path)
    assert wrong == ["in a plot: through: 0 overlaps MAML long"]
