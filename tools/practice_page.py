"""Tables and the picture of docs/practice.md, from the packed results of ``naq reproduce practice``.

python tools/practice_page.py                 from benchmarks/results/practice.zip
python tools/practice_page.py runs/practice   pack that folder of naq reproduce first
python tools/practice_page.py --readme        print the short table for README
python tools/practice_page.py --check         fail if docs/practice.md differs from the packed results

A pair of markers in the page holds a table, as in tools/beyond_page.py; those of averages over graphs, of graphs, methods and targets are made here.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, median
from typing import Any

from beyond_page import Shown, check_complete, filled, found_in
from naq_paper.cells.store import Store
from naq_paper.experiments.analyses.practice import (
    OTHERS,
    OURS,
    SHARES,
    Labels,
    against_best,
    column_of,
    first_draws,
    results_of,
    title,
    values_of,
    words,
)
from naq_paper.experiments.experiment import Study, expand
from naq_paper.experiments.folder import Requests, pack_folder, unpack_folder
from naq_paper.experiments.views import Entry, LineView, Number, TableView, plain
from naq_paper.peers import PEERS
from naq_paper.statistics import Score

ROOT = Path(__file__).resolve().parents[1]
PACK = ROOT / "benchmarks" / "results" / "practice.zip"
PAGE = ROOT / "docs" / "practice.md"
PICTURES = ("practice.png", "practice-expected.png")
NAME = "practice"
SHORT = ((1, "equal"), (5, "equal"), (20, "equal"))
"""The labels that the README's table shows."""
BEST = 6  # of the other methods in the README's table
BEHIND = 1.0
"""Points that the classifier may be below the best of the others on a graph; set before anything was measured."""
NETWORK = "gcn"  # which few graphs have, so that there is a table of averages over these
COLOURS = ("#d97706", "#15803d", "#9333ea", "#be123c", "#0891b2", "#6b7280")

Columns = Mapping[str, Mapping[Labels, Mapping[str, Score]]]
"""Scores by graph, labels and method."""


def read(pack: Path) -> list[Study]:
    """The packed studies, one per graph; an error unless every one of their cells is there, once."""
    if not pack.is_file():
        raise SystemExit(f"{pack} does not exist; run naq reproduce {NAME} and give its folder.")
    with tempfile.TemporaryDirectory() as place:
        unpack_folder(pack, place)
        requests = [request for request in Requests.load(place).requests if request.experiment == NAME]
        find = found_in(Store(place))
    studies = [study for request in requests for study in expand(request, find)]
    names = [study.dataset for study in studies]
    if not names or len(set(names)) < len(names):
        raise SystemExit(f"{pack.name} has the graphs {names}; expected each once: pack one request per graph.")
    for study in studies:
        check_complete(study, pack)
    return studies


def columns_of(studies: Sequence[Study], what: str = "accuracy") -> Columns:
    return {
        study.dataset: {at: column_of(study, list(study.groups), at, what) for at in settings_of(study)}
        for study in studies
    }


def settings_of(study: Study) -> list[Labels]:
    return [(shot, shares) for shares in SHARES for shot in study.cells()[0].config["shots"]]


def settings_in(found: Columns) -> list[Labels]:
    """Labels that every graph has."""
    return [at for at in next(iter(found.values())) if all(at in by_labels for by_labels in found.values())]


def averages(found: Columns) -> dict[Labels, dict[str, float]]:
    """Means over the graphs in percent, of the methods that all of them have."""
    return {
        at: {row: 100 * mean(found[g][at][row].mean for g in found) for row in methods(found)}
        for at in settings_in(found)
    }


def average_table(found: Columns, name: str, what: str) -> TableView:
    """Methods by labels, the average over the graphs; sorted by the average of all columns."""
    means = averages(found)
    best = {at: max(column.values()) for at, column in means.items()}
    rows = sorted(methods(found), key=lambda row: -mean(column[row] for column in means.values()))
    lines: list[list[Entry]] = [
        [title(row), *(Number(c[row], digits=1, rank=int(c[row] == best[at])) for at, c in means.items())]
        for row in rows
    ]
    note = f"{what} over {len(found)} graphs, each the mean over draws of labels; sorted by the average of all columns."
    return TableView(
        f"{NAME}-{name}", what, ["method", *map(words, means)], lines, note=f"{note} {not_run(found)}".strip()
    )


