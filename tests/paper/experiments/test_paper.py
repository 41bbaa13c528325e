"""The paper's numbers: equal to the transcript and its source; every table and figure has an experiment."""

from __future__ import annotations

import doctest
import itertools
import re
from pathlib import Path

import pytest

import naq_paper.experiments.paper
from naq.errors import OptionError
from naq_paper.experiments import names
from naq_paper.experiments.experiment import EXPERIMENTS
from naq_paper.experiments.names import PAPER_DATASETS, paper_generator, paper_method, paper_name
from naq_paper.experiments.paper import (
    FILES,
    paper_accuracy,
    paper_class_similarity,
    paper_figure,
    paper_overlap,
    paper_rank,
    paper_rows,
    paper_time,
)
from shared_data import shared

FOLDER = Path(naq_paper.experiments.paper.__file__).parent
LEARNERS = ("maml", "protonet", "tent", "gmeta", "glitter", "cosmic")
EMBEDDERS = ("bgrl", "sugrl", "afgrl", "vnt")
EPISODES = ("supervised", "naq-feat", "naq-diff")
METHODS = (*EMBEDDERS, *("/".join(pair) for pair in itertools.product(EPISODES, LEARNERS)))
BEST_OF_SIX = [("amazon-clothing", "naq-feat", 86.58), ("cora-full", "naq-diff", 66.26), ("dblp", "naq-diff", 76.58)]


def specs(name: str) -> str:
    """Text of a specification beside the shared data; skips where it is absent."""
    file = shared("README.md").parents[1] / "specs" / name
    if not file.is_file():
        pytest.skip(f"needs the shared file {name}")
    return file.read_text(encoding="utf-8")


ROWS = dict(zip(FILES, (830, 48, 48, 24, 26, 31)))


@pytest.mark.parametrize("file", FILES)
def test_the_files_are_the_whole_transcript(file: str) -> None:
    assert len(paper_rows(file)) == ROWS[file]
    assert (FOLDER / f"{file}.csv").read_text(encoding="utf-8") == specs(f"{file}.csv")


@pytest.mark.parametrize("dataset", ["amazon-clothing", "amazon-electronics", "cora-full", "dblp"])
@pytest.mark.parametrize("method", METHODS)
def test_the_full_tables_are_complete(dataset: str, method: str) -> None:
    for way, shot in itertools.product((5, 10) if dataset == "amazon-clothing" else (5, 10, 20), (1, 5)):
        found = paper_accuracy(dataset, method, way=way, shot=shot)
        assert found is not None
        if found.value is None:
            assert found.word in ("OOM", "OOT") and found.ci95 is None and found.shown == found.word
        else:
            assert 0 < found.value < 100 and found.ci95 is not None and found.shown == found.value


@pytest.mark.parametrize(("dataset", "generator", "value"), BEST_OF_SIX)
def test_the_main_tables_take_the_best_of_six(dataset: str, generator: str, value: float) -> None:
    main = paper_accuracy(dataset, "Best of six", paper_generator(generator), 5, 1)
    six = [paper_accuracy(dataset, f"{generator}/{learner}") for learner in LEARNERS]
    assert main is not None and main.value == value == max(found.value or 0 for found in six if found)


def test_an_accuracy_of_a_named_table() -> None:
    jaccard = paper_accuracy("cora-full", "ProtoNet", "NaQ-Feat jaccard", table="metric_ablation")
    assert jaccard is not None and (jaccard.value, jaccard.ci95) == (63.53, None)
    found = paper_accuracy("amazon-electronics", "ProtoNet", "NaQ-Diff (overlap dropped)", 10, 1, "overlap_drop")
    assert found is not None and found.value == 61.98
    assert paper_accuracy("dblp", "ProtoNet", "NaQ-Feat", table="overlap_drop") is None


def test_what_the_paper_did_not_run_has_no_number() -> None:
    assert paper_accuracy("debian", "bgrl") is None
    assert paper_accuracy("cora", "naq-feat/protonet") is None
    assert paper_accuracy("dblp", "smooth") is None
    assert paper_accuracy("dblp", "naq-feat/gpn") is None
    assert paper_accuracy("amazon-clothing", "bgrl", way=20) is None
    assert paper_rank("debian", "bgrl") is None and paper_rank("dblp", "smooth") is None
    assert paper_overlap("debian", "naq-feat", 5) is None and paper_overlap("dblp", "supervised", 5) is None
    assert paper_time("similarity", "debian", "naq-feat") is None


