"""``check_experiment(name)``: what every table and analysis must do with results of every state."""

from __future__ import annotations

import csv
import io
import math
import re

from fake_records import IDENTITY, finds, nothing
from naq.methods import methods
from naq_paper.experiments.experiment import EXPERIMENTS, Study, expand
from naq_paper.experiments.request import Request
from naq_paper.experiments.views import (
    BarView,
    Label,
    LineView,
    Missing,
    Number,
    ScatterView,
    TableView,
    TextView,
    View,
)
from naq_paper.measurements import MEASUREMENTS
from naq_paper.perturbations import resolve_perturbation
from naq_paper.report.collect import section
from naq_paper.report.export import to_csv, to_latex, to_markdown
from naq_paper.report.page import KeyFigure, Report, Summary
from naq_paper.report.render import render
from pages_under_test import Structure

FACTS = {
    "nodes": 34_169, "edges": 300, "features": 9_000, "classes": 55, "base": 25, "valid": 13, "test": 17,
    "most_classes": 13, "hash": "da1a",
}  # fmt: skip
METHODS = ("supervised/protonet", "naq-feat/protonet", "naq-diff/glitter", "naq-feat/teg", "bgrl")
"""A few of each kind, so that views of whole tables take a moment."""
NO_FIGURES = {
    "label-noise", "structure-noise", "feature-noise", "tail-tsne", "queries", "training-way", "umtra", "practice",
    "episode-options", "feature-denoising", "ogbn-arxiv", "ogbn-products",
}  # fmt: skip
"""Experiments without figures of the paper on amazon-electronics."""


def study_of(name: str, find=nothing, dataset: str = "debian", **given) -> Study:
    """An experiment on one dataset, tables with a few methods only."""
    if hasattr(EXPERIMENTS[name], "methods") and name != "practice":
        given.setdefault("methods", METHODS)
    [study] = expand(Request(name, (dataset,), facts={dataset: FACTS}, **given), find)
    return study


def cells(name: str, dataset: str = "debian", **given):
    """What is computed while nothing is finished."""
    return study_of(name, nothing, dataset, **given).cells()


def figures(name: str, find, dataset: str = "debian", **given) -> list[View]:
    """The checked figures of an experiment."""
    views = study_of(name, find, dataset, **given).figures()
    check_views(views)
    return views


def tables(views) -> list[TableView]:
    return [view for view in views if isinstance(view, TableView)]


def table(views, name: str) -> TableView:
    return next(view for view in tables(views) if view.name == name)


def entries(views) -> list:
    return [entry for view in tables(views) for row in view.rows for entry in row]


def numbers(views) -> list[Number]:
    return [entry for entry in entries(views) if isinstance(entry, Number)]


def sentences(views) -> list[str]:
    return [sentence for view in views if isinstance(view, TextView) for sentence in view.sentences]


def label(entry) -> str:
    return entry.text if isinstance(entry, Label) else entry


def check_experiment(name: str) -> None:
    """The plan is stable and complete; figures hold for records of every state; exports and the page show them."""
    check_plan(name)
    check_states(name)
    views = figures(name, finds())
    check_exports(views)
    check_page(name)
    if EXPERIMENTS[name].group != "beyond" and name not in NO_FIGURES:
        check_paper_figures(name)


def check_plan(name: str) -> None:
    """Cells are of methods, measurements and perturbations that exist, with every default; a thin budget has fewer."""
    known, sizes = methods(), {}
    for given in ({}, {"tune": True}, {"budget": "quick"}, {"budget": "paper", "profile": "paper"}):
        found = cells(name, **given)
        assert found and [cell.text for cell in found] == [cell.text for cell in cells(name, **given)]
        assert len({IDENTITY.key(cell) for cell in found}) == len(found)
        sizes[given.get("budget", "")] = len(found)
        for cell in found:
            config = cell.config
            assert cell.measurement in MEASUREMENTS and config["dataset"] == "debian"
            assert config.get("device", "cpu") == "cpu"
            if "method" in config:
                assert set(config["options"]) == set(known[config["method"]].model.defaults)
            if config.get("perturbation") is not None:
                assert resolve_perturbation(config["perturbation"]) == config["perturbation"]
    assert sizes["quick"] < sizes[""] or name == "class-similarity" or not sizes[""]
    trainings = [cell.config for cell in cells(name, seeds=2, episodes=48) if cell.measurement == "train"]
    assert {config["seed"] for config in trainings} <= {0, 1}
    assert {config["episodes"] for config in trainings if "episodes" in config} <= {48}
    binary = {c.config["features"] for c in cells(name, features="binary") if "features" in c.config}
    assert binary <= {"binary"} or name == "overlap", "the paper's overlap is of raw features"


