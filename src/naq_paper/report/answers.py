"""The answers of a report's first screen: which method is best, by how much, is that significant, and what to run.

What to run is, per dataset and setting, one method, why, what it gains over `smooth`, and its command. The choice: the method with the highest mean. Where others show no significant difference from it, the cheapest of these: fewest labels first,
then seconds per training. That is a rule for choosing, not a claim that they are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from naq_paper.cells.records import Record
from naq_paper.experiments.captions import SMOOTH, amount, gain, leaders
from naq_paper.experiments.experiment import Contest, Study
from naq_paper.report.commands import run_command
from naq_paper.report.format import duration
from naq_paper.report.page import Advice, Answer
from naq_paper.statistics import Score, Standing, compare

NAMED = 6  # names in a sentence; the section below has them all
RULE = (
    "The method with the highest mean; where others show no significant difference from it (p < 0.05, Holm over all pairs), the cheapest of these: "
    "fewest labels, then least time. Trainings that were cut are judged as far as they went. “No significant difference” is not “equal”: the note of each table says which difference it can detect. "
    "± of a difference is its own 95 % interval, without that correction: it may exclude 0 where no significant difference is found."
)
LABELS = (
    "no labels beyond a task's own", "labels of validation classes, to choose the checkpoint", "labels of base classes"
)  # fmt: skip


def advise(contest: Contest, paths: Mapping[str, str] | None = None) -> Advice | None:
    """What to run on the contest's tasks; None where fewer than two methods have finished."""
    scores = contest.scores
    if len(scores) < 2:
        return None
    standings = compare(scores, SMOOTH)
    order = sorted(scores, key=lambda name: -scores[name].mean)
    best, others = order[0], order[1:]
    similar = [name for name in others if standings[name].mark == "≈"]
    unknown = [name for name in others if not standings[name].mark]
    if len(unknown) == len(others):
        chosen = best
        why = "the highest mean of one seed each; another training may change the order. Run more with --seeds 5."
    else:
        tied = [best, *similar]
        chosen = min(tied, key=lambda name: (*_cost(contest.trainings[name]), tied.index(name)))
        why = _why(chosen, best, similar, standings, 100 * scores[best].mean)
        if unknown:
            why += f" Not compared, because of one seed: {_listed(unknown)}."
    labels, seconds = _cost(contest.trainings[chosen])
    cost = f"Needs {LABELS[labels]}, and {duration(seconds)} here."
    text = " ".join(filter(None, (f"{100 * scores[chosen].mean:.1f} %: {why}", _gain(chosen, standings), cost)))
    config = contest.trainings[chosen][0].cell.config
    return Advice(contest.where, chosen, text, run_command(config, contest.at, paths))


def _cost(records: Sequence[Record]) -> tuple[int, float]:
    """Which labels, as a place in ``LABELS``, and seconds per training."""
    assert records[0].result is not None
    result = records[0].result
    selected = result["history"] is not None and records[0].cell.config.get("select") != "clusters"
    labels = 2 if result["facts"].get("reads_base_labels") else int(selected)
    return labels, sum(record.seconds for record in records) / len(records)


def _why(chosen: str, best: str, similar: Sequence[str], standings: Mapping[str, Standing], best_mean: float) -> str:
    if not similar:
        return "significantly better than every other method compared here."
    if chosen == best:
        return f"the highest mean. No significant difference from {_listed(similar)}, at no lower cost."
    behind = standings[chosen].to_best
    assert behind is not None
    rest = [name for name in similar if name != chosen]
    others = f" No significant difference either from {_listed(rest)}, which cost more." if rest else ""
    return (
        f"no significant difference from the best, {best} with {best_mean:.1f} % ({amount(behind.difference)} more), "
        f"and cheaper.{others}"
    )


def _gain(chosen: str, standings: Mapping[str, Standing]) -> str:
    to_baseline = standings[chosen].to_baseline
    if to_baseline is not None:
        return f"Against smooth, which trains nothing: {gain(to_baseline)}."
    others = [standing for name, standing in standings.items() if name != SMOOTH]
    if chosen == SMOOTH and any(one.mark == "≈" for one in others) and not any(one.against == "s+" for one in others):
        return "No method compared here is significantly better than smooth."
    return ""


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names) if more < 2 else f"{', '.join(names[:NAMED])} and {more} more"


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
    [(name, score)] = contest.scores.items()
    only = Answer(name, f"{_percent(score)} on {contest.where}: the only method that has finished there.")
    return only, ALONE, ALONE, _about(contest.where, title)


def advice(studies: Sequence[Study], paths: Mapping[str, str] | None = None) -> list[Advice]:
    """What to run, for every dataset and setting of the experiment and profile that the answers are about."""
    found: dict[str, Advice] = {}
    first: tuple[str, str] | None = None
    for study in _in_order(studies):
        about = study.experiment.name, study.request.profile
        if first not in (None, about):
            continue
        for contest in study.experiment.headline(study):
            where = _where(contest, study)
            if where not in found and (one := advise(contest, paths)) is not None:
                found[where], first = replace(one, where=where), about
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
    ahead = f"{-100 * behind.difference.mean:.1f}"
    margin = Answer(f"{ahead} point" if ahead == "1.0" else f"{ahead} points", text)
    by_mark = {mark: [name for name in order[1:] if standings[name].mark == mark] for mark in ("≈", "▼", "")}
    return first, margin, _significant(by_mark["≈"], worse=len(by_mark["▼"]), one_seed=len(by_mark[""]))


def _significant(similar: Sequence[str], *, worse: int, one_seed: int) -> Answer:
    """Whether the best is alone, by the marks of its column."""
    if not similar and not worse:
        why = "One seed: intervals are over tasks, and another training may change the order. Run more with --seeds 5."
        return Answer("not known", why)
    if similar:
        short = f"not against {'one other' if len(similar) == 1 else f'{len(similar)} others'}"
        below = ", named in the section below" if len(similar) - NAMED >= 2 else ""
        text = f"No significant difference from the best on these tasks and seeds: {_listed(similar)}{below}."
        if worse:
            text += f" {'The other method is' if worse == 1 else f'The other {worse} are'} significantly worse."
    else:
        short = "yes"
        text = "Every other method is significantly worse (p < 0.05, Holm): differences on the same tasks, with the variance over tasks and over seeds."
    if one_seed:
        short, text = (
            f"{short}, {one_seed} not compared", f"Of the methods with several seeds: {text} With one seed: {one_seed}."
        )  # fmt: skip
    return Answer(short, text)


def _percent(found: Score) -> str:
    return f"{100 * found.mean:.2f} ± {100 * found.ci95:.2f} %"
