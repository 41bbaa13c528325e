"""The page: well formed, escaped, alone, with every figure; tables and charts; colours that can be read."""

from __future__ import annotations

import base64
import gzip
import io
import json
import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from naq_paper.cli.terminal import TERMINAL, terminal_table
from naq_paper.experiments.views import (
    BarView,
    LineView,
    Missing,
    Number,
    Panel,
    ScatterView,
    Series,
    TableView,
    TextView,
)
from naq_paper.report.charts import COLOURS, colours, draw_chart
from naq_paper.report.export import chart_csv
from naq_paper.report.format import AGAINST, MARKS, clean, duration, entry_text, legend_text, slug
from naq_paper.report.page import KeyFigure, Report, Section, Summary
from naq_paper.report.render import how_made, render
from pages_under_test import NASTY, A, B, Structure, every_view, line, made, page, table


def nasty_page() -> Report:
    """Every text of a page is the nasty one."""
    entries = [NASTY, Number(1.0, paper=NASTY), Missing(NASTY, NASTY)]
    views = [
        TextView([NASTY]),
        TextView([NASTY], "caveat"),
        TableView(NASTY, NASTY, [NASTY] * 3, [entries], groups=[(NASTY, 3)], note=NASTY),
        LineView(NASTY, NASTY, NASTY, NASTY, [line(NASTY, [NASTY, "b"], [1, 2])], {NASTY: 1.0}, note=NASTY),
        BarView(NASTY, NASTY, NASTY, [line(NASTY, [NASTY], [1]), line("b", [NASTY], [2], paper=True)], {NASTY: 1.0}),
        ScatterView(NASTY, NASTY, [Panel(NASTY, [1, 2], [1, 2], [0, 1], NASTY)], [NASTY, NASTY], NASTY),
    ]
    record = made(data=NASTY, versions=NASTY, machine=NASTY, method=NASTY)
    section = Section(NASTY, NASTY, NASTY, NASTY, views, [record], [NASTY], [NASTY], NASTY)
    figure = KeyFigure(NASTY, NASTY)
    sizes = dict.fromkeys(("nodes", "edges", "features", "classes", "homophily"), 1)
    facts = sizes | dict.fromkeys(("hash", "base", "valid", "test"), NASTY)
    summary = Summary(figure, figure, figure, figure, NASTY, {NASTY: facts}, 1, 1, 1, NASTY)
    return Report(NASTY, NASTY, summary, [section], [(NASTY, [section])], [NASTY], {NASTY: NASTY})


def cells_in(html: str) -> list[dict]:
    packed = re.search(r'<script type="application/gzip" id="cells">(.*?)</script>', html)
    return json.loads(gzip.decompress(base64.b64decode(packed[1])))


def test_nothing_that_comes_from_data_becomes_markup():
    html = render(nasty_page())
    structure = Structure(html)
    assert not structure.open and structure.count("img") == 0 and structure.count("script") == 2
    assert not any(name.startswith("on") for _, attributes in structure.found for name in attributes)
    addresses = [a["href"] for _, a in structure.found if "href" in a]
    assert all(address.startswith(("#", "data:,", "data:text/csv;", "tables/")) for address in addresses)
    assert NASTY in structure.words
    [cell] = cells_in(html)
    assert NASTY in cell["title"] and cell["versions"] == {"torch": NASTY} and cell["machine"].startswith(NASTY)


