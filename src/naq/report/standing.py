"""The answers of a report's first screen: which method is best, by how much, and is it real."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from naq.experiments.analyses.tables import REFERENCE, AccuracyTable
from naq.experiments.arms import points
from naq.experiments.asking import Ask
from naq.experiments.experiment import get_experiment
from naq.experiments.names import full_name
from naq.experiments.records import Find
from naq.experiments.statistics import Score, compare, difference, pooled_spread
from naq.experiments.sweep import Sweep
from naq.report.page import Answer

NOTHING = Answer("nothing yet", "No two methods have finished on the same tasks.")


def answers(asks: Sequence[Ask], find_for: Callable[[Ask], Find]) -> tuple[Answer, Answer, Answer, str]:
    """Best, margin and reality from the first table that has results, else from the analyses' trainings on unchanged data."""
    for where, column in _columns(asks, find_for):
        if len(column) > 1:
            return _answers(where, column)
    return NOTHING, NOTHING, NOTHING, ""


def _columns(asks: Sequence[Ask], find_for: Callable[[Ask], Find]) -> list[tuple[str, dict[str, Score]]]:
    """Candidates for the first screen, tables first: words on where it stands, and the scores by method."""
    found = []
    for ask in sorted(asks, key=lambda ask: get_experiment(ask.experiment).kind != "table"):
        experiment, find = get_experiment(ask.experiment), find_for(ask)
        for dataset in ask.datasets:
            if isinstance(experiment, AccuracyTable):
                way, shot = experiment.settings(ask, dataset)[0]
                arms = {m: experiment.arm(ask, find, dataset, m, (way, shot)) for m in experiment.rows(ask)}
                column = {full_name(m): s for m, a in arms.items() if (s := a.score(find, shot)) is not None}
                found.append((f"{dataset}, {way}-way {shot}-shot, {experiment.title.lower()}", column))
            elif isinstance(experiment, Sweep):
                column = experiment.unchanged(ask, dataset, find)
                found.append((f"{dataset}, 5-way 1-shot, unchanged data of {experiment.title.lower()}", column))
    return found


def _answers(where: str, column: dict[str, Score]) -> tuple[Answer, Answer, Answer, str]:
    standings, spread = compare(column), pooled_spread(column.values())
    order = sorted(column, key=lambda name: -column[name].mean)
    best, second = order[:2]
    ahead = difference(column[best], column[second], spread)
    alike = [name for name in order[1:] if standings[name].mark == "≈"]
    first = Answer(
        best,
        f"{100 * column[best].mean:.2f} ± {100 * column[best].ci95:.2f} % on {where}, the best of {len(order)} methods.",
    )
    floor = next((name for name in order if name.startswith(REFERENCE)), None)
    text = f"Ahead of {second} ({100 * column[second].mean:.2f} %) by {points(ahead)}, on the same tasks."
    if floor is not None and best != floor:
        text += f" Ahead of {REFERENCE}, which trains nothing, by {points(difference(column[best], column[floor], spread))}."
    margin = Answer(f"{100 * ahead.mean:.1f} points", text)
    if alike:
        real = Answer(
            "not alone",
            f"Not told apart from the best on these tasks and seeds: {', '.join(alike)}. Every other method is really below.",
        )
    else:
        real = Answer(
            "yes",
            "Every other method is below by more than chance: paired differences on the same tasks, spread over seeds counted, corrected for the number of comparisons.",
        )
    if not ahead.seeds_known:
        real = Answer(real.short, real.text + " One training each: another seed may change the order.")
    return first, margin, real, f"The answers are about {where}."