def readme_table(pack: Path) -> str:
    """Our classifier and the best of the others on average, by graph, in Markdown."""
    found = columns_of(read(pack))
    means = averages(found)
    others = sorted(
        (row for row in methods(found) if row not in OURS), key=lambda row: -mean(means[at][row] for at in SHORT)
    )
    rows = [*OURS, *others[:BEST]]
    shots = " / ".join(str(shot) for shot, _ in SHORT)
    lines = [
        f"| labels in every class: {shots} | {' | '.join(found)} | average |",
        "|---|" + "---:|" * (len(found) + 1),
    ]
    places = [{at: {row: 100 * found[g][at][row].mean for row in rows} for at in SHORT} for g in found] + [means]
    for row in rows:
        cells = []
        for place in places:
            shown = [f"{place[at][row]:.0f}" for at in SHORT]
            top = [place[at][row] == max(place[at][other] for other in rows) for at in SHORT]
            cells.append(" / ".join(f"**{text}**" if first else text for text, first in zip(shown, top)))
        lines.append(f"| {title(row)} | {' | '.join(cells)} |")
    note = "Accuracy of all other nodes, %, mean over draws of labels; bold: best of the rows shown."
    note += " Other methods, and those that were run on some of the graphs: docs/practice.md."
    return "\n".join([*lines, "", note])


def not_run(found: Columns) -> str:
    """Which methods some graphs lack."""
    first = {graph: next(iter(by_labels.values())) for graph, by_labels in found.items()}
    told = []
    for row in (*OURS, *OTHERS):
        there, lacking = ([graph for graph, column in first.items() if (row in column) is has] for has in (True, False))
        if lacking:
            where = f"on {', '.join(lacking)}" if len(lacking) <= len(there) else f"but on {', '.join(there)}"
            told.append(f"{title(row)} {where if there else '(on any graph)'}")
    return f"Not run for the time it takes: {'; '.join(told)}." if told else ""


def beside(found: Columns, row: str) -> Columns:
    """The graphs that have a method, and of all methods there the draws that it has."""
    return {
        graph: {
            at: {name: first_draws(one, column[row].per_task.size) for name, one in column.items()}
            for at, column in by_labels.items()
        }
        for graph, by_labels in found.items()
        if all(row in column for column in by_labels.values())
    }


def methods(found: Columns) -> list[str]:
    """Methods that every graph has."""
    every = [set(column) for by_labels in found.values() for column in by_labels.values()]
    return [row for row in (*OURS, *OTHERS) if all(row in column for column in every)]


def graphs_table(studies: Sequence[Study]) -> TableView:
    lines: list[list[Entry]] = []
    for study in studies:
        first = study.records(OURS[0])[0].result
        assert first is not None
        classes = sorted({one["classes"] for one in first["by_shot"] if one["shares"] == SHARES[0]}, reverse=True)
        numbers = (first["nodes"], first["edges"])
        lines.append(
            [
                study.dataset,
                *(Number(number, digits=0) for number in numbers),
                " to ".join(map(str, classes)) if len(classes) < 3 else f"{classes[0]} to {classes[-1]}",
                Number(len(study.records(OURS[0])), digits=0),
            ]
        )
    return TableView(f"{NAME}-graphs", "Graphs", ["graph", "nodes", "edges", "classes", "draws of labels"], lines)


def methods_table(studies: Sequence[Study]) -> TableView:
    """What each method is, and its median seconds on each graph."""
    lines: list[list[Entry]] = []
    for row in (*OURS, *OTHERS):
        seconds: list[Entry] = []
        for study in studies:
            own = [result["seconds"] for result in results_of(study.records(row) if row in study.groups else [])]
            seconds.append(plain(median(own), 2) if own else "–")
        lines.append([PEERS[row].title, PEERS[row].reads, PEERS[row].settings.replace("`", ""), *seconds])
    columns = ["method", "reads", "settings", *(f"{study.dataset}, s" for study in studies)]
    return TableView(f"{NAME}-methods", "Methods", columns, lines, labels=3)


