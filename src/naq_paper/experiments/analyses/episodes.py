"""What NaQ episodes are made of: how many queries a support gets, and options that the paper does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from naq_paper.experiments.captions import ONE_SEED, SMOOTH
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.names import full_name
from naq_paper.experiments.request import Request
from naq_paper.experiments.sweep import Conditions, Found, Sweep, SweepPoint, Tests, learners_of, trained
from naq_paper.statistics import Score, compare


class QueryCount(Sweep):
    """The number of queries Q that a support node gets: its Q most similar nodes.

    A component smaller than Q + 1 has too few nodes: the released code fills such rows with the nodes of the lowest ids; for
    diffusion both forms are run at every Q. Rows of NaQ-Feat are short only where fewer than Q nodes share a feature.
    """

    name = "queries"
    title = "Number of queries"
    question = "How many of its most similar nodes should a support node get as queries?"
    origin = "Figure 6"
    datasets = ("amazon-clothing", "amazon-electronics", "dblp", "cora-full")
    x_label = "queries per support node"
    log_x = True
    note = "Lowest ids: rows with too few neighbours are completed by the nodes with the lowest ids, as the released code does; otherwise they stay short."

    def points(self, request: Request, dataset: str) -> list[SweepPoint]:
        levels = request.levels((1, 3, 5, 7, 10, 13, 15, 17, 20, 30, 40, 100), (1, 10))
        rows = [("naq-feat", "", "none"), ("naq-diff", "", "none"), ("naq-diff", ", lowest ids", "lowest")]
        return [
            SweepPoint(full_name(method) + words, q, method, {"episode": {"queries": q, "fill": fill}})
            for learner in learners_of(request)
            for kind, words, fill in request.levels(rows, rows[:1])
            for method in [f"{kind}/{learner}"]
            for q in levels
        ]

    def remarks(self, study: Study, found: Found, tests: Tests) -> list[str]:
        """The number of queries with the highest accuracy, and those with no significant difference from it."""
        columns: dict[str, dict[str, Score]] = {}
        for (row, level), score in found.items():
            columns.setdefault(row, {})[str(level)] = score
        sentences = []
        for row, column in columns.items():
            if row == SMOOTH or len(column) < 2:
                continue
            standings = compare(column)
            best = max(column, key=lambda level: column[level].mean)
            similar = [level for level, standing in standings.items() if level != best and standing.mark == "≈"]
            rest = (
                f"no significant difference with {', '.join(similar)}"
                if similar
                else "every other number is significantly worse"
            )
            rest = rest if standings[best].mark else ONE_SEED
            sentences.append(
                f"{row}: accuracy is highest with {best} queries, {100 * column[best].mean:.1f} %; {rest}."
            )
        return sentences


class EpisodeOptions(Sweep):
    """More supports per class, supports that are kept apart, shared queries dropped; the paper has one support per class."""

    name = "episode-options"
    title = "Options of NaQ episodes"
    question = "Do more supports, supports kept apart or dropped overlap make better episodes?"
    origin = "not in the paper"
    x_label = "option"
    bars = True
    note = "shot: supports per class of an episode; apart: no support is among the first so many neighbours of another."
    options: Mapping[str, Mapping[str, Any]] = {
        "defaults": {},
        "shot 3": {"shot": 3},
        "shot 5": {"shot": 5},
        "apart 10": {"apart": 10},
        "apart 100": {"apart": 100},
        "drop_overlap": {"drop_overlap": True},
    }

    def methods(self, request: Request) -> list[str]:
        return trained(request, "naq-feat", "naq-diff")

    def conditions(self, request: Request, dataset: str) -> Conditions:
        return {option: {"episode": self.options[option]} for option in request.levels(tuple(self.options))}
