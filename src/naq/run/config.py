"""One run, described once: every default resolved, every value checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from naq.errors import OptionError
from naq.graph.operators import check_weighting
from naq.heads import Head, make_head
from naq.heads.base import Predict
from naq.methods import Method, get_method
from naq.options import Value, did_you_mean, merge_options
from naq.run.episodes import episode_options
from naq.training import Schedule

FEATURES = "raw"
"""What methods read of the features by default, as in the paper."""
EPISODES = 16_000
"""Training episodes of a learner, as in the paper."""
EVALUATE_EVERY = 160
"""Episodes between two evaluations of a learner: the paper's 100 evaluations in 16,000."""
SELECTIONS = {
    "valid": "first best accuracy on validation tasks",
    "clusters": "first best accuracy on label-free tasks: clusters of smoothed features as classes",
}
"""What chooses the checkpoint."""
OWN = "own"
"""Stands for the name of a head if a method solves tasks itself."""


@dataclass(frozen=True)
class RunConfig:
    """What is run, without the data it is run on. Made by :meth:`resolve` and nowhere else; equal ones have equal JSON.

    What does not apply to the method is None and left out of the JSON: ``head_options`` of a method that solves tasks
    itself, ``features`` of one that weights features itself, ``episode`` and ``episodes`` of one without episodes, the
    schedule of one that is not trained.

    Attributes:
        dataset: name of the graph.
        way, shot: of the tasks; training episodes have the same way unless ``episode`` says otherwise.
        seed: of weights and episodes.
        head: solves the tasks and chooses the checkpoint: by default the first of ``heads``, else ``logistic``; ``own``
            if the method does.
        heads: the options of each head that is reported, by its name, instead of those that every run reports.
        features: what the method reads: ``raw`` as in the paper, ``binary``, ``tfidf``, or ``auto``: ``tfidf`` if
            features are sparse and non-negative, else ``raw``. Which is better depends on the graph.
        options: of the learner or embedder, e.g. ``{"lr": 3e-4}``; ``epochs`` among them if it is trained in epochs.
        episode: of the episodes, e.g. ``{"queries": 5}``; a ``way`` or ``shot`` of 0 is that of the tasks.
        episodes: how long a learner trains at most; 16,000 as in the paper.
        evaluate_every, patience: episodes or epochs between two evaluations, and evaluations without a new best before
            the training stops, 0 for never. By default a learner is evaluated every 160 episodes and trains to the end,
            as in the paper; an embedder has a schedule of its own.
        select: what chooses the checkpoint: ``valid``, the tasks of validation classes, or ``clusters``, tasks without
            labels.
        device: ``cpu`` or ``cuda``.
        refine: whether the closed form of NaQ is applied to the vectors before testing; checkpoints are selected
            without it.
        encoder: what :func:`~naq.nn.given.describe_encoder` says of an encoder that the user makes; ``options`` then
            hold no width and no encoder of the learner's own.
        spec, solver, solvers: the method, the head (None if the method solves tasks itself) and the ``heads``; neither
            compared nor written.
    """

    dataset: str
    method: str
    way: int
    shot: int
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
    encoder: Mapping[str, str] | None
    heads: Mapping[str, Mapping[str, Value]] | None
    spec: Method = field(compare=False, repr=False)
    solver: Head | None = field(compare=False, repr=False)
    solvers: Sequence[Head] | None = field(compare=False, repr=False)

    @classmethod
    def resolve(
        cls,
        method: str | Method,
        *,
        dataset: str = "",
        way: int = 5,
        shot: int = 1,
        seed: int = 0,
        head: str | Head | Predict | None = None,
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
        encoder: Mapping[str, str] | None = None,
        heads: Iterable[str | Head | Predict] | str | Predict | None = None,
    ) -> RunConfig:
        """The configuration of a request; settings as in the class. Two requests for one run have equal configurations.

        ``epochs`` is short for that option of a method that is trained in epochs.

        Raises:
            OptionError: for a name, an option or a value that cannot be used, whatever the data.
        """
        spec = method if isinstance(method, Method) else get_method(method)
        solvers = None if heads is None else _heads(heads)
        if head is None:
            head = solvers[0] if solvers else "logistic"
        solver = None if spec.solves_tasks and head == OWN else make_head(head, **(head_options or {}))
        if (select := select or "valid") not in SELECTIONS:
            raise OptionError(f"select is {select!r}; {did_you_mean(select, SELECTIONS)}")
        weighting = check_weighting(features or FEATURES)
        schedule = _schedule(spec, evaluate_every, patience)
        method_options = _method_options(spec, options or {}, epochs)
        if encoder is not None:
            method_options = _without_own_encoder(spec, method_options, options or {})
        solver = None if spec.solves_tasks else solver
        return cls(
            dataset=str(dataset),
            method=spec.name,
            way=int(way),
            shot=int(shot),
            seed=int(seed),
            head=OWN if solver is None else solver.name,
            head_options=None if solver is None else dict(solver.options),
            features=None if getattr(spec.model, "weighs_features", False) else weighting,
            options=method_options,
            episode=_episode(spec, int(way), int(shot), episode or {}),
            episodes=None if spec.learner is None else int(EPISODES if episodes is None else episodes),
            evaluate_every=None if schedule is None else schedule.evaluate_every,
            patience=None if schedule is None else schedule.patience or 0,
            select=None if schedule is None else select,
            device=str(device),
            refine=True if refine else None,
            encoder=encoder,
            heads=None if solvers is None else {one.name: dict(one.options) for one in solvers},
            spec=spec,
            solver=solver,
            solvers=solvers,
        )

    @property
    def schedule(self) -> Schedule:
        """Of a method that is trained."""
        assert self.evaluate_every is not None
        return Schedule(self.evaluate_every, self.patience or None)

    def to_json(self) -> dict[str, Any]:
        """Every field that applies, as JSON values."""
        found = {name: getattr(self, name) for name in config_fields()}
        return {k: dict(v) if isinstance(v, Mapping) else v for k, v in found.items() if v is not None}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunConfig:
        """The inverse of :meth:`to_json`; what is in the file is checked as in :meth:`resolve`."""
        check_settings(data)
        return cls.resolve(**data)


