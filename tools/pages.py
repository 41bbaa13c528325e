"""Writes what pages show of stored results: tables between markers, pictures, docs/reproduction.

python tools/pages.py                        all pages
python tools/pages.py practice               one of them
python tools/pages.py practice runs/mine     pack that folder of naq reproduce into benchmarks/results first
python tools/pages.py --check                exit code 1 if a page differs from the results
python tools/pages.py reproduction --picture also take its picture with headless Chromium

A table is between ``<!-- NAME:begin -->`` and ``<!-- NAME:end -->``; NAME also stands for the tables NAME-DATASET
of all datasets as one. A picture ``beyond/NAME.png`` shows the plots NAME-DATASET. Results that are not complete
are an error.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from naq.cli.running import DEFAULT_METHODS
from naq_paper.cells.cell import Cell
from naq_paper.cells.records import Record
from naq_paper.experiments.captions import dataset_slug
from naq_paper.experiments.experiment import Study, expand
from naq_paper.experiments.folder import pack_folder, read_pack
from naq_paper.experiments.names import full_name
from naq_paper.experiments.views import BarView, Entry, Label, Number, TableView, TextView, View
from naq_paper.report.collect import report_of, tables_of
from naq_paper.report.export import MARKDOWN, to_markdown, write_tables
from naq_paper.report.format import entry_text
from naq_paper.report.page import Report
from naq_paper.report.render import write_page
from stored_tables import (
    clothing_rows,
    clothing_values,
    decomposition_rows,
    fill_values,
    form_rows,
    fuzz_values,
    given_rows,
    graph_sizes,
    linear_rows,
    partner_rows,
    per_class,
    power_values,
    significance_level,
    significance_rows,
    step_rows,
)

ROOT = Path(__file__).resolve().parents[1]
DOCS, RESULTS = ROOT / "docs", ROOT / "benchmarks" / "results"
COLOURS = ("#2563a8", "#d97706", "#15803d", "#9333ea", "#6b7280", "#be123c")
FIRST = ("smooth", "naq-plus", "naq-plus/sugrl")
"""Methods of the first table of docs/results.md, before the best trained one."""

Shown = list[tuple[str, View]]
"""(dataset, view)."""


# Stored results


@cache
def read_studies(pack: str) -> Sequence[Study]:
    """The packed studies; an error unless each of their cells has one result."""
    requests, packed = read_pack(RESULTS / f"{pack}.zip")
    records: dict[Cell, Record] = {}
    for record in packed:
        if record.cell in records:
            raise SystemExit(f"{pack} has two results of {record.cell.title}, by two versions of the code.")
        records[record.cell] = record
    studies = [study for request in requests for study in expand(request, records.get)]
    missing = [cell for study in studies for cell in study.cells() if cell not in records]
    if missing:
        raise SystemExit(f"{pack} lacks {len(missing)} results, e.g. {missing[0].title}; run naq reproduce.")
    return studies


figures_of = cache(Study.figures)


def views_of(studies: Sequence[Study]) -> Shown:
    return [(study.dataset, view) for study in studies for view in figures_of(study)]


def find_table(shown: Shown, name: str) -> TableView:
    """The table of this name, or those of all datasets as one."""
    tables = [(dataset, view) for dataset, view in shown if isinstance(view, TableView)]
    parts = [(dataset, view) for dataset, view in tables if view.name == f"{name}-{dataset_slug(dataset)}"]
    exact = [view for _, view in tables if view.name == name]
    if exact or not parts:
        return exact[0] if exact else _fail(f"the results have no table {name}.")
    first = parts[0][1]
    if any((table.columns, table.groups) != (first.columns, first.groups) for _, table in parts):
        _fail(f"the tables {name} of the datasets have different columns.")
    sentences = re.split(r"(?<=\.) ", first.note)
    return replace(
        first,
        name=name,
        columns=["dataset", *first.columns],
        rows=[[dataset, *row] for dataset, table in parts for row in table.rows],
        labels=first.labels + 1,
        groups=[("", first.groups[0][1] + 1), *first.groups[1:]] if first.groups else (),
        sorted_by=None,
        note=" ".join(sentence for sentence in sentences if all(sentence in table.note for _, table in parts)),
    )


def _fail(text: str) -> Any:
    raise SystemExit(text)


# Pages


def fill(text: str, mark: str, body: str) -> str:
    """The page with ``body`` between the markers."""
    begin, end = f"<!-- {mark}:begin -->", f"<!-- {mark}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        _fail(f"a page needs {begin} and {end} once each.")
    head, rest = text.split(begin)
    return f"{head}{begin}\n{body}\n{end}{rest.split(end)[1]}"


def fill_tables(text: str, shown: Shown) -> str:
    """The page with every table that it has markers for."""
    for name in re.findall(r"<!-- (\S+):begin -->", text):
        text = fill(text, name, to_markdown(find_table(shown, name)).partition("\n\n")[2].strip())
    return text


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]], labels: int) -> str:
    """A table whose first ``labels`` columns are text, the others numbers."""
    rule = "|" + "---|" * labels + "---:|" * (len(heads) - labels)
    first, *lines = (f"| {' | '.join(row)} |" for row in [heads, *rows])
    return "\n".join([first.replace("|  |", "| |"), rule, *lines])


def new_panels(lines: int, columns: int, size: tuple[float, float], **shared: bool) -> tuple[Any, list[Any]]:
    """A figure and its panels, row by row."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(lines, columns, squeeze=False, **shared).ravel()
    for panel in panels:
        panel.set_axisbelow(True)
        panel.tick_params(labelsize=8)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    return figure, list(panels)