def test_templates_mark_no_data_as_markup():
    folder = files("naq_paper.report").joinpath("templates")
    templates = [path for path in folder.iterdir() if path.name.endswith(".j2")]
    assert len(templates) >= 4
    for path in templates:
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*safe\b|autoescape|Markup|=\{\{", source), path.name


def test_the_page_needs_nothing_else_and_every_identifier_is_used_once():
    shown = page(older=[("old", page().sections)])
    html = render(shown)
    structure = Structure(html)
    assert not structure.open and not any("src" in attributes for _, attributes in structure.found)
    assert not re.search("http:|https:|@import", html)
    assert all(address.startswith("#") for address in re.findall(r"url\(([^)]*)\)", html))
    names = [a["id"] for _, a in structure.found if "id" in a]
    assert len(names) == len(set(names)) and {"main-table", "summary", "older"} <= set(names)
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', html)) - {"top"}
    assert used <= set(names)
    levels = [int(tag[1]) for tag, _ in structure.found if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and all(after <= before + 1 for before, after in pairwise(levels))


def test_every_figure_is_there_in_order_and_numbers_lead_to_their_cells():
    html = render(page(notices=["3f1a.json was set aside."]))
    places = [html.index(f">{view.title}<") for view in every_view() if not isinstance(view, TextView)]
    assert places == sorted(places) and html.index("set aside") < html.index("Which method is best?")
    structure = Structure(html)
    assert structure.count("svg", "plot") == 4 and structure.count("div", "verdict") == 1
    assert structure.count("table", "numbers") == 2 and structure.count("aside", "caveat") == 1
    assert [a["data-k"] for tag, a in structure.found if tag == "td" and "data-k" in a] == ["0", "0 1"]
    first, second = cells_in(html)
    assert first == how_made(A) and second == how_made(B) and second["config"]["perturbation"] == {"name": "noise"}
    assert "1 cell has not been run" in html and "1 cell failed" in html
    assert "Nothing of this has been run yet." in render(page([]))


def test_characters_no_document_may_hold_are_left_out_everywhere():
    bad = "a\x00b\x1bc\ud800"
    views = [
        TextView([bad]),
        TableView("t", bad, [bad], [[bad]], note=bad),
        BarView("b", bad, bad, [line(bad, [bad], [1])]),
    ]
    html = render(page(views, title=bad, notices=[bad]))
    html.encode("utf-8")
    assert "<title>abc</title>" in html and "\x00" not in html and "\x1b" not in html
    assert clean("a\ufffe\td") == "a\td" and slug("Table 1 & <2>") == "table-1-2" and slug("…") == "x"


def test_older_results_are_apart_and_have_no_files():
    html = render(page([table()], older=[("0.0.9+old", page([table("old")]).sections)]))
    main, older = html.split('<section id="older">')
    assert 'href="tables/main.csv"' in main and "0.0.9+old" in older and "tables/old" not in older
    codes = [made(i, versions=versions) for i, versions in enumerate(("maml 2", "maml 2", "x", "y"))]
    assert "3 versions of code" in render(page(sections=[Section("s", "S", made=codes)]))
    sections = page().sections
    twice = Structure(render(page(sections=[*sections, *sections]))).found
    assert {"main-table", "main-table-2"} <= {a["id"] for _, a in twice if "id" in a}


def test_a_table_in_html():
    entries = [Number(61.234, 0.5, 0.25, 3, 60.1, 0.9, rank=1, mark="▲"), Number(60, rank=2, against="s+")]
    entries += [Missing("failed: out of memory after 31 GiB on node 7", paper="OOM"), Number(math.nan)]
    html = render(page([TableView("t", "T", ["method", *"abcd"], [["m", *entries]])]))
    assert '<b class="value">61.23</b> <small>± 0.50</small> <small class="spread">(0.25)</small>' in html
    assert '<span class="paper"><i>paper</i> 60.10 ± 0.90</span>' in html and '<u class="value">60.00</u>' in html
    assert '<span class="reason">failed</span><span class="paper"><i>paper</i> OOM</span>' in html
    assert 'title="failed: out of memory after 31 GiB on node 7"' in html and ">nan<" not in html
    for meaning in (MARKS["▲"], AGAINST["s+"], "95 % interval over tasks"):
        assert html.count(meaning.replace("<", "&lt;")) == 1
    assert MARKS["▼"].replace("<", "&lt;") not in html


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        ("TENT", "TENT"),
        (Number(61.816, 0.712, 0.3144), "61.82 ± 0.71 (0.31)"),
        (Number(61.816, 0.712, mark="▼", against="s-"), "61.82 ± 0.71 ▼ s-"),
        (Number(61.816, 0.712, rank=1, paper=76.4, paper_ci=0.5), "61.82 ± 0.71 [paper 76.40 ± 0.50]"),
        (Number(1234.5, digits=0), "1,234"),
        (Number(math.nan, 0.1), "–"),
        (Missing("failed: out of memory", paper="OOM"), "failed: out of memory [paper OOM]"),
        (Missing("failed: out of memory after 31 GiB on node 7"), "failed"),
    ],
)
def test_every_kind_of_entry_on_one_line(entry, shown):
    assert Text.from_markup(entry_text(entry, TERMINAL)).plain == shown


@pytest.mark.parametrize("name", ["[bold]x[/bold]", "[/]", "a[0]", "[link=x]y[/link]"])
def test_no_name_becomes_markup_in_the_terminal(name):
    entries = [name, Missing(name), Number(1.0, paper=name), Missing("not run", paper=name)]
    assert all(name in Text.from_markup(entry_text(entry, TERMINAL)).plain for entry in entries)
    console = Console(file=io.StringIO(), width=120)
    console.print(terminal_table(TableView("t", name, [name, "n"], [[name, Number(1.0, mark="▲")]], note=name)))
    assert console.file.getvalue().count(name) == 4 and legend_text(table()) != ""


def test_durations():
    given = {0.04: "0.0 s", 12.4: "12 s", 150: "2 min", 3599: "1 h", 4320: "1 h 12 min", 200_000: "2 d 7 h"}
    assert {seconds: duration(seconds) for seconds in given} == given


def drawn(view) -> ET.Element:
    """The parsed chart: its identifiers are its own, its colours the page's."""
    svg = draw_chart(view)
    assert "nan" not in svg.lower() and not re.search(r"#f[de]00", svg) and "metadata" not in svg
    return ET.fromstring(svg)


values = st.floats(-1e6, 1e6) | st.none() | st.just(math.nan)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(values, values, values), min_size=1, max_size=5), st.booleans(), st.booleans())
def test_any_numbers_can_be_drawn(points, named, log):
    x = [f"level {i}" for i in range(len(points))] if named else [float(10**i) for i in range(len(points))]
    series = Series("a", x, *zip(*points))
    shown = any(y is not None and math.isfinite(y) for y, _, _ in points)
    for view in (LineView("l", "L", "x", "y", [series], log_x=log and not named), BarView("b", "B", "y", [series])):
        assert bool(draw_chart(view)) == shown
        if shown:
            drawn(view)


