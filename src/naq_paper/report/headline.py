"""The answers of a report's first screen: which method is best, by how much, and is the difference significant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from naq_paper.experiments.captions import SMOOTH, amount, gain, leaders
from naq_paper.experiments.experiment import Contest, Study
from naq_paper.report.advice import NAMED, advise
from naq_paper.report.page import Advice, Answer
from naq_paper.statistics import Score, compare

NOTHING = Answer("nothing yet", "No method has finished.")
ALONE = Answer("nothing to compare", "No other method has finished on the same tasks.")
Column = tuple[Contest, str]
"""Methods on the same tasks, and the title of the section."""


def headline(studies: Sequence[Study]) -> tuple[Answer, Answer, Answer, str]:
    """Best, margin and significance from the first table that has results, else from the analyses' trainings on unchanged data."""
    alone: Column | None = None
    for contest, title in _columns(studies):
        if len(contest.scores) > 1:
            return *_answers(contest.where, contest.scores), _about(contest.where, title)
        if contest.scores and alone is None:
            alone = contest, title
    if alone is None:
        return NOTHING, NOTHING, NOTHING, ""
    contest, title = alone
    return _alone(contest.where, contest.scores), ALONE, ALONE, _about(contest.where, title)


def advice(studies: Sequence[Study], paths: Mapping[str, str] | None = None) -> list[Advice]:
    """What to run, for every dataset and setting of the experiment and profile that the answers are about."""
    found: dict[str, Advice] = {}
    first: Study | None = None
    for study in _in_order(studies):
        if first is not None and (study.experiment.name, study.request.profile) != (
            first.experiment.name,
            first.request.profile,
        ):
            continue
        for contest in study.experiment.headline(study):
            where = _where(contest, study)
            if where not in found and (one := advise(contest, paths)) is not None:
                found[where], first = replace(one, where=where), first or study
    return list(found.values())


def _in_order(studies: Sequence[Study]) -> list[Study]:
    """Tables first."""
    return sorted(studies, key=lambda study: study.experiment.kind != "table")


def _columns(studies: Sequence[Study]) -> Iterator[Column]:
    """Candidates for the first screen."""
    for study in _in_order(studies):
        for contest in study.experiment.headline(study):
            yield replace(contest, where=_where(contest, study)), study.experiment.title


def _where(contest: Contest, study: Study) -> str:
    profile = study.request.profile
    return contest.where if profile == "default" else f"{contest.where}, {profile} profile"


def _about(where: str, title: str) -> str:
    return f"The answers are about {where}; the section “{title}” has more."


def _alone(where: str, column: Mapping[str, Score]) -> Answer:
    [(name, found)] = column.items()
    return Answer(name, f"{_percent(found)} on {where}: the only method that has finished there.")


def _answers(where: str, column: Mapping[str, Score]) -> tuple[Answer, Answer, Answer]:
    standings = compare(column, SMOOTH)
    order = sorted(column, key=lambda name: -column[name].mean)
    best, second = leaders(column)
    behind, to_baseline = standings[second].to_best, standings[best].to_baseline
    assert behind is not None
    first = Answer(best, f"{_percent(column[best])} on {where}: the best of {len(order)} methods.")
    text = f"Ahead of {second} ({100 * column[second].mean:.2f} %) by {amount(behind.difference)}, on the same tasks."
    if to_baseline is not None and second != SMOOTH:
        text += f" Against smooth, which trains nothing: {gain(to_baseline)}."
    margin = Answer(_points(-behind.difference.mean), text)
    by_mark = {mark: [name for name in order[1:] if standings[name].mark == mark] for mark in ("≈", "▼", "")}
    return first, margin, _significant(by_mark["≈"], worse=len(by_mark["▼"]), one_seed=len(by_mark[""]))


def _significant(similar: Sequence[str], *, worse: int, one_seed: int) -> Answer:
    """Whether the best is alone, by the marks of its column."""
    if not similar and not worse:
        return _ONE_SEED
    found = _similar(similar, others=worse) if similar else Answer("yes", _WORSE)
    if one_seed:
        found = Answer(
            f"{found.short}, {one_seed} not compared",
            f"Of the methods with several seeds: {found.text} With one seed: {one_seed}.",
        )
    return found


_ONE_SEED = Answer(
    "not known",
    "One seed: intervals are over tasks, and another training may change the order. Run more with --seeds 5.",
)
_WORSE = (
    "Every other method is significantly worse (p < 0.05, Holm): differences on the same tasks, with the variance "
    "over tasks and over seeds."
)


def _similar(names: Sequence[str], *, others: int) -> Answer:
    """That the best is not alone, with a few of those beside it."""
    more = len(names) - NAMED
    listed = ", ".join(names) if more < 2 else f"{', '.join(names[:NAMED])} and {more} more, named in the section below"
    worse = (
        f" {'The other method is' if others == 1 else f'The other {others} are'} significantly worse." if others else ""
    )
    count = "one other" if len(names) == 1 else f"{len(names)} others"
    return Answer(
        f"not against {count}", f"No significant difference from the best on these tasks and seeds: {listed}.{worse}"
    )


def _percent(found: Score) -> str:
    return f"{100 * found.mean:.2f} ± {100 * found.ci95:.2f} %"


def _points(share: float) -> str:
    shown = f"{100 * share:.1f}"
    return f"{shown} point" if shown == "1.0" else f"{shown} points"
