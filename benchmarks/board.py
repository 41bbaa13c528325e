"""A board of time and accuracy: ours and the rivals of ``naq reproduce practice`` on five graphs, for docs/scale.md.

    python benchmarks/board.py

Nothing is computed: seconds, memory and accuracy are those of ``results/practice.zip``, all of one kind of machine (one
core; networks that were run on a GPU are left out). Seconds are of the processor, from the graph in memory to
probabilities for every node, preparation in full. A method is on the front of a graph where no other is both faster
and more accurate.
"""

from __future__ import annotations

import argparse
import json
import lzma
import zipfile
from collections import defaultdict
from collections.abc import Sequence
from statistics import mean, median
from typing import Any, NamedTuple

from measuring import DOCS, RESULTS, markdown, write_between
from naq_paper.peers import PEERS

GRAPHS = ("cora", "amazon-computers", "blogcatalog", "coauthor-cs", "debian")
SHOTS = (10, 50)
"""Labels of every class."""


class Cost(NamedTuple):
    """Of one method on one graph: processor seconds, gigabytes, and accuracy for each number of labels."""

    seconds: float
    gigabytes: float
    accuracy: tuple[float, ...]


def read_records() -> list[dict[str, Any]]:
    with zipfile.ZipFile(RESULTS / "practice.zip") as archive:
        found: list[dict[str, Any]] = json.loads(lzma.decompress(archive.read("records.json.xz")))["records"]
    return found


def costs_of(records: Sequence[dict[str, Any]]) -> tuple[dict[str, dict[str, Cost]], dict[str, int]]:
    """By graph and method, over all draws of labels; and how many nodes each graph has."""
    groups, sizes = defaultdict[tuple[str, str], list[Any]](list), dict[str, int]()
    for one in records:
        config = one["config"]
        if one["error"] is None and one["machine"]["device"] == "cpu" and config["dataset"] in GRAPHS:
            groups[config["dataset"], config["peer"]].append(one["result"])
            sizes[config["dataset"]] = one["result"]["nodes"]
    found: dict[str, dict[str, Cost]] = defaultdict(dict)
    for (graph, method), results in groups.items():
        by_shot = [
            {row["shot"]: row["accuracy"] for row in one["by_shot"] if row["shares"] == "equal"} for one in results
        ]
        accuracy = tuple(100 * mean(row[shot] for row in by_shot if shot in row) for shot in SHOTS)
        seconds, peak = (median(one[name] for one in results) for name in ("seconds", "peak_bytes"))
        found[graph][method] = Cost(seconds, peak / 1e9, accuracy)
    return found, sizes


def is_on_front(own: Cost, others: Sequence[Cost], place: int) -> bool:
    return not any(one.seconds <= own.seconds and one.accuracy[place] > own.accuracy[place] for one in others)


def write_board() -> None:
    found, sizes = costs_of(read_records())
    methods = sorted({method for costs in found.values() for method in costs})
    on = {name: [costs[name] for costs in found.values() if name in costs] for name in methods}
    methods.sort(key=lambda name: (-len(on[name]), -mean(mean(one.accuracy) for one in on[name])))
    rows = []
    for name in methods:
        cells = [PEERS[name].title]
        for graph in GRAPHS:
            if (own := found[graph].get(name)) is None:
                cells.append("–")
                continue
            others = [cost for method, cost in found[graph].items() if method != name]
            shown = [f"**{value:.1f}**" if is_on_front(own, others, place) else f"{value:.1f}"
                     for place, value in enumerate(own.accuracy)]  # fmt: skip
            cells.append(f"{', '.join(shown)}; {own.seconds:,.2f} s, {own.gigabytes:.1f} GB")
        rows.append(cells)
    table = markdown(["method", *(f"{graph}, {sizes[graph]:,} nodes" for graph in GRAPHS)], rows)
    note = f"Accuracy, %, of {' and '.join(map(str, SHOTS))} labels of every class; processor seconds and memory. "
    write_between(
        DOCS / "scale.md", "board", f"{table}\n\n{note}Bold: no other method is both faster and more accurate."
    )


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    write_board()
