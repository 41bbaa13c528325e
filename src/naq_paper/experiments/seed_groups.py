"""Seed groups: one method under one condition, one training per seed, with the setting that validation tasks choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from naq.methods import Method, get_method
from naq.run.episodes import DEFAULTS
from naq_paper.cells.cell import Cell, canonical
from naq_paper.cells.records import Find, Record
from naq_paper.experiments.names import learner_of, model_of
from naq_paper.experiments.request import Request
from naq_paper.measurements.train import train_cell

Key = Any
"""What an experiment calls a group, hashable: a name, or the row and the column of its table."""
MEMORY = 16.0
"""GB that a method may plan with which trains on the whole graph or, if it is too large, by batches.

A result must not depend on how much memory happened to be free."""
SAME_SUPPORTS = ("naq-feat", "naq-diff")
"""Kinds of episodes that draw the same supports, unless these depend on the neighbours."""


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
        records = [find(cell) for cell in self.tried]
        if None in records:
            return None
        results = [None if record is None else record.result for record in records]
        valid = [-1.0 if result is None else float(result["facts"]["valid_accuracy"]) for result in results]
        return self.candidates[valid.index(max(valid))][0] if max(valid) >= 0 else {}

    def cells(self, find: Find) -> Sequence[Cell]:
        """The trainings; none while their setting is not chosen."""
        setting = self.setting(find)
        if setting is None:
            return ()
        key = canonical(setting)
        if key not in self._made:
            self._made[key] = self.trainings(setting)
        return self._made[key]

    @property
    def tried(self) -> list[Cell]:
        """Cells that try a candidate; none if there is nothing to choose."""
        return [cell for _, cell in self.candidates] if len(self.candidates) > 1 else []

    def records(self, find: Find, *, done: bool = True) -> list[Record]:
        """The trainings that are done, or those that failed."""
        return [record for cell in self.cells(find) if (record := find(cell)) is not None and record.done == done]


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
    """The trainings of a method under one condition, with the setting that is chosen where the request tunes.

    Args:
        options: on top of the chosen setting.
        perturbation: drawn anew for every seed unless it names one.
        chosen_for: way and shot that the setting is chosen for, where they are not those of the trainings.
        seeds: the request's own by default.
        make: used instead of :func:`train_cell` for a measurement that trains and then measures something else.
        more: as in :func:`train_cell`.
    """
    more = {"way": request.way, "shot": request.shot, **more}
    chosen_for = {"way": more["way"], "shot": more["shot"], **(chosen_for or {}), "seed": request.all_seeds[0]}

    def trainings(setting: Mapping[str, Any]) -> list[Cell]:
        given = {"options": {**setting, **(options or {})}, "make": make, **more}
        return [
            training(
                request,
                dataset,
                method,
                seed=seed,
                perturbation=perturbation and {"seed": seed, **perturbation},
                **given,
            )
            for seed in (request.all_seeds if seeds is None else seeds)
        ]

    tried = request.settings.tried(method) if request.tune else []
    return SeedGroup(trainings, [(one, training(request, dataset, method, options=one, **chosen_for)) for one in tried])


def training(
    request: Request,
    dataset: str,
    method: str,
    *,
    options: Mapping[str, Any],
    episode: Mapping[str, Any] | None = None,
    make: Callable[..., Cell] = train_cell,
    **more: Any,
) -> Cell:
    """A train cell under the request's profile, budget, head and device; what trains nothing stays on the CPU.

    What comes later wins: the profile, options of the request, those given here.
    """
    known, name, limits = get_method(method), learner_of(method), request.limits
    profile = request.settings.options(known.name, dataset, request.fact(dataset, "classes"))
    fixed = {"memory": MEMORY} if "memory" in known.defaults else {}
    given = {**fixed, **profile, **request.options.get(name, {}), **options}
    known, episode = _episodes(request, dataset, known, given, episode or {})
    learns = known.learner is not None
    return make(
        dataset,
        known.name,
        head=request.head,
        features=request.features,
        episodes=request.episodes or limits.episodes,
        epochs=None if "epochs" in given else limits.epochs.get(name),
        evaluate_every=limits.evaluate_every if learns else None,
        patience=limits.patience if learns else limits.epoch_patience,
        select=request.select,
        device=request.device if known.trains else "cpu",
        options=given,
        episode=episode,
        **more,
    )


def _episodes(
    request: Request, dataset: str, method: Method, options: Mapping[str, Any], given: Mapping[str, Any]
) -> tuple[Method, dict[str, Any]]:
    """The method and the options of its episodes; what differs in nothing that its learner reads is one and the same.

    NaQ-Feat and NaQ-Diff have the same supports, so a learner that ignores queries is trained once, on NaQ-Feat.
    """
    kind, learner = method.episodes, method.learner
    if kind is None or learner is None:
        return method, dict(given)
    options_given = {name: value for name, value in request.episode.items() if name in DEFAULTS[kind]} | dict(given)
    episode = {**request.settings.episode(kind, dataset, learner.name), **options_given}
    same_supports = int(episode.get("shot", 1)) == 1 and not int(episode.get("apart", 0))
    if kind not in SAME_SUPPORTS or not same_supports or not _ignores_queries(method, options):
        return method, episode
    supports = {name: value for name, value in options_given.items() if name in ("way", "shot")}
    first = SAME_SUPPORTS[0]
    return get_method(f"{first}/{learner.name}"), {**request.settings.episode(first, dataset, learner.name), **supports}


def _ignores_queries(method: Method, options: Mapping[str, Any]) -> bool:
    return method.learner is not None and method.learner.ignores_queries({**method.defaults, **options})


def training_note(request: Request, methods: Sequence[str]) -> str:
    """How the numbers of a table were made: the profile, what selects a checkpoint, and trainings that rows share."""
    tasks = "tasks without labels" if request.select == "clusters" else "validation tasks of its own way and shot"
    note = f"Profile: {request.profile}. Every number is of the checkpoint with the best accuracy on {tasks}."
    by_model: dict[str, int] = {}
    for method in map(get_method, methods):
        name = learner_of(method.name)
        settled = {**request.settings.models.get(name, {}), **request.options.get(name, {})}
        tried = request.settings.tried(method.name) if request.tune else [{}]
        if method.episodes in SAME_SUPPORTS and all(_ignores_queries(method, {**settled, **one}) for one in tried):
            model = model_of(method.name)
            by_model[model] = by_model.get(model, 0) + 1
    for model, rows in by_model.items():
        if rows > 1:
            note += f" {model} ignores queries, so NaQ-Feat and NaQ-Diff are one training of it, shown twice."
    return note
