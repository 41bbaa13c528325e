"""The answers of a report's first screen: which method is best, by how much, and is it real."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from naq.experiments.accuracy_table import AccuracyTable
from naq.experiments.base import get_experiment
from naq.experiments.names import full_name
from naq.experiments.request import Request
from naq.experiments.seed_groups import amount
from naq.experiments.sweep import Sweep
from naq.grid.records import Find
from naq.protocol.evaluation import BASELINE
from naq.report.page import Answer
from naq.statistics import Score, compare, difference, pooled_spread

NOTHING = Answer("nothing yet", "No method has finished.")
ALONE = Answer("nothing to compare", "No other method has finished on the same tasks.")
NAMED = 6
"""Names in an answer; the section below has them all."""
Column = tuple[str, str, dict[str, Score]]
"""Words on the data, the title of the section, and the scores by method."""


def answers(requests: Sequence[Request], find_for: Callable[[Request], Find]) -> tuple[Answer, Answer, Answer, str]:
    """Best, margin and reality from the first table that has results, else from the analyses' trainings on unchanged data."""
    alone: Column | None = None
    columns = _columns(requests, find_for)
    for where, title, column in columns:
        if len(column) > 1:
            others = [_elsewhere(place, found) for place, name, found in columns if name == title and len(found) > 1]
            return *_answers(where, column), " ".join([_about(where, title), *others])
        if column and alone is None:
            alone = where, title, column
    if alone is None:
        return NOTHING, NOTHING, NOTHING, ""
    where, title, column = alone
    return _alone(where, column), ALONE, ALONE, _about(where, title)


def _columns(requests: Sequence[Request], find_for: Callable[[Request], Find]) -> Iterator[Column]:
    """Candidates for the first screen, tables first."""
    for request in sorted(requests, key=lambda request: get_experiment(request.experiment).kind != "table"):
        experiment, find = get_experiment(request.experiment), find_for(request)
        for dataset in request.datasets:
            if isinstance(experiment, AccuracyTable):
                for way, shot in experiment.settings(request, dataset):
                    groups = {
                        m: experiment.seed_group(request, find, dataset, m, (way, shot))
                        for m in experiment.rows(request)
                    }
                    column = {full_name(m): s for m, a in groups.items() if (s := a.score(find, shot)) is not None}
                    yield f"{dataset}, {way}-way {shot}-shot", experiment.title, column
            elif isinstance(experiment, Sweep):
                column = experiment.unchanged(request, dataset, find)
                way, shot = (request.ways or (5,))[0], (request.shots or (1,))[0]
                yield f"{dataset}, {way}-way {shot}-shot, nothing changed", experiment.title, column


def _about(where: str, title: str) -> str:
    return f"The answers are about {where}; the section “{title}” has more."


def _elsewhere(where: str, column: dict[str, Score]) -> str:
    """The same table in another setting, in one sentence."""
    standings = compare(column)
    best = max(column, key=lambda name: column[name].mean)
    alike = sum(standing.mark == "≈" for standing in standings.values()) - 1
    sure = "really ahead of every other" if alike < 1 else f"not told apart from {alike} others"
    return f"On {where}: {best} with {_percent(column[best])}, {sure}."


def _alone(where: str, column: dict[str, Score]) -> Answer:
    """One method is no comparison."""
    [(name, found)] = column.items()
    return Answer(name, f"{_percent(found)} on {where}: the only method that has finished there.")


def _answers(where: str, column: dict[str, Score]) -> tuple[Answer, Answer, Answer]:
    standings, spread = compare(column), pooled_spread(column.values())
    order = sorted(column, key=lambda name: -column[name].mean)
    best, second = order[:2]
    ahead = difference(column[best], column[second], spread)
    first = Answer(best, f"{_percent(column[best])} on {where}: the best of {len(order)} methods.")
    floor = next((name for name in order if name.startswith(BASELINE)), None)
    text = f"Ahead of {second} ({100 * column[second].mean:.2f} %) by {amount(ahead)}, on the same tasks."
    if floor is not None and floor not in (best, second):
        above = difference(column[best], column[floor], spread)
        sure = "" if standings[floor].apart else ", not told apart"
        text += f" Ahead of {BASELINE}, which trains nothing, by {amount(above)}{sure}."
    alike = [name for name in order[1:] if standings[name].mark == "≈"]
    real = _alike(alike, others=len(order) - 1 - len(alike)) if alike else Answer("yes", _BELOW)
    if not ahead.seeds_known:
        real = Answer(real.short, real.text + " One training each: another seed may change the order.")
    return first, Answer(_points(ahead.mean), text), real


_BELOW = (
    "Every other method is below by more than chance: paired differences on the same tasks, spread over seeds counted, "
    "corrected for the number of comparisons."
)


def _alike(names: Sequence[str], *, others: int) -> Answer:
    """That the best is not alone, with a few of those beside it."""
    more = len(names) - NAMED
    listed = ", ".join(names) if more < 2 else f"{', '.join(names[:NAMED])} and {more} more, named in the section below"
    rest = f" {'The other method is' if others == 1 else f'The other {others} are'} really below." if others else ""
    return Answer(
        f"no: {len(names) + 1} are alike", f"Not told apart from the best on these tasks and seeds: {listed}.{rest}"
    )


def _percent(found: Score) -> str:
    return f"{100 * found.mean:.2f} ± {100 * found.ci95:.2f} %"


def _points(share: float) -> str:
    shown = f"{100 * share:.1f}"
    return f"{shown} point" if shown == "1.0" else f"{shown} points"
