"""The README's first table and its picture: the closed form beside ``smooth`` and the best trained method, on every graph of ``naq reproduce beyond``."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from beyond_page import COLOURS, check_complete, found_in
from naq_paper.cells.store import Store
from naq_paper.experiments.captions import dataset_slug
from naq_paper.experiments.experiment import Study, expand
from naq_paper.experiments.folder import Requests, unpack_folder
from naq_paper.experiments.names import full_name
from naq_paper.experiments.views import Entry, Label, Number, TableView
from naq_paper.report.export import MARKDOWN
from naq_paper.report.format import entry_text

EXPERIMENT = "beyond-accuracy"
SHOWN = ("smooth", "naq-plus", "naq-plus/sugrl")
BEST = "best trained"


@dataclass(frozen=True)
class Line:
    """One graph and setting: the numbers of the methods that are shown, and the best of the others with its name."""

    dataset: str
    setting: str
    numbers: tuple[Number, ...]
    best: str


def first_lines(pack: Path) -> list[Line]:
    """Read from packed results, which must be whole."""
    if not pack.is_file():
        raise SystemExit(
            f"{pack} does not exist; run python tools/beyond_page.py with a folder of naq reproduce beyond."
        )
    with tempfile.TemporaryDirectory() as place:
        unpack_folder(pack, place)
        requests = [r for r in Requests.load(place).requests if r.experiment == EXPERIMENT]
        find = found_in(Store(place))
    studies = [study for request in requests for study in expand(request, find)]
    for study in studies:
        check_complete(study, pack)
    return [line for study in studies for line in _lines(study)]


def _lines(study: Study) -> list[Line]:
    name = f"{EXPERIMENT}-{dataset_slug(study.dataset)}"
    table = next(view for view in study.views() if isinstance(view, TableView) and view.name == name)
    rows = {_method(row): row for row in table.rows}
    own = [full_name(method) for method in SHOWN]
    trained = [row for row in rows if row not in own and not row.startswith("smooth")]
    lines = []
    for place, title in enumerate(table.columns):
        if "-shot" not in title:
            continue
        found = {method: number for method, row in rows.items() if isinstance(number := row[place], Number)}
        best = max(trained, key=lambda method: found[method].value)
        lines.append(Line(study.dataset, title, tuple(found[method] for method in (*own, best)), best))
    return lines


def _method(row: Sequence[Entry]) -> str:
    """``ProtoNet (NaQ-Feat)``, without what is said of its training."""
    name = row[0].text if isinstance(row[0], Label) else str(row[0])
    return name if row[1] == "–" else f"{name} ({row[1]})"


def first_table(lines: Sequence[Line]) -> str:
    """As Markdown, without the spread over seeds."""
    heads = ["graph", "tasks", *(f"`{method}`" for method in SHOWN), BEST]
    texts = [f"| {' | '.join(heads)} |", f"|---|---|{'---:|' * (len(SHOWN) + 1)}"]
    for i, line in enumerate(lines):
        numbers = [entry_text(replace(number, spread=None), MARKDOWN) for number in line.numbers]
        graph = line.dataset if i == 0 or lines[i - 1].dataset != line.dataset else ""
        numbers[-1] += f" {line.best}"
        texts.append(f"| {graph} | {line.setting} | {' | '.join(numbers)} |")
    return "\n".join(texts)


def draw_first(lines: Sequence[Line], path: Path) -> None:
    """A panel per graph with an axis of its own, a row per setting, a dot with its interval per method."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    graphs = list(dict.fromkeys(line.dataset for line in lines))
    figure = Figure(figsize=(2.5 * len(graphs), 2.5), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(graphs), squeeze=False)[0]
    names = (*SHOWN, BEST)
    for panel, graph in zip(panels, graphs):
        own = [line for line in lines if line.dataset == graph]
        for which, name in enumerate(names):
            panel.errorbar(
                [line.numbers[which].value for line in own],
                [row + 0.18 * (which - (len(names) - 1) / 2) for row in range(len(own))],
                xerr=[line.numbers[which].ci or 0.0 for line in own],
                fmt="osD^"[which],
                markersize=4,
                capsize=2,
                linewidth=1.2,
                color=COLOURS[(4, 0, 2, 1)[which]],
                label=name,
            )
        panel.set_yticks(range(len(own)), [line.setting.replace(" ", "\n") for line in own], fontsize=8)
        panel.set_ylim(len(own) - 0.5, -0.5)
        panel.set_title(graph, fontsize=9)
        panel.set_xlabel("test accuracy, %", fontsize=8)
        panel.tick_params(axis="x", labelsize=8)
        panel.grid(axis="x", color="#e5e7eb", linewidth=0.8)
        panel.set_axisbelow(True)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(names), fontsize=8, frameon=False)
    figure.savefig(path, format="png", metadata={"Software": None})
