"""What a reader should run: per dataset and setting one method, why, what it gains over `smooth`, and its command.

The choice: the method with the highest mean. Where others show no significant difference from it, the cheapest of these: fewest labels first,
then seconds per training. That is a rule for choosing, not a claim that they are equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from naq_paper.cells.records import Record
from naq_paper.experiments.captions import SMOOTH, amount, gain
from naq_paper.experiments.experiment import Contest
from naq_paper.report.commands import run_command
from naq_paper.report.format import duration
from naq_paper.report.page import Advice
from naq_paper.statistics import Standing, compare

NAMED = 6
"""Names in a sentence; the section below has them all."""
RULE = (
    "The method with the highest mean; where others show no significant difference from it (p < 0.05, Holm over all pairs), the cheapest of these: "
    "fewest labels, then least time. Trainings that were cut are judged as far as they went. “No significant difference” is not “equal”: the note of each table says which difference it can detect. "
    "± of a difference is its own 95 % interval, without that correction: it may exclude 0 where no significant difference is found."
)
LABELS = (
    "no labels beyond a task's own",
    "labels of validation classes, to choose the checkpoint",
    "labels of base classes",
)


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
        chosen, why = (
            best,
            "the highest mean of one seed each; another training may change the order. Run more with --seeds 5.",
        )
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
    trained = result["history"] is not None
    labels = (
        2
        if result["facts"].get("reads_base_labels")
        else int(trained and records[0].cell.config.get("select") != "clusters")
    )
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
