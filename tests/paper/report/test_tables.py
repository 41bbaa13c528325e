"""Tables of numbers as HTML."""

from __future__ import annotations

import math
import re
from urllib.parse import quote

from naq_paper.experiments.views import Missing, Number, TableView
from naq_paper.report.export import to_csv
from naq_paper.report.render import is_wide, render, web_table
from pages_under_test import Structure, page, table


def shown(view: TableView, *, older: bool = False) -> str:
    """The table's part of a page; sections of older results have no files beside the page."""
    alone = page([view])
    html = render(page(sections=[], older=[("old", alone.sections)]) if older else alone)
    section = html.split('<section id="older-1-1"' if older else '<section id="main-table"')[1].split("</section>")[0]
    return section.split("</div>", 1)[1].split('<details class="lacking')[0]


def simple(*entries) -> str:
    return shown(TableView("t", "T", ["method", *("n" for _ in entries)], [["m", *entries]]))


def test_best_second_interval_spread_and_paper():
    html = simple(Number(61.234, 0.5, 0.25, 3, 60.1, 0.9, rank=1, mark="▲"), Number(60, rank=2))
    assert '<b class="value">61.23</b> <small>± 0.50</small> <small class="spread">(0.25)</small>' in html
    assert '<span class="paper"><i>paper</i> 60.10 ± 0.90</span>' in html
    assert '<u class="value">60.00</u>' in html
    assert 'title="mean of 3 seeds"' in html


def test_the_legend_explains_what_occurs_and_nothing_else():
    assert re.search(r'class="against up">s\+<', simple(Number(61.2, 0.5, mark="≈", against="s+")))
    words = " ".join(Structure(simple(Number(61.2, 0.5, mark="≈"))).words)
    assert words.count("no significant difference from the best") == words.count("95 % interval over tasks") == 1
    assert "significantly" not in words and "seeds" not in words and "the paper" not in words
    assert "words" not in simple(Number(1.0))


def test_what_is_missing_says_why():
    html = simple(Missing(), Missing("failed: out of memory after 31 GiB on node 7", paper="OOM"), Number(math.nan))
    assert '<span class="reason">not run</span>' in html
    assert '<span class="reason">failed</span><span class="paper"><i>paper</i> OOM</span>' in html
    assert 'title="failed: out of memory after 31 GiB on node 7"' in html
    assert "nan" not in html.replace("not a number", "")


def test_a_first_label_that_repeats_becomes_headings_over_rows():
    structure = Structure(shown(table()))
    assert structure.count("tr", "family") == 2
    assert structure.count("tr") == 2 + 2 + 3
    assert [a["colspan"] for tag, a in structure.found if tag == "th" and "colspan" in a] == ["2", "3", "3"]


def test_a_first_label_that_comes_back_later_stays_a_column():
    view = TableView("t", "T", ["data", "method", "n"], [[d, "m", Number(1)] for d in "aab"], labels=2)
    back = TableView("t", "T", ["data", "method", "n"], [[d, "m", Number(1)] for d in "aba"], labels=2)
    assert Structure(shown(view)).count("tr", "family") == 2
    assert Structure(shown(back)).count("tr", "family") == 0


def test_every_row_has_as_many_cells_as_the_heading():
    html = shown(table())
    for row in html.split('<tr class="columns">')[1].split("</tbody>")[0].split("<tr"):
        cells = row.count("<th") + row.count("<td")
        assert cells == 3 or 'scope="rowgroup"' in row


def test_files_and_the_embedded_copy():
    html = shown(table())
    for kind in ("csv", "md", "tex"):
        assert f'href="tables/main.{kind}"' in html
    assert f'href="data:text/csv;charset=utf-8,{quote(to_csv(table()))}" download="main.csv"' in html
    assert "Save CSV" in shown(table(), older=True) and "tables/" not in shown(table(), older=True)


def test_a_table_without_rows_is_a_sentence():
    html = shown(TableView("t", "Accuracy", ["method"], []))
    assert "<table" not in html and "Accuracy: no rows yet." in html


def test_a_table_that_is_too_broad_for_paper_says_so():
    short = TableView("t", "t", ["m", "a", "b"], [["x", Number(1.0, 0.5, 0.1), "cpu"]])
    assert not is_wide(short)
    assert is_wide(TableView("t", "t", ["m"] + ["n"] * 9, [["x", *[Number(1.0)] * 9]]))
    long = [
        "lr 0.001, momentum 0.9, drop_edge1 0.5, drop_feature1 0.5",
        "1,600 episodes",
        "cuda (NVIDIA H200)",
        "x" * 20,
    ]
    assert is_wide(TableView("t", "t", ["m", *"abcd"], [["x", *long]]))
    # A heading wraps between words, but not inside one.
    assert not is_wide(TableView("t", "t", ["one two three " * 9, "a"], [["x", Number(1.0)]]))
    assert is_wide(TableView("t", "t", ["m" * 110, "a"], [["x", Number(1.0)]]))


def test_words_among_numbers_may_wrap_and_brief_labels_need_not():
    row = ["TENT", "a long setting of many words", "cuda (NVIDIA H200)"]
    html = shown(TableView("t", "t", ["m", "s", "on"], [row], labels=2))
    assert 'class="label brief end"' not in html and '<th scope="row" class="label brief">TENT' in html
    assert '<td class="num phrase">cuda' in html and '<td class="label end">a long' in html


def test_what_follows_a_number_goes_below_it_on_paper_where_columns_are_many():
    for numbers, crowded in ((8, False), (9, True)):
        view = TableView("t", "t", ["m"] + ["n"] * numbers, [["x", *[Number(1.0)] * numbers]])
        assert web_table(view, {}).crowded is crowded
