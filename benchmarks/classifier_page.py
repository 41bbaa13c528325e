"""Fills the tables of docs/classifier.md from benchmarks/results/calibration.json and suggest.json, and writes what ships with the classifier.

    python benchmarks/classifier_page.py

Tables show each graph with the temperature, the interval and the width of sets that the *other* graphs gave; ``src/naq/classifier/measured.json`` has
what all of them give.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from marked_page import write_between
from naq_paper.statistics import difference, score

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "classifier.md"
SHIPPED = HERE.parent / "src" / "naq" / "classifier" / "measured.json"
LEVEL = 0.9
FEWEST = 0.01
"""Share of a graph's nodes from which on a bin of its reliability counts."""

TAIL, BARE_TAIL, BARE_WIDER = 0.15, 0.02, 1.4
"""Left out at either end of the errors of all graphs, with and without features and edges, so that the intervals of the others hold nine of ten: of graphs that have
both, and of graphs that lack one, whose errors differ so much that what others give must be widened."""

Rows = list[dict[str, Any]]


def table(titles: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [titles, ["---"] * len(titles), *rows])


def whole(rows: Rows) -> Rows:
    """Cases of graphs as they are, with features and edges."""
    return [row for row in rows if row["graph"] == row["of"] and row["graph"] != "cora_full_structure"]


def interval(rows: Rows, bare: bool) -> list[float]:
    """Where true accuracies lie, less the expected one, but for a part at either end."""
    tail, wider = (BARE_TAIL, BARE_WIDER) if bare else (TAIL, 1.0)
    return [wider * float(one) for one in np.quantile([-row["off"] for row in rows], [tail, 1 - tail])]


def held(rows: Rows, bare: bool) -> float:
    """How often the interval that the other graphs give holds the truth, on graphs as they are or without features or edges."""
    inside = []
    for name in {row["of"] for row in rows}:
        low, high = interval([row for row in rows if row["of"] != name], bare)
        mine = [row for row in rows if row["of"] == name]
        counted = [row for row in mine if row not in whole(mine)] if bare else whole(mine)
        inside += [low <= -row["off"] <= high for row in counted]
    return float(np.mean(inside))


def set_factor(rows: Rows) -> int:
    """The place of the factor whose sets hold the class at the level, on average over graphs."""
    graphs = sorted({row["graph"] for row in rows})
    each = [np.mean([row["coverage"] for row in rows if row["graph"] == name], axis=0) for name in graphs]
    return int(np.abs(np.mean(each, axis=0) - LEVEL).argmin())


def reliability(rows: Rows) -> list[list[float] | None]:
    """Per bin of the probability: mean probability and accuracy, every graph counting the same, and the lowest and highest accuracy of a graph."""
    graphs = sorted({row["graph"] for row in rows})
    counts, sure, hits = np.moveaxis(
        np.array([np.sum([row["bins"] for row in rows if row["graph"] == name], axis=0) for name in graphs]), 1, 0
    )
    share = counts / counts.sum(axis=1, keepdims=True)
    lines: list[list[float] | None] = []
    for b in range(counts.shape[1]):
        some = share[:, b] >= FEWEST
        if not some.any():
            lines.append(None)
            continue
        accuracy, mean = hits[some, b] / counts[some, b], sure[some, b] / counts[some, b]
        found = [np.average(mean, weights=share[some, b]), np.average(accuracy, weights=share[some, b])]
        lines.append([round(float(one), 4) for one in (*found, accuracy.min(), accuracy.max())])
    return lines


def shipped(results: dict[str, Any]) -> dict[str, Any]:
    """What the classifier reads: one entry for each number of labels per class."""
    rows, factors = results["calibration"], results["factors"]
    shots = sorted({row["shot"] for row in rows})
    at = {shot: [row for row in rows if row["shot"] == shot] for shot in shots}
    best = {shot: [t for row in results["best"] if row["shot"] == shot for t in row["temperatures"]] for shot in shots}
    return {
        "shots": shots,
        "temperature": [round(float(np.median(best[shot])), 4) for shot in shots],
        "interval": [[round(one, 4) for one in interval(at[shot], False)] for shot in shots],
        "bare_interval": [[round(one, 4) for one in interval(at[shot], True)] for shot in shots],
        "sets": [factors[set_factor(whole(at[shot]))] for shot in shots],
        "reliability": [reliability(whole(at[shot])) for shot in shots],
    }


