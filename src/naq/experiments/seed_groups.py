"""An seed_group: the trainings behind one number, one per seed, and what their records say together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from naq.experiments.base import candidates, setting, training
from naq.experiments.captions import not_there
from naq.experiments.names import full_name
from naq.experiments.request import Request
from naq.experiments.views import Missing, Number
from naq.grid.cells import Cell
from naq.grid.records import Find, Record
from naq.protocol.evaluation import BASELINE
from naq.statistics import Difference, Score, Spread, Standing, difference, score

UNTRAINED_LINE = full_name(BASELINE)
"""What the `smooth` baseline is called beside trained methods."""


@dataclass(frozen=True, eq=False)
class SeedGroup:
    """One method under one condition.

    Attributes:
        cells: one per seed; candidates of the setting while it is not chosen.
        chosen: whether ``cells`` are the seed_group's own trainings.
        options: that were chosen among candidates; empty without a choice.
        tried: the candidates that the setting was chosen among.
    """

    cells: Sequence[Cell]
    chosen: bool
    options: Mapping[str, Any]
    tried: Sequence[Cell] = ()

    @property
    def needed(self) -> list[Cell]:
        """Everything that its number rests on."""
        return [*self.tried, *self.cells]

    def records(self, find: Find) -> list[Record]:
        """Those of its trainings that are done."""
        if not self.chosen:
            return []
        return [record for cell in self.cells if (record := find(cell)) is not None and record.done]

    def score(self, find: Find, shot: int | None = None, head: str | None = None) -> Score | None:
        """Accuracy on test tasks of ``shot`` with ``head``, by default those it was trained for; None while nothing is done.

        Trainings that were tested on other tasks than the first one are left out: their numbers do not average.
        """
        records = self.records(find)
        return score_of(records, shot, head)

    def why_not(self, find: Find) -> Missing:
        """What stands where the number would."""
        if not self.chosen:
            return not_there(None)
        failed = [record for cell in self.cells if (record := find(cell)) is not None and not record.done]
        return not_there(failed[0] if failed else None)


def seed_group(
    request: Request,
    find: Find,
    dataset: str,
    method: str,
    *,
    perturbation: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    chosen_for: Mapping[str, Any] | None = None,
    seeds: Sequence[int] | None = None,
    **more: Any,
) -> SeedGroup:
    """The trainings of a method under one condition, with the setting that validation tasks chose where the request tunes.

    Args:
        perturbation: drawn anew for every seed unless it names one.
        options: on top of the chosen setting.
        chosen_for: way and shot that the setting is chosen for, where they are not those of the trainings.
    """
    tuned_on = {"way": more.get("way", 5), "shot": more.get("shot", 1), **(chosen_for or {})}
    found = setting(request, find, dataset, method, **tuned_on)
    tried = candidates(request, dataset, method, **tuned_on) if request.tune else []
    if found is None:
        return SeedGroup(tried, False, {})
    cells = [
        training(
            request,
            dataset,
            method,
            seed=seed,
            options={**found, **(options or {})},
            perturbation=None if perturbation is None else {"seed": seed, **perturbation},
            **more,
        )
        for seed in (request.all_seeds if seeds is None else seeds)
    ]
    return SeedGroup(cells, True, found, tried)


def score_of(records: Sequence[Record], shot: int | None = None, head: str | None = None) -> Score | None:
    """The score of trainings on the tasks they share."""
    runs: dict[str, list[Any]] = {}
    trained = False
    for record in records:
        assert record.result is not None
        result, config, data = record.result, record.result["config"], record.result["data"]
        main = shot is None or shot == config["shot"]
        found = result["evaluations"] if main else result["also"].get(str(shot), {})
        name = head or (config["head"] if config["head"] in found else next(iter(found), ""))
        if name in found:
            runs.setdefault(data["tasks"] if main else data["also"][str(shot)], []).append(found[name]["per_task"])
            trained = trained or result["history"] is not None
    if not runs:
        return None
    tasks, kept = next(iter(runs.items()))
    if not trained and all(run == kept[0] for run in kept):
        return score(kept[:1], tasks, trained=False)
    return score(kept, tasks)


def number(
    found: Score,
    standing: Standing | None = None,
    *,
    paper: float | str | None = None,
    paper_ci: float | None = None,
    keys: Sequence[str] = (),
) -> Number:
    """A score as an entry of a table, in percent."""
    return Number(
        100 * found.mean,
        100 * found.ci95,
        None if found.spread is None else 100 * found.spread,
        found.seeds,
        paper,
        paper_ci,
        standing.rank if standing is not None and standing.rank <= 2 else 0,
        standing.mark if standing is not None else "",
        keys=tuple(keys),
    )


ONE_SEED = "of these trainings: one seed each"


def amount(found: Difference) -> str:
    """``3.1 ± 0.8 points``, whatever its direction."""
    return f"{100 * abs(found.mean):.1f} ± {100 * found.ci95:.1f} points"


def points(found: Difference) -> str:
    """``3.1 ± 0.8 points``, and whether it is more than chance; for a comparison that was not picked from many."""
    real = "real" if abs(found.mean) > found.ci95 else "not told apart from chance"
    return f"{amount(found)} ({real}{'' if found.seeds_known else f', {ONE_SEED}'})"


def gain(a: Score, b: Score, spread: Spread | None = None) -> str:
    """How much ``a`` is above or below ``b``, in words."""
    found = difference(a, b, spread)
    return f"{'above' if found.mean >= 0 else 'below'} by {points(found)}"
