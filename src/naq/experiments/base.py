"""An experiment: a table or an analysis of the paper as cells, and what their results say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from naq.errors import OptionError
from naq.experiments.request import Request
from naq.experiments.tuning import CANDIDATES, learner_of
from naq.experiments.views import View
from naq.grid.cells import Cell
from naq.grid.measurements.train import train_cell
from naq.grid.records import Find
from naq.options import nearest
from naq.protocol.methods import get_method
from naq.registry import add

MEMORY = 16.0
"""GB that a method may plan with which trains on the whole graph or, where that is too large, by batches.

Fixed, because a result must not depend on how much memory happened to be free.
"""


class Experiment(ABC):
    """One file with one subclass, registered by :func:`register_experiment`.

    Attributes:
        name: what ``naq reproduce`` calls it.
        title: over its section of the report.
        question: what it answers, one sentence.
        origin: where it stands in the paper.
        datasets: the paper's, by our names; used where they are at hand and nothing else was asked for.
        needs: ``labels``, ``features`` or both; a dataset without them is left out with a sentence.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[str]
    origin: ClassVar[str]
    datasets: ClassVar[tuple[str, ...]] = ("amazon-electronics", "cora-full")
    needs: ClassVar[tuple[str, ...]] = ("labels", "features")
    kind: ClassVar[str] = "analysis"

    @abstractmethod
    def cells(self, request: Request, find: Find) -> list[Cell]:
        """Everything the request needs, as far as it is known by now: later cells may depend on what ``find`` finds."""

    @abstractmethod
    def views_of(self, request: Request, find: Find, dataset: str) -> list[View]:
        """What can be said of a dataset from what is there."""

    def views(self, request: Request, find: Find) -> list[View]:
        """What can be said of all datasets."""
        return [view for dataset in request.datasets for view in self.views_of(request, find, dataset)]


ORDER = (
    *("methods", "full-products", "full-citation", "ogbn-arxiv", "ogbn-products"),
    *("label-scarcity", "label-noise", "imbalance", "structure-noise", "feature-noise", "tail-tsne", "queries"),
    *("class-similarity", "metrics", "training-way", "umtra", "overlap", "overlap-drop", "times"),
)
"""Tables, then analyses, as a reader wants them."""
EXPERIMENTS: dict[str, Experiment] = {}
_KINDS: dict[str, type[Experiment]] = {}


def register_experiment(kind: type[Experiment]) -> type[Experiment]:
    """Class decorator: makes an experiment known by its ``name``."""
    add(_KINDS, kind, "an experiment")
    EXPERIMENTS[kind.name] = kind()
    return kind


def all_experiments() -> dict[str, Experiment]:
    """Every experiment by name, in reading order; those of other files come last."""
    from naq.experiments import analyses  # noqa: F401  (registers them)

    last = len(ORDER)
    place = {name: i for i, name in enumerate(ORDER)}
    return dict(sorted(EXPERIMENTS.items(), key=lambda item: (place.get(item[0], last), item[0])))


def get_experiment(name: str) -> Experiment:
    """The experiment of this name, or one sentence with the nearest names."""
    known = all_experiments()
    if name not in known:
        raise OptionError(f"there is no table or analysis {name!r}; {nearest(name, known)}")
    return known[name]


def training(
    request: Request,
    dataset: str,
    method: str,
    *,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    make: Callable[..., Cell] = train_cell,
    **more: Any,
) -> Cell:
    """A train cell under the request's budget, head, features and device; ``more`` as in :func:`train_cell`.

    ``make`` takes the place of :func:`train_cell` for a measurement that trains and then measures something else.
    """
    name, plan = learner_of(method), request.plan
    in_episodes = "/" in method
    fixed = {"memory": MEMORY} if "memory" in get_method(method).defaults else {}
    given = {**fixed, **request.options.get(name, {}), **(options or {})}
    return make(
        dataset,
        method,
        seed=seed,
        head=request.head,
        features=request.reads,
        episodes=request.episodes or plan.episodes,
        epochs=None if "epochs" in given else plan.epochs.get(name),
        evaluate_every=plan.evaluate_every if in_episodes else None,
        patience=plan.patience if in_episodes else None,
        select=request.select,
        device=request.device,
        options=given,
        **more,
    )


def candidates(request: Request, dataset: str, method: str, **more: Any) -> list[Cell]:
    """The trainings that choose the setting of a method: first seed, unchanged data, default episodes."""
    tried = CANDIDATES.get(learner_of(method), [{}])
    return [training(request, dataset, method, options=options, seed=request.all_seeds[0], **more) for options in tried]


def setting(request: Request, find: Find, dataset: str, method: str, **more: Any) -> dict[str, Any] | None:
    """Options the method is trained with: its defaults, or the candidate that won; None while one is missing.

    A candidate that failed for good does not hold up the choice among the others.
    """
    tried = CANDIDATES.get(learner_of(method), [{}])
    if not request.tune or len(tried) == 1:
        return dict(tried[0]) if request.tune else {}
    best: tuple[float, int] | None = None
    for place, cell in enumerate(candidates(request, dataset, method, **more)):
        record = find(cell)
        if record is None:
            return None
        if record.result is None:
            continue
        valid = float(record.result["facts"]["valid_accuracy"])
        if best is None or valid > best[0]:
            best = (valid, place)
    return dict(tried[best[1]]) if best is not None else {}
