"""Figures that the closed form was to reach, and whether it does: comparisons of one rule, each with its target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from naq.run.evaluate import BASELINE, dirichlet
from naq_paper.experiments.accuracy_views import BALANCED, INDUCTIVE, UNBALANCED
from naq_paper.experiments.captions import gain, table_name
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.names import full_name
from naq_paper.experiments.variants import gain_series
from naq_paper.experiments.views import BarView, Entry, Number, TableView
from naq_paper.statistics import Comparison, Score, family

CLOSED = "naq-plus"
INDUCTIVE_HEADS = ("logistic", "prototype")
TOGETHER = ("transductive", "em", "balanced")
FAIR = ("transductive", "em")
"""Heads that look at queries together; the fair ones are not told that classes are equally frequent."""
HIGH = 0.95
"""Accuracy from which on a baseline leaves no room for a gain."""


@dataclass(frozen=True)
class Target:
    """A gain to reach: significantly above and at least ``least`` points, or, where that is None, not significantly below."""

    least: float | None

    @property
    def words(self) -> str:
        return "not below" if self.least is None else f"+{self.least:g}" if self.least else "above"

    def met(self, test: Comparison) -> bool | None:
        """None where one seed shows nothing."""
        if test.p is None:
            return None
        if self.least is None:
            return not (test.significant and test.difference.mean < 0)
        return test.significant and test.difference.mean > 0 and 100 * test.difference.mean >= self.least


DEBIAN = {(INDUCTIVE, 1): 3.0, (INDUCTIVE, 5): 2.0, (BALANCED, 1): 5.0, (UNBALANCED, 1): 4.0}
"""Points to gain there, by setting and shot."""


@dataclass(frozen=True)
class Figure:
    """A comparison of the closed form that has a target."""

    setting: str
    where: str
    against: str
    target: Target
    test: Comparison

    @property
    def sentence(self) -> str:
        return f"{self.setting.capitalize()}, {self.where}, naq-plus against {self.against}: {gain(self.test)}."


Scores = Mapping[tuple[str, int, str], Score]
"""By method, shot and head."""


def scores_of(study: Study, rows: Sequence[str], way: int, shots: Sequence[int]) -> dict[tuple[str, int, str], Score]:
    """What the figures are made of, as far as it is finished."""
    heads = [*INDUCTIVE_HEADS, *TOGETHER, *map(dirichlet, ("prototype", *FAIR))]
    return {
        (row, shot, head): s
        for row in rows
        for shot in shots
        for head in heads
        if (s := study.score((row, (way, shot)), shot, head)) is not None
    }


def figures(dataset: str, found: Scores, rivals: Sequence[str], shots: Sequence[int]) -> list[Figure]:
    """Every figure whose scores are there.

    The best rival of a column is chosen by its data: all rivals of the column are one family, so that the choice is paid for. The transductive
    heads are one family, those on Dirichlet(2) queries another.
    """
    made = []
    for shot in shots:
        for head in INDUCTIVE_HEADS:
            column = {rival: found[rival, shot, head] for rival in rivals if (rival, shot, head) in found}
            ours = found.get((CLOSED, shot, head))
            if ours is None or not column:
                continue
            best = max(column, key=lambda rival: column[rival].mean)
            test = family({rival: (ours, theirs) for rival, theirs in column.items()})[best]
            target = _inductive_target(dataset, shot, column[best])
            made.append(Figure(INDUCTIVE, f"{shot}-shot, {head}", full_name(best), target, test))
    ours_and_smooth = {
        (shot, head): (found[CLOSED, shot, head], found[BASELINE, shot, head])
        for shot in shots[:1]
        for head in TOGETHER
        if (CLOSED, shot, head) in found and (BASELINE, shot, head) in found
    }
    for (shot, head), test in family(ours_and_smooth).items():
        target = _above(dataset, BALANCED, shot)
        made.append(Figure(BALANCED, f"{shot}-shot, {head}", f"{full_name(BASELINE)}, {head}", target, test))
    together_and_alone = {
        (shot, head): (found[CLOSED, shot, dirichlet(head)], found[CLOSED, shot, dirichlet("prototype")])
        for shot in shots[:1]
        for head in FAIR
        if (CLOSED, shot, dirichlet(head)) in found and (CLOSED, shot, dirichlet("prototype")) in found
    }
    for (shot, head), test in family(together_and_alone).items():
        target = _above(dataset, UNBALANCED, shot)
        made.append(Figure(UNBALANCED, f"{shot}-shot, {head}", f"{CLOSED}, prototype", target, test))
    return made


def _inductive_target(dataset: str, shot: int, best: Score) -> Target:
    if dataset == "debian":
        return Target(DEBIAN.get((INDUCTIVE, shot)))
    return Target(1.0 if shot == 1 and best.mean < HIGH else None)


def _above(dataset: str, setting: str, shot: int) -> Target:
    return Target(DEBIAN.get((setting, shot), 0.0) if dataset == "debian" else 0.0)


def reached_table(study: Study, made: Sequence[Figure]) -> TableView:
    """Each figure with its target, what was measured, and whether that is significant and enough."""
    lines: list[list[Entry]] = []
    for one in made:
        met, d = one.target.met(one.test), one.test.difference
        significant = "–" if one.test.p is None else "yes" if one.test.significant else "no"
        lines.append(
            [
                one.setting,
                one.where,
                one.against,
                one.target.words,
                Number(100 * d.mean, 100 * d.ci95, digits=1),
                significant,
                "–" if met is None else "yes" if met else "no",
            ]
        )
    return TableView(
        table_name(study, "reached"),
        f"Figures reached: {study.dataset}",
        ["setting", "shot and head", "naq-plus against", "target", "gain, points", "significant", "reached"],
        lines,
        labels=4,
        note=(
            "Inductive: against the best of smooth and the trained label-free methods in that column, chosen on these tasks; Holm over all of them. "
            "Balanced queries: against smooth under the same head; Holm over the heads. "
            "Dirichlet(2) queries: against prototypes of the same vectors, which answer every query alone; Holm over the heads. "
            "The tables of heads compare all pairs of their rows, which are more comparisons: they may mark no significant difference where one is significant here. "
            "+n and above: significantly better (p < 0.05), by n points at least; not below: not significantly worse. ± is the 95 % interval of the difference alone."
        ),
    )


def reached_plot(study: Study, made: Sequence[Figure]) -> BarView:
    """The gains with their intervals."""
    settings = dict.fromkeys(one.setting for one in made)
    series = [
        gain_series(
            setting,
            [one.where for one in made if one.setting == setting],
            [one.test for one in made if one.setting == setting],
        )
        for setting in settings
    ]
    return BarView(
        table_name(study, "reached"),
        f"Gain of naq-plus: {study.dataset}",
        "points",
        series,
        {"no difference": 0.0},
        "Against what the table names. Whiskers are 95 % intervals of each difference alone.",
    )
