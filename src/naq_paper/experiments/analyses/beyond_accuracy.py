"""NaQ in closed form beside everything label-free that is trained, and the figures it was to reach.

Trainings are those of ``methods`` where the settings are the same. ``smooth`` has a second row, as it was before rows had length one ahead of
smoothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from naq.methods import get_method
from naq.run.evaluate import BASELINE
from naq_paper.experiments.accuracy_table import AccuracyTable
from naq_paper.experiments.accuracy_views import Setting
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.reached import CLOSED, Figure, figures, reached_plot, reached_table, scores_of
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup, seed_group
from naq_paper.experiments.variants import way_of
from naq_paper.experiments.views import View
from naq_paper.statistics import Score

GRAPHS = ("debian", "coauthor-cs", "amazon-computers", "cora", "citeseer")
OLDER = "smooth, older form"


class BeyondAccuracy(AccuracyTable):
    name = "beyond-accuracy"
    title = "NaQ in closed form and trained methods"
    question = "Is NaQ in closed form above smooth and above every label-free method that is trained?"
    origin = "not in the paper"
    group = "beyond"
    datasets = GRAPHS
    methods = (
        CLOSED,
        "naq-plus/sugrl",
        *("naq-feat/protonet", "naq-diff/protonet", "naq-feat/cosmic", "naq-feat/gpn"),
        *("bgrl", "sugrl", "afgrl"),
    )

    def rows(self, request: Request) -> list[str]:
        return list(dict.fromkeys([CLOSED, *super().rows(request)]))

    def shown(self, request: Request) -> list[str]:
        return [*self.rows(request), OLDER]

    def settings(self, request: Request, dataset: str) -> list[Setting]:
        ways = request.ways or (way_of(request, dataset),)
        return [(way, shot) for way in ways for shot in request.shots or self.shots]

    def charted(self, settings: Sequence[Setting]) -> Sequence[Setting]:
        return settings

    def groups(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        groups = super().groups(request, dataset)
        for way, shot in self.settings(request, dataset):
            groups[OLDER, (way, shot)] = seed_group(
                request, dataset, BASELINE, way=way, shot=shot, options={"unit_first": False}
            )
        return groups

    def about_rows(self, study: Study) -> str:
        return f"{OLDER}: rows are not of length one before they are smoothed."

    def remarks(self, study: Study, found: Mapping[tuple[str, Setting], Score]) -> list[str]:
        return [one.sentence for one in self.figures(study)]

    def more_views(self, study: Study, settings: Sequence[Setting]) -> list[View]:
        made = self.figures(study)
        own: list[View] = [reached_plot(study, made), reached_table(study, made)] if made else []
        return [*own, *super().more_views(study, settings)]

    def figures(self, study: Study) -> list[Figure]:
        """Of the first way."""
        request = study.request
        rows = self.rows(request)
        shots = tuple(dict.fromkeys(shot for _, shot in self.settings(request, study.dataset)))
        scores = scores_of(study, rows, self.settings(request, study.dataset)[0][0], shots)
        rivals = [row for row in rows if not row.startswith(CLOSED) and not get_method(row).reads_base_labels]
        return figures(study.dataset, scores, rivals, shots)
