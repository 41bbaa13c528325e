"""Every table and analysis: known by name, made of cells that exist, and shown whatever is finished, missing or failed."""

from __future__ import annotations

import math
import re

import pytest

import methods_under_test as suite
from fake_records import IDENTITY, RESULTS, finds, nothing, record_for
from naq.io import save_graph
from naq.methods import methods
from naq_paper.cells.datasets import DatasetCache
from naq_paper.experiments.accuracy_table import AccuracyTable
from naq_paper.experiments.experiment import EXPERIMENTS, cells_of, expand
from naq_paper.experiments.request import BUDGETS, Request
from naq_paper.experiments.sweep import Sweep
from naq_paper.experiments.views import BarView, Label, LineView, Missing, Number, ScatterView, TableView, TextView
from naq_paper.measurements import MEASUREMENTS, Context, perform
from naq_paper.measurements.class_similarity import class_similarity_cell
from naq_paper.measurements.overlap import overlap_cell
from naq_paper.measurements.tail_map import tail_map_cell
from naq_paper.measurements.times import times_cell
from naq_paper.perturbations import resolve_perturbation
from naq_paper.statistics import difference

NAMES = list(EXPERIMENTS)
SWEEPS = [name for name in NAMES if issubclass(EXPERIMENTS[name], Sweep)]
TABLES = [name for name in NAMES if EXPERIMENTS[name].kind == "table"]
FACTS = {
    "debian": {
        "nodes": 34_169,
        "features": 9_000,
        "classes": 55,
        "base": 25,
        "valid": 13,
        "test": 17,
        "most_classes": 13,
    }
}
METHODS = ("supervised/protonet", "naq-feat/protonet", "naq-diff/glitter", "naq-feat/teg", "bgrl")
"""A few of each kind, so that views of whole tables take a moment."""

every = pytest.mark.parametrize("name", NAMES)


def make_request(name, dataset="debian", **given):
    if EXPERIMENTS[name].kind == "table":
        given.setdefault("methods", METHODS)
    return Request(name, (dataset,), facts={dataset: FACTS["debian"]}, **given)


def study_of(request, find=nothing):
    """The study of a request on one dataset."""
    [study] = expand(request, find)
    return study


def cells(request):
    """What is to be computed while nothing is finished."""
    return cells_of(expand(request, nothing))


def views_of(name, find, dataset="debian", **given):
    return study_of(make_request(name, dataset, **given), find).views()


def tables_of(views):
    return [view for view in views if isinstance(view, TableView)]


def entries(views):
    return [entry for table in tables_of(views) for row in table.rows for entry in row]


def numbers(views):
    return [entry for entry in entries(views) if isinstance(entry, Number)]


def sentences(views):
    return [sentence for view in views if isinstance(view, TextView) for sentence in view.sentences]


def seed_of(cell):
    return cell.config.get("seed", 0)


def check_views(views):
    """What every renderer relies on."""
    names = [(type(view).__name__, view.name) for view in views if not isinstance(view, TextView)]
    assert len(set(names)) == len(names), "names are those of files"
    for view in views:
        if isinstance(view, TextView):
            assert view.sentences and all(check_sentence(sentence) for sentence in view.sentences)
        elif isinstance(view, TableView):
            check_table(view)
        elif isinstance(view, ScatterView):
            check_scatter(view)
        else:
            check_plot(view)
        if not isinstance(view, TextView):
            assert (
                re.fullmatch(r"[a-z0-9-]+", view.name) and view.title and (not view.note or check_sentence(view.note))
            )


def check_sentence(text):
    assert text.endswith((".", "%.")) and text[0] == text[0].strip() and "  " not in text, text
    assert not re.search(r"\bNone\b|\bnan\b|\binf\b|[{}]|\.\.", text), text
    return True


