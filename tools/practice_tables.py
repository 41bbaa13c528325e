"""Tables and pictures of docs/practice.md that are about all graphs together; tools/pages.py writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mean, median
from typing import Any

from naq_paper.experiments.analyses.practice import (
    SHARES,
    Labels,
    against_best,
    first_draws,
    labels_text,
    results_of,
    scores_at,
    title,
    values_of,
)
from naq_paper.experiments.experiment import EXPERIMENTS, Study
from naq_paper.experiments.views import Entry, LineView, Number, TableView, measured
from naq_paper.peers import PEERS
from naq_paper.statistics import Score
from pages import DOCS, Shown, add_legend, markdown, new_panels, save_picture, views_of

PRACTICE: Any = EXPERIMENTS["practice"]
OURS, OTHERS = PRACTICE.ours, PRACTICE.others
SHORT = ((1, "equal"), (5, "equal"), (20, "equal"))
"""The labels that the README's table shows, with the best six of the other methods."""
BEHIND = 1.0
"""Points that the classifier may be below the best of the others on a graph; set before anything was measured."""
NETWORK = "gcn"
"""Not every graph has it, so there is a table of averages over those that do."""
COLOURS = ("#d97706", "#15803d", "#9333ea", "#be123c", "#0891b2", "#6b7280")
BLUE = "#1d4ed8"

Columns = Mapping[str, Mapping[Labels, Mapping[str, Score]]]
"""Scores by graph, labels and method."""


def practice_views(studies: Sequence[Study]) -> Shown:
    """What the experiment shows of each graph, and the tables over all graphs."""
    found, macro = columns_of(studies), columns_of(studies, "macro_accuracy")
    tables = [
        average_table(found, "short", "Average accuracy, %,"),
        average_table(macro, "macro-short", "Average of the mean accuracy per class, %,"),
        graphs_table(studies),
        methods_table(studies),
        targets_table(found),
        expected_table(studies),
    ]
    if networks := same_draws(found, NETWORK):
        tables.append(average_table(networks, "networks", "Average accuracy, %, of the same draws,"))
    return [*views_of(studies), *(("", replace(table, title="")) for table in tables)]


def columns_of(studies: Sequence[Study], what: str = "accuracy") -> Columns:
    return {
        study.dataset: {at: scores_at(study, list(study.groups), at, what) for at in settings_of(study)}
        for study in studies
    }


def settings_of(study: Study) -> list[Labels]:
    return [(shot, shares) for shares in SHARES for shot in study.cells()[0].config["shots"]]


def methods_of(found: Columns) -> list[str]:
    """Methods that every graph has."""
    every = [set(column) for by_labels in found.values() for column in by_labels.values()]
    return [row for row in (OURS, *OTHERS) if all(row in column for column in every)]


def averages(found: Columns) -> dict[Labels, dict[str, float]]:
    """Means over the graphs in percent, of labels and methods that all of them have."""
    common = [at for at in next(iter(found.values())) if all(at in by_labels for by_labels in found.values())]
    return {at: {row: 100 * mean(found[g][at][row].mean for g in found) for row in methods_of(found)} for at in common}


def same_draws(found: Columns, row: str) -> Columns:
    """The graphs that have a method, and of all methods there the draws that it has."""
    return {
        graph: {
            at: {name: first_draws(one, column[row].per_task.size) for name, one in column.items()}
            for at, column in by_labels.items()
        }
        for graph, by_labels in found.items()
        if all(row in column for column in by_labels.values())
    }


def not_run(found: Columns) -> str:
    """Which methods some graphs lack."""
    first = {graph: next(iter(by_labels.values())) for graph, by_labels in found.items()}
    texts = []
    for row in (OURS, *OTHERS):
        has, lacks = ([graph for graph, column in first.items() if (row in column) is there] for there in (True, False))
        if lacks:
            where = f"on {', '.join(lacks)}" if len(lacks) <= len(has) else f"but on {', '.join(has)}"
            texts.append(f"{title(row)} {where if has else '(on any graph)'}")
    return f"Not run for the time it takes: {'; '.join(texts)}." if texts else ""


def numbers(values: Sequence[float], digits: int = 1) -> list[Entry]:
    return [Number(value, digits=digits) for value in values]


def table_of(
    name: str, heading: str, columns: Sequence[str], rows: list[list[Entry]], note: str = "", labels: int = 1
) -> TableView:
    return TableView(f"practice-{name}", heading, list(columns), rows, labels=labels, note=note.strip())


