"""The first screen of a report: which method is best, by how much, is that significant, and what to run.

One rule names a method everywhere on the page: the highest mean of the tasks that are looked at. Where others show no
significant difference from it, the cheapest of these is named beside it: fewest labels first, then seconds per
training. That is a rule for choosing, not a claim that they are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from naq_paper.cells.records import Record
from naq_paper.experiments.captions import SMOOTH, amount, gain, leaders
from naq_paper.experiments.experiment import Contest, Study
from naq_paper.report.commands import run_command_of
from naq_paper.report.format import count_words, duration
from naq_paper.report.page import Advice, KeyFigure
from naq_paper.statistics import Score, Standing, compare

NAMED = 6  # names in a sentence; the section below has them all
RULE = (
    "The method with the highest mean, as in the answers above; if others show no significant difference from it "
    "(p < 0.05, Holm over all pairs), also the cheapest of these: fewest labels, then least time. Trainings that were "
    "cut are judged as far as they went. “No "
    "significant difference” is not “equal”: the note of each table says which difference it can detect. ± of a "
    "difference "
    "is its 95 % interval, without that correction: it may exclude 0 where no significant difference is found."
)
LABELS = (
    "no labels beyond a task's own",
    "labels of validation classes, to choose the checkpoint",
    "labels of base classes",
)
NOTHING = KeyFigure("nothing yet", "No method has finished.")
ALONE = KeyFigure("nothing to compare", "No other method has finished on the same tasks.")
ONE_SEED = "another training may change the order. Run more with --seeds 5."


def advise(contest: Contest, paths: Mapping[str, str] | None = None) -> Advice | None:
    """What to run on the contest's tasks; None unless two methods have finished."""
    scores = contest.scores
    if len(scores) < 2:
        return None
    standings = compare(scores, SMOOTH)
    best, *others = sorted(scores, key=lambda name: -scores[name].mean)
    similar = [name for name in others if standings[name].mark == "≈"]
    unknown = [name for name in others if not standings[name].mark]
    costs = {name: _cost(contest.trainings[name]) for name in (best, *similar)}
    if len(unknown) == len(others):
        why = f"the highest mean of one seed each; {ONE_SEED}"
    elif not similar:
        why = "significantly better than every other method compared here."
    else:
        cheapest = min(costs, key=lambda name: costs[name])  # the first of equals
        why = f"the highest mean. No significant difference from {_listed(similar)}"
        less = f"{cheapest} with {100 * scores[cheapest].mean:.1f} %, which needs {_needs(costs[cheapest])}."
        why += ", at no lower cost." if cheapest == best else f"; the cheapest of them is {less}"
    if unknown and len(unknown) < len(others):
        why += f" Not compared, because of one seed: {_listed(unknown)}."
    needs = f"Needs {_needs(costs[best])}."
    text = " ".join(filter(None, (f"{100 * scores[best].mean:.1f} %: {why}", _gain(best, standings), needs)))
    config = contest.trainings[best][0].cell.config
    return Advice(contest.where, best, text, run_command_of(config, contest.at, paths))


def _cost(records: Sequence[Record]) -> tuple[int, float]:
    """Which labels, as a place in ``LABELS``, and seconds per training."""
    assert records[0].result is not None
    result = records[0].result
    selected = result["history"] is not None and records[0].cell.config.get("select") != "clusters"
    labels = 2 if result["facts"].get("reads_base_labels") else int(selected)
    return labels, sum(record.seconds for record in records) / len(records)


def _needs(cost: tuple[int, float]) -> str:
    return f"{LABELS[cost[0]]}, and {duration(cost[1])} here"


def _gain(chosen: str, standings: Mapping[str, Standing]) -> str:
    to_baseline = standings[chosen].to_baseline
    if to_baseline is not None:
        return f"Against smooth, which trains nothing: {gain(to_baseline)}."
    against = [one.against for name, one in standings.items() if name != SMOOTH]
    if chosen == SMOOTH and any(against) and "s+" not in against:
        return "No method compared here is significantly better than smooth."
    return ""


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names) if more < 2 else f"{', '.join(names[:NAMED])} and {more} more"