def promise_average(studies: Sequence[Study]) -> TableView:
    """What the classifier expects of itself, over all graphs and draws."""
    lines: list[list[Entry]] = []
    for at in settings_of(studies[0]):
        by_graph = [
            [
                values_of(study.records(OURS[0]), at, what)
                for what in ("accuracy", "expected", "low", "high", "set_coverage")
            ]
            for study in studies
        ]
        cases = [case for columns in by_graph for case in zip(*columns, strict=True)]
        error = 100 * mean(abs(expected - true) for true, expected, *_ in cases)
        bias = 100 * mean(expected - true for true, expected, *_ in cases)
        far = 100 * max(expected - true for true, expected, *_ in cases)
        width = 100 * mean(high - low for _, _, low, high, _ in cases)
        inside = 100 * mean(low <= true <= high for true, _, low, high, _ in cases)
        held = 100 * mean(case[4] for case in cases)
        sharp = mean(mean(values_of(study.records(OURS[0]), at, "calibration_error")) for study in studies)
        shown = (error, bias, far, width, inside, held)
        lines.append(
            [
                words(at),
                Number(len(cases), digits=0),
                *(Number(one, digits=1) for one in shown),
                Number(sharp, digits=3),
            ]
        )
    columns = ["labels", "cases", "mean error, points", "expected less true, points", "most promised too much, points"]
    columns += [
        "width of the 90 % interval, points",
        "interval holds, % of cases",
        "90 % sets hold, % of nodes",
        "calibration error",
    ]
    note = "A case is a graph and a draw of labels. Nodes of a class without a label are in no set."
    return TableView(f"{NAME}-expected", "Expected against true", columns, lines, note=note)


def targets_table(found: Columns) -> TableView:
    """Our classifier less the best of the others on each graph, averaged over graphs; and less the one method that is best on average."""
    lines: list[list[Entry]] = []
    for at, means in averages(found).items():
        tests = {graph: test for graph in found if (test := against_best(found[graph][at])) is not None}
        if len(tests) < len(found):
            raise SystemExit(f"one graph has too few draws to compare at {words(at)}; compute at least two.")
        gains = {graph: 100 * test.difference.mean for graph, (_, test) in tests.items()}
        rival = max((row for row in means if row not in OURS), key=lambda row: means[row])
        worse = [
            f"{graph} {gains[graph]:+.1f} ({title(best)}{', significant' if test.significant else ''})"
            for graph, (best, test) in tests.items()
            if gains[graph] < -BEHIND
        ]
        better = sum(test.significant and test.difference.mean > 0 for _, test in tests.values())
        lines.append(
            [
                words(at),
                Number(means[OURS[0]], digits=1),
                f"{title(rival)}, {means[OURS[0]] - means[rival]:+.1f}",
                Number(mean(gains.values()), digits=1),
                f"{better} of {len(tests)}",
                "; ".join(worse) or "none",
            ]
        )
    return TableView(
        f"{NAME}-targets",
        "Targets",
        [
            *("labels", "naq, average %", "best other on average, and points ahead of it"),
            *("ahead of the best other of each graph, points", "significantly ahead of it on"),
            f"more than {BEHIND:g} point below the best other on",
        ],
        lines,
        note=f"Averages over the graphs, without a test of their own. {not_run(found)}".strip(),
    )


def figure_of(width: float, height: float, lines: int, columns: int, **more: bool) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * lines + 0.6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(lines, columns, squeeze=False, **more).ravel()
    for panel in panels:
        panel.grid(color="#e5e7eb", linewidth=0.8)
        panel.set_axisbelow(True)
        panel.tick_params(labelsize=8)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    return figure, panels


def save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", metadata={"Software": None})