def config_fields() -> list[str]:
    """Names of what a run's configuration holds."""
    return [one.name for one in fields(RunConfig) if one.compare]


def check_settings(given: Mapping[str, Any]) -> None:
    """An ``OptionError`` for a name that a run has no setting of."""
    for name in given:
        if name not in (known := [*config_fields(), "epochs"]):
            raise OptionError(f"a run's configuration has no field {name!r}; {did_you_mean(name, known)}")


def _method_options(method: Method, given: Mapping[str, Any], epochs: int | None) -> dict[str, Value]:
    """Every option with its value."""
    if epochs is not None:
        if not method.in_epochs:
            what = "is trained on episodes: give episodes" if method.learner else "is not trained: leave it out"
            raise OptionError(f"epochs is {epochs}, but {method.name} {what}.")
        given = {**given, "epochs": epochs}
    return merge_options(method.name, method.model.defaults, given)


def _heads(given: Any) -> list[Head]:
    """Heads by their names, as they are, or as functions; of one or of several; as a configuration writes them."""
    if isinstance(given, Mapping):
        return [make_head(name, **options) for name, options in given.items()]
    heads = [make_head(one) for one in ([given] if isinstance(given, str | Head) or callable(given) else given)]
    names = [head.name for head in heads]
    if not heads or len(set(names)) < len(names):
        raise OptionError(f"heads are {names}; expected one or more, each with a name of its own.")
    return heads


def _without_own_encoder(method: Method, options: Mapping[str, Value], given: Mapping[str, Any]) -> dict[str, Value]:
    """The options of a learner whose encoder is the user's."""
    if method.learner is None:
        raise OptionError(f"encoder was given, but {method.name} is not trained on episodes; leave it out.")
    method.learner.check_takes_encoder()
    own = {"latent", "encoder"}
    if names := sorted(own & set(given)):
        raise OptionError(f"option {names[0]} came with an encoder, which decides that itself; leave one of both out.")
    return {name: value for name, value in options.items() if name not in own}


def _episode(method: Method, way: int, shot: int, given: Mapping[str, Any]) -> dict[str, Value] | None:
    """Options of the episodes; a way or shot that is the tasks' is written as 0."""
    options = episode_options(method, given)
    if method.episodes is None:
        return None
    own = {"way": way} | ({"shot": shot} if method.episodes == "supervised" else {})
    return {name: 0 if own.get(name) == value else value for name, value in options.items()}


def _schedule(method: Method, evaluate_every: int | None, patience: int | None) -> Schedule | None:
    """What is asked for, else the paper's for learners and the embedder's own; None for what is not trained."""
    if not method.trains:
        return None
    model: Any = method.model
    every, wait = (model.evaluate_every, model.patience) if method.in_epochs else (EVALUATE_EVERY, 0)
    wait = wait if patience is None else int(patience)
    return Schedule(every if evaluate_every is None else int(evaluate_every), wait or None)
