"""The metric of NaQ-Feat: cosine, Jaccard on binarised features, negative Euclidean distance, all else equal.

Euclidean distance on bags of words makes short documents the neighbours of many: the second table counts it.
"""

from __future__ import annotations

from collections.abc import Sequence

from naq_paper.experiments.captions import Level, from_paper, table_name, value_of
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.names import NETWORKS, full_name
from naq_paper.experiments.paper import paper_accuracy, paper_class_similarity
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup
from naq_paper.experiments.sweep import Sweep, SweepPoint, learners_of
from naq_paper.experiments.views import Entry, Series, TableView, View, plain
from naq_paper.measurements.class_similarity import class_similarity_cell

METRICS = {"cosine": "cosine", "jaccard": "jaccard", "euclidean": "neg-euclidean"}
"""Ours, and the word of the paper's table."""


class MetricAblation(Sweep):
    name = "metrics"
    title = "Metric of similar features"
    question = "Which similarity of features should choose the queries?"
    origin = "Tables 5 and 6"
    datasets = NETWORKS
    x_label = "metric"
    bars = True

    def points(self, request: Request, dataset: str) -> list[SweepPoint]:
        return [
            SweepPoint(full_name(method), metric, method, {"episode": {"metric": metric}})
            for method in (f"naq-feat/{learner}" for learner in learners_of(request))
            for metric in _metrics(request)
        ]

    def paper_series(self, request: Request, dataset: str) -> list[Series]:
        if "protonet" not in learners_of(request):
            return []
        found = [
            paper_accuracy(dataset, "ProtoNet", f"NaQ-Feat {word}", 5, 1, table="metric_ablation")
            for word in (METRICS[metric] for metric in _metrics(request))
        ]
        return from_paper(f"{full_name('naq-feat/protonet')}, the paper", _metrics(request), found)

    def steps(self, levels: Sequence[Level]) -> list[tuple[Level, Level]]:
        return [(levels[0], level) for level in levels[1:]]

    def groups(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        shapes: dict[Key, SeedGroup] = {
            f"shape {metric}": SeedGroup.of(
                class_similarity_cell(dataset, kind="naq-feat", metric=metric, features=request.features)
            )
            for metric in _metrics(request)
        }
        return super().groups(request, dataset) | shapes

    def more_views(self, study: Study) -> list[View]:
        rows: list[list[Entry]] = []
        for metric in _metrics(study.request):
            record = study.record(f"shape {metric}")
            if record is None or record.result is None:
                rows.append([metric, *[study.missing(f"shape {metric}")] * 6])
                continue
            r = record.result
            shape, known = r["in_degrees"], paper_class_similarity(study.dataset, "naq-feat", metric=METRICS[metric])
            rows.append(
                [
                    metric,
                    plain(r["similarity_percent"], 1, paper=value_of(known), keys=(record.key,)),
                    plain(r["same_class_share"], 1, scale=100),
                    plain(shape["skewness"], 1),
                    plain(shape["largest"], 0),
                    plain(shape["never_chosen"], 1, scale=100),
                    plain(shape["gini"], 2),
                ]
            )
        columns = [
            "metric",
            "class-level similarity %",
            "same class %",
            "in-degree skew",
            "largest in-degree",
            "never chosen %",
            "Gini",
        ]
        return [
            TableView(
                table_name(study, "shape"),
                f"Who the ten nearest are: {study.dataset}",
                columns,
                rows,
                note="In-degree: of how many nodes a node is among the ten nearest. Labels are read for this table only.",
            )
        ]


def _metrics(request: Request) -> tuple[str, ...]:
    return request.levels(tuple(METRICS), ("cosine", "jaccard"))
