"""The metric of NaQ-Feat: cosine, Jaccard on binarised features, negative Euclidean distance, all else equal.

Euclidean distance on bags of words makes short documents the neighbours of many: the second table counts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from naq.experiments.arms import Arm
from naq.experiments.asking import Ask
from naq.experiments.cells import Cell
from naq.experiments.experiment import register_experiment
from naq.experiments.names import full_name
from naq.experiments.paper import paper_accuracy, paper_class_similarity
from naq.experiments.records import Find
from naq.experiments.showing import Level, dataset_slug, from_paper, not_there, value_of
from naq.experiments.sweep import Point, Sweep
from naq.experiments.views import Entry, Series, TableView, View, plain
from naq.experiments.works.class_similarity import class_similarity_cell

METRICS = {"cosine": "cosine", "jaccard": "jaccard", "euclidean": "neg-euclidean"}
"""Ours, and the word of the paper's table."""


@register_experiment
class MetricAblation(Sweep):
    name = "metrics"
    title = "Metric of similar features"
    question = "Which similarity of features should choose the queries?"
    origin = "Tables 5 and 6"
    datasets = ("amazon-clothing", "amazon-electronics", "cora-full", "dblp")
    x_label = "metric"
    bars = True

    def points(self, ask: Ask, dataset: str) -> list[Point]:
        method = f"naq-feat/{ask.learner}"
        return [Point(full_name(method), metric, method, {"episode": {"metric": metric}}) for metric in _metrics(ask)]

    def paper_series(self, ask: Ask, dataset: str) -> list[Series]:
        if ask.learner != "protonet":
            return []
        found = [
            paper_accuracy(dataset, "ProtoNet", f"NaQ-Feat {word}", 5, 1, table="metric_ablation")
            for word in (METRICS[metric] for metric in _metrics(ask))
        ]
        return from_paper("the paper", _metrics(ask), found)

    def steps(self, levels: Sequence[Level]) -> list[tuple[Level, Level]]:
        return [(levels[0], level) for level in levels[1:]]

    def cells(self, ask: Ask, find: Find) -> list[Cell]:
        return super().cells(ask, find) + [_shape(ask, dataset, m) for dataset in ask.datasets for m in _metrics(ask)]

    def more_views(self, ask: Ask, dataset: str, find: Find, arms: Mapping[tuple[str, Level], Arm]) -> list[View]:
        rows: list[list[Entry]] = []
        for metric in _metrics(ask):
            record = find(_shape(ask, dataset, metric))
            if record is None or record.result is None:
                rows.append([metric, *[not_there(record)] * 6])
                continue
            r = record.result
            shape, known = r["in_degrees"], paper_class_similarity(dataset, "naq-feat", metric=METRICS[metric])
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
                f"{self.name}-shape-{dataset_slug(dataset)}",
                f"Who the ten nearest are: {dataset}",
                columns,
                rows,
                note="In-degree: of how many nodes a node is among the ten nearest. Labels are read for this table only.",
            )
        ]


def _metrics(ask: Ask) -> tuple[str, ...]:
    return ask.levels(tuple(METRICS), ("cosine", "jaccard"))


def _shape(ask: Ask, dataset: str, metric: str) -> Cell:
    return class_similarity_cell(dataset, kind="naq-feat", metric=metric, features=ask.reads)
