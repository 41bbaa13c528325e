"""Numbers, entries and the legend in words."""

from __future__ import annotations

import math

import pytest

from naq_paper.experiments.views import Missing, Number, TableView
from naq_paper.report.format import (
    AGAINST,
    MARKS,
    Markup,
    Parts,
    clean,
    counted,
    duration,
    entry_text,
    legend,
    legend_text,
    parts,
    rounded,
    shorten,
    slug,
    with_interval,
)

PLAIN = Markup(lambda text: text, "*%s*", "_%s_", "~%s~", "[paper %s]")


def one(*entries) -> TableView:
    return TableView("t", "T", ["m", *("n" for _ in entries)], [["x", *entries]])


def test_characters_no_document_may_hold_are_left_out():
    assert clean("a\x00b\x1bc\ud800\ufffe\td") == "abc\td"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (12.4, "12 s"),
        (89, "89 s"),
        (150, "2 min"),
        (3599, "1 h"),
        (4320, "1 h 12 min"),
        (200_000, "2 d 7 h"),
    ],
)
def test_durations(seconds, words):
    assert duration(seconds) == words


def test_slugs_counts_and_ellipses():
    assert slug("Table 1 & <2>") == "table-1-2" and slug("…") == "x"
    assert (
        counted(1, "cell") == "1 cell" and counted(1200, "cell") == "1,200 cells" and counted(2, "is", "are") == "2 are"
    )
    assert shorten("abcdef", 6) == "abcdef" and shorten("abcdefg", 6) == "abcde…"


def test_values_of_charts():
    assert [rounded(v) for v in (0, 0.01234, 61.256, 123.45, 16000)] == ["0.00", "0.0123", "61.26", "123.5", "16,000"]
    assert with_interval(61.25, 60.25, 62.25) == "61.25 (60.25 to 62.25)" and with_interval(1.0, None, 2.0) == "1.00"


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        ("TENT", "TENT"),
        (Number(61.816), "61.82"),
        (Number(61.816, 0.712), "61.82 ± 0.71"),
        (Number(61.816, 0.712, 0.3144), "61.82 ± 0.71 (0.31)"),
        (Number(61.816, 0.712, mark="▲", paper=76.4), "61.82 ± 0.71 ▲ [paper 76.40]"),
        (Number(61.816, 0.712, mark="▼", against="s-"), "61.82 ± 0.71 ▼ s-"),
        (Number(61.816, 0.712, rank=1, paper=76.4, paper_ci=0.5), "*61.82 ± 0.71* [paper 76.40 ± 0.50]"),
        (Number(61.816, 0.712, 0.3, rank=2), "_61.82 ± 0.71_ (0.30)"),
        (Number(1234.5, digits=0), "1,234"),
        (Number(0.25, digits=3, paper=0.1 + 0.2), "0.250 [paper 0.300]"),
        (Number(math.nan, 0.1), "–"),
        (Missing(), "~not run~"),
        (Missing("failed: out of memory", paper="OOM"), "~failed: out of memory~ [paper OOM]"),
        (Missing("failed: out of memory after 31 GiB on node 7"), "~failed~"),
        (Missing("not run", paper=83.7), "~not run~ [paper 83.70]"),
    ],
)
def test_every_kind_of_entry_on_one_line(entry, shown):
    assert entry_text(entry, PLAIN) == shown


def test_an_entry_has_no_text_for_what_it_lacks():
    assert parts(Number(1.0)) == Parts("1.00") and parts(Missing("why")) == Parts("why")


def test_the_legend_has_what_occurs_and_nothing_else():
    assert legend(one(Number(1.0), "word")) == []
    assert legend(one(Number(61.2, 0.5, mark="≈"))) == [
        ("±", "95 % interval over tasks"),
        ("≈", "no significant difference from the best"),
    ]
    assert legend(one(Number(61.2, against="s="))) == [("s=", "no significant difference from smooth")]
    every = one(
        Number(3, 0.5, 0.1, rank=1, mark="▲"), Number(2, rank=2, mark="≈"), Number(1, mark="▼"), Missing(paper=1.0)
    )
    assert legend_text(every) == (
        "bold: best of its column; underlined: second best; ±: 95 % interval over tasks; (…): standard deviation over seeds; "
        "▲: significantly better than every other (p < 0.05, Holm); ≈: no significant difference from the best; "
        "▼: significantly worse than the best (p < 0.05, Holm); paper: the paper's number"
    )


def test_the_legend_uses_the_words_of_statistics():
    assert list(MARKS) == ["▲", "≈", "▼"] and list(AGAINST) == ["s+", "s=", "s-"]
    for words in (MARKS | AGAINST).values():
        assert "significant" in words and not any(vague in words for vague in ("really", "told apart", "alike"))