def key_figures(studies: Sequence[Study]) -> tuple[KeyFigure, KeyFigure, KeyFigure, str]:
    """Best, margin and significance, and what they are about: the first comparison that has results, tables first."""
    found = list(_contests(studies))
    for contest, about in found:
        if len(contest.scores) > 1:
            return *_compared(contest), about
    for contest, about in found:
        for name, score in contest.scores.items():
            only = f"{_percent(score)} on {contest.where}: the only method that has finished there."
            return KeyFigure(name, only), ALONE, ALONE, about
    return NOTHING, NOTHING, NOTHING, ""


def advice(studies: Sequence[Study], paths: Mapping[str, str] | None = None) -> list[Advice]:
    """What to run, for every dataset and setting of the experiment and profile that the key figures are about."""
    found: dict[str, Advice] = {}
    first: tuple[str, str] | None = None
    for study in sorted(studies, key=_tables_first):
        about = study.experiment.name, study.request.profile
        for contest, _ in _contests([study]) if first in (None, about) else ():
            if contest.where not in found and (one := advise(contest, paths)) is not None:
                found[contest.where], first = one, about
    return list(found.values())


def _tables_first(study: Study) -> bool:
    return study.experiment.kind != "table"


def _contests(studies: Sequence[Study]) -> Iterator[tuple[Contest, str]]:
    """The comparisons of all studies, which say their profile, and a sentence on where there is more."""
    for study in sorted(studies, key=_tables_first):
        profile = study.request.profile
        for contest in study.contests():
            where = contest.where if profile == "default" else f"{contest.where}, {profile} profile"
            about = f"The answers are about {where}; the section “{study.experiment.title}” has more."
            yield replace(contest, where=where), about


def _compared(contest: Contest) -> tuple[KeyFigure, KeyFigure, KeyFigure]:
    column = contest.scores
    standings = compare(column, SMOOTH)
    order = sorted(column, key=lambda name: -column[name].mean)
    best, second = leaders(column)
    behind, to_baseline = standings[second].to_best, standings[best].to_baseline
    assert behind is not None
    first = KeyFigure(best, f"{_percent(column[best])} on {contest.where}: the best of {len(order)} methods.")
    text = f"Ahead of {second} ({100 * column[second].mean:.2f} %) by {amount(behind.difference)}, on the same tasks."
    if to_baseline is not None and second != SMOOTH:
        text += f" Against smooth, which trains nothing: {gain(to_baseline)}."
    ahead = f"{-100 * behind.difference.mean:.1f}"
    margin = KeyFigure(f"{ahead} point{'s' * (ahead != '1.0')}", text)
    by_mark = {mark: [name for name in order[1:] if standings[name].mark == mark] for mark in ("≈", "▼", "")}
    return first, margin, _significance(by_mark["≈"], worse=len(by_mark["▼"]), one_seed=len(by_mark[""]))


def _significance(similar: Sequence[str], *, worse: int, one_seed: int) -> KeyFigure:
    """Whether the best is significantly ahead, by the marks of its column."""
    if not similar and not worse:
        return KeyFigure("not known", f"One seed: intervals are over tasks, and {ONE_SEED}")
    if similar:
        short = f"not against {count_words(len(similar), 'other')}"
        text = f"No significant difference from the best on these tasks and seeds: {_listed(similar)}."
        text += f" {worse} of the others significantly worse." if worse else ""
    else:
        short = "yes"
        text = (
            "Every other method is significantly worse (p < 0.05, Holm): differences on the same tasks, with the "
            "variance "
            "over tasks and over seeds."
        )
    if one_seed:
        short += f", {one_seed} not compared"
        text = f"Of the methods with several seeds: {text} With one seed: {one_seed}."
    return KeyFigure(short, text)


def _percent(found: Score) -> str:
    return f"{100 * found.mean:.2f} ± {100 * found.ci95:.2f} %"
