"""Overlap drop: queries that two classes of an episode share are removed before training; does it help, and is it the overlap?

Controls: dropping only the queries that the fill rule added (rows stay short), and dropping as many random queries. The paper's two
settings are NaQ-Diff on Electronics and NaQ-Feat on Cora-Full, 5/10/20-way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from naq_paper.experiments.captions import Level, from_paper, gain
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.names import KINDS, full_name
from naq_paper.experiments.paper import paper_accuracy
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key
from naq_paper.experiments.sweep import Sweep, SweepPoint, learners_of
from naq_paper.experiments.views import Series
from naq_paper.statistics import Comparison, Score

WAYS = (5, 10, 20)
RELEASED: dict[str, dict[str, Any]] = {"naq-feat": {}, "naq-diff": {"self_loops": False}}
"""What all variants share, so that they differ in their queries alone and stand beside the paper's numbers: the diffusion as released."""
VARIANTS: dict[str, dict[str, Any]] = {
    "all queries": {"fill": "lowest"},
    "overlap dropped": {"fill": "lowest", "drop_overlap": True},
    "as many random ones dropped": {"fill": "lowest", "drop_random": True},
    "filled queries dropped": {"fill": "none"},
}
EVERY, DROPPED, RANDOM, _ = VARIANTS
COMPARED = (*((variant, EVERY) for variant in list(VARIANTS)[1:]), (DROPPED, RANDOM))
PAPER = {"all queries": "", "overlap dropped": " (overlap dropped)"}


class OverlapDrop(Sweep):
    name = "overlap-drop"
    title = "Dropping overlapping queries"
    question = "Does removing queries that two classes share raise accuracy, and is it the overlap that did harm?"
    origin = "Tables 13 and 14"
    x_label = "way"
    bars = True
    baseline = False
    note = "All queries: rows with too few neighbours are completed by the lowest ids, diffusion has no self-loops, as in the released code."

    def points(self, request: Request, dataset: str) -> list[SweepPoint]:
        kinds = ("naq-diff",) if request.limits.thin else ("naq-feat", "naq-diff")
        return [
            SweepPoint(
                f"{full_name(method)}, {variant}",
                f"{way}-way",
                method,
                {"way": way, "episode": {**RELEASED[method.partition("/")[0]], **episode}, "chosen_for": {"way": 5}},
            )
            for learner in learners_of(request)
            for method in (f"{kind}/{learner}" for kind in kinds)
            for variant, episode in VARIANTS.items()
            for way in _ways(request, dataset)
        ]

    def steps(self, levels: Sequence[Level]) -> list[tuple[Level, Level]]:
        return []  # more classes are harder, which is no finding

    def comparisons(self, study: Study, found: Mapping[Key, Score]) -> dict[Key, tuple[Score, Score]]:
        """Every variant against all queries, and the overlap against as many random queries, on the same tasks."""
        return {
            (kind, variant, other, level): (found[f"{kind}, {variant}", level], found[f"{kind}, {other}", level])
            for kind in dict.fromkeys(row.partition(", ")[0] for row, _ in found)
            for variant, other in COMPARED
            for level in dict.fromkeys(level for _, level in found)
            if (f"{kind}, {variant}", level) in found and (f"{kind}, {other}", level) in found
        }

    def remarks(self, study: Study, found: Mapping[Key, Score], tests: Mapping[Key, Comparison]) -> list[str]:
        levels = list(dict.fromkeys(level for _, level in found))
        sentences = []
        for method in dict.fromkeys(row.partition(", ")[0] for row, _ in found):
            known = [
                f"{100 * s.mean:.1f} % at {level}"
                for level in levels
                if (s := found.get((f"{method}, {EVERY}", level)))
            ]
            if known:
                sentences.append(f"{method}, {EVERY}: {', '.join(known)}.")
            for variant, other in COMPARED:
                keys = [(method, variant, other, level) for level in levels]
                gains = [f"{gain(tests[key])} at {key[-1]}" for key in keys if key in tests]
                if gains:
                    sentences.append(f"{method}, {variant}, against {other}: {'; '.join(gains)}.")
        return sentences

    def paper_series(self, request: Request, dataset: str) -> list[Series]:
        if "protonet" not in learners_of(request):
            return []
        found, ways = [], _ways(request, dataset)
        for kind in ("naq-feat", "naq-diff"):
            name = full_name(f"{kind}/protonet")
            for variant, word in PAPER.items():
                known = [
                    paper_accuracy(dataset, "ProtoNet", f"{KINDS[kind]}{word}", way, 1, table="overlap_drop")
                    for way in ways
                ]
                found += from_paper(f"{name}, {variant}, the paper", [f"{way}-way" for way in ways], known)
        return found


def _ways(request: Request, dataset: str) -> tuple[int, ...]:
    most = request.most_classes(dataset)
    possible = [way for way in WAYS if most is None or way <= most]
    return request.ways or tuple(possible[:1] if request.limits.thin else possible)