def calibration_tables(results: dict[str, Any]) -> str:
    """One row per graph and number of labels, then one per number of labels; whatever ships is here that of the other graphs."""
    rows = results["calibration"]
    by_graph, by_shot = [], []
    for shot in sorted({row["shot"] for row in rows}):
        errors, measures = [], []
        for name in dict.fromkeys(row["graph"] for row in whole(rows)):
            some = [row for row in whole(rows) if row["graph"] == name and row["shot"] == shot]
            others = [row for row in rows if row["of"] != name and row["shot"] == shot]
            place = set_factor(whole(others))
            coverage, size = (float(np.mean([row[key][place] for row in some])) for key in ("coverage", "size"))
            mean = {key: float(np.mean([row[key] for row in some])) for key in ("accuracy", "macro", "ece", "off")}
            off = [row["off"] for row in some]
            errors += off
            measures.append((mean["ece"], coverage))
            by_graph.append(
                [name, str(shot), f"{100 * mean['accuracy']:.1f} / {100 * mean['macro']:.1f}", f"{mean['ece']:.3f}",
                 f"{100 * mean['off']:+.1f} ± {100 * np.std(off):.1f}", f"{100 * coverage:.0f} %", f"{size:.1f}"]
            )  # fmt: skip
        ece, coverage = np.mean(measures, axis=0)
        # how many were within 5 points if every graph's own bias were known
        best = np.concatenate([
            np.array(own) - np.median(own)
            for own in ([row["off"] for row in whole(rows) if row["graph"] == name and row["shot"] == shot]
                        for name in dict.fromkeys(row["graph"] for row in whole(rows)))
        ])  # fmt: skip
        at = [row for row in rows if row["shot"] == shot]
        ends = [f"{100 * low:+.0f} to {100 * high:+.0f}" for low, high in (interval(at, False), interval(at, True))]
        by_shot.append(
            [str(shot), f"{ece:.3f}", f"{100 * (np.abs(errors) <= 0.05).mean():.0f} %", f"{100 * (np.abs(best) <= 0.05).mean():.0f} %",
             f"{ends[0]}: {100 * held(at, False):.0f} %", f"{ends[1]}: {100 * held(at, True):.0f} %", f"{100 * coverage:.0f} %"]
        )  # fmt: skip
    order = list(dict.fromkeys(row["graph"] for row in whole(rows)))
    by_graph.sort(key=lambda cells: (order.index(cells[0]), int(cells[1])))
    first = table(
        ["graph", "labels per class", "accuracy / macro", "calibration error", "expected minus true accuracy (± between draws)", "90 % sets that hold the class", "classes in a set"],
        by_graph,
    )  # fmt: skip
    second = table(
        ["labels per class", "mean calibration error", "expected accuracy within 5 points", "were each graph's bias known", "interval (points), and how often it held", "without features or edges", "90 % sets that hold the class"],
        by_shot,
    )  # fmt: skip
    return f"{first}\n\n{second}"


def unknown_table(rows: list[dict[str, Any]]) -> str:
    shown = [
        [
            row["graph"],
            str(row["shot"]),
            f"{100 * row['found']:.0f} %",
            f"{100 * row['wrong']:.0f} %",
            f"{row['auroc']:.2f}",
        ]
        for row in rows
    ]
    titles = ["graph", "labels per class", "nodes of other classes found", "nodes of named classes lost", "AUROC"]
    return table(titles, shown)


def later_table(rows: dict[str, dict[str, float]]) -> str:
    shown = [
        [
            name,
            f"{100 * row['agreement']:.1f} %",
            f"{100 * row['accuracy']:.1f}",
            f"{100 * row['accuracy_full_fit']:.1f}",
        ]
        for name, row in rows.items()
    ]
    return table(["graph", "same class as after a full fit", "accuracy", "accuracy after a full fit"], shown)


def unlabelled_table(rows: dict[str, list[dict[str, float]]]) -> str:
    weights = sorted({row["weight"] for some in rows.values() for row in some})
    shown = []
    for name, some in rows.items():
        for shot in sorted({row["shot"] for row in some}):
            by_weight = {row["weight"]: row for row in some if row["shot"] == shot}
            cells = [f"{100 * by_weight[w]['accuracy']:.1f} / {100 * by_weight[w]['macro']:.1f}" for w in weights]
            shown.append([name, f"{shot:g}", *cells])
    return table(["graph", "labels per class", *(f"{weight:g}" for weight in weights)], shown)


def suggest_table(rows: list[dict[str, Any]]) -> str:
    scores = {(row["strategy"], row["budget"]): score([row["accuracy"]], "seeds", trained=False) for row in rows}
    budgets = sorted({budget for _, budget in scores})
    shown = []
    for name in dict.fromkeys(strategy for strategy, _ in scores):
        cells = []
        for budget in budgets:
            mine, ships = scores[name, budget], scores["suggest", budget]
            apart = "" if name == "suggest" or difference(mine, ships).p < 0.05 else " (no significant difference)"
            cells.append(f"{100 * mine.mean:.1f}{apart}")
        shown.append([name, *cells])
    return table(["", *(f"{budget} labels" for budget in budgets)], shown)


def disagreement_table(rows: Rows) -> str:
    """Accuracy by the rule that chooses doubtful nodes, and whether it differs from the margin alone."""
    scores = {
        (row["graph"], row["labels"], row["rule"]): score([row["accuracy"]], "seeds", trained=False) for row in rows
    }
    rules = list(dict.fromkeys(rule for _, _, rule in scores))
    shown = []
    for name, labels in dict.fromkeys((name, labels) for name, labels, _ in scores):
        ships = scores[name, labels, "margin"]
        cells = []
        for rule in rules:
            found = scores[name, labels, rule]
            apart = rule != "margin" and difference(found, ships).p < 0.05
            cells.append(f"{100 * found.mean:.1f}" + (" (significant)" if apart else ""))
        shown.append([name, str(labels), *cells])
    return table(["graph", "labels per class", *rules], shown)


def main() -> None:
    measured = json.loads((HERE / "results" / "calibration.json").read_text())
    sections = {
        "calibration": calibration_tables(measured),
        "unlabelled": unlabelled_table(measured["unlabelled"]),
        "unknown": unknown_table(measured["unknown"]),
        "later": later_table(measured["later"]),
        "disagreement": disagreement_table(json.loads((HERE / "results" / "suggest_disagreement.json").read_text())),
        "suggest": suggest_table(json.loads((HERE / "results" / "suggest.json").read_text())),
    }
    for name, text in sections.items():
        write_between(PAGE, f"<!-- {name}:begin -->", f"<!-- {name}:end -->", text)
    SHIPPED.write_text(json.dumps(shipped(measured)) + "\n")


if __name__ == "__main__":
    main()
