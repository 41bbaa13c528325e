"""Seed groups: one method under one condition, one training per seed, and the score of their records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from naq.experiments.request import Request
from naq.experiments.tuning import CANDIDATES, learner_of
from naq.grid.cells import Cell, canonical
from naq.grid.measurements.train import train_cell
from naq.grid.records import Find, Record
from naq.protocol.methods import get_method
from naq.statistics import Score, score

Key = Any
"""What an experiment calls a group, hashable: a name, or the row and the column of its table."""
MEMORY = 16.0
"""GB that a method may plan with which trains on the whole graph or, where that is too large, by batches.

Fixed, because a result must not depend on how much memory happened to be free.
"""


@dataclass(frozen=True, eq=False)
class SeedGroup:
    """The cells behind one number.

    Attributes:
        trainings: the cells of the group with a setting (options of the method), one per seed.
        candidates: settings to choose among, each with the cell that tries it; empty where nothing is chosen.
    """

    trainings: Callable[[Mapping[str, Any]], Sequence[Cell]]
    candidates: Sequence[tuple[Mapping[str, Any], Cell]] = ()
    _made: dict[str, Sequence[Cell]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, *cells: Cell) -> SeedGroup:
        """A group without a setting to choose."""
        return cls(lambda setting: cells)

    def setting(self, find: Find) -> Mapping[str, Any] | None:
        """The candidate with the best accuracy on validation tasks, the first of equals; None while one is missing.

        A candidate that failed for good does not hold up the choice among the others.
        """
        if len(self.candidates) <= 1:
            return self.candidates[0][0] if self.candidates else {}
        best: tuple[float, Mapping[str, Any]] | None = None
        for setting, cell in self.candidates:
            record = find(cell)
            if record is None:
                return None
            if record.result is not None:
                valid = float(record.result["facts"]["valid_accuracy"])
                if best is None or valid > best[0]:
                    best = valid, setting
        return best[1] if best is not None else {}

    def cells(self, find: Find) -> Sequence[Cell]:
        """The trainings; none while their setting is not chosen."""
        setting = self.setting(find)
        if setting is None:
            return ()
        key = canonical(setting)
        if key not in self._made:
            self._made[key] = self.trainings(setting)
        return self._made[key]

    def needed(self, find: Find) -> list[Cell]:
        """Everything that the number rests on, as far as it is known by now."""
        tried = [cell for _, cell in self.candidates] if len(self.candidates) > 1 else []
        return [*tried, *self.cells(find)]

    def records(self, find: Find) -> list[Record]:
        """The trainings that are done."""
        return [record for cell in self.cells(find) if (record := find(cell)) is not None and record.done]

    def failures(self, find: Find) -> list[Record]:
        """The trainings that failed."""
        return [record for cell in self.cells(find) if (record := find(cell)) is not None and not record.done]


def seed_group(
    request: Request,
    dataset: str,
    method: str,
    *,
    options: Mapping[str, Any] | None = None,
    perturbation: Mapping[str, Any] | None = None,
    chosen_for: Mapping[str, Any] | None = None,
    seeds: Sequence[int] | None = None,
    make: Callable[..., Cell] = train_cell,
    **more: Any,
) -> SeedGroup:
    """The trainings of a method under one condition, with the setting that validation tasks choose where the request tunes.

    Args:
        options: on top of the chosen setting.
        perturbation: drawn anew for every seed unless it names one.
        chosen_for: way, shot and other shots that the setting is chosen for, where they are not those of the trainings.
        seeds: the request's own by default.
        make: used instead of :func:`train_cell` for a measurement that trains and then measures something else.
        more: as in :func:`train_cell`.
    """
    more = {"way": request.way, "shot": request.shot, **more}
    chosen_for = {"way": more["way"], "shot": more["shot"], **(chosen_for or {})}
    tried = CANDIDATES.get(learner_of(method), [{}]) if request.tune else []

    def trainings(setting: Mapping[str, Any]) -> list[Cell]:
        return [
            training(
                request,
                dataset,
                method,
                make=make,
                seed=seed,
                options={**setting, **(options or {})},
                perturbation=None if perturbation is None else {"seed": seed, **perturbation},
                **more,
            )
            for seed in (request.all_seeds if seeds is None else seeds)
        ]

    first = request.all_seeds[0]
    candidates = [(each, training(request, dataset, method, seed=first, options=each, **chosen_for)) for each in tried]
    return SeedGroup(trainings, candidates)


def training(
    request: Request,
    dataset: str,
    method: str,
    *,
    options: Mapping[str, Any],
    make: Callable[..., Cell] = train_cell,
    **more: Any,
) -> Cell:
    """A train cell under the request's budget, head, features and device."""
    name, limits = learner_of(method), request.limits
    in_episodes = "/" in method
    fixed = {"memory": MEMORY} if "memory" in get_method(method).defaults else {}
    given = {**fixed, **request.options.get(name, {}), **options}
    return make(
        dataset,
        method,
        head=request.head,
        features=request.weighting,
        episodes=request.episodes or limits.episodes,
        epochs=None if "epochs" in given else limits.epochs.get(name),
        evaluate_every=limits.evaluate_every if in_episodes else None,
        patience=limits.patience if in_episodes else None,
        select=request.select,
        device=request.device,
        options=given,
        **more,
    )


def score_of(records: Sequence[Record], shot: int | None = None, head: str | None = None) -> Score | None:
    """The score of trainings on the tasks they share: those tested on other tasks than the first one are left out."""
    runs: dict[str, list[Any]] = {}
    trained = False
    perturbations = {canonical(record.cell.config.get("perturbation")) for record in records}
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
    # Without training only a perturbation that is drawn anew for every seed makes seeds differ; the seed of an SVD does not count.
    if trained or len(perturbations) > 1:
        return score(kept, tasks)
    return score(kept[:1] if all(run == kept[0] for run in kept) else kept, tasks, trained=False)
