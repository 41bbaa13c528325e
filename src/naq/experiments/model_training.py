"""A method's model, trained as a run's configuration says."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from naq.embedders import TrainedEmbedder
from naq.errors import OptionError
from naq.experiments.episodes_for import episodes_for
from naq.experiments.selection import label_free_tasks
from naq.experiments.task_source import TaskSource
from naq.experiments.testing import Model, validation_accuracy
from naq.graph import Graph
from naq.heads import Head
from naq.methods import Method
from naq.tasks import Tasks
from naq.training import EpisodeTraining, EpochTraining, Schedule, Trainable, Trained, fit

Tell = Callable[[str, Mapping[str, Any]], None]


class ModelTraining:
    """One training of a run: builds the model, fits it, and says how long each part took.

    Args:
        method: with a learner or a trained embedder.
        graph: with the features the method reads, and all labels; what it may not see is taken away here.
        given: tasks and class split.
        config: of the run, resolved.
        head: that chooses the checkpoint, unless the method solves tasks itself.
        cache: folder for neighbour tables, or None.
        tell: hears of the progress.
    """

    def __init__(
        self,
        method: Method,
        graph: Graph,
        given: TaskSource,
        config: Mapping[str, Any],
        head: Head,
        cache: str | Path | None,
        tell: Tell,
    ) -> None:
        self.method, self.graph, self.given, self.config = method, graph, given, config
        self.head, self.cache, self.tell = head, cache, tell
        self.seconds: dict[str, float] = {}
        self.plan = ""

    def run(self, checkpoint: Path | None) -> tuple[Model, Trained | None]:
        """The model with the selected weights; no training where none was asked for."""
        model, steps = self._epochs() if self.method.learner is None else self._episodes()
        if steps.updates == 0:
            return model, None
        tasks = self._selecting()
        key = {**self.config, "batch": self.plan} if self.plan else self.config
        trained = fit(
            steps,
            lambda: validation_accuracy(model, tasks, self.head),
            Schedule(self.config["evaluate_every"], self.config["patience"]),
            checkpoint=checkpoint,
            key=hashlib.blake2b(json.dumps(dict(key), sort_keys=True).encode(), digest_size=16).hexdigest(),
            report=lambda facts: self.tell("train", facts),
        )
        self.seconds["train"] = trained.seconds
        return model, trained

    def _episodes(self) -> tuple[Model, Trainable]:
        method, config = self.method, self.config
        assert method.learner is not None
        way = int(config["episode"]["way"]) or config["way"]
        if method.solves_tasks and way != config["way"]:
            raise OptionError(
                f"{method.name} solves tasks with the classifier it was trained with: episodes of {way} classes do not fit "
                f"tasks of {config['way']}; leave the episode option way out."
            )
        seen = (
            self.graph.with_labels(self.given.base_labels) if method.reads_base_labels else self.graph.without_labels()
        )
        mark = time.perf_counter()
        self.tell("episodes", {"kind": method.episodes})
        episodes = episodes_for(
            method,
            seen,
            self.given.split,
            config["episode"],
            way=config["way"],
            shot=config["shot"],
            count=config["episodes"],
            seed=config["seed"],
            cache=self.cache,
            device=config["device"],
            progress=self._neighbors,
        )
        self.seconds["episodes"] = time.perf_counter() - mark
        self.tell("build", {"method": method.name})
        learner = method.learner(seen, way=way, seed=config["seed"], device=config["device"], **config["options"])
        return learner, EpisodeTraining(learner, episodes)

    def _epochs(self) -> tuple[Model, Trainable]:
        config, kind = self.config, self.method.embedder
        assert kind is not None and issubclass(kind, TrainedEmbedder)
        self.tell("build", {"method": self.method.name})
        mark = time.perf_counter()
        model = kind(self.graph.without_labels(), seed=config["seed"], device=config["device"], **config["options"])
        self.seconds["build"] = time.perf_counter() - mark
        self.plan = f"batches of {model.batch}" if model.batch else "whole graph"
        self.tell("plan", {"plan": model.plan()})
        return model, EpochTraining(model)

    def _selecting(self) -> Tasks:
        if self.config["select"] == "valid":
            return self.given.valid
        return label_free_tasks(
            self.graph,
            self.config["way"],
            cache=self.cache,
            device=self.config["device"],
            progress=self._neighbors,
        )

    def _neighbors(self, done: int, total: int) -> None:
        self.tell("neighbors", {"done": done, "total": total})


def pretrained(model: TrainedEmbedder, *, cache: str | Path | None) -> TrainedEmbedder:
    """The embedder trained without any label: weights and stop are chosen by label-free tasks, with prototypes."""
    from naq.heads import make_head

    if model.updates == 0:
        return model
    head = make_head("prototype")
    tasks = label_free_tasks(model.graph, 5, cache=cache, device=str(model.device))
    fit(
        EpochTraining(model),
        lambda: validation_accuracy(model, tasks, head),
        Schedule(model.evaluate_every, model.patience),
    )
    return model
