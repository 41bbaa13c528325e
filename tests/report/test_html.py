"""The pieces of HTML."""

from __future__ import annotations

import pytest

from naq.report.html import counted, data_address, duration, slug, tag, text
from naq.report.parts import command_box
from pages_under_test import NASTY, Structure


def test_text_and_attributes_are_escaped():
    [(_, attributes)] = Structure(tag("p", text(NASTY), title=NASTY, class_="a", hidden=True, id=None)).found
    assert attributes == {"title": NASTY, "class": "a", "hidden": None}


def test_characters_no_document_may_hold_are_left_out():
    assert text("a\x00b\x1bc\ud800") == "abc"


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


def test_slugs_counts_and_addresses():
    assert slug("Table 1 & <2>") == "table-1-2" and slug("…") == "x"
    assert (
        counted(1, "cell") == "1 cell" and counted(1200, "cell") == "1,200 cells" and counted(2, "is", "are") == "2 are"
    )
    assert data_address('a,"b"\n', "text/csv") == "data:text/csv;charset=utf-8,a%2C%22b%22%0A"


def test_a_command_is_copied_as_it_is_and_never_breaks_inside_an_option():
    words = "naq reproduce x --dataset 'a b.npz' --out d\nnaq reproduce y --tune"
    structure = Structure(command_box(words, "Run"))
    assert "".join(structure.words) == "Run" + words + "Copy"
    assert structure.count("span") == 2 and structure.count("b") == 3
