"""Fills the tables of docs/classifier.md from benchmarks/results/calibration.json and suggest.json.

python benchmarks/classifier_page.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from naq.statistics import difference, score

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "classifier.md"


def table(titles: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [titles, ["---"] * len(titles), *rows])


def calibration_tables(rows: list[dict[str, Any]]) -> str:
    """One row per graph and number of labels, then one per number of labels; the prior is that of the other graphs."""
    by_graph, by_shot = [], []
    shots = sorted({row["shot"] for row in rows})
    for name in dict.fromkeys(row["graph"] for row in rows):
        for shot in shots:
            some = [row for row in rows if row["graph"] == name and row["shot"] == shot]
            mean = {
                key: float(np.mean([row[key] for row in some])) for key in some[0] if isinstance(some[0][key], float)
            }
            by_graph.append(
                [name, str(shot), f"{100 * mean['accuracy']:.1f} / {100 * mean['macro']:.1f}", f"{mean['ece']:.3f}",
                 f"{100 * mean['off']:+.1f}", f"{100 * mean['coverage']:.0f} %", f"{mean['size']:.1f}"]
            )  # fmt: skip
    for shot in shots:
        some = [row for row in rows if row["shot"] == shot]
        off = np.abs([row["off"] for row in some])
        by_shot.append(
            [str(shot), f"{np.mean([row['ece'] for row in some]):.3f}", f"{100 * (off <= 0.05).mean():.0f} %",
             f"{100 * np.quantile(off, 0.9):.0f} points", f"{100 * np.mean([row['coverage'] for row in some]):.0f} %"]
        )  # fmt: skip
    first = table(
        ["graph", "labels per class", "accuracy / macro", "calibration error", "expected minus true accuracy", "90 % sets that hold the class", "classes in a set"],
        by_graph,
    )  # fmt: skip
    second = table(
        ["labels per class", "mean calibration error", "expected accuracy within 5 points", "nine of ten are within", "90 % sets that hold the class"],
        by_shot,
    )  # fmt: skip
    return f"{first}\n\n{second}"


def unknown_table(rows: list[dict[str, Any]]) -> str:
    shown = [
        [row["graph"], str(row["shot"]), f"{100 * row['found']:.0f} %", f"{100 * row['wrong']:.0f} %"] for row in rows
    ]
    return table(["graph", "labels per class", "nodes of other classes found", "nodes of named classes lost"], shown)


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


def filled(page: str, sections: dict[str, str]) -> str:
    for name, text in sections.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        page, found = pattern.subn(lambda match, text=text: f"{match[1]}{text}\n{match[2]}", page)
        if found != 1:
            raise SystemExit(f"{PAGE} has {found} sections {name}; expected one.")
    return page


def main() -> None:
    measured = json.loads((HERE / "results" / "calibration.json").read_text())
    sections = {
        "calibration": calibration_tables(measured["calibration"]),
        "unlabelled": unlabelled_table(measured["unlabelled"]),
        "unknown": unknown_table(measured["unknown"]),
        "later": later_table(measured["later"]),
        "suggest": suggest_table(json.loads((HERE / "results" / "suggest.json").read_text())),
    }
    PAGE.write_text(filled(PAGE.read_text(), sections))


if __name__ == "__main__":
    main()
