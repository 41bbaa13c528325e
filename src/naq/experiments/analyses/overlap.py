"""Query overlap: how often a node is the query of two classes of one episode, by the rule that completes short rows.

Per episode 1 - unique / (N Q), mean over 16,000 episodes. The paper's numbers come from diffusion without self-loops whose short rows are
completed by the nodes of the lowest ids; the other rules show how much of its overlap is that rule.
"""

from __future__ import annotations

from typing import Any

from naq.experiments.base import Experiment, register_experiment
from naq.experiments.captions import dataset_slug, from_paper, not_there, told, value_of
from naq.experiments.paper import paper_overlap
from naq.experiments.request import Request
from naq.experiments.views import BarView, Entry, Number, Series, TableView, View, plain
from naq.grid.cells import Cell
from naq.grid.measurements.overlap import overlap_cell
from naq.grid.records import Find, Record

WAYS = (5, 10, 20)
NEAR = 0.15
"""Points within which a mean over 16,000 other draws counts as the same number: the sampling error reaches 0.1."""
RULES: dict[str, dict[str, Any]] = {
    "NaQ-Feat": {"kind": "naq-feat", "fill": "lowest"},
    "NaQ-Diff, lowest ids (the paper's code)": {"kind": "naq-diff", "fill": "lowest", "self_loops": False},
    "NaQ-Diff, lowest ids, with self-loops": {"kind": "naq-diff", "fill": "lowest", "self_loops": True},
    "NaQ-Diff, random nodes": {"kind": "naq-diff", "fill": "random", "self_loops": False},
    "NaQ-Diff, rows stay short": {"kind": "naq-diff", "fill": "none", "self_loops": False},
}
PUBLISHED = {"NaQ-Feat": "naq-feat", "NaQ-Diff, lowest ids (the paper's code)": "naq-diff"}


@register_experiment
class Overlap(Experiment):
    name = "overlap"
    title = "Query overlap"
    question = "How often do two classes of an episode share a query, and is that the graph or the fill rule?"
    origin = "Table 12"
    datasets = ("amazon-clothing", "amazon-electronics", "cora-full", "dblp")
    needs = ()

    def cells(self, request: Request, find: Find) -> list[Cell]:
        return [
            _cell(dataset, rule, way)
            for dataset in request.datasets
            for rule in _rules(request, dataset)
            for way in _ways(request)
        ]

    def views_of(self, request: Request, find: Find, dataset: str) -> list[View]:
        ways, rules = _ways(request), _rules(request, dataset)
        found = {(rule, way): find(_cell(dataset, rule, way)) for rule in rules for way in ways}
        rows: list[list[Entry]] = []
        for rule in rules:
            one = next((r for way in ways if (r := found[rule, way]) is not None and r.result is not None), None)
            shares = ("short_nodes", "filled_queries", "same_class_share")
            rows.append(
                [
                    rule,
                    *(_entry(dataset, rule, way, found[rule, way]) for way in ways),
                    *("–" if one is None or one.result is None else plain(one.result[s], 1, scale=100) for s in shares),
                ]
            )
        series = [
            Series(rule, [f"{way}-way" for way in ways], [_value(found[rule, way]) for way in ways])
            for rule in rules
            if any(_value(found[rule, way]) is not None for way in ways)
        ]
        for rule, kind in ((rule, PUBLISHED[rule]) for rule in rules if rule in PUBLISHED):
            known = [paper_overlap(dataset, kind, way) for way in ways]
            series += from_paper(f"{rule.partition(',')[0]}, the paper", [f"{w}-way" for w in ways], known)
        title, slug = f"{self.title}: {dataset}", f"{self.name}-{dataset_slug(dataset)}"
        columns = ["queries", *(f"{w}-way" for w in ways), "too few neighbours %", "filled queries %", "same class %"]
        return [
            told(request, dataset, self._sentences(dataset, ways, found)),
            BarView(slug, title, "overlap, %", series),
            TableView(
                slug,
                title,
                columns,
                rows,
                note="Overlap in percent, 16,000 episodes of 10 queries; ± is 1.96 standard errors over episodes. The last three columns are of the first way that is finished.",
            ),
        ]

    def _sentences(self, dataset: str, ways: tuple[int, ...], found: dict[tuple[str, int], Record | None]) -> list[str]:
        said = []
        for rule, kind in PUBLISHED.items():
            apart = {
                way: abs(ours - known.value)
                for way in ways
                if (ours := _value(found.get((rule, way)))) is not None
                and (known := paper_overlap(dataset, kind, way)) is not None
                and known.value is not None
            }
            if apart:
                verdict = "matches the paper" if max(apart.values()) <= NEAR else "differs from the paper"
                said.append(
                    f"{rule}: {verdict} at {', '.join(f'{way}' for way in apart)}-way; the largest difference is {max(apart.values()):.3f} points."
                )
        with_rule, without = (_value(found.get((rule, ways[-1]))) for rule in list(RULES)[1:5:2])
        if with_rule is not None and without is not None:
            said.append(
                f"At {ways[-1]}-way, {with_rule:.2f} % overlap with rows completed by the lowest ids and {without:.2f} % with random nodes: "
                f"the difference is the fill rule."
            )
        if not said and any(_value(record) is not None for record in found.values()):
            said.append(f"The paper has no overlap of {dataset}, and the fill rules to compare are not all finished.")
        return said or ["Nothing is finished yet."]


def _ways(request: Request) -> tuple[int, ...]:
    return request.ways or request.levels(WAYS)


def _rules(request: Request, dataset: str) -> list[str]:
    """The rows that a dataset can have: without features there is no NaQ-Feat, nor where little is asked for."""
    few = request.plan.thin or request.lacks(dataset, "features")
    return [rule for rule, how in RULES.items() if how["kind"] != "naq-feat" or not few]


def _cell(dataset: str, rule: str, way: int) -> Cell:
    return overlap_cell(dataset, way=way, **RULES[rule])


def _value(record: Record | None) -> float | None:
    return None if record is None or record.result is None else float(record.result["overlap_percent"])


def _entry(dataset: str, rule: str, way: int, record: Record | None) -> Entry:
    kind = PUBLISHED.get(rule)
    known = paper_overlap(dataset, kind, way) if kind is not None else None
    paper = value_of(known)
    if record is None or record.result is None:
        return not_there(record, paper)
    error = record.result["standard_error"]
    return Number(
        record.result["overlap_percent"],
        None if error is None else 1.96 * error,
        paper=paper,
        digits=3,
        keys=(record.key,),
    )