def add_legend(figure: Any, panels: Sequence[Any], columns: int, order: Sequence[str] = ()) -> None:
    """Below the panels, every name once, in this order."""
    marks = {name: mark for panel in panels for mark, name in zip(*panel.get_legend_handles_labels(), strict=True)}
    names = [name for name in order if name in marks] or list(marks)
    place = {"loc": "outside lower center", "ncols": columns, "fontsize": 8, "frameon": False}
    figure.legend([marks[name] for name in names], names, **place)


def save_picture(figure: Any, path: Path) -> None:
    figure.savefig(path, format="png", metadata={"Software": None})


# docs/beyond.md


def write_beyond(check: bool) -> Iterator[tuple[Path, str]]:
    shown = views_of(read_studies("beyond"))
    page = DOCS / "beyond.md"
    text = fill_tables(page.read_text(encoding="utf-8"), shown)
    for name in re.findall(r"\]\(beyond/([a-z0-9-]+)\.png\)", text):
        pattern = re.compile(rf"{re.escape(name)}(-\d+-way-\d+-shot)?")
        bars = [(dataset, view) for dataset, view in shown if isinstance(view, BarView)]
        plots = [
            view for dataset, view in bars if pattern.fullmatch(view.name.removesuffix(f"-{dataset_slug(dataset)}"))
        ]
        if not check:
            draw_dots(plots or _fail(f"the results have no plot {name}."), DOCS / "beyond" / f"{name}.png")
    yield page, text


