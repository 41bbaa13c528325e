"""The page as a whole: well-formed, escaped, alone."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import asdict, replace
from importlib.resources import files
from itertools import pairwise

import pytest
from markupsafe import escape

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
from naq_paper.report.format import MARKS
from naq_paper.report.page import Answer, DataFacts, Page, Section, Summary
from naq_paper.report.render import render, write_page
from pages_under_test import NASTY, Structure, every_view, made, page, table


def nasty_page() -> Page:
    """Every text of a page is the nasty one."""
    views = [
        TextView([NASTY]),
        TextView([NASTY], "caveat"),
        TableView(
            NASTY, NASTY, [NASTY] * 3, [[NASTY, Number(1.0, paper=NASTY), Missing(NASTY, NASTY)]], groups=[(NASTY, 3)]
        ),
        TableView(
            "f", "f", ["a", NASTY, "c"], [[NASTY, NASTY, Number(1)], [NASTY, "b", Number(2)]], labels=2, note=NASTY
        ),
        LineView(
            NASTY, NASTY, NASTY, NASTY, [Series(NASTY, [NASTY, "b"], [1, 2], [0, 1], [2, 3])], {NASTY: 1.0}, note=NASTY
        ),
        BarView(
            NASTY, NASTY, NASTY, [Series(NASTY, [NASTY], [1]), Series("b", [NASTY], [2], paper=True)], {NASTY: 1.0}
        ),
        ScatterView(NASTY, NASTY, [Panel(NASTY, [1, 2], [1, 2], [0, 1], NASTY)], [NASTY, NASTY], NASTY),
    ]
    cell = replace(
        made(NASTY, method=NASTY), title=NASTY, data=NASTY, code=NASTY, machine=NASTY, versions={NASTY: NASTY}
    )
    section = Section(NASTY, NASTY, NASTY, NASTY, views, [cell], [NASTY], [NASTY], NASTY)
    answer = Answer(NASTY, NASTY)
    facts = DataFacts(NASTY, 1, 1, 1, 1, NASTY, NASTY, NASTY)
    summary = Summary(answer, answer, answer, answer, NASTY, [facts], 1, 1, 1, NASTY)
    return Page(NASTY, NASTY, summary, [section], [(NASTY, [section])], [NASTY], {NASTY: NASTY})


def cells_of(html: str) -> list[dict]:
    found = re.search(r'<script type="application/gzip" id="cells">([A-Za-z0-9+/=]*)</script>', html)
    assert found is not None
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


@pytest.mark.parametrize(
    "shown", [page(), nasty_page(), page(sections=[]), page([]), page(older=[("old", page().sections)])]
)
def test_every_element_is_closed_in_turn(shown):
    structure = Structure(render(shown))
    assert structure.open == []
    assert structure.count("html") == structure.count("main") == structure.count("h1") == 1


def test_no_text_becomes_markup():
    html = render(nasty_page())
    structure = Structure(html)
    assert structure.count("img") == 0
    assert structure.count("script") == 2  # the cells and the page's own
    assert structure.count("b") == 2  # the number of cells, and the name before the note on its data
    addresses = [a["href"] for _, a in structure.found if "href" in a]
    assert all(address.startswith(("#", "data:,", "data:text/csv;", "tables/")) for address in addresses)
    assert not any(name.startswith("on") for _, attributes in structure.found for name in attributes)
    assert NASTY in structure.words


def test_the_page_needs_nothing_else():
    structure = Structure(render(page()))
    for tag, attributes in structure.found:
        assert "src" not in attributes
        if tag == "link":
            assert attributes["href"] == "data:,"
    html = render(page())
    assert "http:" not in html and "https:" not in html and "@import" not in html and "url(" not in html


def test_no_template_writes_data_as_markup():
    templates = [
        path for path in files("naq_paper.report").joinpath("templates").iterdir() if path.name.endswith(".j2")
    ]
    assert len(templates) >= 4
    for path in templates:
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*safe\b|autoescape|Markup", source), path.name
        assert not re.search(r"=\{\{", source), f"{path.name}: an attribute without quotes"


def test_characters_no_document_may_hold_are_left_out_everywhere():
    bad = "a\x00b\x1bc\ud800"
    html = render(page([TextView([bad]), TableView("t", bad, [bad], [[bad]], note=bad)], title=bad, notices=[bad]))
    html.encode("utf-8")
    assert "<title>abc</title>" in html and "\x00" not in html and "\x1b" not in html


def test_a_command_is_copied_as_it_is_and_never_breaks_inside_an_option():
    words = "naq reproduce x --dataset 'a b.npz' --out d\nnaq reproduce y --tune"
    html = render(page(summary=replace(page().summary, command=words)))
    box = Structure(re.search(r'<pre tabindex="0">.*?</pre>', html, re.DOTALL)[0])
    assert "".join(box.words) == words
    assert box.count("span") == 2 and box.count("b") == 3


def test_the_legend_of_a_table_is_on_the_page_once():
    html = render(page([table()]))
    for meaning in (*MARKS.values(), "95 % interval over tasks", "standard deviation over seeds"):
        assert html.count(str(escape(meaning))) == 1


def test_views_become_tables_and_plots():
    structure = Structure(render(page()))
    assert structure.count("svg", "plot") == 4
    assert structure.count("table", "numbers") == 1 + 1 + 3  # the data, the table, the numbers of three plots
    assert structure.count("div", "verdict") == structure.count("aside", "caveat") == 1


def test_the_first_screen_answers_the_five_questions():
    words = " ".join(Structure(render(page())).words)
    for question in (
        "Which method is best?",
        "By how much?",
        "Is it significant?",
        "What did it cost?",
        "How do I run it again?",
    ):
        assert question in words
    assert "naq reproduce all" in words and "34,169" in words and "2 done" in words


def test_cells_are_packed_once_and_unpack_to_their_configuration():
    html = render(page(older=[("0.0.9+old", page().sections)]))
    first, second = cells_of(html)
    assert first["key"] == "a" and second == asdict(page().sections[0].made[1])
    assert second["config"] == {"way": 5, "perturbation": {"name": "noise"}}


def test_numbers_point_to_the_cells_behind_them():
    structure = Structure(render(page()))
    assert [a["data-k"] for tag, a in structure.found if tag == "td" and "data-k" in a] == ["0", "0 1"]


def test_cells_of_nasty_names_survive():
    [cell] = cells_of(render(nasty_page()))
    assert cell["title"] == NASTY and cell["versions"] == {NASTY: NASTY}


def test_older_results_are_apart_collapsed_and_have_no_files():
    html = render(page([table()], older=[("0.0.9+old", page([table("old")]).sections)]))
    main, older = html.split('<section id="older">')
    assert 'href="tables/main.csv"' in main and "0.0.9+old" not in main.split("</nav>")[-1]
    assert "0.0.9+old" in older and "tables/old" not in older
    assert '<details class="older">' in older


def test_notices_come_before_the_answers():
    html = render(page(notices=["3f1a.json is damaged and was set aside."]))
    assert html.index("set aside") < html.index("Which method is best?")


def test_sections_of_one_name_have_different_anchors():
    [section] = page().sections
    found = Structure(render(page(sections=[section, section]))).found
    names = [a["id"] for _, a in found if "id" in a]
    assert len(names) == len(set(names))
    assert {"main-table", "main-table-2"} <= set(names)


def test_headings_never_skip_a_level():
    for shown in (page(), page(older=[("old", page().sections)])):
        levels = [int(tag[1]) for tag, _ in Structure(render(shown)).found if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))


def test_a_section_that_was_not_run_says_so():
    html = render(page([]))
    assert "Nothing of this has been run yet." in html and "1 cell has not been run" in html and "1 cell failed" in html


def test_writing_replaces_the_file_and_leaves_no_other(tmp_path):
    path = tmp_path / "docs" / "report.html"
    write_page(page(), path)
    write_page(page(title="Second"), path)
    assert "<title>Second</title>" in path.read_text(encoding="utf-8")
    assert list(path.parent.iterdir()) == [path]


def test_every_view_is_in_order():
    html = render(page())
    paths = [html.index(f">{view.title}<") for view in every_view() if not isinstance(view, TextView)]
    assert paths == sorted(paths)


def test_long_hashes_are_cut_and_whole_in_the_tooltip():
    long = "d9e171553f0de00541466001627b1f78.0eba33f3cfcde555"
    summary = replace(page().summary, data=[DataFacts("debian", 1, 1, 1, 1, "", long)])
    html = render(page(summary=summary))
    assert f'title="{long}">d9e171553f0de005…<' in html


def test_several_versions_of_code_are_counted():
    def shown(*codes: str) -> str:
        cells = [replace(made(str(i)), code=code) for i, code in enumerate(codes)]
        html = render(page(sections=[Section("s", "S", made=cells)]))
        return html.split('class="made-line">')[1].split("</summary>")[0]

    assert ">maml 2<" in shown("maml 2", "version 1", "maml 2")
    assert "3 versions of code" in shown("version 1", "maml 2", "maml 3")


def test_a_long_verdict_opens_on_a_click_and_a_short_one_is_open():
    def verdict(count: int) -> Structure:
        html = render(page([TextView([f"Finding {i}." for i in range(count)])]))
        return Structure('<div class="verdict">' + html.split('<div class="verdict">')[1].split("</div>")[0] + "</div>")

    assert verdict(8).count("details") == 0 and verdict(8).count("p") == 8
    long = verdict(20)
    assert long.count("details", "more") == 1 and long.count("p") == 20
    assert "14 more findings" in long.words
    assert long.words.index("Finding 5.") < long.words.index("14 more findings") < long.words.index("Finding 6.")