def test_a_chart_says_what_it_shows_in_words_and_in_a_file():
    series = [line("ours", [1, 10], [60, 61]), line("ours, the paper", [1, 10], [70, None], paper=True)]
    view = LineView("l", "Lines", "Q", "%", series, {"smooth": 50.0})
    root = drawn(view)
    assert root.attrib["role"] == "img" and "ours: 60 to 61, highest 61" in root.attrib["aria-label"]
    texts = {text.text for text in root.iter("text")}
    assert {"ours", "ours, the paper", "smooth: 50", "Q", "%"} <= texts
    assert chart_csv(view).splitlines()[1:] == [
        *("ours,1,60,59.0,61.0,measured", "ours,10,61,60.0,62.0,measured"),
        *('"ours, the paper",1,70,,,paper', '"ours, the paper",10,,,,paper'),
    ]
    assert colours(view.series) == [0, 0], "the paper's line has the colour of ours"
    assert draw_chart(view) != "" and draw_chart(replace(view, series=[line("a", [1], [None])])) == ""
    cloud = ScatterView("p", "P", [Panel("one", [0, 1], [0, 1], [0, 3]), Panel("none", [], [], [])], ["x", "y"])
    assert "group 3" not in {t.text for t in drawn(cloud).iter("text")} - {"group 3"}
    assert chart_csv(replace(cloud, panels=cloud.panels[1:])).splitlines() == ["panel,x,y,group"]


STYLE = files("naq_paper.report").joinpath("templates", "style.css").read_text(encoding="utf-8")
PAIRS = re.findall(r"--([a-z0-9-]+):light-dark\((#[0-9a-f]+),(#[0-9a-f]+)\);", STYLE)
LIGHT, DARK = ({name: pair[side] for name, *pair in PAIRS} for side in (0, 1))


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("known", [LIGHT, DARK])
def test_text_and_lines_stand_out(known):
    for ground in ("page", "panel", "raised", "tint"):
        assert all(
            contrast(known[ink], known[ground]) >= 4.5
            for ink in ("ink", "soft", "faint", "link", "good", "bad", "warn")
        )
    series = [known[f"c{i}"] for i in range(COLOURS)]
    assert len(set(series)) == COLOURS and all(contrast(colour, known["page"]) >= 3 for colour in series)
    assert set(re.findall(r"var\(--([a-z0-9-]+)\)", STYLE)) <= set(known)
    assert "@media print{:root:root{color-scheme:light}}" in STYLE