def check_table(view):
    assert all(len(row) == len(view.columns) for row in view.rows), view.name
    assert not view.groups or sum(width for _, width in view.groups) == len(view.columns)
    assert all(isinstance(entry, str | Label) for row in view.rows for entry in row[: view.labels])
    labels = [tuple(words(entry) for entry in row[: view.labels]) for row in view.rows]
    assert len(set(labels)) == len(labels), "every row has labels of its own"
    for entry in (entry for row in view.rows for entry in row):
        if isinstance(entry, Number):
            assert math.isfinite(entry.value) and entry.seeds >= 1
            assert all(part is None or part >= 0 for part in (entry.ci, entry.spread))
        elif isinstance(entry, Missing):
            assert entry.reason == "not run" or entry.reason.startswith("failed: ")

    if view.sorted_by is not None:
        shown = [row[view.sorted_by] for row in view.rows]
        values = [entry.value if isinstance(entry, Number) else -math.inf for entry in shown]
        assert values == sorted(values, reverse=True) and "Sorted by" in view.note


def words(entry):
    return entry.text if isinstance(entry, Label) else entry


def check_plot(view):
    names = [series.name for series in view.series]
    assert len(set(names)) == len(names)
    for series in view.series:
        assert len(series.x) == len(series.y) and len(series.low) == len(series.high)
        assert len(series.low) in (0, len(series.y))
        for i, value in enumerate(series.y):
            assert value is None or math.isfinite(value)
            if series.low:
                ends = series.low[i], series.high[i]
                assert ends == (None, None) if value is None else ends[0] <= value <= ends[1]
    if isinstance(view, LineView):
        assert view.x_label and view.y_label and not (view.log_x and any(x <= 0 for s in view.series for x in s.x))
    assert isinstance(view, LineView | BarView) and all(math.isfinite(value) for value in view.floors.values())


def check_scatter(view):
    assert view.panels
    for panel in view.panels:
        assert len(panel.x) == len(panel.y) == len(panel.group)
        assert min(panel.group) >= 0 and max(panel.group) < len(view.groups)
        assert "None" not in panel.caption


def test_every_experiment_has_a_place_in_the_reading_order():
    assert all(kind.name == name for name, kind in EXPERIMENTS.items())
    titles = [EXPERIMENTS[name].title for name in NAMES]
    assert len(set(titles)) == len(titles)
    kinds = [EXPERIMENTS[name].kind for name in NAMES]
    assert kinds == sorted(kinds, key="table analysis".index) and set(kinds) == {"table", "analysis"}


@every
def test_an_experiment_introduces_itself(name):
    experiment = EXPERIMENTS[name]
    assert experiment.name == name and re.fullmatch(r"[a-z-]+", name)
    assert experiment.question.endswith("?") and experiment.title and not experiment.title.endswith(".")
    assert re.match(r"(Figures?|Tables?) \d|not in the paper$", experiment.origin)
    assert experiment.datasets and set(experiment.needs) <= {"labels", "features"}


@every
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("tune", [False, True])
def test_cells_are_of_measurements_methods_and_perturbations_that_exist(name, budget, tune):
    known = methods()
    found = cells(make_request(name, budget=budget, tune=tune))
    assert found and len({IDENTITY.key(cell) for cell in found}) == len(found)
    for cell in found:
        config = cell.config
        assert cell.measurement in MEASUREMENTS and config["dataset"] == "debian"
        if "method" in config:
            model = known[config["method"]].model
            assert set(config["options"]) == set(model.defaults)
        if config["perturbation"] is not None:
            assert resolve_perturbation(config["perturbation"]) == config["perturbation"], (
                "every default is written out"
            )
        assert config.get("device", "cpu") == "cpu"


@every
def test_a_request_reaches_the_cells(name):
    features = {
        cell.config["features"] for cell in cells(make_request(name, features="binary")) if "features" in cell.config
    }
    assert features <= {"binary"} or name == "overlap", "the paper's overlap is of raw features"
    trainings = [cell for cell in cells(make_request(name, seeds=2, episodes=48)) if cell.measurement == "train"]
    assert {cell.config["seed"] for cell in trainings} <= {0, 1}
    assert {cell.config["episodes"] for cell in trainings if "episodes" in cell.config} <= {48}


@every
def test_a_thin_budget_has_fewer_cells(name):
    standard, quick = (cells(make_request(name, budget=budget)) for budget in ("standard", "quick"))
    assert len(quick) < len(standard) or (name == "class-similarity" and quick == standard)
    assert sum(cell.config.get("episodes", 0) for cell in quick) <= sum(
        cell.config.get("episodes", 0) for cell in standard
    )


