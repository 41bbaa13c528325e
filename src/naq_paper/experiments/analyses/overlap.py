"""Query overlap: how often two classes of an episode share a query, and whether accuracy rises where they do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from naq_paper.experiments.captions import NOTHING, Level, findings, from_paper, gain, table_name, value_of
from naq_paper.experiments.experiment import Experiment, Study
from naq_paper.experiments.names import KINDS, NETWORKS, full_name
from naq_paper.experiments.paper import paper_accuracy, paper_overlap
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup
from naq_paper.experiments.sweep import Found, Pairs, Sweep, SweepPoint, Tests, learners_of
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
    """Per episode 1 - unique / (N Q), mean over 16,000 episodes, by the rule that completes short rows.

    The paper's numbers come from diffusion without self-loops whose short rows are completed by the nodes of the lowest ids;
    the other rules show how much of its overlap is that rule.
    """

    name = "overlap"
    title = "Query overlap"
    question = "How often do two classes of an episode share a query, and is that the graph or the fill rule?"
    origin = "Table 12"
    datasets = NETWORKS
    needs = ()

    def groups(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        """The rows that a dataset can have: without features, or under a thin budget, there is no NaQ-Feat."""
        few = request.limits.thin or request.fact(dataset, "features") == 0
        return {
            (rule, way): SeedGroup.of(overlap_cell(dataset, way=way, **how))
            for rule, how in RULES.items()
            if how["kind"] != "naq-feat" or not few
            for way in request.ways or request.levels(WAYS)
        }

    def views(self, study: Study) -> list[View]:
        rules, ways = (list(dict.fromkeys(key[place] for key in study.groups)) for place in (0, 1))
        results = {key: study.result(key) for key in study.groups}
        found = {key: None if r is None else float(r["overlap_percent"]) for key, r in results.items()}
        names, shares = [f"{way}-way" for way in ways], ("short_nodes", "filled_queries", "same_class_share")
        rows: list[list[Entry]] = []
        series: list[Series] = []
        papers: list[Series] = []
        for rule in rules:
            one = next((r for way in ways if (r := results[rule, way]) is not None), None)
            known = [paper_overlap(study.dataset, PUBLISHED[rule], way) if rule in PUBLISHED else None for way in ways]
            entries = [self._entry(study, (rule, way), value_of(paper)) for way, paper in zip(ways, known)]
            rows.append([rule, *entries, *("–" if one is None else plain(one[s], 1, scale=100) for s in shares)])
            if one is not None:
                series.append(Series(rule, names, [found[rule, way] for way in ways]))
            papers += from_paper(f"{rule.partition(',')[0]}, the paper", names, known)
        title, name = f"{self.title}: {study.dataset}", table_name(study)
        columns = ["queries", *names, "too few neighbours %", "filled queries %", "same class %"]
        note = (
            "Overlap in percent, 16,000 episodes of 10 queries. ± is 1.96 standard errors over these episodes, drawn with one seed: it is about the episodes, not about "
            "tasks or trainings, of which there are none. The last three columns are of the first way that is finished."
        )
        whiskers = "No whiskers: the standard error over episodes is in the table."
        return [
            findings(study, _sentences(study.dataset, ways, found)),
            BarView(name, title, "overlap, %", series + papers, note=whiskers),
            TableView(name, title, columns, rows, note=note),
        ]

    def _entry(self, study: Study, key: Key, paper: float | None) -> Entry:
        result = study.result(key)
        if result is None:
            return study.missing(key, paper)
        half = None if (error := result["standard_error"]) is None else 1.96 * error
        return Number(result["overlap_percent"], half, paper=paper, digits=3, keys=study.keys(key))


def _sentences(dataset: str, ways: Sequence[int], found: Mapping[Key, float | None]) -> list[str]:
    sentences = []
    for rule, kind in PUBLISHED.items():
        differences = {
            way: abs(ours - known)
            for way in ways
            if (ours := found.get((rule, way))) is not None
            and (known := value_of(paper_overlap(dataset, kind, way))) is not None
        }
        if differences:
            largest, at = max(differences.values()), ", ".join(map(str, differences))
            verdict = "matches the paper" if largest <= NEAR else "differs from the paper"
            sentences.append(f"{rule}: {verdict} at {at}-way; the largest difference is {largest:.3f} points.")
    with_rule, without = (found.get((rule, ways[-1])) for rule in list(RULES)[1:5:2])
    if with_rule is not None and without is not None:
        sentences.append(
            f"At {ways[-1]}-way, {with_rule:.2f} % overlap with rows completed by the lowest ids and {without:.2f} % with random nodes: "
            f"the difference is the fill rule."
        )
    if not sentences and any(value is not None for value in found.values()):
        sentences.append(f"The paper has no overlap of {dataset}, and the fill rules to compare are not all finished.")
    return sentences or [NOTHING]


RELEASED: dict[str, dict[str, Any]] = {"naq-feat": {}, "naq-diff": {"self_loops": False}}
"""What all variants share, so that they differ in their queries alone and stand beside the paper's: diffusion as released."""
VARIANTS: dict[str, dict[str, Any]] = {
    "all queries": {"fill": "lowest"},
    "overlap dropped": {"fill": "lowest", "drop_overlap": True},
    "as many random ones dropped": {"fill": "lowest", "drop_random": True},
    "filled queries dropped": {"fill": "none"},
}
EVERY, DROPPED, RANDOM, _ = VARIANTS
COMPARED = (*((variant, EVERY) for variant in list(VARIANTS)[1:]), (DROPPED, RANDOM))


