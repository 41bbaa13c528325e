"""Query overlap: how often two classes of an episode share a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from naq_paper.experiments.captions import NOTHING, findings, from_paper, table_name, value_of
from naq_paper.experiments.experiment import Experiment, Study
from naq_paper.experiments.paper import paper_overlap
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup
from naq_paper.experiments.views import BarView, Entry, Number, Series, TableView, View, measured
from naq_paper.measurements.overlap import overlap_cell

NEAR = 0.15
"""Points within which a mean over 16,000 other draws counts as the same number: the sampling error reaches 0.1."""


@dataclass(frozen=True)
class Rule:
    """A row: arguments of the measurement, and the paper's name of the same if it has one."""

    name: str
    how: Mapping[str, Any] = field(default_factory=dict)
    paper: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Overlap(Experiment):
    """Shared queries by the rule that completes short rows, and by way."""

    ways: tuple[int, ...]
    rows: tuple[Rule, ...]

    def cells(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        """The rows that a dataset can have: without features, or under a thin budget, there is no NaQ-Feat."""
        few = request.limits.thin or request.fact(dataset, "features") == 0
        return {
            (rule.name, way): SeedGroup.of(overlap_cell(dataset, way=way, **rule.how))
            for rule in self.rows
            if rule.how["kind"] != "naq-feat" or not few
            for way in request.ways or request.levels(self.ways)
        }

    def figures(self, study: Study) -> list[View]:
        rules, ways = (list(dict.fromkeys(key[place] for key in study.groups)) for place in (0, 1))
        published = {rule.name: rule.paper for rule in self.rows if rule.paper}
        results = {key: study.result(key) for key in study.groups}
        found = {key: None if r is None else float(r["overlap_percent"]) for key, r in results.items()}
        names, shares = [f"{way}-way" for way in ways], ("short_nodes", "filled_queries", "same_class_share")
        rows: list[list[Entry]] = []
        series: list[Series] = []
        papers: list[Series] = []
        for rule in rules:
            one = next((r for way in ways if (r := results[rule, way]) is not None), None)
            known = [paper_overlap(study.dataset, published[rule], way) if rule in published else None for way in ways]
            entries = [self._entry(study, (rule, way), value_of(paper)) for way, paper in zip(ways, known)]
            rows.append([rule, *entries, *("–" if one is None else measured(one[s], 1, scale=100) for s in shares)])
            if one is not None:
                series.append(Series(rule, names, [found[rule, way] for way in ways]))
            papers += from_paper(f"{rule.partition(',')[0]}, the paper", names, known)
        title, name = f"{self.title}: {study.dataset}", table_name(study)
        columns = ["queries", *names, "too few neighbours %", "filled queries %", "same class %"]
        note = (
            "Overlap in percent, 16,000 episodes of 10 queries. ± is 1.96 standard errors over these episodes, "
            "drawn with one seed: it is about the episodes, not about "
            "tasks or trainings, of which there are none. The last three columns are of the first way that is finished."
        )
        whiskers = "No whiskers: the standard error over episodes is in the table."
        return [
            findings(study, self._sentences(study.dataset, ways, found)),
            BarView(name, title, "overlap, %", series + papers, note=whiskers),
            TableView(name, title, columns, rows, note=note),
        ]

    def _entry(self, study: Study, key: Key, paper: float | None) -> Entry:
        result = study.result(key)
        if result is None:
            return study.missing(key, paper)
        half = None if (error := result["standard_error"]) is None else 1.96 * error
        return Number(result["overlap_percent"], half, paper=paper, digits=3, keys=study.keys(key))

    def _sentences(self, dataset: str, ways: Sequence[int], found: Mapping[Key, float | None]) -> list[str]:
        sentences = []
        for rule in (rule for rule in self.rows if rule.paper):
            differences = {
                way: abs(ours - known)
                for way in ways
                if (ours := found.get((rule.name, way))) is not None
                and (known := value_of(paper_overlap(dataset, rule.paper, way))) is not None
            }
            if differences:
                largest, at = max(differences.values()), ", ".join(map(str, differences))
                verdict = "matches the paper" if largest <= NEAR else "differs from the paper"
                sentences.append(f"{rule.name}: {verdict} at {at}-way; the largest difference is {largest:.3f} points.")
        with_rule, without = (found.get((rule, ways[-1])) for rule in [rule.name for rule in self.rows][1:5:2])
        if with_rule is not None and without is not None:
            sentences.append(
                f"At {ways[-1]}-way, {with_rule:.2f} % overlap with rows completed by the lowest ids and "
                f"{without:.2f} % with random nodes: "
                f"the difference is the fill rule."
            )
        if not sentences and any(value is not None for value in found.values()):
            sentences.append(
                f"The paper has no overlap of {dataset}, and the fill rules to compare are not all finished."
            )
        return sentences or [NOTHING]