@every
@pytest.mark.parametrize("tune", [False, True])
def test_nothing_finished_is_said(name, tune):
    views = views_of(name, nothing, tune=tune)
    check_views(views)
    assert sentences(views) == ["Nothing is finished yet."] and not numbers(views)
    for table in tables_of(views):
        assert table.rows and all(isinstance(e, Missing) or e == "–" for row in table.rows for e in row[table.labels :])


@every
@pytest.mark.parametrize("budget", ["standard", "quick"])
@pytest.mark.parametrize("tune", [False, True])
def test_everything_finished_is_shown(name, budget, tune):
    views = views_of(name, finds(), budget=budget, tune=tune)
    check_views(views)
    assert sentences(views) and "Nothing is finished yet." not in sentences(views)
    assert numbers(views) and not any(isinstance(entry, Missing) for entry in entries(views))
    plots = [view for view in views if isinstance(view, LineView | BarView)]
    if name not in TABLES:  # there not every model has every kind of episodes
        assert all(value is not None for plot in plots for s in plot.series if not s.paper for value in s.y)


@every
@pytest.mark.parametrize("dataset", ["amazon-electronics", "cora-full"])
def test_the_papers_numbers_stand_beside_ours(name, dataset):
    views = views_of(name, finds(), dataset)
    check_views(views)
    known = [entry for entry in entries(views) if getattr(entry, "paper", None) is not None]
    drawn = [s for view in views if isinstance(view, LineView | BarView) for s in view.series if s.paper]
    without = {
        "label-noise",
        "structure-noise",
        "feature-noise",
        "tail-tsne",
        "queries",
        "training-way",
        "umtra",
        "episode-options",
        "practice",
    }
    ogb = {"ogbn-arxiv", "ogbn-products"}
    poster = {("label-scarcity", "cora-full"), ("imbalance", "cora-full")}
    beyond = EXPERIMENTS[name].group == "beyond"
    assert bool(known or drawn) or name in without | ogb or (name, dataset) in poster or beyond, name


@every
def test_undefined_numbers_are_dashes(name):
    views = views_of(name, finds(undefined=True))
    check_views(views)
    assert not any(isinstance(entry, Missing) for entry in entries(views))


@every
def test_what_failed_says_why(name):
    views = views_of(name, finds(fail=lambda cell: True))
    check_views(views)
    assert sentences(views) == ["Nothing is finished yet."] and not numbers(views)
    reasons = {entry.reason for entry in entries(views) if isinstance(entry, Missing)}
    assert reasons == {"failed: it rains; wait."}


@every
def test_one_failure_leaves_the_rest_as_it_is(name):
    first = cells(make_request(name))[0]
    whole, views = views_of(name, finds()), views_of(name, finds(fail=lambda cell: cell == first))
    check_views(views)
    assert 0 < len(numbers(views)) <= len(numbers(whole))


@pytest.mark.parametrize("name", [name for name in (*SWEEPS, *TABLES) if not EXPERIMENTS[name].group])
def test_seeds_that_are_there_are_shown(name):
    """Not of closed forms, which need no seeds: test_beyond.py."""
    two, one = (views_of(name, finds(skip=lambda cell, n=n: seed_of(cell) >= n)) for n in (2, 1))
    for views, seeds in ((two, 2), (one, 1)):
        check_views(views)
        shown = {entry.seeds for entry in numbers(views) if entry.ci is not None}
        assert max(shown) == seeds and shown <= {1, seeds}
        assert all((entry.spread is None) == (entry.seeds == 1) for entry in numbers(views) if entry.ci is not None)
    said = " ".join(s for s in sentences(one) if not s.startswith("smooth"))  # which needs no seeds
    assert "one seed" in said and "p < 0.05" not in said and "no significant difference" not in said
    assert "one seed" not in " ".join(sentences(two))
    assert not any(entry.mark or entry.against for entry in numbers(one)), "one seed has no marks"
    assert any(entry.mark for entry in numbers(two))
    notes = [" ".join(table.note for table in tables_of(views)) for views in (two, one)]
    assert "80 %" in notes[0] and "no difference is marked" not in notes[0]
    assert "no difference is marked" in notes[1] and "80 %" not in notes[1]