def average_table(found: Columns, name: str, heading: str) -> TableView:
    """Methods by labels, the average over the graphs; sorted by the average of all columns."""
    means = averages(found)
    best = {at: max(column.values()) for at, column in means.items()}
    rows = sorted(methods_of(found), key=lambda row: -mean(column[row] for column in means.values()))
    lines: list[list[Entry]] = [
        [title(row), *(Number(c[row], digits=1, rank=int(c[row] == best[at])) for at, c in means.items())]
        for row in rows
    ]
    note = (
        f"{heading} over {len(found)} graphs, each the mean over draws of labels; sorted by the average of all columns."
    )
    return table_of(name, heading, ["method", *map(labels_text, means)], lines, f"{note} {not_run(found)}")


def graphs_table(studies: Sequence[Study]) -> TableView:
    rows: list[list[Entry]] = []
    for study in studies:
        first = results_of(study.records(OURS))[0]
        classes = sorted({one["classes"] for one in first["by_shot"] if one["shares"] == SHARES[0]}, reverse=True)
        shown = " to ".join(map(str, classes)) if len(classes) < 3 else f"{classes[0]} to {classes[-1]}"
        sizes = numbers([first["nodes"], first["edges"]], 0)
        rows.append([study.dataset, *sizes, shown, Number(len(study.records(OURS)), digits=0)])
    return table_of("graphs", "Graphs", ["graph", "nodes", "edges", "classes", "draws of labels"], rows)


def methods_table(studies: Sequence[Study]) -> TableView:
    """What each method is, and its median seconds on each graph."""
    rows: list[list[Entry]] = []
    for row in (OURS, *OTHERS):
        seconds: list[Entry] = []
        for study in studies:
            own = [result["seconds"] for result in results_of(study.records(row) if row in study.groups else [])]
            seconds.append(measured(median(own), 2) if own else "–")
        rows.append([PEERS[row].title, PEERS[row].reads, PEERS[row].settings.replace("`", ""), *seconds])
    heads = ["method", "reads", "settings", *(f"{study.dataset}, s" for study in studies)]
    return table_of("methods", "Methods", heads, rows, labels=3)


def expected_table(studies: Sequence[Study]) -> TableView:
    """What the classifier expects of itself, over all graphs and draws."""
    rows: list[list[Entry]] = []
    facts = ("accuracy", "expected", "low", "high", "set_coverage")
    for at in settings_of(studies[0]):
        ours = [study.records(OURS) for study in studies]
        cases = [case for some in ours for case in zip(*(values_of(some, at, fact) for fact in facts), strict=True)]
        shown = [
            mean(abs(expected - true) for true, expected, *_ in cases),
            mean(expected - true for true, expected, *_ in cases),
            max(expected - true for true, expected, *_ in cases),
            mean(high - low for _, _, low, high, _ in cases),
            mean(low <= true <= high for true, _, low, high, _ in cases),
            mean(held for *_, held in cases),
        ]
        error = mean(mean(values_of(some, at, "calibration_error")) for some in ours)
        count = Number(len(cases), digits=0)
        rows.append([labels_text(at), count, *numbers([100 * one for one in shown]), Number(error, digits=3)])
    heads = ["labels", "cases", "mean error, points", "expected less true, points", "most promised too much, points"]
    heads += ["width of the 90 % interval, points", "interval holds, % of cases", "90 % sets hold, % of nodes"]
    note = "A case is a graph and a draw of labels. Nodes of a class without a label are in no set."
    return table_of("expected", "Expected against true", [*heads, "calibration error"], rows, note)


def targets_table(found: Columns) -> TableView:
    """Our classifier less the best of the others on each graph, and less the one that is best on average."""
    rows: list[list[Entry]] = []
    for at, means in averages(found).items():
        tests = {graph: test for graph in found if (test := against_best(found[graph][at], OURS)) is not None}
        gains = {graph: 100 * test.difference.mean for graph, (_, test) in tests.items()}
        rival = max((row for row in means if row != OURS), key=lambda row: means[row])
        worse = [
            f"{graph} {gains[graph]:+.1f} ({title(best)}{', significant' if test.significant else ''})"
            for graph, (best, test) in tests.items()
            if gains[graph] < -BEHIND
        ]
        better = sum(test.significant and test.difference.mean > 0 for _, test in tests.values())
        ahead = f"{title(rival)}, {means[OURS] - means[rival]:+.1f}"
        counts = [Number(mean(gains.values()), digits=1), f"{better} of {len(tests)}", "; ".join(worse) or "none"]
        rows.append([labels_text(at), Number(means[OURS], digits=1), ahead, *counts])
    heads = ["labels", "naq, average %", "best other on average, and points ahead of it"]
    heads += ["ahead of the best other of each graph, points", "significantly ahead of it on"]
    heads += [f"more than {BEHIND:g} point below the best other on"]
    note = f"Averages over the graphs, without a test of their own. {not_run(found)}"
    return table_of("targets", "Targets", heads, rows, note)


