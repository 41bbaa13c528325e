"""Class-level similarity: how similar the classes of a node and of its ten most similar nodes are, over all nodes and in the tail.

A low number of NaQ-Diff on Electronics is largely the released code's fill rule, so both forms are shown: as released, without self-loops
and with rows completed by the lowest ids, where the paper's numbers stand beside; and with rows that stay short.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from naq_paper.experiments.captions import NOTHING, findings, table_name, value_of
from naq_paper.experiments.experiment import Experiment, Study
from naq_paper.experiments.names import KINDS, NETWORKS
from naq_paper.experiments.paper import paper_class_similarity
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup
from naq_paper.experiments.views import Entry, LineView, Series, TableView, View, plain
from naq_paper.measurements.class_similarity import TAILS, class_similarity_cell

ROWS = {"NaQ-Feat": "naq-feat", "NaQ-Diff": "naq-diff", "NaQ-Diff, rows stay short": "naq-diff"}
"""The kind of neighbours of each row; the first two are as released, whatever the profile, and have the paper's numbers beside them."""


class ClassSimilarity(Experiment):
    name = "class-similarity"
    title = "Class-level similarity"
    question = "Are a node's most similar nodes of its class, or of a similar one, also in the smallest classes?"
    origin = "Figure 7 and Table 4"
    datasets = NETWORKS

    def groups(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        return {
            row: SeedGroup.of(class_similarity_cell(dataset, kind=kind, **_table(request, dataset, row)))
            for row, kind in ROWS.items()
        }

    def views(self, study: Study) -> list[View]:
        dataset = study.dataset
        rows: list[list[Entry]] = []
        series, sentences = [], []
        for name in ROWS:
            record = study.record(name)
            if record is None or record.result is None:
                rows.append([name, *[study.missing(name)] * (len(TAILS) + 2)])
                continue
            r, key = record.result, (record.key,)
            values = [tail["similarity_percent"] for tail in r["tails"]]
            rows.append(
                [
                    name,
                    *(
                        plain(value, 1, paper=_paper(dataset, name, tail["percent"]), keys=key)
                        for value, tail in zip(values, r["tails"])
                    ),
                    plain(r["same_class_share"], 1, scale=100),
                    plain(r["short_nodes"], 1, scale=100),
                ]
            )
            series.append(Series(name, [float(tail["percent"]) for tail in r["tails"]], values))
            sentences.append(_sentence(name, r))
        for kind in KINDS.values():
            known = [_paper(dataset, kind, percent) for percent in TAILS]
            if any(value is not None for value in known):
                series.append(Series(f"{kind}, the paper", [float(p) for p in TAILS], known, paper=True))
        title, name = f"{self.title}: {dataset}", table_name(study)
        columns = ["neighbours", *(f"tail {p} %" for p in TAILS), "same class %", "too few neighbours %"]
        return [
            findings(study, sentences or [NOTHING]),
            LineView(name, title, "smallest classes, %", "class-level similarity, %", series),
            TableView(
                name,
                title,
                columns,
                rows,
                note="NaQ-Feat and NaQ-Diff as released: diffusion without self-loops, short rows completed by the lowest ids. "
                f"Labels are read for this analysis only; tail 100 % is all nodes. Features of NaQ-Feat are read as {study.request.features}, the paper's as raw.",
            ),
        ]


def _table(request: Request, dataset: str, row: str) -> dict[str, Any]:
    if row not in KINDS.values():
        return {"fill": "none"}
    released = replace(request, profile="paper", episode={})
    return released.table(ROWS[row], dataset)


def _sentence(name: str, result: Mapping[str, Any]) -> str:
    whole, share, tail = result["similarity_percent"], result["same_class_share"], result["tails"][0]
    if whole is None or share is None:
        return f"{name}: no labelled node has a labelled neighbour."
    smallest = (
        "" if (value := tail["similarity_percent"]) is None else f", {value:.1f} % in the smallest tenth of the classes"
    )
    return f"{name}: {whole:.1f} % over all nodes{smallest}; {100 * share:.1f} % of the ten nearest share the node's class."


def _paper(dataset: str, row: str, percent: int) -> float | None:
    return value_of(paper_class_similarity(dataset, row, percent)) if row in KINDS.values() else None