@pytest.mark.parametrize("name", SWEEPS)
def test_a_sweep_shows_levels_that_are_missing_as_missing(name):
    study = study_of(make_request(name))
    gone = study.experiment.points(study.request, "debian")[-1]
    lacking = set(study.groups[gone.row, gone.level].cells(nothing))
    views = views_of(name, finds(skip=lambda cell: cell in lacking))
    check_views(views)
    table = next(table for table in tables_of(views) if table.name == f"{name}-debian")
    row = next(row for row in table.rows if words(row[0]) == gone.row)
    missing = [entry for entry in row if isinstance(entry, Missing)]
    assert missing and all(entry.reason == "not run" for entry in missing)


@pytest.mark.parametrize("name", SWEEPS)
def test_the_sentences_of_a_sweep_name_every_row(name):
    """Somebody who reads no table must still learn what became of each method."""
    said = " ".join(sentences(views_of(name, finds())))
    for row in dict.fromkeys(point.row for point in EXPERIMENTS[name]().points(make_request(name), "debian")):
        assert row in said, row


def test_the_sentences_of_overlap_drop_answer_its_question():
    said = sentences(views_of("overlap-drop", finds()))
    for kind in ("NaQ-Feat", "NaQ-Diff"):
        for way in (5, 10):
            assert any(kind in s and f"{way}-way" in s and "overlap dropped" in s for s in said), (kind, way)
    assert not any(re.search("from 5-way to", sentence) for sentence in said), "harder tasks are no finding"


def test_the_sentences_of_imbalance_compare_with_the_original_and_with_the_control():
    said = sentences(views_of("imbalance", finds()))
    for kind in ("Pareto", "Extreme"):
        assert any(f"from original to {kind} " in s for s in said) and any("control" in s and kind in s for s in said)
    assert not any("from original to Extreme control" in sentence for sentence in said)


def test_the_metrics_are_all_compared_with_cosine():
    said = " ".join(sentences(views_of("metrics", finds())))
    assert "from cosine to jaccard" in said and "from cosine to euclidean" in said


def learners_in(name, kind="supervised", **given):
    methods = {cell.config["method"] for cell in cells(make_request(name, **given)) if "method" in cell.config}
    return {method.partition("/")[2] for method in methods if method.startswith(f"{kind}/")}


@pytest.mark.parametrize("name", ["label-scarcity", "label-noise"])
def test_labels_are_taken_from_the_papers_four_learners(name):
    assert learners_in(name) == {"tent", "gmeta", "protonet", "maml"}
    assert learners_in(name, budget="quick") == {"protonet"} and learners_in(name, learners=("gpn",)) == {"gpn"}
    assert learners_in(name, "naq-feat") == {"protonet"} and learners_in(name, "naq-feat", learners=("gpn",)) == {"gpn"}


@pytest.mark.parametrize("name", SWEEPS)
def test_every_sweep_trains_the_learners_of_the_request(name):
    points = EXPERIMENTS[name]().points(make_request(name, learners=("gpn", "protonet")), "debian")
    rows = {point.row for point in points}
    if name == "umtra-models":
        levels = {point.level for point in points}
        assert levels == {"GPN", "ProtoNet"}
    else:
        assert any("GPN" in row for row in rows)
        assert any("ProtoNet" in row for row in rows)
    check_views(views_of(name, finds()))


def test_label_noise_goes_further_on_the_larger_graph():
    levels = {point.level for point in EXPERIMENTS["label-noise"]().points(make_request("label-noise"), "cora-full")}
    assert levels == {0.0, 0.1, 0.2, 0.3}
    request = make_request("label-noise", "amazon-electronics")
    assert max(p.level for p in EXPERIMENTS["label-noise"]().points(request, "amazon-electronics")) == 0.5


@pytest.mark.parametrize("name", ["structure-noise", "feature-noise"])
def test_noise_is_asked_for_on_all_four_networks(name):
    assert EXPERIMENTS[name].datasets == ("amazon-clothing", "amazon-electronics", "cora-full", "dblp")


