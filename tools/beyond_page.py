"""Tables and pictures of docs/beyond.md, from the packed results of ``naq reproduce beyond``.

python tools/beyond_page.py               from benchmarks/results/beyond.zip
python tools/beyond_page.py runs/beyond   pack that folder of naq reproduce first
python tools/beyond_page.py --check       fail if docs/beyond.md differs from the packed results

A pair of markers in the page, ``<!-- NAME:begin -->`` and ``<!-- NAME:end -->``, holds the table NAME, or the tables NAME-DATASET of all datasets as
one. A picture ``beyond/NAME.png`` shows the plots NAME-DATASET, or those whose name goes on with a setting. What a page names and the results lack is an
error, and so is a result that is missing.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from naq_paper.cells.cell import Cell
from naq_paper.cells.records import Find, Record
from naq_paper.cells.store import Store
from naq_paper.experiments.captions import dataset_slug
from naq_paper.experiments.experiment import EXPERIMENTS, Study, expand
from naq_paper.experiments.folder import Requests, pack_folder, unpack_folder
from naq_paper.experiments.views import BarView, TableView, View
from naq_paper.report.export import to_markdown

ROOT = Path(__file__).resolve().parents[1]
PACK = ROOT / "benchmarks" / "results" / "beyond.zip"
PAGE = ROOT / "docs" / "beyond.md"
GROUP = "beyond"
COLOURS = ("#2563a8", "#d97706", "#15803d", "#9333ea", "#6b7280", "#be123c")


@dataclass(frozen=True)
class Shown:
    """The views of the packed results: (dataset, view)."""

    views: Sequence[tuple[str, View]]

    def table(self, name: str) -> TableView:
        """The table of this name, or those of all datasets as one."""
        tables = [(dataset, view) for dataset, view in self.views if isinstance(view, TableView)]
        exact = [view for _, view in tables if view.name == name]
        parts = [(dataset, view) for dataset, view in tables if view.name == f"{name}-{dataset_slug(dataset)}"]
        if exact or parts:
            return exact[0] if exact else merged(name, parts)
        raise SystemExit(f"the results have no table {name}; they have {', '.join(view.name for _, view in tables)}.")

    def plots(self, name: str) -> list[BarView]:
        """The plots NAME-DATASET and NAME-SETTING-DATASET, of all datasets."""
        pattern = re.compile(rf"{re.escape(name)}(-\d+-way-\d+-shot)?")
        found = [
            view
            for dataset, view in self.views
            if isinstance(view, BarView) and pattern.fullmatch(view.name.removesuffix(f"-{dataset_slug(dataset)}"))
        ]
        if not found:
            names = (view.name for _, view in self.views if isinstance(view, BarView))
            raise SystemExit(f"the results have no plot {name}; they have {', '.join(names)}.")
        return found


def merged(name: str, parts: Sequence[tuple[str, TableView]]) -> TableView:
    """Tables with the same columns as one, with the dataset in a column of its own; of their notes what all of them say."""
    first = parts[0][1]
    for dataset, table in parts:
        if (table.columns, table.groups) != (first.columns, first.groups):
            raise SystemExit(f"{name} of {dataset} has other columns than that of {parts[0][0]}.")
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


def read(pack: Path) -> Shown:
    """Everything that the packed requests show; an error unless every one of their cells is there, once."""
    if not pack.is_file():
        raise SystemExit(f"{pack} does not exist; run naq reproduce {GROUP} and give its folder.")
    with tempfile.TemporaryDirectory() as place:
        unpack_folder(pack, place)
        requests = [r for r in Requests.load(place).requests if EXPERIMENTS[r.experiment].group == GROUP]
        find = found_in(Store(place))
    studies = [study for request in requests for study in expand(request, find)]
    for study in studies:
        check_complete(study, pack)
    return Shown([(study.dataset, view) for study in studies for view in study.views()])


def found_in(store: Store) -> Find:
    """Looks cells up whatever the code they were computed with; two results of one cell are an error."""
    records: dict[Cell, Record] = {}
    for record in store.records():
        if record.cell in records:
            raise SystemExit(
                f"there are two results of {record.cell.title}, by two versions of the code; pack one of them."
            )
        records[record.cell] = record
    return records.get


def check_complete(study: Study, pack: Path) -> None:
    missing = [cell for cell in study.cells() if study.find(cell) is None]
    if missing:
        raise SystemExit(
            f"{pack.name} lacks {len(missing)} of {len(study.cells())} results of {study.experiment.name} on {study.dataset}, "
            f"e.g. {missing[0].title}; run naq reproduce {study.experiment.name} to the end."
        )


def filled(text: str, shown: Shown) -> str:
    """The page with every table between its markers."""
    names = re.findall(r"<!-- (\S+):begin -->", text)
    if not names:
        raise SystemExit("the page has no markers of tables.")
    for name in names:
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise SystemExit(f"the page needs {begin} and {end} once each.")
        head, rest = text.split(begin)
        table = to_markdown(shown.table(name)).partition("\n\n")[2].strip()
        text = f"{head}{begin}\n{table}\n{end}{rest.split(end)[1]}"
    return text


def pictures(text: str) -> list[str]:
    """The names of the pictures that the page shows."""
    return re.findall(r"\]\(beyond/([a-z0-9-]+)\.png\)", text)


def draw(plots: Sequence[BarView], path: Path) -> None:
    """Dots with whiskers along a row per name, a panel per plot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = 2 if len(plots) > 1 else 1
    lines = -(-len(plots) // columns)
    most = max(len(names_of(plot)) for plot in plots)
    figure = Figure(figsize=(6.6 * columns, lines * (1.5 + 0.36 * most)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for panel in panels[len(plots) :]:
        panel.set_axis_off()
    kinds = list(dict.fromkeys(series.name for plot in plots for series in plot.series))
    for panel, plot in zip(panels, plots):
        names = names_of(plot)
        for value in plot.floors.values():
            panel.axvline(value, color="#6b7280", linewidth=0.9, linestyle="--")
        sharing = {
            name: [s.name for s in plot.series if any(x == name and y is not None for x, y in zip(s.x, s.y))]
            for name in names
        }
        for series in plot.series:
            there = [
                (names.index(str(x)) + _beside(sharing[str(x)], series.name), y, y - low, high - y)
                for x, y, low, high in zip(series.x, series.y, series.low, series.high, strict=True)
                if y is not None and low is not None and high is not None
            ]
            panel.errorbar(
                [y for _, y, _, _ in there],
                [place for place, _, _, _ in there],
                xerr=[[left for _, _, left, _ in there], [right for _, _, _, right in there]],
                fmt="o",
                markersize=4,
                capsize=2.5,
                linewidth=1.2,
                color=COLOURS[kinds.index(series.name) % len(COLOURS)],
                label=series.name,
            )
        panel.set_yticks(range(len(names)), names, fontsize=8)
        panel.set_ylim(len(names) - 0.5, -0.5)
        panel.grid(axis="x", color="#e5e7eb", linewidth=0.8)
        panel.set_axisbelow(True)
        panel.set_title(plot.title.rpartition(": ")[2], fontsize=9)
        panel.set_xlabel(plot.y_label, fontsize=8)
        panel.tick_params(axis="x", labelsize=8)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    if len(plots[0].series) > 1:
        entries = {
            label: mark for panel in panels for mark, label in zip(*panel.get_legend_handles_labels(), strict=True)
        }
        figure.legend(
            list(entries.values()), list(entries), loc="outside lower center", ncols=4, fontsize=8, frameon=False
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", metadata={"Software": None})


def _beside(series: Sequence[str], name: str) -> float:
    """How far below its row's middle a series is drawn, where several share the row."""
    return 0.6 * ((series.index(name) + 0.5) / len(series) - 0.5)


def names_of(plot: BarView) -> list[str]:
    return list(dict.fromkeys(str(x) for series in plot.series for x in series.x))


def main(arguments: Sequence[str] | None = None, *, page: Path = PAGE, pack: Path = PACK) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(arguments)
    if given.folder is not None:
        print(f"{pack_folder(given.folder, pack)} results packed")
    old, shown = page.read_text(encoding="utf-8"), read(pack)
    text = filled(old, shown)
    files = {name: page.with_name("beyond") / f"{name}.png" for name in pictures(text)}
    drawn = {path: shown.plots(name) for name, path in files.items()}
    if given.check:
        lacking = [path.name for path in drawn if not path.is_file()]
        if text != old or lacking:
            what = f"lacks {', '.join(lacking)}" if lacking else "does not show the packed results"
            print(f"{page.name} {what}; run python tools/beyond_page.py.", file=sys.stderr)
        return int(text != old or bool(lacking))
    for path, plots in drawn.items():
        draw(plots, path)
    page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
