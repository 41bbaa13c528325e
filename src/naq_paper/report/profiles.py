"""Where our default settings differ from the paper's: the same table under both profiles, method by method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from naq_paper.experiments.captions import dataset_slug, significance
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.request import Request
from naq_paper.experiments.views import Entry, Number, TableView, TextView
from naq_paper.report.page import Section
from naq_paper.statistics import Score, family

OURS, PAPERS = "default", "paper"
Row = tuple[str, str]
"""The setting in words, and the method."""


def profile_sections(expanded: Sequence[tuple[Request, Sequence[Study]]]) -> list[Section]:
    """A section for every table that was requested under both profiles and is the same otherwise."""
    found = []
    for request, ours in expanded:
        for other, papers in expanded:
            same = replace(request, profile=PAPERS, facts={}) == replace(other, facts={})
            if request.profile == OURS and other.profile == PAPERS and same and ours[0].experiment.kind == "table":
                found.append(_section(ours, papers))
    return found


def _section(ours: Sequence[Study], papers: Sequence[Study]) -> Section:
    title = f"{ours[0].experiment.title}: our settings and the paper's"
    tables = [_table(a, b) for a, b in zip(ours, papers)]
    return Section(
        name="-".join(("profiles", ours[0].experiment.name, *(dataset_slug(study.dataset) for study in ours))),
        title=title,
        question="Does it matter that our defaults differ from the settings behind the paper's tables?",
        views=[view for sentences, table in tables for view in (TextView(sentences), table)],
    )


def _table(ours: Study, papers: Study) -> tuple[list[str], TableView]:
    """The table of a dataset and its sentences. Methods whose trainings are the same under both profiles are left out."""
    pairs, same = _pairs(ours, papers)
    tests = family(pairs)
    lines: list[list[Entry]] = []
    for where, method in sorted(pairs, key=lambda row: -tests[row].difference.mean):
        test, (a, b) = tests[where, method], pairs[where, method]
        points, half = 100 * test.difference.mean, 100 * test.difference.ci95
        interval = f"{points - half:+.1f} to {points + half:+.1f}"
        lines.append([method, where, *(_number(s) for s in (a, b)), Number(points), interval, significance(test)])
    counts = {word: sum(significance(test).startswith(word) for test in tests.values()) for word in _WORDS}
    said = [f"{counts[word]} {words}" for word, words in _WORDS.items() if counts[word]]
    sentence = (
        f"{ours.dataset}: of {len(pairs)} comparisons of our default settings with the paper's, {', '.join(said)}."
    )
    alike = f" The same trainings under both profiles: {', '.join(same)}." if same else ""
    table = TableView(
        f"profiles-{ours.experiment.name}-{dataset_slug(ours.dataset)}",
        f"Default profile less paper profile: {ours.dataset}",
        ["method", "setting", "default profile", "paper profile", "difference", "95 % interval", "significance"],
        lines,
        labels=2,
        groups=[("", 2), ("test accuracy, %", 2), ("points", 2), ("", 1)],
        note=f"Sorted by the difference. The interval is that of the difference, on the same tasks; significance is by Holm over all rows of this table.{alike}",
        sorted_by=4,
    )
    return [sentence if pairs else f"{ours.dataset}: nothing to compare yet.{alike}"], table


_WORDS = {
    "significantly better": "are significantly better (p < 0.05, Holm)",
    "significantly worse": "are significantly worse (p < 0.05, Holm)",
    "no significant": "show no significant difference",
    "one seed": "have one seed, so no significance is claimed",
}


def _pairs(ours: Study, papers: Study) -> tuple[dict[Row, tuple[Score, Score]], list[str]]:
    pairs: dict[Row, tuple[Score, Score]] = {}
    same: dict[str, None] = {}
    for a, b in zip(ours.experiment.headline(ours), papers.experiment.headline(papers)):
        for method in (name for name in a.scores if name in b.scores):
            if [r.key for r in a.trainings[method]] == [r.key for r in b.trainings[method]]:
                same[method] = None
            else:
                pairs[f"{a.at[0]}-way {a.at[1]}-shot", method] = a.scores[method], b.scores[method]
    return pairs, list(same)


def _number(found: Score) -> Number:
    return Number(100 * found.mean, 100 * found.ci95, None if found.spread is None else 100 * found.spread, found.seeds)