def draw(plots: Sequence[LineView], path: Path) -> None:
    """Accuracy over labels per class, a panel per graph; ours is the thick line."""
    columns = min(3, len(plots))
    figure, panels = figure_of(4.3, 3.3, -(-len(plots) // columns), columns)
    ours = {title(row): "#1d4ed8" for row in OURS}
    others = [PEERS[name].title for name in OTHERS]
    for panel in panels[len(plots) :]:
        panel.set_axis_off()
    for panel, plot in zip(panels, plots):
        for series in sorted(plot.series, key=lambda one: one.name in ours):
            own = series.name in ours
            place = 0 if own else others.index(series.name)
            colour = ours[series.name] if own else COLOURS[place % len(COLOURS)]
            style = "-" if own else ("-", "--", ":")[place // len(COLOURS) % 3]
            panel.plot(series.x, series.y, "o" + style, color=colour, linewidth=2.6 if own else 1.2, markersize=5 if own else 2.5, label=series.name)  # fmt: skip
            if own:
                panel.fill_between(series.x, series.low, series.high, color=colour, alpha=0.15, linewidth=0)
        ticks = list(plot.series[0].x)
        panel.set_xscale("log")
        panel.set_xticks(ticks, [f"{x:g}" for x in ticks], fontsize=8)
        panel.minorticks_off()
        panel.set_title(plot.title.rpartition(": ")[2], fontsize=10)
        panel.set_xlabel(plot.x_label, fontsize=8)
        panel.set_ylabel("accuracy, %", fontsize=8)
    entries = {label: mark for panel in panels for mark, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    names = [name for name in (*ours, *others) if name in entries]
    figure.legend([entries[n] for n in names], names, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    save(figure, path)


def draw_expected(studies: Sequence[Study], path: Path) -> None:
    """The accuracy that the classifier expects against the true one, a dot for every draw, a panel per number of labels."""
    shots = sorted({shot for shot, _ in settings_of(studies[0])})
    columns = min(4, len(shots))
    figure, panels = figure_of(3.2, 3.2, -(-len(shots) // columns), columns, sharex=True, sharey=True)
    for panel in panels[len(shots) :]:
        panel.set_axis_off()
    for panel, shot in zip(panels, shots):
        panel.plot([0, 100], [0, 100], color="#6b7280", linewidth=0.9, linestyle="--")
        for place, study in enumerate(studies):
            for shares, mark in zip(SHARES, "ox"):
                records = study.records(OURS[0])
                expected, true = (
                    [100 * one for one in values_of(records, (shot, shares), what)] for what in ("expected", "accuracy")
                )
                colour = (*COLOURS, "#1d4ed8", "#a16207", "#db2777")[place % (len(COLOURS) + 3)]
                panel.scatter(expected, true, s=14, marker=mark, color=colour, linewidth=0.9, alpha=0.75, label=study.dataset if mark == "o" else None)  # fmt: skip
        panel.set_title(f"{shot} label{'s' * (shot > 1)}", fontsize=10)
        panel.set_xlabel("expected accuracy, %", fontsize=8)
        panel.set_ylabel("true accuracy, %", fontsize=8)
        panel.set(xlim=(0, 100), ylim=(0, 100))
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8, frameon=False
    )
    save(figure, path)


def main(arguments: Sequence[str] | None = None, *, page: Path = PAGE, pack: Path = PACK) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--readme", action="store_true")
    given = parser.parse_args(arguments)
    if given.folder is not None:
        print(f"{pack_folder(given.folder, pack)} results packed")
    if given.readme:
        print(readme_table(pack))
        return 0
    studies = read(pack)
    found = columns_of(studies)
    own = [
        average_table(found, "short", "Average accuracy, %,"),
        average_table(
            columns_of(studies, "macro_accuracy"), "macro-short", "Average of the mean accuracy per class, %,"
        ),
        *(graphs_table(studies), methods_table(studies), targets_table(found), promise_average(studies)),
    ]
    if networks := beside(found, NETWORK):
        own.append(average_table(networks, "networks", "Average accuracy, %, of the same draws,"))
    views = [(study.dataset, view) for study in studies for view in study.views()]
    old = page.read_text(encoding="utf-8")
    text = filled(old, Shown([*views, *(("", replace(table, title="")) for table in own)]))
    pictures = [page.with_name(name) for name in PICTURES]
    if given.check:
        wrong = text != old or not all(picture.is_file() for picture in pictures)
        if wrong:
            print(f"{page.name} does not show the packed results; run python tools/practice_page.py.", file=sys.stderr)
        return int(wrong)
    equal = [view for _, view in views if isinstance(view, LineView) and f"{NAME}-random" not in view.name]
    draw(equal, pictures[0])
    draw_expected(studies, pictures[1])
    page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