def readme_table(studies: Sequence[Study]) -> str:
    """Our classifier and the best of the others on average, by graph, in Markdown."""
    found = columns_of(studies)
    means = averages(found)
    others = sorted(
        (row for row in methods_of(found) if row != OURS), key=lambda row: -mean(means[at][row] for at in SHORT)
    )
    rows, lines = [OURS, *others[:6]], []
    places = [{at: {row: 100 * found[g][at][row].mean for row in rows} for at in SHORT} for g in found] + [means]
    for row in rows:
        cells = []
        for place in places:
            best = [max(place[at][other] for other in rows) for at in SHORT]
            texts = [(f"{place[at][row]:.0f}", place[at][row] == most) for at, most in zip(SHORT, best)]
            cells.append(" / ".join(f"**{text}**" if first else text for text, first in texts))
        lines.append([title(row), *cells])
    shots = " / ".join(str(shot) for shot, _ in SHORT)
    note = "Accuracy of all other nodes, %, mean over draws of labels; bold: best of the rows shown."
    note += " Other methods, and those that were run on some of the graphs: docs/practice.md."
    return markdown([f"labels in every class: {shots}", *found, "average"], lines, 1) + f"\n\n{note}"


def draw_practice(studies: Sequence[Study]) -> None:
    """docs/practice.png and docs/practice-expected.png."""
    lines = [view for _, view in views_of(studies) if isinstance(view, LineView)]
    draw_lines([view for view in lines if "practice-random" not in view.name])
    draw_expected(studies)


def draw_lines(plots: Sequence[LineView]) -> None:
    """Accuracy over labels per class, a panel per graph; ours is the thick line."""
    columns = min(3, len(plots))
    rows = -(-len(plots) // columns)
    figure, panels = new_panels(rows, columns, (4.3 * columns, 3.3 * rows + 0.6))
    others = [PEERS[name].title for name in OTHERS]
    for panel in panels:
        panel.grid(color="#e5e7eb", linewidth=0.8)
    for panel in panels[len(plots) :]:
        panel.set_axis_off()
    for panel, plot in zip(panels, plots):
        for series in sorted(plot.series, key=lambda one: one.name == title(OURS)):
            if series.name == title(OURS):
                panel.plot(series.x, series.y, "o-", color=BLUE, linewidth=2.6, markersize=5, label=series.name)
                panel.fill_between(series.x, series.low, series.high, color=BLUE, alpha=0.15, linewidth=0)
            else:
                place = others.index(series.name)
                style = ("-", "--", ":")[place // len(COLOURS) % 3]
                look = {"color": COLOURS[place % len(COLOURS)], "linewidth": 1.2, "markersize": 2.5}
                panel.plot(series.x, series.y, "o" + style, label=series.name, **look)
        ticks = list(plot.series[0].x)
        panel.set_xscale("log")
        panel.set_xticks(ticks, [f"{x:g}" for x in ticks], fontsize=8)
        panel.minorticks_off()
        panel.set_title(plot.title.rpartition(": ")[2], fontsize=10)
        panel.set_xlabel(plot.x_label, fontsize=8)
        panel.set_ylabel("accuracy, %", fontsize=8)
    add_legend(figure, panels, 4, (title(OURS), *others))
    save_picture(figure, DOCS / "practice.png")


def draw_expected(studies: Sequence[Study]) -> None:
    """The expected accuracy against the true one, a dot for every draw, a panel per number of labels."""
    shots = sorted({shot for shot, _ in settings_of(studies[0])})
    columns = min(4, len(shots))
    rows = -(-len(shots) // columns)
    figure, panels = new_panels(rows, columns, (3.2 * columns, 3.2 * rows + 0.6), sharex=True, sharey=True)
    colours = (*COLOURS, BLUE, "#a16207", "#db2777")
    for panel in panels:
        panel.grid(color="#e5e7eb", linewidth=0.8)
    for panel in panels[len(shots) :]:
        panel.set_axis_off()
    for panel, shot in zip(panels, shots):
        panel.plot([0, 100], [0, 100], color="#6b7280", linewidth=0.9, linestyle="--")
        for place, study in enumerate(studies):
            for shares, mark in zip(SHARES, "ox"):
                ours = study.records(OURS)
                expected, true = (
                    [100 * one for one in values_of(ours, (shot, shares), what)] for what in ("expected", "accuracy")
                )
                look = {"s": 14, "marker": mark, "linewidth": 0.9, "alpha": 0.75}
                label = study.dataset if mark == "o" else None
                panel.scatter(expected, true, color=colours[place % len(colours)], label=label, **look)
        panel.set_title(f"{shot} label{'s' * (shot > 1)}", fontsize=10)
        panel.set_xlabel("expected accuracy, %", fontsize=8)
        panel.set_ylabel("true accuracy, %", fontsize=8)
        panel.set(xlim=(0, 100), ylim=(0, 100))
    add_legend(figure, panels[:1], 5)
    save_picture(figure, DOCS / "practice-expected.png")
