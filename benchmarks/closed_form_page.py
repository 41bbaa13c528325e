"""The tables and the picture of ``docs/robustness.md`` from ``benchmarks/results/closed_form.json``.

    python benchmarks/closed_form_page.py

A table stands between ``<!-- name:begin -->`` and ``<!-- name:end -->``; the text around it is written by hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from marked_page import write_between

HERE = Path(__file__).resolve().parent
RECORD = json.loads((HERE / "results" / "closed_form.json").read_text())
PAGE = HERE.parent / "docs" / "robustness.md"
LINES = {
    "smooth": "tab:gray",
    "edges trusted": "tab:blue",
    "edges doubted": "tab:orange",
    "features alone": "tab:green",
}


def graphs(section: str) -> dict[str, Any]:
    return {name: found[section] for name, found in RECORD.items() if section in found}


def cell(row: dict[str, Any], *, gap: bool) -> str:
    """``1-shot / 5-shot``: differences with their intervals, or accuracies."""
    shots = [row[shot] for shot in ("1-shot", "5-shot") if shot in row]
    if gap and "difference" in shots[0]:
        return " / ".join(f"{one['difference']:+.1f} ± {one['ci95']:.1f}" for one in shots)
    return " / ".join(f"{one['accuracy']:.1f}" for one in shots)


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rows])


def by_method(found: dict[str, Any]) -> str:
    """A row per method, a column per graph; ``found`` is a comparison per graph."""
    methods = list(dict.fromkeys(method for one in found.values() for method in one["methods"]))
    rows = [[method, *(cell(one["methods"][method], gap=True) for one in found.values())] for method in methods]
    return table(["", *found], rows)


def edges() -> str:
    rows = []
    for name, found in graphs("edges").items():
        for one in found["rewired"]:
            kept = [
                cell(one["methods"][m], gap=True)
                for m in ("features alone", "smooth", "edges trusted", "edges doubted")
            ]
            rows.append([name, f"{one['kind']} {one['share']:.0%}", f"{one['agreement']:.2f}", *kept])
    return table(["", "edges moved", "agreement", "features alone", "`smooth`", "edges trusted", "edges doubted"], rows)


def neighbors() -> str:
    found = graphs("neighbors")
    rows = []
    for method in next(iter(found.values()))["methods"]:
        line = [method]
        for one in found.values():
            facts = one["pairs"].get(method)
            line.append(f"{facts['same_class']:.0%}, {facts['class_similarity']:.2f}" if facts else "")
            line.append(cell(one["methods"][method], gap=True))
        rows.append(line)
    return table(["", *(part for name in found for part in (f"{name}: same class, similarity", "gain"))], rows)


def dense() -> str:
    parts = []
    for kind in next(iter(graphs("dense").values())):
        if kind != "seconds":
            parts.append(f"**{kind}**\n\n" + by_method({name: one[kind] for name, one in graphs("dense").items()}))
    return "\n\n".join(parts)


def noise() -> str:
    found, rows = graphs("noise"), []
    for kind in next(iter(found.values())):
        if kind != "seconds":
            for method in ("naq-plus", "smooth", "steps=20", "shrink=2", "dim=128"):
                rows.append([kind, method, *(cell(one[kind]["methods"][method], gap=True) for one in found.values())])
    return table(["", "", *found], rows)


def picture() -> None:
    found = graphs("edges")
    figure, axes = plt.subplots(1, len(found), figsize=(3.1 * len(found), 3.2), squeeze=False)
    for axis, (name, one) in zip(axes[0], found.items()):
        moved = [row for row in one["rewired"] if row["kind"] == "random"]
        for method, colour in LINES.items():
            values = [row["methods"][method]["1-shot"]["accuracy"] for row in moved]
            axis.plot([row["share"] for row in moved], values, "o-", color=colour, label=method, markersize=3)
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("share of edges moved")
    axes[0][0].set_ylabel("1-shot accuracy, %")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=len(LINES), loc="upper center", frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 0.9))
    figure.savefig(PAGE.with_name("robustness.png"), dpi=110)


def main() -> None:
    tables = {
        "edges": edges(),
        "structure": by_method(graphs("structure")),
        "dense": dense(),
        "noise": noise(),
        "neighbors": neighbors(),
    }
    for name, text in tables.items():
        write_between(PAGE, f"<!-- {name}:begin -->", f"<!-- {name}:end -->", text)
    picture()


if __name__ == "__main__":
    main()