class OverlapDrop(Sweep):
    """Queries that two classes of an episode share are removed before training; does it help, and is it the overlap?

    Controls: dropping only the queries that the fill rule added (rows stay short), and dropping as many random queries. The
    paper's two settings are NaQ-Diff on Electronics and NaQ-Feat on Cora-Full.
    """

    name = "overlap-drop"
    title = "Dropping overlapping queries"
    question = "Does removing queries that two classes share raise accuracy, and is it the overlap that did harm?"
    origin = "Tables 13 and 14"
    x_label = "way"
    bars = True
    baseline = False
    note = "All queries: rows with too few neighbours are completed by the lowest ids, diffusion has no self-loops, as in the released code."

    def ways(self, request: Request, dataset: str) -> tuple[int, ...]:
        most = request.fact(dataset, "most_classes")
        possible = [way for way in WAYS if most is None or way <= most]
        return request.ways or tuple(possible[:1] if request.limits.thin else possible)

    def points(self, request: Request, dataset: str) -> list[SweepPoint]:
        kinds = ("naq-diff",) if request.limits.thin else ("naq-feat", "naq-diff")
        return [
            SweepPoint(
                f"{full_name(f'{kind}/{learner}')}, {variant}",
                f"{way}-way",
                f"{kind}/{learner}",
                {"way": way, "episode": {**RELEASED[kind], **episode}, "chosen_for": {"way": 5}},
            )
            for learner in learners_of(request)
            for kind in kinds
            for variant, episode in VARIANTS.items()
            for way in self.ways(request, dataset)
        ]

    def steps(self, levels: Sequence[Level]) -> list[tuple[Level, Level]]:
        return []  # more classes are harder, which is no finding

    def comparisons(self, study: Study, found: Found) -> Pairs:
        """Every variant against all queries, and the overlap against as many random queries, on the same tasks."""
        return {
            (kind, variant, other, level): (ours, theirs)
            for kind in dict.fromkeys(row.partition(", ")[0] for row, _ in found)
            for variant, other in COMPARED
            for level in dict.fromkeys(level for _, level in found)
            if (ours := found.get((f"{kind}, {variant}", level))) and (theirs := found.get((f"{kind}, {other}", level)))
        }

    def remarks(self, study: Study, found: Found, tests: Tests) -> list[str]:
        levels, sentences = list(dict.fromkeys(level for _, level in found)), []
        for method in dict.fromkeys(row.partition(", ")[0] for row, _ in found):
            every = {level: s.mean for level in levels if (s := found.get((f"{method}, {EVERY}", level)))}
            known = [f"{100 * accuracy:.1f} % at {level}" for level, accuracy in every.items()]
            if known:
                sentences.append(f"{method}, {EVERY}: {', '.join(known)}.")
            for variant, other in COMPARED:
                keys = [(method, variant, other, level) for level in levels]
                gains = [f"{gain(tests[key])} at {key[-1]}" for key in keys if key in tests]
                if gains:
                    sentences.append(f"{method}, {variant}, against {other}: {'; '.join(gains)}.")
        return sentences

    def paper_series(self, request: Request, dataset: str) -> list[Series]:
        found: list[Series] = []
        ways = self.ways(request, dataset) if "protonet" in learners_of(request) else ()
        for kind in ("naq-feat", "naq-diff"):
            for variant, word in ((EVERY, ""), (DROPPED, " (overlap dropped)")):
                word = f"{KINDS[kind]}{word}"
                known = [paper_accuracy(dataset, "ProtoNet", word, way, table="overlap_drop") for way in ways]
                name = f"{full_name(f'{kind}/protonet')}, {variant}, the paper"
                found += from_paper(name, [f"{way}-way" for way in ways], known)
        return found
