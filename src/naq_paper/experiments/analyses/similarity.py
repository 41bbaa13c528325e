"""How similar a node and its most similar nodes are: all classes, those of the tail, and the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from naq_paper.experiments.analyses.sweep import Sweep
from naq_paper.experiments.captions import NOTHING, findings, table_name, value_of
from naq_paper.experiments.experiment import Experiment, Study
from naq_paper.experiments.names import KINDS
from naq_paper.experiments.paper import paper_class_similarity
from naq_paper.experiments.profiles import PROFILES
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup
from naq_paper.experiments.views import Entry, LineView, Series, TableView, View, measured
from naq_paper.measurements.class_similarity import TAILS, class_similarity_cell

ROWS = {"NaQ-Feat": "naq-feat", "NaQ-Diff": "naq-diff", "NaQ-Diff, rows stay short": "naq-diff"}
"""The kind of neighbours of each row; the first two are as released, whatever the profile."""


class ClassSimilarity(Experiment):
    """How similar the classes of a node and of its ten most similar nodes are, over all nodes and in the tail."""

    def cells(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        def table(row: str, kind: str) -> dict[str, Any]:
            if row not in KINDS.values():
                return {"fill": "none"}
            names = ("metric", "alpha", "self_loops", "fill")
            released = {name: v for name, v in PROFILES["paper"].episode(kind, dataset).items() if name in names}
            return {"features": request.features} | released

        return {
            row: SeedGroup.of(class_similarity_cell(dataset, kind=kind, **table(row, kind)))
            for row, kind in ROWS.items()
        }

    def figures(self, study: Study) -> list[View]:
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
            entries = [measured(value, 1, paper=paper(name, percent), keys=keys) for percent, value in values.items()]
            shares = [measured(r[share], 1, scale=100) for share in ("same_class_share", "short_nodes")]
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
            "NaQ-Feat and NaQ-Diff as released: diffusion without self-loops, short rows completed by the lowest "
            "ids. Labels are read for "
            "this analysis only; tail 100 % is all nodes. Features of NaQ-Feat are read as "
            f"{study.request.features}, the paper's as raw."
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
    nearest = f"{100 * share:.1f} % of the ten nearest share the node's class"
    return f"{name}: {whole:.1f} % over all nodes{smallest}; {nearest}."


@dataclass(frozen=True, kw_only=True, eq=False)
class MetricAblation(Sweep):
    """A sweep over metrics, and who the nearest nodes are under each."""

    def cells(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        more: dict[str, Any] = {"kind": "naq-feat", "features": request.features}
        shapes = {
            f"shape {one.level}": SeedGroup.of(class_similarity_cell(dataset, metric=one.level, **more))
            for one in self.levels_of(request, dataset)
        }
        return super().cells(request, dataset) | shapes

    def figures(self, study: Study) -> list[View]:
        return [*super().figures(study), self._shapes(study)]

    def _shapes(self, study: Study) -> TableView:
        names = {str(one.level): one.paper.rpartition(" ")[2] for one in self.levels}
        rows: list[list[Entry]] = []
        for key in (key for key in study.groups if isinstance(key, str)):
            metric = key.removeprefix("shape ")
            r = study.result(key)
            if r is None:
                rows.append([metric, *[study.missing(key)] * 6])
                continue
            shape, known = r["in_degrees"], paper_class_similarity(study.dataset, "naq-feat", metric=names[metric])
            rows.append(
                [
                    metric,
                    measured(r["similarity_percent"], 1, paper=value_of(known), keys=study.keys(key)),
                    measured(r["same_class_share"], 1, scale=100),
                    measured(shape["skewness"], 1),
                    measured(shape["largest"], 0),
                    measured(shape["never_chosen"], 1, scale=100),
                    measured(shape["gini"], 2),
                ]
            )
        columns = ["metric", "class-level similarity %", "same class %", "in-degree skew", "largest in-degree"]
        note = "In-degree: of how many nodes a node is among the ten nearest. Labels are read for this table only."
        title = f"Who the ten nearest are: {study.dataset}"
        return TableView(table_name(study, "shape"), title, [*columns, "never chosen %", "Gini"], rows, note=note)