def test_imbalance_draws_a_sub_graph_per_seed_for_every_rival():
    found = [cell.config for cell in cells(make_request("imbalance", seeds=3)) if cell.config["perturbation"]]
    assert {(c["seed"], c["perturbation"]["seed"]) for c in found} == {(0, 0), (1, 1), (2, 2)}
    assert {"bgrl", "sugrl", "afgrl", "vnt"} <= {c["method"] for c in found}
    study = study_of(make_request("imbalance", seeds=3), finds())
    ours, rival = (study.score((row, "Pareto")) for row in ("ProtoNet (NaQ-Feat)", "VNT"))
    assert ours.seeds == rival.seeds == 3 and ours.tasks == rival.tasks and difference(ours, rival).paired
    assert study.score(("ProtoNet (NaQ-Feat)", "Extreme")).tasks != ours.tasks


def test_every_number_of_queries_is_run_with_the_fill_of_the_released_code():
    points = EXPERIMENTS["queries"]().points(make_request("queries"), "debian")
    by_row = {}
    for point in points:
        by_row.setdefault(point.row, {})[point.level] = point.settings["episode"]["fill"]
    assert set(map(tuple, by_row.values())) == {(1, 3, 5, 7, 10, 13, 15, 17, 20, 30, 40, 100)}
    assert set(by_row["ProtoNet (NaQ-Diff), lowest ids"].values()) == {"lowest"}
    assert set(by_row["ProtoNet (NaQ-Diff)"].values()) == {"none"}


def test_g_umtra_is_compared_with_labels_for_every_model_that_allows_it():
    points = EXPERIMENTS["umtra-models"]().points(make_request("umtra-models"), "debian")
    models = {point.level for point in points}
    assert {"ProtoNet", "MAML", "G-Meta", "TENT"} <= models and not {"COSMIC", "GLITTER", "TEG"} & models
    assert len(points) == 3 * len(models), "labels, dropped edges, dropped edges and features"
    views = views_of("umtra-models", finds())
    note = next(table for table in tables_of(views)).note
    for model, why in (("COSMIC", "it contrasts a node"), ("GLITTER", "a support and its query are the same node")):
        assert f"No {model}: {why}" in note
    said = next(sentence for sentence in sentences(views) if sentence.startswith("TENT"))
    assert re.search(r"g-UMTRA, DropEdge below by (9|10)\.", said), "made-up g-UMTRA is 10 points worse"


BASES = ("maml", "protonet", "tent", "gmeta", "glitter", "cosmic")


def main_views(find, dataset="amazon-clothing", **given):
    methods = (*METHODS[:1], "bgrl", *(f"{kind}/{base}" for kind in ("naq-feat", "naq-diff") for base in BASES))
    views = views_of("main-products", find, dataset, methods=methods, ways=(5,), **given)
    check_views(views)
    table = next(table for table in tables_of(views) if table.name == f"main-products-{dataset}")
    return views, {(words(row[0]), row[1]): row[2:] for row in table.rows}, table


def with_accuracy(**by_base):
    """A ``find`` whose base models have the given (validation, test) accuracies under NaQ-Feat."""

    def find(cell):
        base = cell.config["method"].removeprefix("naq-feat/")
        if base not in by_base:
            return record_for(cell, RESULTS["train"](cell))
        valid, test = by_base[base]
        result = RESULTS["train"](cell, mean=test)
        result["facts"]["valid_accuracy"] = valid
        return record_for(cell, result)

    return find


def test_the_best_row_is_the_maximum_on_test_tasks_and_the_chosen_one_that_on_validation_tasks():
    find = with_accuracy(
        maml=(0.6, 0.5), tent=(0.7, 0.6), gmeta=(0.5, 0.8), cosmic=(0.1, 0.1), glitter=(0.1, 0.1), protonet=(0.1, 0.1)
    )
    views, rows, table = main_views(find)
    best, chosen = (rows[name, "NaQ-Feat"][0] for name in ("Best of six", "Best of six by validation"))
    assert best.value == pytest.approx(80, abs=5) and chosen.value == pytest.approx(60, abs=5)
    assert best.paper == 86.58 and best.paper_ci == 0.96 and chosen.paper is None
    assert best.mark == "" and best.rank == 0, "picked on the tasks it is tested on: not compared"
    assert chosen.mark
    assert rows["Best of six", "NaQ-Feat"][-1].paper == 1.00
    assert "optimistic" in table.note and "Not all base models" not in table.note
    picked = next(table for table in tables_of(views) if "picked" in table.name)
    names = {tuple(row[:2]): row[2:] for row in picked.rows}
    assert names["Best of six", "NaQ-Feat"][0] == "G-Meta"
    assert names["Best of six by validation", "NaQ-Feat"][0] == "TENT"
    assert not any("Best of six (" in sentence for sentence in sentences(views))
    assert any("Best of six by validation (NaQ-" in sentence for sentence in sentences(views))
    assert set(rows) == {(model, kind) for kind in ("NaQ-Feat", "NaQ-Diff") for model in ("Best of six", "Best of six by validation")} | {
        ("ProtoNet", "Supervised"), ("TLP-BGRL", "–"), ("smooth (no training)", "–")
    }  # fmt: skip


