"""The page of ``learner_table.py``: what the cells say, in tables and plain sentences."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from learner_table import (  # fmt: skip
    CANDIDATES,
    CELLS,
    DATASETS,
    EPOCHS,
    KINDS,
    PAGE,
    RIVALS,
    SCHEDULE,
    SEEDS,
    SUMMARY,
    UNTRAINED,
    Cell,
    chosen,
    final_cells,
    kinds_of,
)
from naq.protocol.methods import get_method

HEADS = ("logistic", "prototype", "transductive", "own")


@dataclass(frozen=True)
class Score:
    """Accuracy of one method, head, graph and shot, over seeds and tasks, in percent."""

    mean: float
    interval: float
    spread: float
    seeds: int
    gain: float
    gain_interval: float

    @property
    def mark(self) -> str:
        """Above, below or not told apart from the training-free line by the paired interval over tasks."""
        if self.gain > self.gain_interval:
            return "▲"
        return "▼" if self.gain < -self.gain_interval else "≈"

    def __str__(self) -> str:
        spread = f" ({self.spread:.1f})" if self.seeds > 1 else ""
        return f"{self.mean:.1f} ± {self.interval:.1f}{spread}"


@dataclass(frozen=True)
class Row:
    method: str
    setting: str
    valid: float | None
    scores: dict[str, Score]
    seconds: float


def evaluations(result: dict[str, Any], shot: int, which: str = "evaluations") -> dict[str, Any]:
    """The heads' results of a cell on tasks of this shot."""
    if result["config"]["shot"] == shot:
        return result[which]
    return result["also" if which == "evaluations" else "also_reference"][str(shot)]


def interval(values: np.ndarray) -> float:
    return float(100 * 1.96 * values.std() / np.sqrt(len(values)))


def score(per_seed: list[np.ndarray], reference: np.ndarray | None) -> Score:
    """Seeds answer the same tasks: the interval is over tasks of the mean over seeds."""
    tasks = np.mean(per_seed, axis=0)
    gain = tasks - reference if reference is not None else np.zeros_like(tasks)
    spread = float(100 * np.std([seed.mean() for seed in per_seed], ddof=1)) if len(per_seed) > 1 else 0.0
    return Score(
        float(100 * tasks.mean()), interval(tasks), spread, len(per_seed), float(100 * gain.mean()), interval(gain)
    )


def reference_of(results: Iterable[dict[str, Any]], shot: int) -> dict[str, np.ndarray]:
    """Per-task accuracy of ``smooth`` by head, as every cell carries it."""
    first = next(iter(results))
    return {head: np.array(e["per_task"]) for head, e in evaluations(first, shot, "reference").items()}


def text_of(options: dict[str, Any]) -> str:
    return (
        ", ".join(
            f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in options.items()
        )
        or "defaults"
    )


def equal_head(head: str, found: dict[str, Any]) -> str:
    """The head of ``smooth`` that a method's answers are compared with: its own ones with a head that sees as much of a task."""
    if head != "own":
        return head
    return "transductive" if found["own"]["transductive"] else "logistic"


def row(method: str, cells: list[Cell], shot: int, reference: dict[str, np.ndarray]) -> Row | None:
    """None while a cell is missing."""
    results = [cell.result() for cell in cells]
    if not results or any(result is None for result in results):
        return None
    found = [evaluations(result, shot) for result in results if result is not None]
    scores = {
        head: score([np.array(e[head]["per_task"]) for e in found], reference[equal_head(head, found[0])])
        for head in HEADS
        if head in found[0]
    }
    valid = results[0]["facts"].get("valid_accuracy")  # type: ignore[index]
    seconds = float(np.mean([result["wall_seconds"] for result in results if result is not None]))
    return Row(method, text_of(cells[0].options), valid, scores, seconds)


def table(dataset: str, shot: int) -> list[Row]:
    """``smooth``, the untrained encoder, every learner under every kind of episodes, then the methods without episodes."""
    some = [
        r
        for cell in CELLS.glob(f"{dataset}~*~seed*.json")
        if (r := json.loads(cell.read_text()))["config"]["shot"] in (shot, 1)
    ]
    some = [r for r in some if r["config"]["shot"] == shot or str(shot) in r["also"]]
    if not some:
        return []
    reference = reference_of(some, shot)
    rows = [
        Row(
            "smooth (training-free)",
            "defaults",
            None,
            {h: score([reference[h]], None) for h in HEADS[:3]},
            some[0]["seconds"]["reference"],
        )
    ]
    for options in UNTRAINED:
        cells = [Cell(dataset, "untrained", options, 1, seed) for seed in SEEDS]
        rows += [found] if (found := row("untrained", cells, shot, reference)) else []
    for name in (*CANDIDATES, *RIVALS):
        for method in kinds_of(name):
            found = row(method, final_cells(dataset, method, shot), shot, reference)
            rows += [found] if found else []
    return rows


