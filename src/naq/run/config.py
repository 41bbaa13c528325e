"""One run, described once: every default resolved, every value checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from naq.embedders import TrainedEmbedder
from naq.errors import OptionError
from naq.graph.weighting import check_weighting
from naq.heads import Head, make_head
from naq.methods import Method, get_method
from naq.options import Value, merge_options, nearest
from naq.run.episodes import episode_options
from naq.run.evaluate import OWN
from naq.run.select import check_selection
from naq.training import Schedule

FEATURES = "raw"
"""What methods read of the features unless something else is asked for, as in the paper."""
EPISODES = 16_000
"""Training episodes of a learner, as in the paper."""
EVALUATE_EVERY = 160
"""Episodes between two evaluations of a learner: the paper's 100 evaluations in 16,000."""


@dataclass(frozen=True)
class RunConfig:
    """What is run, without the data it is run on. Made by :meth:`resolve` and nowhere else; equal ones have equal JSON.

    What does not apply to the method is None and left out of the JSON: ``head_options`` of a method that solves tasks itself, ``features`` of one
    that weights features itself, ``episode`` and ``episodes`` of one without episodes, the schedule of one that is not trained.

    Attributes:
        dataset: name of the graph.
        also_shots: other shots that the training serves, each with the weights its validation tasks select, ascending.
        head: that solves the tasks and chooses the checkpoint; ``own`` where the method does.
        features: a weighting, or ``auto``, which the graph decides.
        options: all options of the learner or embedder, ``epochs`` among them where it is trained in epochs.
        episode: all options of the episodes; a ``way`` or ``shot`` of 0 is that of the tasks.
        patience: evaluations without a new best before the training stops, 0 for never.
        refine: whether the vectors go through :func:`naq.embedders.refined` before they are tested; None where they do not.
        known: the method; ``solver``: the head, None where the method solves tasks itself. Neither is compared or written.
    """

    dataset: str
    method: str
    way: int
    shot: int
    also_shots: tuple[int, ...]
    seed: int
    head: str
    head_options: Mapping[str, Value] | None
    features: str | None
    options: Mapping[str, Value]
    episode: Mapping[str, Value] | None
    episodes: int | None
    evaluate_every: int | None
    patience: int | None
    select: str | None
    device: str
    refine: bool | None
    known: Method = field(compare=False, repr=False)
    solver: Head | None = field(compare=False, repr=False)

    @classmethod
    def resolve(
        cls,
        method: str | Method,
        *,
        dataset: str = "",
        way: int = 5,
        shot: int = 1,
        also_shots: Iterable[int] = (),
        seed: int = 0,
        head: str | Head = "logistic",
        head_options: Mapping[str, Any] | None = None,
        features: str | None = FEATURES,
        options: Mapping[str, Any] | None = None,
        episode: Mapping[str, Any] | None = None,
        episodes: int | None = EPISODES,
        epochs: int | None = None,
        evaluate_every: int | None = None,
        patience: int | None = None,
        select: str | None = "valid",
        device: str = "cpu",
        refine: bool | None = None,
    ) -> RunConfig:
        """The configuration of a request; arguments as those of :func:`naq.run`.

        Two requests for the same run have equal configurations: options are written out, what does not apply is left out, and a way or shot of
        the episodes that is the tasks' own is written as 0.

        Raises:
            OptionError: for a name, an option or a value that cannot be used, whatever the data.
        """
        known = method if isinstance(method, Method) else get_method(method)
        solver = None if known.solves_tasks and head == OWN else make_head(head, **(head_options or {}))
        check_selection(select or "valid")
        weighting = check_weighting(features or FEATURES)
        schedule = _schedule(known, evaluate_every, patience)
        solver = None if known.solves_tasks else solver
        return cls(
            dataset=str(dataset),
            method=known.name,
            way=int(way),
            shot=int(shot),
            also_shots=tuple(sorted({int(k) for k in also_shots} - {int(shot)})),
            seed=int(seed),
            head=OWN if solver is None else solver.name,
            head_options=None if solver is None else dict(solver.options),
            features=None if getattr(known.model, "weighs_features", False) else weighting,
            options=_resolved(known, _with_epochs(known, options or {}, epochs)),
            episode=_episode(known, int(way), int(shot), episode or {}),
            episodes=None if known.learner is None else int(EPISODES if episodes is None else episodes),
            evaluate_every=None if schedule is None else schedule.evaluate_every,
            patience=None if schedule is None else schedule.patience or 0,
            select=None if schedule is None else select or "valid",
            device=str(device),
            refine=True if refine else None,
            known=known,
            solver=solver,
        )

    @property
    def schedule(self) -> Schedule:
        """Of a method that is trained."""
        assert self.evaluate_every is not None
        return Schedule(self.evaluate_every, self.patience or None)

    def to_json(self) -> dict[str, Any]:
        """Every field that applies, as JSON values."""
        found = {name: getattr(self, name) for name in _names()}
        return {name: _plain(value) for name, value in found.items() if value is not None}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunConfig:
        """The inverse of :meth:`to_json`; what is in the file is checked as in :meth:`resolve`."""
        known = _names()
        for name in data:
            if name not in known:
                raise OptionError(f"a run's configuration has no field {name!r}; {nearest(name, known)}")
        return cls.resolve(**data)


def _names() -> list[str]:
    return [one.name for one in fields(RunConfig) if one.compare]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def _resolved(method: Method, given: Mapping[str, Any]) -> dict[str, Value]:
    """Every option with its value."""
    return merge_options(method.name, method.model.defaults, given)


def _with_epochs(method: Method, options: Mapping[str, Any], epochs: int | None) -> Mapping[str, Any]:
    """Epochs are an option of the embedders that are trained."""
    if epochs is None:
        return options
    if not method.in_epochs:
        what = "is trained on episodes: give episodes" if method.learner is not None else "is not trained: leave it out"
        raise OptionError(f"epochs is {epochs}, but {method.name} {what}.")
    return {**options, "epochs": epochs}


def _episode(method: Method, way: int, shot: int, given: Mapping[str, Any]) -> dict[str, Value] | None:
    options = episode_options(method, given)
    if method.episodes is None:
        return None
    own = {"way": way} | ({"shot": shot} if method.episodes == "supervised" else {})
    return {name: 0 if own.get(name) == value else value for name, value in options.items()}


def _schedule(method: Method, evaluate_every: int | None, patience: int | None) -> Schedule | None:
    """What is asked for, else the paper's for learners and the embedder's own; None for what is not trained."""
    if not method.trains:
        return None
    model = method.model
    every, wait = (model.evaluate_every, model.patience) if issubclass(model, TrainedEmbedder) else (EVALUATE_EVERY, 0)
    wait = wait if patience is None else int(patience)
    return Schedule(every if evaluate_every is None else int(evaluate_every), wait or None)
