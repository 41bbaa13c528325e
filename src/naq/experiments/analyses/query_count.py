"""The number of queries Q that a support node gets: its Q most similar nodes.

Statements of the paper to test: on Clothing accuracy rises with Q; on Electronics NaQ-Feat rises with a dip at 100 and NaQ-Diff falls
after 5; on DBLP NaQ-Feat is flat and NaQ-Diff rises. A component smaller than Q + 1 has too few nodes: the released code
fills such rows with the nodes of the lowest ids, here they stay short, and the filled form is run beside it for diffusion.
"""

from __future__ import annotations

from collections.abc import Mapping

from naq.experiments.base import register_experiment
from naq.experiments.captions import Level
from naq.experiments.names import full_name
from naq.experiments.request import Request
from naq.experiments.seed_groups import UNTRAINED_LINE
from naq.experiments.sweep import Point, Sweep
from naq.statistics import Score, compare

LEVELS = (1, 3, 5, 7, 10, 13, 15, 17, 20, 30, 40, 100)
FILLED = (10, 40, 100)
"""Levels that are repeated with rows filled as in the released code."""


@register_experiment
class QueryCount(Sweep):
    name = "queries"
    title = "Number of queries"
    question = "How many of its most similar nodes should a support node get as queries?"
    origin = "Figure 6"
    datasets = ("amazon-clothing", "amazon-electronics", "dblp", "cora-full")
    x_label = "queries per support node"
    log_x = True
    note = "Lowest ids: rows with too few neighbours are completed by the nodes with the lowest ids, as the released code does."

    def points(self, request: Request, dataset: str) -> list[Point]:
        levels = request.levels(LEVELS, (1, 10))
        found = [
            Point(full_name(f"{kind}/{request.learner}"), q, f"{kind}/{request.learner}", {"episode": {"queries": q}})
            for kind in (("naq-feat",) if request.plan.thin else ("naq-feat", "naq-diff"))
            for q in levels
        ]
        method = f"naq-diff/{request.learner}"
        return found + [
            Point(f"{full_name(method)}, lowest ids", q, method, {"episode": {"queries": q, "fill": "lowest"}})
            for q in levels
            if q in FILLED
        ]

    def remarks(self, request: Request, dataset: str, found: Mapping[tuple[str, Level], Score]) -> list[str]:
        """The number of queries with the highest accuracy, and those that are as good for all that is known."""
        said = []
        for line in dict.fromkeys(line for line, _ in found if line != UNTRAINED_LINE):
            column = {str(level): s for (name, level), s in found.items() if name == line}
            if len(column) < 2:
                continue
            standings = compare(column)
            best = max(column, key=lambda level: column[level].mean)
            alike = [level for level, standing in standings.items() if level != best and standing.mark == "≈"]
            rest = f"not told apart from it: {', '.join(alike)}" if alike else "every other number is really below"
            said.append(f"{line}: accuracy is highest with {best} queries, {100 * column[best].mean:.1f} %; {rest}.")
        return said