def markdown(rows: list[Row]) -> list[str]:
    best = {head: max((r.scores[head].mean for r in rows if head in r.scores), default=0.0) for head in HEADS}
    lines = [f"| method | setting | validation | {' | '.join(HEADS)} |", "|---|---|---:|" + "---:|" * len(HEADS)]
    for r in rows:
        cells = []
        for head in HEADS:
            if head not in r.scores:
                cells.append("")
                continue
            text = str(r.scores[head])
            text = f"**{text}**" if r.scores[head].mean == best[head] and head != "own" else text
            cells.append(text if r.method.startswith("smooth") else f"{text} {r.scores[head].mark}")
        valid = "" if r.valid is None else f"{100 * r.valid:.1f}"
        lines.append(f"| {r.method} | {r.setting} | {valid} | {' | '.join(cells)} |")
    return lines


def verdict(dataset: str, shot: int, rows: list[Row]) -> list[str]:
    """Which learners beat the training-free line, head by head, and which do not."""
    learners = [r for r in rows if r.valid is not None]
    lines = [f"**{dataset}, 5-way {shot}-shot** ({len(learners)} trained methods):"]
    for head in HEADS:
        mine = [r for r in learners if head in r.scores]
        if not mine:
            continue
        above, below, equal = ([r.method for r in mine if r.scores[head].mark == mark] for mark in "▲▼≈")
        against = "`smooth` with the head that sees as much" if head == "own" else f"`smooth` with {head}"
        parts = [f"{len(above)} above {against}" + (f" ({', '.join(above)})" if above else "")]
        parts += [f"{len(equal)} not told apart" + (f" ({', '.join(equal)})" if equal else "")]
        parts += [f"{len(below)} below" + (f" ({', '.join(below)})" if below else "")]
        lines.append(f"- {head}: {'; '.join(parts)}.")
    lines += [untrained_line(rows, learners)]
    protonet = max((r for r in learners if r.method.endswith("/protonet")), key=lambda r: r.scores["logistic"].mean)
    bgrl = next((r for r in learners if r.method == "bgrl"), None)
    if bgrl is not None:
        gap = bgrl.scores["logistic"].mean - protonet.scores["logistic"].mean
        lines.append(f"- bgrl against {protonet.method}, the best ProtoNet: {gap:+.1f} points with logistic.")
    return [*lines, ""]


def width_of(row: Row) -> int:
    """Width of a method's vectors."""
    options = get_method(row.method).defaults
    return int(options.get("latent", options.get("hidden", 0)))


def untrained_line(rows: list[Row], learners: list[Row]) -> str:
    """Which methods stay below the untrained GCN of their own width, head by head (own answers against a head that sees as much)."""
    floors = {int(r.setting.split()[1]): r.scores for r in rows if r.method == "untrained"}
    under = []
    for r in learners:
        floor = floors.get(width_of(r)) or floors[max(floors)]
        own = "logistic" if r.method == "vnt" else "transductive"
        heads = [h for h, s in r.scores.items() if s.mean <= floor[own if h == "own" else h].mean]
        under += [f"{r.method} ({', '.join(heads)})"] if heads else []
    return (
        "- not above the untrained GCN of the same width (for widths beyond the table: of the widest) under the same head: "
        f"{', '.join(under) or 'none'}."
    )


def cost() -> str:
    results = [json.loads(file.read_text()) for file in CELLS.glob("*.json")]
    parts = []
    for machine in sorted({r["machine"] for r in results}):
        mine = [r for r in results if r["machine"] == machine]
        hours = sum(r["wall_seconds"] for r in mine) / 3600
        parts.append(f"{len(mine)} cells and {hours:.1f} process-hours on `{machine}`")
    return " and ".join(parts)


def settings() -> list[str]:
    lines = ["| method | candidates |", "|---|---|"]
    for name, options in {**CANDIDATES, **RIVALS}.items():
        epochs = EPOCHS.get(name) or get_method(name).defaults.get("epochs")
        most = f" (at most {epochs} epochs)" if name in RIVALS else ""
        lines.append(f"| {name} | {'; '.join(text_of(o) for o in options)}{most} |")
    return lines


COLOURS = {"naq-feat": "#0072B2", "naq-diff": "#E69F00", "supervised": "#777777", "no episodes": "#CC79A7"}
MARKERS = {"naq-feat": "o", "naq-diff": "s", "supervised": "^", "no episodes": "D"}