def test_ranks_of_a_main_table_are_those_of_the_papers_rows():
    """Five rows of the paper's kind: the row picked on validation tasks moves nobody's rank."""
    _, rows, _ = main_views(finds())
    ranks = {row: entries[-1].value for row, entries in rows.items()}
    counted = [rank for (model, _), rank in ranks.items() if "validation" not in model]
    assert len(counted) == 5 and sum(counted) == 1 + 2 + 3 + 4 + 5, "means over columns of ranks among five"


def test_a_best_row_of_unfinished_base_models_says_so():
    _, rows, table = main_views(finds(skip=lambda cell: cell.config["method"] == "naq-feat/tent"))
    assert isinstance(rows["Best of six", "NaQ-Feat"][0], Number)
    assert "Not all base models are finished: NaQ-Feat 5-way 1-shot" in table.note
    _, rows, _ = main_views(finds(skip=lambda cell: cell.config["method"].startswith("naq-feat/")))
    assert isinstance(rows["Best of six", "NaQ-Feat"][0], Missing)


def test_the_figures_of_base_models_are_of_the_lowest_and_the_highest_way():
    def settings(most, **given):
        request = Request("model-agnostic", ("debian",), facts={"debian": {"most_classes": most}}, **given)
        return EXPERIMENTS["model-agnostic"]().settings(request, "debian")

    assert settings(17) == [(5, 1), (10, 1)] and settings(37) == [(5, 1), (20, 1)], (
        "Amazon-Clothing has no 20-way tasks"
    )
    assert (
        settings(5) == [(5, 1)] and settings(3) == [] and settings(37, ways=(5, 10, 20)) == [(5, 1), (10, 1), (20, 1)]
    )
    views = views_of(
        "model-agnostic", finds(), methods=tuple(f"{k}/maml" for k in ("supervised", "naq-feat", "naq-diff"))
    )
    drawn = [view.title.rpartition(", ")[2] for view in views if isinstance(view, BarView)]
    assert drawn == ["5-way 1-shot", "10-way 1-shot"]
    assert any(s.startswith("MAML, 10-way 1-shot, against labels: NaQ-Feat above by") for s in sentences(views))


def test_tables_and_figures_of_the_same_trainings_share_them():
    methods = ("supervised/maml", "naq-feat/maml")
    whole = set(cells(make_request("full-products", methods=methods)))
    assert set(cells(make_request("main-products", methods=methods))) == whole
    assert set(cells(make_request("model-agnostic", methods=methods))) < whole


def test_times_have_the_rows_of_the_ogbn_graphs():
    request = make_request("times", "ogbn-arxiv")
    assert {c.config["metric"] for c in cells(request) if "metric" in c.config} == {"euclidean"}
    views = study_of(request, finds()).views()
    check_views(views)
    (table,) = tables_of(views)
    papers = {tuple(row[:2]): row[2].paper for row in table.rows}
    assert papers["table of the 100 most similar nodes", "NaQ-Feat"] == 150
    assert papers["table of the 100 most similar nodes", "NaQ-Diff"] == 740
    assert papers["16,000 episodes", "Supervised"] == 55.9989
    large = cells(make_request("times", "ogbn-products"))
    assert large and not any(cell.config["kind"] == "naq-diff" for cell in large)