def check_states(name: str) -> None:
    """Finished, missing, failed and undefined results are shown as what they are."""
    for tune in (False, True):
        none = figures(name, nothing, tune=tune)
        assert sentences(none) == ["Nothing is finished yet."] and not numbers(none)
        for view in tables(none):
            rest = [entry for row in view.rows for entry in row[view.labels :]]
            assert view.rows and all(isinstance(entry, Missing) or entry == "–" for entry in rest)
    for given in ({}, {"budget": "quick"}, {"tune": True}):
        study = study_of(name, finds(), **given)
        views = study.figures()
        check_views(views)
        assert numbers(views) and "Nothing is finished yet." not in sentences(views)
        assert not any(isinstance(entry, Missing) for entry in entries(views))
        said = " ".join(sentences(views))
        assert said.count("p < 0.05") == said.count("p < 0.05, Holm")
        for verb, other in (("loses", "better"), ("gains", "worse"), ("below by", "better"), ("above by", "worse")):
            assert not re.search(rf"\b{verb} [\d.]+ ± [\d.]+ points \(significantly {other}", said)
        for contest in study.contests():
            assert set(contest.scores) == set(contest.trainings)
        if EXPERIMENTS[name].kind != "table":  # in which not every model has every kind of episodes
            drawn = [s for v in views if isinstance(v, LineView | BarView) for s in v.series if not s.paper]
            assert all(value is not None for series in drawn for value in series.y)
    assert not any(isinstance(entry, Missing) for entry in entries(figures(name, finds(undefined=True))))
    failed = figures(name, finds(fail=lambda cell: True))
    assert sentences(failed) == ["Nothing is finished yet."] and not numbers(failed)
    assert {e.reason for e in entries(failed) if isinstance(e, Missing)} == {"failed: it rains; wait."}
    first = cells(name)[0]
    some = figures(name, finds(fail=lambda cell: cell == first))
    assert 0 < len(numbers(some)) <= len(numbers(views))


def check_exports(views) -> None:
    """Every table in every form: as many lines as rows, and the shown values are in them."""
    for view in tables(views):
        head, *lines = list(csv.reader(io.StringIO(to_csv(view))))
        assert len(lines) == len(view.rows) and len(set(head)) == len(head)
        assert all(len(line) == len(head) for line in lines)
        values = [e.value for row in view.rows for e in row if isinstance(e, Number)]
        written = [float(text) for line in lines for text in line if re.fullmatch(r"-?[\d.]+(e-?\d+)?", text)]
        assert all(any(math.isclose(value, one, abs_tol=1e-4) for one in written) for value in values)
        markdown = [line for line in to_markdown(view).splitlines() if line.startswith("|")]
        assert len(markdown) == len(view.rows) + 2
        assert to_latex(view).count(r" \\") == len(view.rows) + 1 + bool(view.groups)


def check_page(name: str) -> None:
    """A page of the experiment is well formed and has every figure."""
    study = study_of(name, finds())
    shown = section(study.request, [study])
    answers = [KeyFigure("x")] * 4
    page = Report("NaQ", study.dataset, Summary(*answers, "naq reproduce"), [shown])
    found = Structure(render(page))
    assert not found.open and not shown.missing and not shown.failed
    titles = [view.title for view in shown.views if not isinstance(view, TextView)]
    assert all(any(title in words for words in found.words) for title in titles)


def check_paper_figures(name: str) -> None:
    """The paper's numbers are next to ours on one of its datasets."""
    views = figures(name, finds(), "amazon-electronics")
    drawn = [s for view in views if isinstance(view, LineView | BarView) for s in view.series if s.paper]
    assert drawn or [entry for entry in entries(views) if getattr(entry, "paper", None) is not None]


def check_views(views) -> None:
    """What every renderer relies on."""
    names = [(type(view).__name__, view.name) for view in views if not isinstance(view, TextView)]
    assert len(set(names)) == len(names), "names are those of files"
    for view in views:
        if isinstance(view, TextView):
            assert view.sentences
            for sentence in view.sentences:
                check_sentence(sentence)
            continue
        assert re.fullmatch(r"[a-z0-9-]+", view.name) and view.title
        check_sentence(view.note or "No note.")
        if isinstance(view, TableView):
            check_table(view)
        elif isinstance(view, ScatterView):
            for panel in view.panels:
                assert len(panel.x) == len(panel.y) == len(panel.group)
                assert min(panel.group) >= 0 and max(panel.group) < len(view.groups) and "None" not in panel.caption
        else:
            check_plot(view)


def check_sentence(text: str) -> None:
    assert text.endswith((".", "%.")) and text[0] == text[0].strip() and "  " not in text, text
    assert not re.search(r"\bNone\b|\bnan\b|\binf\b|[{}]|\.\.", text), text


def check_table(view: TableView) -> None:
    assert all(len(row) == len(view.columns) for row in view.rows), view.name
    assert not view.groups or sum(width for _, width in view.groups) == len(view.columns)
    assert all(isinstance(entry, str | Label) for row in view.rows for entry in row[: view.labels])
    labels = [tuple(label(entry) for entry in row[: view.labels]) for row in view.rows]
    assert len(set(labels)) == len(labels), "every row has its own labels"
    for entry in (entry for row in view.rows for entry in row):
        if isinstance(entry, Number):
            assert math.isfinite(entry.value) and entry.seeds >= 1
            assert all(part is None or part >= 0 for part in (entry.ci, entry.spread))
        elif isinstance(entry, Missing):
            assert entry.reason == "not run" or entry.reason.startswith("failed: ")
    if view.sorted_by is not None:
        shown = [row[view.sorted_by] for row in view.rows]
        values = [entry.value if isinstance(entry, Number) else -math.inf for entry in shown]
        assert values == sorted(values, reverse=True)


def check_plot(view: LineView | BarView) -> None:
    names = [series.name for series in view.series]
    assert len(set(names)) == len(names)
    for series in view.series:
        assert len(series.x) == len(series.y) and len(series.low) == len(series.high)
        assert len(series.low) in (0, len(series.y))
        for value, low, high in zip(series.y, series.low, series.high):
            assert (low, high) == (None, None) if value is None else low <= value <= high
    if isinstance(view, LineView):
        assert view.x_label and view.y_label and not (view.log_x and any(x <= 0 for s in view.series for x in s.x))
    assert all(math.isfinite(value) for value in view.floors.values())
