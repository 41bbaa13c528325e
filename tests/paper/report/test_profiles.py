"""The same table under our profile and the paper's, on one page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from naq_paper.experiments.views import Number, TableView, TextView
from naq_paper.report.collect import page_of, tables_of
from naq_paper.report.export import write_tables
from report_folders import fill, make_request, record

OURS = make_request("methods", methods=("naq-diff/protonet", "bgrl"), seeds=3, shots=(1,))
PAPERS = replace(OURS, profile="paper")


def made(cell):
    """Under the paper's profile NaQ-Diff has no self-loops, and is better here; BGRL is as good."""
    papers = cell.config["method"] == "naq-diff/protonet" and not cell.config["episode"]["self_loops"]
    return record(cell, 0.7 if papers else 0.5)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("both")
    fill(folder, [PAPERS, OURS], made)
    return page_of(folder)


def test_sections_tables_and_files_carry_their_profile(page, tmp_path):
    ours, papers, both = page.sections
    assert ours.title.endswith("; default profile)") and papers.title.endswith("; paper profile)")
    assert len({section.name for section in page.sections}) == 3
    for section, profile in ((ours, "default"), (papers, "paper")):
        titles = [view.title for view in section.views if not isinstance(view, TextView)]
        assert titles and all(title.endswith(f"({profile} profile)") for title in titles)
        names = [view.name for view in section.views if isinstance(view, TableView)]
        assert all(("paper-profile" in name) == (profile == "paper") for name in names)
    tables = tables_of(page)
    assert len({table.name for table in tables}) == len(tables)
    write_tables(tables, tmp_path)
    assert both.title == "Every method: our settings and the paper's"


def test_the_first_screen_is_about_our_profile(page):
    assert "profile" not in page.summary.note and [one.where for one in page.summary.advice] == ["toy, 5-way 1-shot"]


def test_differences_are_judged_by_the_rule(page):
    table = next(view for view in page.sections[2].views if isinstance(view, TableView))
    rows = {row[0]: row[2:] for row in table.rows}
    assert set(rows) == {"ProtoNet (NaQ-Diff)", "TLP-BGRL"}
    default, paper, difference, interval, words = rows["ProtoNet (NaQ-Diff)"]
    assert isinstance(difference, Number) and difference.value == pytest.approx(default.value - paper.value)
    assert difference.value == pytest.approx(-20, abs=1) and interval.startswith("-2") and " to -1" in interval
    assert words == "significantly worse, p < 0.05, Holm"
    assert rows["TLP-BGRL"][4] == "no significant difference"
    assert table.rows[0][0] == "TLP-BGRL" and table.sorted_by == 4
    assert "The same trainings under both profiles: smooth (no training)." in table.note
    [text] = [view for view in page.sections[2].views if isinstance(view, TextView)]
    assert "of 2 comparisons" in text.sentences[0] and "1 are significantly worse" in text.sentences[0]


def test_a_profile_alone_is_named_where_it_is_not_ours(tmp_path):
    fill(tmp_path / "ours", [OURS], made)
    [section] = page_of(tmp_path / "ours").sections
    assert section.title == "Every method" and all(
        "profile" not in t.title for t in tables_of(page_of(tmp_path / "ours"))
    )
    fill(tmp_path / "papers", [PAPERS], made)
    alone = page_of(tmp_path / "papers")
    assert [section.title for section in alone.sections] == ["Every method (paper profile)"]
    assert all("paper-profile" in table.name and "paper profile" in table.title for table in tables_of(alone))
    assert alone.summary.advice[0].where == "toy, 5-way 1-shot, paper profile"


def test_requests_that_differ_in_more_are_not_compared(tmp_path):
    fill(tmp_path, [OURS, replace(PAPERS, seeds=2)], made)
    assert len(page_of(tmp_path).sections) == 2