def draw_dots(plots: Sequence[BarView], path: Path) -> None:
    """A panel per plot, in it a row per name, dots with whiskers."""
    columns = 2 if len(plots) > 1 else 1
    lines = -(-len(plots) // columns)
    rows = [list(dict.fromkeys(str(x) for series in plot.series for x in series.x)) for plot in plots]
    figure, panels = new_panels(lines, columns, (6.6 * columns, lines * (1.5 + 0.36 * max(map(len, rows)))))
    kinds = list(dict.fromkeys(series.name for plot in plots for series in plot.series))
    for panel in panels[len(plots) :]:
        panel.set_axis_off()
    for panel, plot, names in zip(panels, plots, rows):
        for value in plot.floors.values():
            panel.axvline(value, color="#6b7280", linewidth=0.9, linestyle="--")
        there = {(str(x), s.name) for s in plot.series for x, y in zip(s.x, s.y) if y is not None}
        in_row = {name: [s.name for s in plot.series if (name, s.name) in there] for name in names}
        for series in plot.series:

            def beside(row: list[str], name: str = series.name) -> float:
                """How far below the middle of its row a series is drawn, if several share the row."""
                return 0.6 * ((row.index(name) + 0.5) / len(row) - 0.5)

            points = [
                (y, names.index(str(x)) + beside(in_row[str(x)]), y - low, high - y)
                for x, y, low, high in zip(series.x, series.y, series.low, series.high, strict=True)
                if y is not None and low is not None and high is not None
            ]  # fmt: skip
            values, places, left, right = (list(column) for column in zip(*points)) if points else ([], [], [], [])
            colour = COLOURS[kinds.index(series.name) % len(COLOURS)]
            dots = {"fmt": "o", "markersize": 4, "capsize": 2.5, "linewidth": 1.2}
            panel.errorbar(values, places, xerr=[left, right], color=colour, label=series.name, **dots)
        panel.set_yticks(range(len(names)), names, fontsize=8)
        panel.set_ylim(len(names) - 0.5, -0.5)
        panel.grid(axis="x", color="#e5e7eb", linewidth=0.8)
        panel.set_title(plot.title.rpartition(": ")[2], fontsize=9)
        panel.set_xlabel(plot.y_label, fontsize=8)
    if len(plots[0].series) > 1:
        add_legend(figure, panels, 4)
    save_picture(figure, path)


# docs/results.md


def write_results(check: bool) -> Iterator[tuple[Path, str]]:
    from practice_tables import readme_table

    demo = ROOT / "runs" / "demo"
    if demo.is_dir() and not check:
        (RESULTS / "demo.json").write_text(json.dumps(demo_results(demo), indent=2) + "\n")
    figures, shown = stored("figures"), [s for s in read_studies("beyond") if s.experiment.name == "beyond-accuracy"]
    lines = first_lines(shown)
    (methods,) = (DOCS / "reproduction" / "tables").glob("methods-debian*.md")
    table = methods_table("debian", methods.read_text(encoding="utf-8"))
    bodies = {
        "first": first_table(lines),
        "demo": demo_table(stored("demo")),
        "figures": figures_table(figures),
        "given": markdown(GIVEN, given_rows(shown), 2),
        "methods": table,
        "reproduction": answers(stored("reproduction")),
    }
    text = (DOCS / "results.md").read_text(encoding="utf-8")
    for mark, body in bodies.items():
        text = fill(text, mark, body)
    whole = figures["protocol"]["figures"][0]["note"].partition(" %")[0]
    values = {"methods-rows": str(table.count("\n") - 1), "whole-protocol": whole, **graph_sizes(shown)}
    yield DOCS / "results.md", fill_values(text, values)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    readme = fill(readme, "practice", readme_table(read_studies("practice")))
    yield ROOT / "README.md", fill_values(readme, fuzz_values(stored("fuzz")))
    if not check:
        draw_first(lines)


GIVEN = ["method", "reads", "trained", "trained in the paper", "trainings that reached their limit"]


Line = tuple[str, str, list[Number], str]
"""A graph, a setting, the numbers of the methods that are shown, and the name of the last, the best trained one."""


def first_lines(studies: Sequence[Study]) -> list[Line]:
    lines: list[Line] = []
    own = [full_name(method) for method in FIRST]
    for study in studies:
        table = find_table(views_of([study]), f"beyond-accuracy-{dataset_slug(study.dataset)}")
        rows = {_method(row): row for row in table.rows}
        trained = [row for row in rows if row not in own and not row.startswith("smooth")]
        for place, title in enumerate(table.columns):
            if "-shot" in title:
                found = {method: number for method, row in rows.items() if isinstance(number := row[place], Number)}
                best = max(trained, key=lambda method: found[method].value)
                lines.append((study.dataset, title, [found[method] for method in (*own, best)], best))
    return lines


def _method(row: Sequence[Entry]) -> str:
    """``ProtoNet (NaQ-Feat)``, without the remark on its training."""
    name = row[0].text if isinstance(row[0], Label) else str(row[0])
    return name if row[1] == "–" else f"{name} ({row[1]})"


def first_table(lines: Sequence[Line]) -> str:
    """Without the spread over seeds."""
    rows = []
    for i, (dataset, setting, numbers, best) in enumerate(lines):
        texts = [entry_text(replace(number, spread=None), MARKDOWN) for number in numbers]
        rows.append(
            [dataset if i == 0 or lines[i - 1][0] != dataset else "", setting, *texts[:-1], f"{texts[-1]} {best}"]
        )
    return markdown(["graph", "tasks", *(f"`{method}`" for method in FIRST), "best trained"], rows, 2)


def draw_first(lines: Sequence[Line]) -> None:
    """A panel per graph, a row per setting, a dot with its interval per method."""
    graphs = list(dict.fromkeys(line[0] for line in lines))
    figure, panels = new_panels(1, len(graphs), (2.5 * len(graphs), 2.5))
    names = (*FIRST, "best trained")
    for panel, graph in zip(panels, graphs):
        own = [line for line in lines if line[0] == graph]
        for which, name in enumerate(names):
            numbers = [line[2][which] for line in own]
            panel.errorbar(
                [number.value for number in numbers],
                [row + 0.18 * (which - (len(names) - 1) / 2) for row in range(len(own))],
                xerr=[number.ci or 0.0 for number in numbers],
                fmt="osD^"[which], markersize=4, capsize=2, linewidth=1.2,
                color=COLOURS[(4, 0, 2, 1)[which]], label=name,
            )  # fmt: skip
        panel.set_yticks(range(len(own)), [line[1].replace(" ", "\n") for line in own], fontsize=8)
        panel.set_ylim(len(own) - 0.5, -0.5)
        panel.set_title(graph, fontsize=9)
        panel.set_xlabel("test accuracy, %", fontsize=8)
        panel.grid(axis="x", color="#e5e7eb", linewidth=0.8)
    add_legend(figure, panels, len(names))
    save_picture(figure, DOCS / "accuracy.png")


def figures_table(results: dict[str, Any]) -> str:
    """Every figure of ``make bench`` with its target, the paper's code and the ratio."""
    rows = []
    for group in ("tables", "episodes", "step", "evaluation", "protocol", "accuracy", "smooth", "overlap"):
        for figure in results.get(group, {}).get("figures", []):
            unit, value = figure["unit"], figure["value"]
            paper = "" if figure["paper"] is None else f"{figure['paper']:,g} {unit}"
            ratio = f"{figure['paper'] / value:,.0f}x" if figure["paper"] and unit in ("s", "ms") else ""
            shown = f"{value:,.3f}" if value < 1 else f"{value:,.2f}"
            missed = "" if figure["reached"] else " (missed)"
            rows.append([figure["name"], f"{shown} {unit}{missed}", figure["target"], paper, ratio])
    return markdown(["", "measured", "target", "paper's code", "ratio"], rows, 5)


DEMO_COLUMNS = {
    "logistic": "logistic",
    "prototype": "prototype",
    "em (queries together)": "em",
    "prototype, unbalanced queries": "prototype/dirichlet",
    "em, unbalanced queries": "em/dirichlet",
}


def demo_table(runs: dict[str, Any]) -> str:
    """Accuracy in % of every run of the demo, by head and by the queries it answered; its seconds."""
    config, rows = next(iter(runs.values()))["config"], []
    for method, metrics in runs.items():
        trained = f"{metrics['config']['episodes']:,} episodes" if metrics["history"] else "trains nothing"
        found = [metrics["evaluations"][key] for key in DEMO_COLUMNS.values()]
        numbers = [f"{100 * one['accuracy']:.2f} ± {100 * one['ci95']:.2f}" for one in found]
        rows.append([f"`{method}`, {trained}", *numbers, f"{sum(metrics['seconds'].values()):.0f}"])
    title = f"{config['way']}-way {config['shot']}-shot, `{config['dataset']}`"
    return markdown([title, *DEMO_COLUMNS, "seconds"], rows, 1)


def demo_results(folder: Path) -> dict[str, Any]:
    """The runs in a folder of the demo by method, in the order of the command, without the accuracy of single tasks."""
    found = {}
    for method in DEFAULT_METHODS:
        metrics = json.loads((folder / method.replace("/", "-") / "metrics.json").read_text())
        for block in ("evaluations", "baseline"):
            for one in metrics[block].values():
                one.pop("per_task")
        found[method] = metrics
    return found


def methods_table(dataset: str, text: str) -> str:
    """Every method, from the Markdown table of ``naq reproduce methods``."""
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    heads, rows = table[0], table[2:]
    places = [place for place, title in enumerate(heads) if "-shot" in title]
    columns = [f"{dataset} {heads[place].removeprefix('test accuracy, % ')}" for place in places]
    # How long a method was trained differs by dataset.
    named = [
        [re.sub(r" \([^()]*cut at [^()]*\)$", "", row[0]), row[1], *(row[place] for place in places)] for row in rows
    ]
    return markdown(["method", "episodes", *columns], named, 2)


def answers(found: dict[str, Any]) -> str:
    """The answers of the report's first screen, and the first sentence of every section."""
    questions = {
        "best": "Which method is best?",
        "margin": "By how much?",
        "real": "Is the difference significant?",
        "cost": "What did it cost?",
    }
    given = {text: found["answers"][name] for name, text in questions.items()}
    own = [[text, f"**{one['short']}** {one['text']}"] for text, one in given.items()]
    sections = [f"- **{title}.** {sentences[0]}" for title, sentences in found["sections"].items() if sentences]
    return "\n".join(["| | |", "|---|---|", *(f"| {' | '.join(row)} |" for row in own), "", *sections])


# docs/reproduction


def write_reproduction(check: bool) -> Iterator[tuple[Path, str]]:
    """The tables of the page, what the first screen says, and docs/reproduction.md; the page itself embeds the style of
    the report, which changes without the results, so it is written and never checked."""
    title = "NaQ with the paper's settings, on debian and coauthor_cs"
    page = report_of(RESULTS / "reproduction.zip", title=title, any_version=True)
    place = DOCS / "reproduction"
    with TemporaryDirectory() as folder:
        write_tables(tables_of(page), Path(folder))
        fresh = {path.relative_to(folder): path.read_text(encoding="utf-8") for path in Path(folder).rglob("*.*")}
    for path in place.glob("tables/*"):
        if path.relative_to(place) not in fresh:
            yield path, ""
    yield from ((place / name, text) for name, text in sorted(fresh.items()))
    yield RESULTS / "reproduction.json", json.dumps(summary(page), indent=2) + "\n"
    if not check:
        write_page(page, place / "index.html")
    marks, half = stored("significance"), read_studies("clothing")
    rows = [row for study in half for row in clothing_rows(study)]
    values = {**power_values(marks), **pack_sizes(), **clothing_values()}
    text = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    text = fill(text, "significance", markdown(SIMULATED, significance_rows(marks), 1))
    text = fill(text, "level", markdown(LEVELS, significance_level(marks), 0))
    text = fill(text, "clothing", markdown(CLOTHING, rows, 2))
    yield DOCS / "reproduction.md", fill_values(text, values)


SIMULATED = [
    *("variances", "methods", "seeds", "columns", "with a false mark", "with a false pair by Satterthwaite's p"),
    *("5 points found, best / `smooth`", "10 points found", "detectable"),
]
LEVELS = [
    *("methods", "columns with a false mark, mean", "least to most"),
    *("10 points from the best found, 3 seeds", "5 seeds"),
]


def stored(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def pack_sizes() -> dict[str, str]:
    """Results in the two packed reports."""
    packs = {"paper-cells": "reproduction", "default-cells": "reproduction_default"}
    return {name: f"{len(read_pack(RESULTS / f'{pack}.zip')[1]):,}" for name, pack in packs.items()}


CLOTHING = ["method", "head", "5-way 1-shot", "5-way 5-shot"]


def summary(page: Report) -> dict[str, object]:
    """The answers and the first sentences of every section."""
    sections = {
        section.title: [
            view.sentences[0] for view in section.views if isinstance(view, TextView) and view.kind == "verdict"
        ][:3]
        for section in page.sections
    }
    fields = {"best": "best", "margin": "margin", "real": "significance", "cost": "cost"}
    answers = {name: vars(getattr(page.summary, field)) for name, field in fields.items()}
    advice = [vars(one) for one in page.summary.advice]
    return {"cells": page.summary.done, "advice": advice, "answers": answers, "sections": sections}


def write_closed_form(check: bool) -> Iterator[tuple[Path, str]]:
    linear, parts = stored("linear_protonet"), stored("decomposition")
    heads = ["", *(f"{one['graph']}, {shot}" for one in linear for shot in ("1-shot", "5-shot"))]
    lead, rows = decomposition_rows(parts)
    text = (DOCS / "closed-form.md").read_text(encoding="utf-8")
    text = fill(text, "decomposition", markdown(lead, rows, 1))
    text = fill(text, "steps", markdown(["step", "points, 1 label", "points, 5 labels"], step_rows(parts), 1))
    yield DOCS / "closed-form.md", fill(text, "linear", markdown(heads, linear_rows(linear), 1))


def write_choices(check: bool) -> Iterator[tuple[Path, str]]:
    kept = stored("closed_form_choices")
    forms, partners = kept["variants"], kept["partners"]
    text = (DOCS / "choices.md").read_text(encoding="utf-8")
    text = fill(text, "variants", markdown(["form", "mean", *forms], form_rows(forms), 1))
    yield DOCS / "choices.md", fill(text, "partners", markdown(["vectors", "", *partners], partner_rows(partners), 2))


def write_practice(check: bool) -> Iterator[tuple[Path, str]]:
    from practice_tables import draw_practice, practice_views

    studies = read_studies("practice")
    page = DOCS / "practice.md"
    text = fill_tables(page.read_text(encoding="utf-8"), practice_views(studies))
    yield page, fill_values(text, {"boosting-per-class": per_class(studies)})
    if not check:
        draw_practice(studies)


PAGES: dict[str, Callable[[bool], Iterator[tuple[Path, str]]]] = {
    "beyond": write_beyond,
    "choices": write_choices,
    "closed-form": write_closed_form,
    "practice": write_practice,
    "reproduction": write_reproduction,
    "results": write_results,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", nargs="?", choices=list(PAGES))
    parser.add_argument("folder", nargs="?", type=Path, help="results of naq reproduce to pack first")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--picture", action="store_true")
    given = parser.parse_args()
    if given.folder is not None:
        print(f"{pack_folder(given.folder, RESULTS / f'{given.page}.zip')} results packed")
    different = []
    for name in [given.page] if given.page else PAGES:
        for page, text in PAGES[name](given.check):
            there = page.read_text(encoding="utf-8") if page.exists() else None
            different += [page.name] if there != text else []
            if not given.check and text:
                page.write_text(text, encoding="utf-8")
            elif not given.check:
                page.unlink()
    if given.picture:
        from check_page import browser

        with browser() as chromium:
            tab = chromium.new_page(viewport={"width": 1440, "height": 1700})
            tab.goto((DOCS / "reproduction" / "index.html").as_uri())
            tab.screenshot(path=DOCS / "reproduction.png")
    if given.check and different:
        print(f"{', '.join(different)} differ from the results; run python tools/pages.py.", file=sys.stderr)
    return int(given.check and bool(different))


if __name__ == "__main__":
    sys.exit(main())