def test_times_show_their_stages_and_say_what_their_intervals_are():
    (table,) = tables_of(views_of("times", finds()))
    assert table.columns[4:7] == ["compute", "selection", "transfer"]
    by_row = {tuple(row[:2]): row[4:7] for row in table.rows}
    assert all(isinstance(entry, Number) for entry in by_row["table of the 100 most similar nodes", "NaQ-Feat"])
    assert by_row["16,000 episodes", "NaQ-Feat"] == ["–"] * 3
    assert "standard deviation over these calls" in table.note and "one pass" not in table.note
    assert {cell.config["repeats"] for cell in cells(make_request("times"))} == {5}
    (table,) = tables_of(views_of("times", finds(undefined=True)))
    assert "NaQ-Feat has no such columns: it is one pass." in table.note
    (overlap,) = tables_of(views_of("overlap", finds()))
    assert "standard errors over these episodes" in overlap.note


def test_augmented_supports_are_compared_with_similar_nodes():
    said = [s for s in sentences(views_of("umtra", finds())) if "NaQ-Feat" in s and "g-UMTRA" in s]
    assert said and all("above" in sentence for sentence in said), "made-up NaQ-Feat is 25 points better"


def test_the_best_number_of_queries_is_named():
    said = " ".join(sentences(views_of("queries", finds())))
    assert re.search(r"ProtoNet \(NaQ-Feat\): .*highest .*\d+ queries", said)


def test_a_row_that_no_level_affects_is_said_to_be_one_training():
    said = sentences(views_of("label-noise", finds()))
    assert any("ProtoNet (NaQ-Feat) is the same training at every level" in sentence for sentence in said)
    assert any("ProtoNet (Supervised) loses" in s and "from 0 to 0.3" in s for s in said)


def test_the_verdict_of_a_table_does_not_contradict_itself():
    """A method without a significant difference from the best must not be called significantly worse in the same sentence."""
    for sentence in sentences(views_of("methods", finds())):
        first, _, _ = sentence.partition(" Against smooth")
        head, _, similar = first.partition("no significant difference from ")
        second = re.search(r" (?:than|ahead of) (.+?)[;.]", head)
        assert second, sentence
        if similar and second.group(1) in similar:
            assert "p < 0.05" not in head and "significantly" not in first, sentence
        else:
            assert "every other method is significantly worse" in sentence, sentence
    for sentence in sentences(views_of("methods", finds(skip=lambda cell: seed_of(cell) > 0))):
        assert "significant " not in sentence and "significantly" not in sentence, sentence


@pytest.mark.parametrize("name", SWEEPS)
def test_sentences_of_a_sweep_are_corrected_for_all_of_them(name):
    said = " ".join(sentences(views_of(name, finds())))
    assert "(p < 0.05)" not in said and said.count("p < 0.05") == said.count("p < 0.05, Holm")


def test_a_verdict_counts_what_is_not_finished():
    partial = views_of("methods", finds(skip=lambda cell: cell.config.get("method") == "bgrl"))
    assert any("finished" in sentence for sentence in sentences(partial))
    assert not any("finished" in sentence for sentence in sentences(views_of("methods", finds())))


def test_a_table_says_which_head_and_which_options_were_used():
    views = views_of("methods", finds(), head="prototype", options={"protonet": {"lr": 0.5}})
    table = next(table for table in tables_of(views) if table.name == "methods-debian")
    assert "prototype" in table.note.lower() and "logistic" not in table.note.lower()
    cost = next(table for table in tables_of(views) if "cost" in table.name)
    settings = {row[0]: row[2] for row in cost.rows}
    assert settings["ProtoNet (NaQ-Feat)"] == "lr 0.5" and settings["TLP-BGRL"] == "default profile"
    assert "Profile: default." in table.note and "validation tasks of its own way and shot" in table.note


def test_a_table_on_too_few_classes_says_so():
    request = Request("methods", ("debian",), methods=METHODS, facts={"debian": {"most_classes": 3}})
    assert cells(request) == []
    (said,) = sentences(study_of(request).views())
    assert "3" in said and "--way" in said


def test_every_shot_is_a_training_of_its_own():
    shots = {(cell.config["method"], cell.config["shot"]) for cell in cells(make_request("methods"))}
    methods = ("naq-feat/protonet", "supervised/protonet")
    assert {(method, shot) for method in methods for shot in (1, 5)} <= shots
    table = next(t for t in tables_of(views_of("methods", finds())) if t.name == "methods-debian")
    row = next(row for row in table.rows if (words(row[0]), row[1]) == ("ProtoNet", "NaQ-Feat"))
    assert row[3].value == pytest.approx(row[2].value + 10, abs=6) != row[2].value


