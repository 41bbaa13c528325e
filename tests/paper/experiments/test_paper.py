"""The paper's numbers: complete, equal to their transcript and to the paper's own source, and found under our names."""

from __future__ import annotations

import doctest
import itertools
from pathlib import Path

import pytest

import naq_paper.experiments.paper
from naq.errors import OptionError
from naq_paper.experiments import names
from naq_paper.experiments.names import PAPER_DATASETS, paper_generator, paper_method, paper_name
from naq_paper.experiments.paper import (
    FILES,
    paper_accuracy,
    paper_class_similarity,
    paper_figure,
    paper_origin,
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


@pytest.mark.parametrize(
    ("file", "rows"),
    [
        ("paper_tables", 830),
        ("paper_ranks", 48),
        ("paper_class_similarity", 48),
        ("paper_overlap_ratio", 24),
        ("paper_times", 26),
        ("paper_figures_digitised", 31),
    ],
)
def test_every_line_is_there(file: str, rows: int) -> None:
    assert len(paper_rows(file)) == rows


@pytest.mark.parametrize("file", FILES)
def test_the_files_are_the_transcript(file: str) -> None:
    assert (FOLDER / f"{file}.csv").read_text(encoding="utf-8") == specs(f"{file}.csv")


def test_no_entry_is_there_twice() -> None:
    keys = [
        tuple(row[c] for c in ("table", "dataset", "method", "episodes", "way", "shot"))
        for row in paper_rows("paper_tables")
    ]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("dataset", ["amazon-clothing", "amazon-electronics", "cora-full", "dblp"])
@pytest.mark.parametrize("method", METHODS)
def test_the_full_tables_are_complete(dataset: str, method: str) -> None:
    place = "Table 15" if dataset.startswith("amazon") else "Table 16"
    for way, shot in itertools.product((5, 10) if dataset == "amazon-clothing" else (5, 10, 20), (1, 5)):
        found = paper_accuracy(dataset, method, way=way, shot=shot)
        assert found is not None and found.origin.place == place
        if found.value is None:
            assert found.word in ("OOM", "OOT") and found.ci95 is None and found.shown == found.word
        else:
            assert 0 < found.value < 100 and found.ci95 is not None and found.shown == found.value


def test_the_large_graphs_have_what_the_paper_ran() -> None:
    for method in (*EMBEDDERS, *(f"supervised/{name}" for name in LEARNERS), "naq-feat/protonet", "naq-diff/protonet"):
        for way, shot in itertools.product((5, 10), (1, 5)):
            found = paper_accuracy("ogbn-arxiv", method, way=way, shot=shot)
            assert found is not None and found.origin.place == "Table 3"
    assert paper_accuracy("ogbn-arxiv", "naq-feat/tent") is None
    found = paper_accuracy("ogbn-products", "naq-feat/protonet", way=10)
    assert found is not None and (found.value, found.ci95, found.origin.place) == (43.84, 0.77, "Table 11")
    oom = paper_accuracy("ogbn-products", "bgrl")
    assert oom is not None and (oom.value, oom.word) == (None, "OOM")


@pytest.mark.parametrize(("dataset", "generator", "value"), BEST_OF_SIX)
def test_the_main_tables_take_the_best_of_six(dataset: str, generator: str, value: float) -> None:
    main = paper_accuracy(dataset, "Best of six", paper_generator(generator), 5, 1)
    six = [paper_accuracy(dataset, f"{generator}/{learner}") for learner in LEARNERS]
    assert main is not None and main.value == value == max(found.value or 0 for found in six if found)
    assert main.origin.place in ("Table 1", "Table 2")


def test_an_accuracy_of_a_named_table() -> None:
    jaccard = paper_accuracy("cora-full", "ProtoNet", "NaQ-Feat jaccard", table="metric_ablation")
    assert jaccard is not None and (jaccard.value, jaccard.ci95, jaccard.origin.place) == (63.53, None, "Table 6")
    for dataset, episodes, value, place in (
        ("amazon-electronics", "NaQ-Diff (overlap dropped)", 61.98, "Table 13"),
        ("cora-full", "NaQ-Feat (overlap dropped)", 52.32, "Table 14"),
    ):
        found = paper_accuracy(dataset, "ProtoNet", episodes, 10, 1, "overlap_drop")
        assert found is not None and (found.value, found.origin.place) == (value, place)
    assert paper_accuracy("dblp", "ProtoNet", "NaQ-Feat", table="overlap_drop") is None
    with pytest.raises(OptionError, match="did you mean full_products"):
        paper_accuracy("dblp", "bgrl", table="full_product")


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
    overlap = paper_overlap("data/amazon_electronics_network.npz", "naq-diff", 20)
    rank = paper_rank("dblp", "supervised/glitter")
    own_rank = paper_rank("cora-full", "Best of six", "NaQ-Feat")
    tail = paper_class_similarity("dblp", "naq-diff", 10)
    metric = paper_class_similarity("cora-full", "naq-feat", metric="neg-euclidean")
    seconds = paper_time("episodes_16000", "amazon-clothing", "supervised")
    large = paper_time("episodes_16000", "ogbn-arxiv", "naq-feat")
    bar = paper_figure("class_imbalance", "amazon-electronics", "naq-feat/protonet", "pareto")
    scarce = paper_figure("label_scarcity", "amazon-electronics", "supervised/gmeta", "class20_label20")
    found = [overlap, rank, own_rank, tail, metric, seconds, large, bar, scarce]
    assert [(number.value, number.origin.place) for number in found if number] == [
        (21.4706, "Table 12"),
        (9.5, "Table 2"),
        (1.33, "Table 2"),
        (75.1, "Table 4"),
        (40.4, "Table 5"),
        (64.085, "Table 10"),
        (2.2713, "text on time complexity"),
        (70.4, "Figure 1c"),
        (63.6, "Figure 1a"),
    ]
    assert paper_figure("class_imbalance", "amazon-electronics", "naq-feat/tent", "pareto") is None


def test_unknown_tables_and_files_list_the_nearest() -> None:
    with pytest.raises(OptionError, match="did you mean paper_tables"):
        paper_rows("paper_table")
    with pytest.raises(OptionError, match="label_scarcity"):
        paper_figure("label_scarsity", "dblp", "TENT", "x")
    with pytest.raises(OptionError, match="similarity"):
        paper_time("similarty", "dblp", "naq-feat")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("amazon-clothing", "Amazon-Clothing"),
        ("amazon_clothing_network", "Amazon-Clothing"),
        ("Amazon_clothing", "Amazon-Clothing"),
        ("amazon-electronics", "Amazon-Electronics"),
        ("/somewhere/amazon_electronics_network.npz", "Amazon-Electronics"),
        ("cora-full", "Cora-Full"),
        ("cora_full_structure", "Cora-Full"),
        ("CoraFull", "Cora-Full"),
        ("DBLP", "DBLP"),
        ("ogbn-arxiv", "ogbn-arxiv"),
        ("ogbn_products", "ogbn-products"),
        ("cora", None),
        ("cora.npz", None),
        ("citeseer", None),
        ("amazon_computers", None),
        ("debian", None),
    ],
)
def test_names_of_datasets(ours: str, theirs: str | None) -> None:
    assert paper_name(ours) == theirs


