"""How similar a node and its most similar nodes are: classes of all nodes and of the tail, and the metrics of NaQ-Feat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from naq_paper.experiments.captions import NOTHING, findings, from_paper, table_name, value_of
from naq_paper.experiments.experiment import Experiment, Study
from naq_paper.experiments.names import KINDS, NETWORKS, full_name
from naq_paper.experiments.paper import paper_accuracy, paper_class_similarity
from naq_paper.experiments.profiles import PAPER
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup
from naq_paper.experiments.sweep import Conditions, Sweep, learners_of, trained
from naq_paper.experiments.views import Entry, LineView, Series, TableView, View, plain
from naq_paper.measurements.class_similarity import TAILS, class_similarity_cell

ROWS = {"NaQ-Feat": "naq-feat", "NaQ-Diff": "naq-diff", "NaQ-Diff, rows stay short": "naq-diff"}
"""The kind of neighbours of each row; the first two are as released, whatever the profile, beside the paper's numbers."""
METRICS = {"cosine": "cosine", "jaccard": "jaccard", "euclidean": "neg-euclidean"}
"""Ours, and the word of the paper's table."""


class ClassSimilarity(Experiment):
    """How similar the classes of a node and of its ten most similar nodes are, over all nodes and in the tail.

    A low number of NaQ-Diff on Electronics is largely the released code's fill rule, so both forms are shown: as released,
    without self-loops and with rows completed by the lowest ids; and with rows that stay short.
    """

    name = "class-similarity"
    title = "Class-level similarity"
    question = "Are a node's most similar nodes of its class, or of a similar one, also in the smallest classes?"
    origin = "Figure 7 and Table 4"
    datasets = NETWORKS

    def groups(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        def table(row: str, kind: str) -> dict[str, Any]:
            if row not in KINDS.values():
                return {"fill": "none"}
            names = ("metric", "alpha", "self_loops", "fill")
            released = {name: v for name, v in PAPER.episode(kind, dataset).items() if name in names}
            return {"features": request.features} | released

        return {
            row: SeedGroup.of(class_similarity_cell(dataset, kind=kind, **table(row, kind)))
            for row, kind in ROWS.items()
        }

    def views(self, study: Study) -> list[View]:
        rows: list[list[Entry]] = []
        series, sentences = [], []

        def paper(row: str, percent: int) -> float | None:
            known = paper_class_similarity(study.dataset, row, percent) if row in KINDS.values() else None
            return value_of(known)

        for name in ROWS:
            r, keys = study.result(name), study.keys(name)
            if r is None:
                rows.append([name, *[study.missing(name)] * (len(TAILS) + 2)])
                continue
            values = {tail["percent"]: tail["similarity_percent"] for tail in r["tails"]}
            entries = [plain(value, 1, paper=paper(name, percent), keys=keys) for percent, value in values.items()]
            shares = [plain(r[share], 1, scale=100) for share in ("same_class_share", "short_nodes")]
            rows.append([name, *entries, *shares])
            series.append(Series(name, list(map(float, values)), list(values.values())))
            sentences.append(_sentence(name, r))
        for kind in KINDS.values():
            known = [paper(kind, percent) for percent in TAILS]
            if any(value is not None for value in known):
                series.append(Series(f"{kind}, the paper", [float(p) for p in TAILS], known, paper=True))
        title, name = f"{self.title}: {study.dataset}", table_name(study)
        columns = ["neighbours", *(f"tail {p} %" for p in TAILS), "same class %", "too few neighbours %"]
        note = (
            "NaQ-Feat and NaQ-Diff as released: diffusion without self-loops, short rows completed by the lowest ids. Labels are read for "
            f"this analysis only; tail 100 % is all nodes. Features of NaQ-Feat are read as {study.request.features}, the paper's as raw."
        )
        return [
            findings(study, sentences or [NOTHING]),
            LineView(name, title, "smallest classes, %", "class-level similarity, %", series),
            TableView(name, title, columns, rows, note=note),
        ]


def _sentence(name: str, result: Mapping[str, Any]) -> str:
    whole, share, tail = result["similarity_percent"], result["same_class_share"], result["tails"][0]
    if whole is None or share is None:
        return f"{name}: no labelled node has a labelled neighbour."
    value = tail["similarity_percent"]
    smallest = "" if value is None else f", {value:.1f} % in the smallest tenth of the classes"
    return f"{name}: {whole:.1f} % over all nodes{smallest}; {100 * share:.1f} % of the ten nearest share the node's class."


class MetricAblation(Sweep):
    """The metric of NaQ-Feat: cosine, Jaccard on binarised features, negative Euclidean distance, all else equal.

    Euclidean distance on bags of words makes short documents the neighbours of many: the second table counts it.
    """

    name = "metrics"
    title = "Metric of similar features"
    question = "Which similarity of features should choose the queries?"
    origin = "Tables 5 and 6"
    datasets = NETWORKS
    x_label = "metric"
    bars = True

    def methods(self, request: Request) -> list[str]:
        return trained(request, "naq-feat")

    def conditions(self, request: Request, dataset: str) -> Conditions:
        asked = request.levels(tuple(METRICS), ("cosine", "jaccard"))
        return {metric: {"episode": {"metric": metric}} for metric in asked}

    def paper_series(self, request: Request, dataset: str) -> list[Series]:
        if "protonet" not in learners_of(request):
            return []
        metrics = [str(metric) for metric in self.conditions(request, dataset)]
        words = [f"NaQ-Feat {METRICS[metric]}" for metric in metrics]
        found = [paper_accuracy(dataset, "ProtoNet", word, table="metric_ablation") for word in words]
        return from_paper(f"{full_name('naq-feat/protonet')}, the paper", metrics, found)

    def groups(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        more: dict[str, Any] = {"kind": "naq-feat", "features": request.features}
        shapes = {
            f"shape {metric}": SeedGroup.of(class_similarity_cell(dataset, metric=metric, **more))
            for metric in self.conditions(request, dataset)
        }
        return super().groups(request, dataset) | shapes

    def more_views(self, study: Study) -> list[View]:
        rows: list[list[Entry]] = []
        for key in (key for key in study.groups if isinstance(key, str)):
            metric = key.removeprefix("shape ")
            r = study.result(key)
            if r is None:
                rows.append([metric, *[study.missing(key)] * 6])
                continue
            shape, known = r["in_degrees"], paper_class_similarity(study.dataset, "naq-feat", metric=METRICS[metric])
            rows.append(
                [
                    metric,
                    plain(r["similarity_percent"], 1, paper=value_of(known), keys=study.keys(key)),
                    plain(r["same_class_share"], 1, scale=100),
                    plain(shape["skewness"], 1),
                    plain(shape["largest"], 0),
                    plain(shape["never_chosen"], 1, scale=100),
                    plain(shape["gini"], 2),
                ]
            )
        columns = ["metric", "class-level similarity %", "same class %", "in-degree skew", "largest in-degree"]
        note = "In-degree: of how many nodes a node is among the ten nearest. Labels are read for this table only."
        title = f"Who the ten nearest are: {study.dataset}"
        return [TableView(table_name(study, "shape"), title, [*columns, "never chosen %", "Gini"], rows, note=note)]
