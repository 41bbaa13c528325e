"""Tables and the picture of docs/practice.md, from the packed results of ``naq reproduce practice``.

python tools/practice_page.py                 from benchmarks/results/practice.zip
python tools/practice_page.py runs/practice   pack that folder of naq reproduce first
python tools/practice_page.py --readme        print the short table for README
python tools/practice_page.py --check         fail if docs/practice.md differs from the packed results

A pair of markers in the page holds a table, as in tools/beyond_page.py; ``practice-short``, ``practice-graphs``, ``practice-methods`` and ``practice-targets`` are made here.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean

from beyond_page import Shown, check_complete, filled, found_in
from naq_paper.cells.store import Store
from naq_paper.experiments.analyses.practice import OTHERS, OURS, against_best, column_of, labels, title
from naq_paper.experiments.experiment import Study, expand
from naq_paper.experiments.folder import Requests, pack_folder, unpack_folder
from naq_paper.experiments.views import Entry, LineView, Number, TableView
from naq_paper.peers import PEERS
from naq_paper.report.export import MARKDOWN
from naq_paper.report.format import entry_text
from naq_paper.statistics import Score

ROOT = Path(__file__).resolve().parents[1]
PACK = ROOT / "benchmarks" / "results" / "practice.zip"
PAGE = ROOT / "docs" / "practice.md"
PICTURE = "practice.png"
NAME = "practice"
SHORT = (1, 5)
"""Labels per class that the short table shows."""
TARGETS = {1: 5.0, 5: 3.0}
"""Points to be ahead of the best of the others, on average over the graphs, by labels per class; set before anything was measured."""
COLOURS = ("#d97706", "#15803d", "#9333ea", "#be123c", "#0891b2", "#6b7280", "#a16207", "#4d7c0f", "#db2777")

Columns = Mapping[str, Mapping[int, Mapping[str, Score]]]
"""Scores by graph, labels per class and method."""


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


def columns_of(studies: Sequence[Study]) -> Columns:
    return {
        study.dataset: {shot: column_of(study, list(study.groups), shot, "accuracy") for shot in shots_of(study)}
        for study in studies
    }


def shots_of(study: Study) -> list[int]:
    return list(study.cells()[0].config["shots"])


def short_table(found: Columns) -> TableView:
    """Methods by graphs at :data:`SHORT` labels, the average over graphs last; sorted by the average at the fewest, rows without one last."""
    over = {f"{graph}, {labels(shot)}": found[graph][shot] for graph in found for shot in SHORT}
    means = {at: {row: column[row].mean for row in column} for at, column in over.items()}
    means |= {
        f"average, {labels(shot)}": {row: mean(found[g][shot][row].mean for g in found) for row in methods(found)}
        for shot in SHORT
    }
    averages = means[f"average, {labels(SHORT[0])}"]
    every = dict.fromkeys(row for column in over.values() for row in column)
    lines: list[list[Entry]] = [
        [
            title(row),
            *(
                Number(100 * column[row], digits=1, rank=int(column[row] == max(column.values())))
                if row in column
                else "–"
                for column in means.values()
            ),
        ]
        for row in sorted(every, key=lambda row: -averages.get(row, 0.0))
    ]
    note = f"Sorted by the average with {labels(SHORT[0])}. Labels are per class; a number is the mean over draws of labels."
    return TableView(
        f"{NAME}-short",
        "Accuracy of all other nodes, %",
        ["method", *means],
        lines,
        note=f"{note} {not_run(found)}".strip(),
    )


def readme_table(pack: Path) -> str:
    """The short table with both numbers of labels in one column, in Markdown."""
    table = short_table(columns_of(read(pack)))
    numbers = table.columns[1:]
    graphs = [name.rpartition(", ")[0] for name in numbers[:: len(SHORT)]]
    lines = [f"| labels in every class: {' / '.join(map(str, SHORT))} | {' | '.join(graphs)} |"]
    lines.append("|---|" + "---:|" * len(graphs))
    for row in table.rows:
        texts = [entry_text(entry, MARKDOWN) for entry in row]
        pairs = [texts[i : i + len(SHORT)] for i in range(1, len(texts), len(SHORT))]
        lines.append(
            f"| {texts[0]} | {' | '.join('–' if set(pair) == {'–'} else ' / '.join(pair) for pair in pairs)} |"
        )
    return "\n".join([*lines, "", table.note])


def not_run(found: Columns) -> str:
    """Which methods some graphs lack."""
    every = dict.fromkeys(row for by_shot in found.values() for column in by_shot.values() for row in column)
    lacking = {row: [g for g, by_shot in found.items() if row not in by_shot[SHORT[0]]] for row in every}
    words = [f"{title(row)} on {' and '.join(graphs)}" for row, graphs in lacking.items() if graphs]
    return f"Not run for the time it takes: {', '.join(words)}." if words else ""


def methods(found: Columns) -> list[str]:
    """Methods that every graph has."""
    every = [set(column) for by_shot in found.values() for column in by_shot.values()]
    return [row for row in (*OURS, *OTHERS) if all(row in column for column in every)]


def graphs_table(studies: Sequence[Study]) -> TableView:
    lines: list[list[Entry]] = []
    for study in studies:
        first = study.records(OURS[0])[0].result
        assert first is not None
        shots = {one["shot"]: one["classes"] for one in first["by_shot"]}
        classes = sorted(set(shots.values()), reverse=True)
        numbers = (first["nodes"], first["edges"])
        lines.append(
            [
                study.dataset,
                *(Number(number, digits=0) for number in numbers),
                " to ".join(map(str, classes)),
                Number(len(study.records(OURS[0])), digits=0),
            ]
        )
    return TableView(f"{NAME}-graphs", "Graphs", ["graph", "nodes", "edges", "classes", "draws of labels"], lines)


def methods_table() -> TableView:
    lines: list[list[Entry]] = [
        [peer.title, peer.reads, peer.settings.replace("`", "")] for peer in map(PEERS.__getitem__, (*OURS, *OTHERS))
    ]
    return TableView(f"{NAME}-methods", "Methods", ["method", "reads", "settings"], lines, labels=3)


def targets_table(found: Columns) -> TableView:
    """Our classifier less the best of the others on each graph, averaged over graphs; and less the one method that is best on average."""
    lines: list[list[Entry]] = []
    for shot in sorted(set.intersection(*(set(by_shot) for by_shot in found.values()))):
        tests = {graph: test for graph in found if (test := against_best(found[graph][shot])) is not None}
        if len(tests) < len(found):
            raise SystemExit(f"one graph has too few draws to compare at {labels(shot)}; compute at least two.")
        gain = 100 * mean(test.difference.mean for _, test in tests.values())
        averages = {row: mean(found[g][shot][row].mean for g in found) for row in methods(found)}
        rival = max((row for row in averages if row not in OURS), key=lambda row: averages[row])
        worse = [g for g, (_, test) in tests.items() if test.significant and test.difference.mean < 0]
        target = TARGETS.get(shot)
        lines.append(
            [
                labels(shot),
                Number(100 * averages[OURS[0]], digits=1),
                Number(gain, digits=1),
                "–" if target is None else f"+{target:g}",
                "–" if target is None else "yes" if gain >= target else "no",
                f"{title(rival)}, {100 * (averages[OURS[0]] - averages[rival]):+.1f}",
                ", ".join(worse) or "none",
            ]
        )
    return TableView(
        f"{NAME}-targets",
        "Targets",
        [
            *(
                "labels per class",
                "naq, average %",
                "ahead of the best other of each graph, points",
                "target",
                "reached",
            ),
            *("best other on average, and points ahead of it", "significantly below the best other on"),
        ],
        lines,
        note=f"Averages over the graphs, without a test of their own. {not_run(found)}".strip(),
    )


def draw(plots: Sequence[LineView], path: Path) -> None:
    """Accuracy over labels per class, a panel per graph; ours are the thick lines."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(3, len(plots))
    lines = -(-len(plots) // columns)
    figure = Figure(figsize=(4.3 * columns, 3.3 * lines + 0.5), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    ours = {title(row): colour for row, colour in zip(OURS, ("#1d4ed8", "#60a5fa"))}
    others = [PEERS[name].title for name in OTHERS if PEERS[name].title not in ours]
    for panel in panels[len(plots) :]:
        panel.set_axis_off()
    for panel, plot in zip(panels, plots):
        for series in sorted(plot.series, key=lambda one: one.name in ours):
            own = series.name in ours
            colour = ours[series.name] if own else COLOURS[others.index(series.name) % len(COLOURS)]
            panel.plot(series.x, series.y, "o-", color=colour, linewidth=2.6 if own else 1.2, markersize=5 if own else 3, label=series.name)  # fmt: skip
            if own:
                panel.fill_between(series.x, series.low, series.high, color=colour, alpha=0.15, linewidth=0)
        ticks = list(plot.series[0].x)
        panel.set_xscale("log")
        panel.set_xticks(ticks, [f"{x:g}" for x in ticks], fontsize=8)
        panel.minorticks_off()
        panel.set_title(plot.title.rpartition(": ")[2], fontsize=10)
        panel.set_xlabel(plot.x_label, fontsize=8)
        panel.set_ylabel("accuracy, %", fontsize=8)
        panel.tick_params(axis="y", labelsize=8)
        panel.grid(color="#e5e7eb", linewidth=0.8)
        panel.set_axisbelow(True)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    entries = dict(zip(*reversed(panels[0].get_legend_handles_labels()), strict=True))
    names = [*ours, *others]
    figure.legend([entries[n] for n in names if n in entries], [n for n in names if n in entries], loc="outside lower center", ncols=4, fontsize=8, frameon=False)  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", metadata={"Software": None})


def main(arguments: Sequence[str] | None = None, *, page: Path = PAGE, pack: Path = PACK) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--readme", action="store_true")
    given = parser.parse_args(arguments)
    if given.folder is not None:
        print(f"{pack_folder(given.folder, pack)} results packed")
    studies = read(pack)
    found = columns_of(studies)
    if given.readme:
        print(readme_table(pack))
        return 0
    made: list[Callable[[], TableView]] = [lambda: short_table(found), lambda: graphs_table(studies), methods_table]
    own = [*(make() for make in made), targets_table(found)]
    views = [(study.dataset, view) for study in studies for view in study.views()]
    old = page.read_text(encoding="utf-8")
    text = filled(old, Shown([*views, *(("", replace(table, title="")) for table in own)]))
    picture = page.with_name(PICTURE)
    if given.check:
        wrong = text != old or not picture.is_file()
        if wrong:
            print(f"{page.name} does not show the packed results; run python tools/practice_page.py.", file=sys.stderr)
        return int(wrong)
    draw([view for _, view in views if isinstance(view, LineView)], picture)
    page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