def draw(tables: dict[tuple[str, int], list[Row]]) -> None:
    """Accuracy of every learner with its interval, and the training-free line, under the head that chose the checkpoint."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = [*CANDIDATES, *RIVALS]
    figure, axes = plt.subplots(2, 2, figsize=(10, 10), sharey=True)
    for axis, ((dataset, shot), rows) in zip(axes.T.ravel(), tables.items()):
        for place, name in enumerate(names):
            for offset, method in enumerate(kinds_of(name)):
                found = next((r for r in rows if r.method == method), None)
                if found is None:
                    continue
                kind = KINDS[offset] if "/" in method else "no episodes"
                point = found.scores.get("logistic") or found.scores["own"]
                axis.errorbar(point.mean, place + (0.22 * (offset - 1) if "/" in method else 0), xerr=point.interval, fmt=MARKERS[kind], color=COLOURS[kind], capsize=2, markersize=5)  # fmt: skip
        for r in rows:
            if r.method.startswith("smooth"):
                axis.plot([r.scores["logistic"].mean] * 2, [-0.5, len(names) - 0.5], color="#009E73", linewidth=1.5)
            elif r.method == "untrained" and "256" in r.setting:
                axis.plot(
                    [r.scores["logistic"].mean] * 2,
                    [-0.5, len(names) - 0.5],
                    color="#999999",
                    linewidth=1.2,
                    linestyle=":",
                )
        axis.set_title(f"{dataset}, 5-way {shot}-shot", fontsize=10)
        axis.set_yticks(range(len(names)), names)
        axis.margins(x=0.06)
        axis.grid(axis="x", color="#dddddd", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].invert_yaxis()
    for axis in axes[-1]:
        axis.set_xlabel("accuracy %, mean of three seeds ± 1.96 standard errors over tasks", fontsize=8)
    handles = [plt.Line2D([], [], color=COLOURS[k], marker=MARKERS[k], linestyle="", label=k) for k in COLOURS]
    handles.append(plt.Line2D([], [], color="#009E73", label="smooth, no training"))
    handles.append(plt.Line2D([], [], color="#999999", linestyle=":", label="untrained GCN, 256"))
    figure.legend(handles=handles, loc="lower center", ncols=6, frameon=False, fontsize=9)
    figure.suptitle("Logistic head (GLITTER: its own answers)", fontsize=11)
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    figure.savefig(PAGE.with_suffix(".png"), dpi=130)
    plt.close(figure)


def write_page() -> None:
    tables = {(dataset, shot): table(dataset, shot) for dataset in DATASETS for shot in (1, 5)}
    lines = [
        "# All methods compared", "",
        "Made by `python benchmarks/learner_table.py`, which resumes; nothing here is typed by hand.", "",
        "![Accuracy of every method beside the training-free line](learners.png)", "",
        f"Each row is the mean of {len(SEEDS)} seeds over the same 500 test tasks (8 queries per class): accuracy in percent ± 1.96 standard errors over tasks of "
        "the mean over seeds, and in brackets the standard deviation between seeds. ▲ above, ▼ below and ≈ not told apart from `smooth` under the same head, by the 95 % interval "
        "of the paired differences over tasks; `own` are a method's own answers: of GLITTER and TEG, which look at a task's queries together, compared with `smooth` under the transductive head, and of VNT, which does not, under the logistic one. `transductive` looks at the queries of a task together. "
        "Bold is the best of a head. `validation` is the accuracy of seed 0 that the setting was chosen by, on validation tasks of other classes.", "",
        f"Schedule: {SCHEDULE['episodes']:,} episodes, validation every {SCHEDULE['evaluate_every']}, stopped after {SCHEDULE['patience']} without a new best; the checkpoint and the setting are "
        "chosen by the logistic head (GLITTER by its own answers) on 50 validation tasks with seed 0, among the candidates below; other options are defaults. Under NaQ one training, "
        "selected on 1-shot tasks, serves both shots; supervised episodes have the shot of the tasks. Methods without episodes train in epochs, with validations and patience of their own, "
        "are selected in the same way, and one training serves both shots. VNT answers by itself; its other columns are its frozen vectors under the heads. TEG's `own` is its adapted prototypes. "
        f"The paper trains on 16,000 episodes, {16_000 / SCHEDULE['episodes']:g} times as many: rows compare methods under one small budget, they are not the best each can do.", "",
        f"Cost: {cost()} (several cells at a time share a machine, so times of single cells are not benchmarks).", "", *settings(), "",
    ]  # fmt: skip
    lines += ["## What beats no training", ""]
    for (dataset, shot), rows in tables.items():
        lines += verdict(dataset, shot, rows) if rows else []
    for (dataset, shot), rows in tables.items():
        if rows:
            lines += [f"## {dataset}, 5-way {shot}-shot", "", *markdown(rows), ""]
    PAGE.write_text("\n".join(lines))
    draw(tables)
    summary = {
        f"{dataset}/{shot}shot": [
            {
                "method": r.method, "setting": r.setting, "valid": r.valid, "seconds": round(r.seconds, 1),
                "scores": {h: {**vars(s), "mark": s.mark} for h, s in r.scores.items()},
            }
            for r in rows
        ]
        for (dataset, shot), rows in tables.items()
    }  # fmt: skip
    picked = {
        f"{dataset}/{method}": cell.options
        for dataset in DATASETS for name in (*CANDIDATES, *RIVALS) for method in kinds_of(name) if (cell := chosen(dataset, method))
    }  # fmt: skip
    SUMMARY.write_text(json.dumps({"chosen": picked, "cost": cost(), "tables": summary}, indent=1) + "\n")
