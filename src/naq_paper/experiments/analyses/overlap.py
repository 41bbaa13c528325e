"""Query overlap: how often a node is the query of two classes of one episode, by the rule that completes short rows.

Per episode 1 - unique / (N Q), mean over 16,000 episodes. The paper's numbers come from diffusion without self-loops whose short rows are
completed by the nodes of the lowest ids; the other rules show how much of its overlap is that rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from naq_paper.experiments.captions import NOTHING, findings, from_paper, table_name, value_of
from naq_paper.experiments.experiment import Experiment, Study
from naq_paper.experiments.names import NETWORKS
from naq_paper.experiments.paper import paper_overlap
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup
from naq_paper.experiments.views import BarView, Entry, Number, Series, TableView, View, plain
from naq_paper.measurements.overlap import overlap_cell

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


class Overlap(Experiment):
    name = "overlap"
    title = "Query overlap"
    question = "How often do two classes of an episode share a query, and is that the graph or the fill rule?"
    origin = "Table 12"
    datasets = NETWORKS
    needs = ()

    def groups(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        return {
            (rule, way): SeedGroup.of(overlap_cell(dataset, way=way, **RULES[rule]))
            for rule in _rules(request, dataset)
            for way in _ways(request)
        }

    def views(self, study: Study) -> list[View]:
        dataset, ways, rules = study.dataset, _ways(study.request), _rules(study.request, study.dataset)
        found = {
            (rule, way): None if (r := study.result((rule, way))) is None else float(r["overlap_percent"])
            for rule in rules
            for way in ways
        }
        rows: list[list[Entry]] = []
        for rule in rules:
            one = next((r for way in ways if (r := study.result((rule, way))) is not None), None)
            shares = ("short_nodes", "filled_queries", "same_class_share")
            rows.append(
                [
                    rule,
                    *(_entry(study, rule, way) for way in ways),
                    *("–" if one is None else plain(one[s], 1, scale=100) for s in shares),
                ]
            )
        series = [
            Series(rule, [f"{way}-way" for way in ways], [found[rule, way] for way in ways])
            for rule in rules
            if any(found[rule, way] is not None for way in ways)
        ]
        for rule, kind in ((rule, PUBLISHED[rule]) for rule in rules if rule in PUBLISHED):
            known = [paper_overlap(dataset, kind, way) for way in ways]
            series += from_paper(f"{rule.partition(',')[0]}, the paper", [f"{w}-way" for w in ways], known)
        title, name = f"{self.title}: {dataset}", table_name(study)
        columns = ["queries", *(f"{w}-way" for w in ways), "too few neighbours %", "filled queries %", "same class %"]
        return [
            findings(study, _sentences(dataset, ways, found)),
            BarView(
                name, title, "overlap, %", series, note="No whiskers: the standard error over episodes is in the table."
            ),
            TableView(
                name,
                title,
                columns,
                rows,
                note="Overlap in percent, 16,000 episodes of 10 queries. ± is 1.96 standard errors over these episodes, drawn with one seed: it is about the episodes, not about "
                "tasks or trainings, of which there are none. The last three columns are of the first way that is finished.",
            ),
        ]


def _sentences(dataset: str, ways: tuple[int, ...], found: Mapping[tuple[str, int], float | None]) -> list[str]:
    sentences = []
    for rule, kind in PUBLISHED.items():
        differences = {
            way: abs(ours - known.value)
            for way in ways
            if (ours := found.get((rule, way))) is not None
            and (known := paper_overlap(dataset, kind, way)) is not None
            and known.value is not None
        }
        if differences:
            largest = max(differences.values())
            verdict = "matches the paper" if largest <= NEAR else "differs from the paper"
            sentences.append(
                f"{rule}: {verdict} at {', '.join(f'{way}' for way in differences)}-way; the largest difference is {largest:.3f} points."
            )
    with_rule, without = (found.get((rule, ways[-1])) for rule in list(RULES)[1:5:2])
    if with_rule is not None and without is not None:
        sentences.append(
            f"At {ways[-1]}-way, {with_rule:.2f} % overlap with rows completed by the lowest ids and {without:.2f} % with random nodes: "
            f"the difference is the fill rule."
        )
    if not sentences and any(value is not None for value in found.values()):
        sentences.append(f"The paper has no overlap of {dataset}, and the fill rules to compare are not all finished.")
    return sentences or [NOTHING]


def _ways(request: Request) -> tuple[int, ...]:
    return request.ways or request.levels(WAYS)


def _rules(request: Request, dataset: str) -> list[str]:
    """The rows that a dataset can have: without features, or under a thin budget, there is no NaQ-Feat."""
    few = request.limits.thin or request.lacks(dataset, "features")
    return [rule for rule, how in RULES.items() if how["kind"] != "naq-feat" or not few]


def _entry(study: Study, rule: str, way: int) -> Entry:
    kind = PUBLISHED.get(rule)
    paper = value_of(paper_overlap(study.dataset, kind, way)) if kind is not None else None
    record = study.record((rule, way))
    if record is None or record.result is None:
        return study.missing((rule, way), paper)
    result = record.result
    error = result["standard_error"]
    half = None if error is None else 1.96 * error
    return Number(result["overlap_percent"], half, paper=paper, digits=3, keys=(record.key,))