def test_numbers_of_the_other_files() -> None:
    electronics = "amazon-electronics"
    found = {
        21.4706: paper_overlap("data/amazon_electronics_network.npz", "naq-diff", 20),
        9.5: paper_rank("dblp", "supervised/glitter"),
        1.33: paper_rank("cora-full", "Best of six", "NaQ-Feat"),
        75.1: paper_class_similarity("dblp", "naq-diff", 10),
        40.4: paper_class_similarity("cora-full", "naq-feat", metric="neg-euclidean"),
        64.085: paper_time("episodes_16000", "amazon-clothing", "supervised"),
        2.2713: paper_time("episodes_16000", "ogbn-arxiv", "naq-feat"),
        70.4: paper_figure("class_imbalance", electronics, "naq-feat/protonet", "pareto"),
        63.6: paper_figure("label_scarcity", electronics, "supervised/gmeta", "class20_label20"),
    }
    assert {value: number and number.value for value, number in found.items()} == {value: value for value in found}
    assert paper_figure("class_imbalance", electronics, "naq-feat/tent", "pareto") is None


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: paper_rows("paper_table"), "paper_table"),
        (lambda: paper_accuracy("dblp", "bgrl", table="full_product"), "full_product"),
        (lambda: paper_figure("label_scarsity", "dblp", "TENT", "x"), "label_scarsity"),
        (lambda: paper_time("similarty", "dblp", "naq-feat"), "similarty"),
    ],
)
def test_unknown_tables_and_files_are_named(call, named) -> None:
    with pytest.raises(OptionError, match=named):
        call()


def test_names_lead_to_every_line_of_the_transcript() -> None:
    for row in paper_rows("paper_tables"):
        assert paper_name(row["dataset"]) == row["dataset"] in PAPER_DATASETS.values()
    ours = {paper_method(method) for method in METHODS}
    theirs = {(row["method"], row["episodes"]) for row in paper_rows("paper_tables") if row["table"].startswith("full")}
    assert ours == theirs


COLUMNS = {"paper_tables": "accuracy", "paper_ranks": "avg_rank", "paper_times": "seconds"} | {
    "paper_class_similarity": "class_level_similarity_percent", "paper_overlap_ratio": "overlap_percent",
    "paper_figures_digitised": "accuracy_approx",
}  # fmt: skip


@pytest.mark.parametrize("file", FILES)
def test_every_line_is_in_the_table_of_the_source_that_it_names(file: str) -> None:
    """Its label is in the source; a table's number counts the tables there, and the value is in that table."""
    source = specs("paper.txt")
    blocks = [block.split(r"\end{table")[0] for block in source.split(r"\begin{table")[1:]]
    key = {"paper_times": "what", "paper_figures_digitised": "figure", "paper_overlap_ratio": ""}.get(file, "table")
    origins = {(one["file"], one["table"], one["dataset"]): one for one in paper_rows("origins")}
    for row in paper_rows(file):
        table = row.get(key, "")
        origin = origins.get((file, table, row["dataset"])) or origins[file, table, ""]
        label = f"\\label{{{origin['label']}}}"
        assert origin["place"] and origin["caption"] and label in source
        if origin["place"].startswith("Table"):
            block = blocks[int(origin["place"].split()[1]) - 1]
            assert label in block and row[COLUMNS[file]] in block


def test_examples_in_the_docstrings() -> None:
    for module in (naq_paper.experiments.paper, names):
        assert doctest.testmod(module).failed == 0


DOCS = Path(__file__).resolve().parents[3] / "docs" / "reproduction.md"
# fmt: off
PLACES = {
    "Figure 1a": "intro:sup_label", "Figure 1b": "intro:label_noise", "Figure 1c": "intro:class_imbal",
    "Figure 3": "naq_model_agnostic", "Figure 4": "naq_model_agnostic_higher_way", "Figure 5": "class_imbal_tsne",
    "Figure 6": "hyparam:study:naq", "Figure 7": "analysis:classsim", "Figure 8": "class_imbal_tsne:diff_5vs20",
    "Figure 9a": "bias:struc_noise", "Figure 9b": "bias:feat_noise", "Figure 11": "appendix:class_imbal",
    "Figure 13": "sup:vs:gumtra", "Figure 14": "hyparam:study:gumtra", "Figure 15a": "appendix:sup_label",
    "Figure 15b": "appendix:label_noise", "Table 1": "main_table:acae", "Table 2": "main_table:cfdb",
    "Table 3": "table:arxiv", "Table 4": "imbal:discuss_table", "Table 5": "table:sim:meas1",
    "Table 6": "table:sim:meas2", "Table 7": "datastat", "Table 8": "hyparam", "Table 9": "time:simcal",
    "Table 10": "time:epigen", "Table 11": "table:ogbn:products", "Table 12": "table:qry:overlap",
    "Table 13": "table:drop:diff", "Table 14": "table:drop:feat", "Table 15": "main_table:full:acae",
    "Table 16": "main_table:full:cfdb",
}
# fmt: on
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
