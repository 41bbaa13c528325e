"""Every figure and table of the paper is somebody's: an experiment that names it, and a row of docs/reproduction.md that says how."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from naq_paper.experiments.experiment import EXPERIMENTS
from naq_paper.experiments.paper import paper_rows
from shared_data import shared

DOCS = Path(__file__).resolve().parents[3] / "docs" / "reproduction.md"
PLACES = {
    "Figure 1a": "intro:sup_label",
    "Figure 1b": "intro:label_noise",
    "Figure 1c": "intro:class_imbal",
    "Figure 3": "naq_model_agnostic",
    "Figure 4": "naq_model_agnostic_higher_way",
    "Figure 5": "class_imbal_tsne",
    "Figure 6": "hyparam:study:naq",
    "Figure 7": "analysis:classsim",
    "Figure 8": "class_imbal_tsne:diff_5vs20",
    "Figure 9a": "bias:struc_noise",
    "Figure 9b": "bias:feat_noise",
    "Figure 11": "appendix:class_imbal",
    "Figure 13": "sup:vs:gumtra",
    "Figure 14": "hyparam:study:gumtra",
    "Figure 15a": "appendix:sup_label",
    "Figure 15b": "appendix:label_noise",
    "Table 1": "main_table:acae",
    "Table 2": "main_table:cfdb",
    "Table 3": "table:arxiv",
    "Table 4": "imbal:discuss_table",
    "Table 5": "table:sim:meas1",
    "Table 6": "table:sim:meas2",
    "Table 7": "datastat",
    "Table 8": "hyparam",
    "Table 9": "time:simcal",
    "Table 10": "time:epigen",
    "Table 11": "table:ogbn:products",
    "Table 12": "table:qry:overlap",
    "Table 13": "table:drop:diff",
    "Table 14": "table:drop:feat",
    "Table 15": "main_table:full:acae",
    "Table 16": "main_table:full:cfdb",
}
"""Where the paper has results, and the label of its source there."""
NO_RESULTS = {"Table 7", "Table 8"}
"""Statistics of datasets and ranges of settings: described, but no experiment."""
DRAWINGS = {"naq_feat:overview", "naq_diff:overview", "gumtra:overview"}
WHOLE = {"intro:fig", "appendix:bias:fig"}
"""Figures whose parts are named instead."""
PARTS = {"class_imbal_tsne:ae", "class_imbal_tsne:cf", "hyparam:naq:feat", "hyparam:naq:diff"}
"""Parts of figures that one experiment shows whole."""


def places_of(origin: str) -> set[str]:
    """``Figures 1a and 15a`` as two places."""
    found = set()
    for kind, numbers in re.findall(r"(Figure|Table)s? ((?:\d+[a-c]?(?:, and |, | and )?)+)", origin):
        found |= {f"{kind} {number}" for number in re.findall(r"\d+[a-c]?", numbers)}
    return found


def rows_of_docs() -> dict[str, list[str]]:
    text = DOCS.read_text(encoding="utf-8").partition("## Every figure and table of the paper")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith(("| Figure", "| Table"))]
    rows = [[part.strip() for part in line.strip("|").split("|")] for line in lines]
    found = {row[0].partition("<br>")[0]: row for row in rows}
    assert len(found) == len(rows), "every place has one row"
    return found


def test_an_origin_is_read_as_places():
    assert places_of("Figures 1a and 15a") == {"Figure 1a", "Figure 15a"}
    assert places_of("Figure 7 and Table 4") == {"Figure 7", "Table 4"}
    assert places_of("Tables 9 and 10, and the text on time complexity") == {"Table 9", "Table 10"}
    assert places_of("not in the paper") == set()


def test_every_place_with_results_is_the_origin_of_an_experiment():
    covered = set().union(*(places_of(experiment.origin) for experiment in EXPERIMENTS.values()))
    assert covered == set(PLACES) - NO_RESULTS


@pytest.mark.parametrize("place", PLACES)
def test_docs_say_how_each_place_is_reproduced(place):
    row = rows_of_docs()[place]
    assert len(row) == 5 and all(row), "command, what the paper did, what we do, difference and why"
    assert row[0] == f"{place}<br>`{PLACES[place]}`"
    commands = re.findall(r"`(naq [^`]+)`", row[1])
    assert commands
    names = [command.split()[2] for command in commands if command.startswith("naq reproduce ")]
    assert all(name in EXPERIMENTS for name in names)
    if place not in NO_RESULTS:
        assert names and all(place in places_of(EXPERIMENTS[name].origin) for name in names)


def test_docs_have_no_row_that_the_paper_has_not():
    assert list(rows_of_docs()) == list(PLACES)


def test_numbers_of_the_paper_come_from_these_places():
    for row in paper_rows("origins"):
        assert PLACES.get(row["place"], row["label"]) == row["label"]
        assert row["place"] in PLACES or row["place"] == "text on time complexity"


def test_the_list_is_that_of_the_papers_source():
    """Figures and tables counted in the order of the source, parts by letters."""
    file = shared("README.md").parents[1] / "specs" / "paper.txt"
    if not file.is_file():
        pytest.skip("needs the shared file paper.txt")
    found, count = {}, {"figure": 0, "table": 0}
    for kind, body in re.findall(r"\\begin\{(figure|table)\*?\}(.*?)\\end\{\1", file.read_text(encoding="utf-8"), re.S):
        count[kind] += 1
        place = f"{kind.capitalize()} {count[kind]}"
        inside = re.findall(r"\\subfigure\[.*?\]\{.*?\\label\{([^}]+)\}", body, re.S)
        for letter, label in zip("abc", inside):
            found[label] = f"{place}{letter}"
        for label in re.findall(r"\\label\{([^}]+)\}", body):
            found.setdefault(label, place)
    listed = {label: place for place, label in PLACES.items()}
    assert {label: place for label, place in found.items() if label not in DRAWINGS | WHOLE | PARTS} == listed
    assert set(found) >= DRAWINGS | WHOLE | PARTS
