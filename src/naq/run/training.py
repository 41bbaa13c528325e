"""A method's model, trained as a run's configuration says."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from naq.embedders import TrainedEmbedder
from naq.errors import OptionError
from naq.graph import Graph
from naq.heads import make_head
from naq.progress import Listener
from naq.run.config import RunConfig
from naq.run.episodes import episodes_for
from naq.run.evaluate import Model, begun_validation, validation_accuracy
from naq.run.given_table import GivenTable
from naq.run.select import label_free_tasks
from naq.run.tasks import TaskSource
from naq.tasks import Tasks
from naq.training import EpochTraining, Fitting, Schedule, Trainable, episode_training, fit


class ModelTraining:
    """One training of a run: builds the model, says how it is fitted, and how long building took.

    Args:
        config: of a run whose method is trained.
        graph: with the features the method reads, and all labels; what it may not see is taken away here.
        given: tasks and class split.
        others: those of other shots that weights are to be selected for, by the shot.
        key: identifies the run, for its checkpoint.
        cache: folder for neighbour tables, or None.
        listener: hears of the progress.
        table: that NaQ episodes are drawn from, if it was made before.
    """

    def __init__(
        self,
        config: RunConfig,
        graph: Graph,
        given: TaskSource,
        others: Mapping[str, TaskSource],
        key: str,
        cache: str | Path | None,
        listener: Listener,
        table: GivenTable | None = None,
    ) -> None:
        self.config, self.graph, self.given, self.others, self.key = config, graph, given, others, key
        self.cache, self.listener, self.table = cache, listener, table
        self.seconds: dict[str, float] = {}
        self.plan = ""

    def fitting(self, checkpoint: Path | None) -> tuple[Model, Fitting | None]:
        """The model with its initial weights, and how it is trained; None where no training was asked for."""
        model, steps = self.build()
        if steps.updates == 0:
            return model, None
        main, also = self._selecting()

        def accuracy_on(tasks: Tasks) -> Callable[[], float | Callable[[], float]]:
            return lambda: begun_validation(model, tasks, self.config.solver)

        return model, Fitting(
            steps,
            accuracy_on(main),
            self.config.schedule,
            also={shot: accuracy_on(tasks) for shot, tasks in also.items()},
            checkpoint=checkpoint,
            key=hashlib.blake2b(json.dumps([self.key, self.plan]).encode(), digest_size=16).hexdigest(),
            report=lambda facts: self.listener("train", facts),
        )

    def build(self) -> tuple[Model, Trainable]:
        """The model with its initial weights, and its training in steps."""
        return self._epochs() if self.config.known.in_epochs else self._episodes()

    def _episodes(self) -> tuple[Model, Trainable]:
        method, config = self.config.known, self.config
        assert method.learner is not None and config.episode is not None
        way = int(config.episode["way"]) or config.way
        if method.solves_tasks and way != config.way:
            raise OptionError(
                f"{method.name} solves tasks with the classifier it was trained with: episodes of {way} classes do not fit "
                f"tasks of {config.way}; leave the episode option way out."
            )
        base_labels = self.given.base_labels if method.reads_base_labels else None
        seen = self.graph.without_labels() if base_labels is None else self.graph.with_labels(base_labels)
        mark = time.perf_counter()
        self.listener("episodes", {"kind": method.episodes})
        episodes = episodes_for(
            config,
            seen,
            self.given.split,
            cache=self.cache,
            progress=self._neighbors,
            given=self.table,
            note=lambda text: self.listener("warning", {"text": text}),
        )
        self.seconds["episodes"] = time.perf_counter() - mark
        self.listener("build", {"method": method.name})
        learner = method.learner(
            seen,
            way=way,
            seed=config.seed,
            device=config.device,
            base_labels=base_labels,
            progress=self._neighbors,
            **config.options,
        )
        return learner, episode_training(learner, episodes)

    def _epochs(self) -> tuple[Model, Trainable]:
        config, kind = self.config, self.config.known.model
        assert issubclass(kind, TrainedEmbedder)
        self.listener("build", {"method": config.method})
        mark = time.perf_counter()
        model = kind(
            self.graph.without_labels(),
            seed=config.seed,
            device=config.device,
            progress=self._neighbors,
            **config.options,
        )
        self.seconds["build"] = time.perf_counter() - mark
        self.plan = f"batches of {model.batch}" if model.batch else "whole graph"
        self.listener("plan", {"plan": model.plan()})
        return model, EpochTraining(model)

    def _selecting(self) -> tuple[Tasks, dict[str, Tasks]]:
        """The tasks that choose the checkpoint, and those of other shots; tasks without labels are one set for all shots."""
        if self.config.select == "valid":
            return self.given.valid, {shot: other.valid for shot, other in self.others.items()}
        return label_free_tasks(self.graph, self.config.way, device=self.config.device), {}

    def _neighbors(self, done: int, total: int) -> None:
        self.listener("neighbors", {"done": done, "total": total})


def pretrained(model: TrainedEmbedder) -> TrainedEmbedder:
    """The embedder trained without any label: weights and stop are chosen by label-free tasks, with prototypes."""
    if model.updates == 0:
        return model
    head = None if model.solves_tasks else make_head("prototype")
    tasks = label_free_tasks(model.graph, 5, device=str(model.device))
    fit(
        EpochTraining(model),
        lambda: validation_accuracy(model, tasks, head),
        Schedule(model.evaluate_every, model.patience),
    )
    return model
