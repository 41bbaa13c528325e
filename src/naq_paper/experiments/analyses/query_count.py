"""The number of queries Q that a support node gets: its Q most similar nodes.

Statements of the paper to test: on Clothing accuracy rises with Q; on Electronics NaQ-Feat rises with a dip at 100 and NaQ-Diff falls
after 5; on DBLP NaQ-Feat is flat and NaQ-Diff rises. A component smaller than Q + 1 has too few nodes: the released code
fills such rows with the nodes of the lowest ids; for diffusion both forms are run at every Q. Rows of NaQ-Feat are short only where fewer
than Q nodes share a feature with a node.
"""

from __future__ import annotations

from collections.abc import Mapping

from naq_paper.experiments.captions import ONE_SEED, SMOOTH
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.names import full_name
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key
from naq_paper.experiments.sweep import Sweep, SweepPoint, learners_of
from naq_paper.statistics import Comparison, Score, compare

LEVELS = (1, 3, 5, 7, 10, 13, 15, 17, 20, 30, 40, 100)


class QueryCount(Sweep):
    name = "queries"
    title = "Number of queries"
    question = "How many of its most similar nodes should a support node get as queries?"
    origin = "Figure 6"
    datasets = ("amazon-clothing", "amazon-electronics", "dblp", "cora-full")
    x_label = "queries per support node"
    log_x = True
    note = "Lowest ids: rows with too few neighbours are completed by the nodes with the lowest ids, as the released code does; otherwise they stay short."

    def points(self, request: Request, dataset: str) -> list[SweepPoint]:
        levels = request.levels(LEVELS, (1, 10))
        rows = [("naq-feat", "", "none"), ("naq-diff", "", "none"), ("naq-diff", ", lowest ids", "lowest")]
        return [
            SweepPoint(full_name(method) + words, q, method, {"episode": {"queries": q, "fill": fill}})
            for learner in learners_of(request)
            for kind, words, fill in request.levels(rows, rows[:1])
            for method in [f"{kind}/{learner}"]
            for q in levels
        ]

    def remarks(self, study: Study, found: Mapping[Key, Score], tests: Mapping[Key, Comparison]) -> list[str]:
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
            if not standings[best].mark:
                rest = ONE_SEED
            elif similar:
                rest = f"no significant difference with {', '.join(similar)}"
            else:
                rest = "every other number is significantly worse"
            sentences.append(
                f"{row}: accuracy is highest with {best} queries, {100 * column[best].mean:.1f} %; {rest}."
            )
        return sentences