def test_maps_that_wait_for_their_setting_are_missing_not_absent():
    views = views_of("tail-tsne", finds(skip=lambda cell: cell.measurement == "train"), tune=True)
    check_views(views)
    (table,) = tables_of(views)
    assert len(table.rows) == 5 and sum(isinstance(row[1], Missing) for row in table.rows) == 4


def test_without_features_overlap_has_no_feature_row():
    request = Request("overlap", ("debian",), facts={"debian": {"features": 0}})
    assert cells(request) and all(cell.config["kind"] == "naq-diff" for cell in cells(request))
    check_views(study_of(request, finds()).views())


@pytest.mark.parametrize("measurement", ["overlap", "class-similarity", "times", "tail-map"])
def test_made_up_results_have_the_fields_of_real_ones(measurement, tmp_path):
    place = save_graph(tmp_path / "g.npz", suite.community_graph(size=14))
    cell = {
        "overlap": lambda: overlap_cell("g", way=2, queries=3, count=10),
        "class-similarity": lambda: class_similarity_cell("g", k=3),
        "times": lambda: times_cell("g", what="episodes", kind="naq-feat", way=2, queries=3, count=10, repeats=2),
        "tail-map": lambda: tail_map_cell("g", "smooth", way=2, classes=2, options={"dim": 8}),
    }[measurement]()
    real = perform(cell, Context(DatasetCache({"g": str(place)}), cache=None))
    made_up = RESULTS[measurement](cell)
    assert set(made_up) == set(real)
    for name, value in real.items():
        if isinstance(value, dict) and name != "table":
            assert set(made_up[name]) == set(value), name
        if isinstance(value, list) and value and isinstance(value[0], dict):
            assert set(made_up[name][0]) == set(value[0]), name


def test_a_sweep_takes_the_way_and_shot_of_the_request():
    found = cells(Request("label-scarcity", ("debian",), "quick", ways=(3,), shots=(5,)))
    assert {(cell.config["way"], cell.config["shot"]) for cell in found} == {(3, 5)}
    assert {cell.config["perturbation"]["keep"] for cell in found if cell.config["perturbation"]} == {13}


@pytest.mark.parametrize("name", [name for name in TABLES if issubclass(EXPERIMENTS[name], AccuracyTable)])
def test_inductive_and_transductive_results_stand_apart_in_every_table(name):
    views = views_of(name, finds())
    shown = [view for view in tables_of(views) if view.title.startswith("By head: ")]
    assert len(shown) == sum(isinstance(view, BarView) and "-bars-" in view.name for view in views) > 0
    for view in shown:
        assert sum(size for _, size in view.groups) == len(view.columns)
        over = [group for group, size in view.groups for _ in range(size)]
        columns: dict[str, list[str]] = {}
        for group, column in zip(over, view.columns, strict=True):
            columns.setdefault(group, []).append(column)
        own = ["own"] if any("TEG" in row[0] or "GLITTER" in row[0] for row in view.rows) else []
        assert columns == {
            "": ["method"],
            "inductive": ["logistic", "prototype"],
            "transductive, balanced queries": ["transductive", "em", "balanced", *own],
            "transductive, Dirichlet(2) queries": ["prototype", "transductive", "em", "balanced"],
        }
        assert "balanced knows that every class has equally many queries" in view.note
        assert "prototype, which answers each alone, is the inductive reference" in view.note
        assert any(isinstance(e, Number) and e.mark for row in view.rows for e in row[1:])


def test_results_without_the_new_heads_have_no_empty_columns():
    """Records of earlier versions hold fewer heads."""

    def find(cell):
        record = finds()(cell)
        kept = {head: e for head, e in record.result["evaluations"].items() if head in ("logistic", "prototype")}
        return record_for(cell, record.result | {"evaluations": kept})

    [view] = [v for v in tables_of(views_of("methods", find, methods=("bgrl",))) if v.title.startswith("By head")]
    assert list(view.columns) == ["method", "logistic", "prototype"]
    assert view.groups == [("", 1), ("inductive", 2)] and "Dirichlet" not in view.note