def test_names_lead_to_every_line_of_the_transcript() -> None:
    for row in paper_rows("paper_tables"):
        assert paper_name(row["dataset"]) == row["dataset"] in PAPER_DATASETS.values()
    ours = {paper_method(method) for method in METHODS}
    theirs = {(row["method"], row["episodes"]) for row in paper_rows("paper_tables") if row["table"].startswith("full")}
    assert ours == theirs


def test_every_line_has_an_origin_in_the_source_of_the_paper() -> None:
    source = specs("paper.txt")
    columns = {"paper_times": "what", "paper_figures_digitised": "figure", "paper_overlap_ratio": ""}
    for file in FILES:
        for row in paper_rows(file):
            origin = paper_origin(file, row.get(columns.get(file, "table"), ""), row["dataset"])
            assert origin.place and origin.caption
            assert f"\\label{{{origin.label}}}" in source


def test_table_numbers_count_the_tables_of_the_source() -> None:
    blocks, seen = specs("paper.txt").split(r"\begin{table")[1:], set()
    for file in FILES:
        for row in paper_rows(file):
            key = row.get({"paper_times": "what", "paper_figures_digitised": "figure"}.get(file, "table"), "")
            origin = paper_origin(file, key, row["dataset"])
            if origin.place.startswith("Table"):
                block = blocks[int(origin.place.split()[1]) - 1].split(r"\end{table")[0]
                assert f"\\label{{{origin.label}}}" in block
                seen.add(origin.place)
    assert len(seen) > 5


def test_values_stand_in_the_table_they_are_said_to() -> None:
    """Every number of every table is found in the LaTeX of its table of origin."""
    blocks = specs("paper.txt").split(r"\begin{table")[1:]
    values = {"paper_tables": "accuracy", "paper_ranks": "avg_rank", "paper_times": "seconds"}
    values |= {"paper_class_similarity": "class_level_similarity_percent", "paper_overlap_ratio": "overlap_percent"}
    for file, column in values.items():
        found = 0
        for row in paper_rows(file):
            origin = paper_origin(file, row.get("what" if file == "paper_times" else "table", ""), row["dataset"])
            if origin.place.startswith("Table"):
                assert row[column] in blocks[int(origin.place.split()[1]) - 1].split(r"\end{table")[0], row
                found += 1
        assert found, file


def test_examples_in_the_docstrings() -> None:
    for module in (naq_paper.experiments.paper, names):
        assert doctest.testmod(module).failed == 0
