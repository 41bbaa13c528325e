"""A request: which experiment, on which data, under which budget and profile."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from naq.errors import DataError, OptionError
from naq.graph.operators import WEIGHTINGS
from naq.learners import LEARNERS
from naq.options import did_you_mean
from naq_paper.experiments.definition import make_dataclass, read_definition
from naq_paper.experiments.profiles import PROFILES, Profile

FILE = Path(__file__).parent / "profiles" / "budgets.toml"


@dataclass(frozen=True)
class Budget:
    """How much every training may cost.

    Attributes:
        episodes, evaluate_every, patience: of learners; patience 0 trains to the end.
        epochs: of embedders that are trained; those not named train for their own default.
        epoch_patience: evaluations without a new best before an embedder stops; None is its own.
        table_seeds, analysis_seeds: trainings behind a number; a table, with dozens of rows, takes more.
        thin: whether sweeps keep a few levels and methods only.
    """

    name: str
    summary: str
    episodes: int
    evaluate_every: int
    patience: int
    table_seeds: int
    analysis_seeds: int
    epochs: Mapping[str, int] = field(default_factory=dict)
    epoch_patience: int | None = None
    thin: bool = False


BUDGETS = {name: make_dataclass(Budget, {"name": name, **data}, FILE) for name, data in read_definition(FILE).items()}


@dataclass(frozen=True)
class Request:
    """One experiment on some datasets; JSON values, so that a folder of results knows what it was made for.

    Attributes:
        datasets: names of ``naq list datasets`` or paths.
        budget: a name of ``BUDGETS``; ``seeds`` and ``episodes`` override it where they are not 0.
        profile: a name of :data:`~naq_paper.experiments.profiles.PROFILES`: the settings that methods run with.
        learners: base models that analyses train; by default the experiment's own (the paper: ProtoNet, or four).
        ways, shots, methods: instead of the experiment's own; a sweep takes the first way and shot.
        features: what methods read, by default as in the paper.
        tune: choose the setting of each method among the profile's candidates on validation tasks.
        options: by the name of a learner or embedder, e.g. ``{"protonet": {"lr": 3e-4}}``, on top of the profile.
        episode: options of the episodes, e.g. ``{"queries": 5}``, for kinds that have them, on top of the profile.
        facts: of each dataset: its size, its hash, what it has; see :func:`.datasets.dataset_facts`.
    """

    experiment: str
    datasets: tuple[str, ...]
    budget: str = "standard"
    profile: str = "default"
    seeds: int = 0
    episodes: int = 0
    learners: tuple[str, ...] = ()
    ways: tuple[int, ...] = ()
    shots: tuple[int, ...] = ()
    methods: tuple[str, ...] = ()
    head: str = "logistic"
    features: str = "raw"
    select: str = "valid"
    device: str = "cpu"
    tune: bool = False
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    episode: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        named: list[tuple[str, str, Collection[str]]] = [
            ("budget", self.budget, BUDGETS),
            ("profile", self.profile, PROFILES),
        ]
        named += [
            ("features", self.features, ("auto", *WEIGHTINGS)),
            *(("learner", n, LEARNERS) for n in self.learners),
        ]
        for what, name, known in named:
            if name not in known:
                raise OptionError(f"{what} is {name!r}; {did_you_mean(name, known)}")
        for what in ("seeds", "episodes"):
            if not 0 <= (value := getattr(self, what)) <= 10**9:
                words = "expected at least 1 and at most 1,000,000,000, or 0 for the budget's own"
                raise OptionError(f"{what} is {value}; {words}.")
        for what, least in (("ways", 2), ("shots", 1)):
            if (values := getattr(self, what)) and min(values) < least:
                raise OptionError(f"{what} are {list(values)}; expected whole numbers of at least {least}.")

    @property
    def limits(self) -> Budget:
        return BUDGETS[self.budget]

    @property
    def cost(self) -> str:
        """The budget in a sentence, and what was given instead of its own numbers."""
        given = [f"{n:,} {what}{'s' * (n != 1)}" for n, what in ((self.seeds, "seed"), (self.episodes, "episode")) if n]
        return f"{self.limits.summary}." + (f" Given instead: {' and '.join(given)}." if given else "")

    @property
    def settings(self) -> Profile:
        return PROFILES[self.profile]

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """Of this request, else the budget's for a table or an analysis."""
        from naq_paper.experiments.experiment import EXPERIMENTS  # experiments are made from requests

        limits = self.limits
        own = limits.table_seeds if EXPERIMENTS.find(self.experiment).kind == "table" else limits.analysis_seeds
        return tuple(range(self.seeds or own))

    @property
    def way(self) -> int:
        """The way of an analysis."""
        return (self.ways or (5,))[0]

    @property
    def shot(self) -> int:
        """The shot of an analysis."""
        return (self.shots or (1,))[0]

    def learners_or(self, default: Sequence[str] = ("protonet",)) -> Sequence[str]:
        """The base models of the request, else the ``default``, of which a thin budget keeps the first."""
        return self.learners or (default[:1] if self.limits.thin else default)

    def possible_way(self, dataset: str) -> int:
        """The way of the request, else as many classes as the dataset's tasks can have, five at most."""
        return self.ways[0] if self.ways else min(5, self.fact(dataset, "most_classes") or 5)

    def fact(self, dataset: str, name: str) -> Any:
        """What is known of a dataset, e.g. ``most_classes``, the largest way of its tasks; None where it is not."""
        return self.facts.get(dataset, {}).get(name)

    def levels(self, values: Sequence[Any], thin: Sequence[Any] = ()) -> tuple[Any, ...]:
        """The values of a sweep; under a thin budget ``thin``, or the first and the last."""
        if not self.limits.thin or len(values) <= 2:
            return tuple(values)
        return tuple(thin or (values[0], values[-1]))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> Request:
        """The inverse of :meth:`to_json`."""
        try:
            lists = ("datasets", "learners", "ways", "shots", "methods")
            given: dict[str, Any] = {name: tuple(value) if name in lists else value for name, value in data.items()}
            return cls(**given)
        except (TypeError, AttributeError) as error:
            raise DataError(f"this is not a request for an experiment ({error}); run naq reproduce again.") from error
