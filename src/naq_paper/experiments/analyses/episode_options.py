"""Options of NaQ episodes: more supports per class, supports that are kept apart, shared queries dropped.

Not in the paper: its episodes have one support per class, drawn anywhere, and keep every query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from naq_paper.experiments.captions import Level
from naq_paper.experiments.names import full_name
from naq_paper.experiments.request import Request
from naq_paper.experiments.sweep import Sweep, SweepPoint, learners_of

OPTIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "shot 3": {"shot": 3},
    "shot 5": {"shot": 5},
    "apart 10": {"apart": 10},
    "apart 100": {"apart": 100},
    "drop_overlap": {"drop_overlap": True},
}


class EpisodeOptions(Sweep):
    name = "episode-options"
    title = "Options of NaQ episodes"
    question = "Do more supports, supports kept apart or dropped overlap make better episodes?"
    origin = "not in the paper"
    x_label = "option"
    bars = True
    note = "shot: supports per class of an episode; apart: no support is among the first so many neighbours of another."

    def points(self, request: Request, dataset: str) -> list[SweepPoint]:
        return [
            SweepPoint(full_name(method), option, method, {"episode": OPTIONS[option]})
            for learner in learners_of(request)
            for method in (f"naq-feat/{learner}", f"naq-diff/{learner}")
            for option in request.levels(tuple(OPTIONS))
        ]

    def steps(self, levels: Sequence[Level]) -> list[tuple[Level, Level]]:
        return [(levels[0], level) for level in levels[1:]]
