"""NaQ in closed form compared with everything label-free that is trained, and the gains it was to reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from naq.methods import get_method
from naq.run.evaluate import BASELINE, dirichlet
from naq_paper.experiments.analyses.accuracy_table import (
    BALANCED,
    INDUCTIVE,
    UNBALANCED,
    AccuracyTable,
    Found,
    Setting,
)
from naq_paper.experiments.analyses.variants import CLOSED, gain_series
from naq_paper.experiments.captions import gain, table_name
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.names import full_name
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup, seed_group
from naq_paper.experiments.views import BarView, Entry, Number, TableView, View
from naq_paper.statistics import Comparison, Score, family

OLDER = "smooth, older form"
INDUCTIVE_HEADS = ("logistic", "prototype")
TOGETHER = ("transductive", "em", "balanced")
FAIR = ("transductive", "em")
"""Heads that look at queries together; the fair ones do not use that classes are equally frequent."""
HIGH = 0.95
"""Accuracy from which on a baseline leaves no room for a gain."""
DEBIAN = {(INDUCTIVE, 1): 3.0, (INDUCTIVE, 5): 2.0, (BALANCED, 1): 5.0, (UNBALANCED, 1): 4.0}
"""Points to gain there, by setting and shot."""
Scores = Mapping[tuple[str, int, str], Score]
"""By method, shot and head."""


@dataclass(frozen=True)
class Target:
    """A gain to reach: significantly above by ``least`` points or more; None is not significantly below."""

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


@dataclass(frozen=True)
class TargetGain:
    """A comparison of the closed form that has a target."""

    setting: str
    where: str
    against: str
    target: Target
    test: Comparison

    @property
    def sentence(self) -> str:
        return f"{self.setting.capitalize()}, {self.where}, naq-plus against {self.against}: {gain(self.test)}."


@dataclass(frozen=True, kw_only=True, eq=False)
class BeyondAccuracy(AccuracyTable):
    """Accuracies with the closed form first, an older form of the baseline, and gains that have a target."""

    def rows(self, request: Request) -> list[str]:
        return list(dict.fromkeys([CLOSED, *super().rows(request)]))

    def shown(self, request: Request) -> list[str]:
        return [*self.rows(request), OLDER]

    def settings(self, request: Request, dataset: str) -> list[Setting]:
        ways = request.ways or (request.possible_way(dataset),)
        return [(way, shot) for way in ways for shot in request.shots or self.shots]

    def cells(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        groups, older = super().cells(request, dataset), {"unit_first": False}
        for way, shot in self.settings(request, dataset):
            groups[OLDER, (way, shot)] = seed_group(request, dataset, BASELINE, way=way, shot=shot, options=older)
        return groups

    def about_rows(self, study: Study) -> str:
        return f"{OLDER}: rows are not of length one before they are smoothed."

    def remarks(self, study: Study, found: Found) -> list[str]:
        return [one.sentence for one in self.gains(study)]

    def more_views(self, study: Study, settings: Sequence[Setting]) -> list[View]:
        made = self.gains(study)
        own: list[View] = [reached_plot(study, made), reached_table(study, made)] if made else []
        return [*own, *super().more_views(study, settings)]

    def gains(self, study: Study) -> list[TargetGain]:
        """Of the first way, as far as they are finished."""
        rows, settings = self.rows(study.request), self.settings(study.request, study.dataset)
        way, shots = settings[0][0], tuple(dict.fromkeys(shot for _, shot in settings))
        heads = [*INDUCTIVE_HEADS, *TOGETHER, *map(dirichlet, ("prototype", *FAIR))]
        scores = {
            (row, shot, head): found[row, (way, shot)]
            for head in heads
            for found in [study.scores(head)]
            for row in rows
            for shot in shots
            if (row, (way, shot)) in found
        }
        rivals = [row for row in rows if not row.startswith(CLOSED) and not get_method(row).reads_base_labels]
        return gains_with_targets(study.dataset, scores, rivals, shots)


def gains_with_targets(dataset: str, found: Scores, rivals: Sequence[str], shots: Sequence[int]) -> list[TargetGain]:
    """Every gain whose scores are finished.

    The best rival of a column is chosen by its data, so all rivals of the column are one family.
    The transductive heads are one family, those on Dirichlet(2) queries another.
    """
    made, debian = [], dataset == "debian"
    for shot in shots:
        for head in INDUCTIVE_HEADS:
            column = {rival: found[rival, shot, head] for rival in rivals if (rival, shot, head) in found}
            ours = found.get((CLOSED, shot, head))
            if ours is None or not column:
                continue
            best = max(column, key=lambda rival: column[rival].mean)
            test = family({rival: (ours, theirs) for rival, theirs in column.items()})[best]
            least = DEBIAN.get((INDUCTIVE, shot)) if debian else 1.0 if shot == 1 and column[best].mean < HIGH else None
            made.append(TargetGain(INDUCTIVE, f"{shot}-shot, {head}", full_name(best), Target(least), test))
    for shot in shots[:1]:
        balanced = {head: ((CLOSED, shot, head), (BASELINE, shot, head)) for head in TOGETHER}
        alone = (CLOSED, shot, dirichlet("prototype"))
        unbalanced = {head: ((CLOSED, shot, dirichlet(head)), alone) for head in FAIR}
        for setting, keys in ((BALANCED, balanced), (UNBALANCED, unbalanced)):
            least = DEBIAN.get((setting, shot), 0.0) if debian else 0.0
            pairs = {head: (found[a], found[b]) for head, (a, b) in keys.items() if a in found and b in found}
            for head, test in family(pairs).items():
                against = f"{full_name(BASELINE)}, {head}" if setting == BALANCED else f"{CLOSED}, prototype"
                made.append(TargetGain(setting, f"{shot}-shot, {head}", against, Target(least), test))
    return made


def reached_table(study: Study, made: Sequence[TargetGain]) -> TableView:
    """Each figure with its target, what was measured, and whether that is significant and enough."""
    words = {None: "–", True: "yes", False: "no"}
    lines: list[list[Entry]] = [
        [
            *(one.setting, one.where, one.against, one.target.words),
            Number(100 * one.test.difference.mean, 100 * one.test.difference.ci95, digits=1),
            words[None if one.test.p is None else one.test.significant],
            words[one.target.met(one.test)],
        ]
        for one in made
    ]
    return TableView(
        table_name(study, "reached"),
        f"Figures reached: {study.dataset}",
        ["setting", "shot and head", "naq-plus against", "target", "gain, points", "significant", "reached"],
        lines,
        labels=4,
        note=(
            "Inductive: against the best of smooth and the trained label-free methods in that column, chosen on "
            "these tasks; Holm over all of them. "
            "Balanced queries: against smooth under the same head; Holm over the heads. "
            "Dirichlet(2) queries: against prototypes of the same vectors, which answer every query alone; Holm "
            "over the heads. "
            "The tables of heads compare all pairs of their rows, which are more comparisons: they may mark no "
            "significant difference where one is significant here. "
            "+n and above: significantly better (p < 0.05), by n points at least; not below: not significantly "
            "worse. ± is the 95 % interval of the difference alone."
        ),
    )


def reached_plot(study: Study, made: Sequence[TargetGain]) -> BarView:
    """The gains with their intervals."""
    settings = dict.fromkeys(one.setting for one in made)
    series = [gain_series(name, {one.where: one.test for one in made if one.setting == name}) for name in settings]
    note = "Against what the table names. Whiskers are 95 % intervals of each difference alone."
    title = f"Gain of naq-plus: {study.dataset}"
    return BarView(table_name(study, "reached"), title, "points", series, {"no difference": 0.0}, note)
