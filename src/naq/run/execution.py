"""One run: train on episodes, choose the checkpoint on validation tasks, test once; or several, trained together."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from naq.device import checked_device
from naq.embedders import Embedder, refined
from naq.files import cache_folder
from naq.graph import Graph, resolve, weighted
from naq.heads import Evaluation
from naq.neighbors import NeighborTable
from naq.progress import Listener
from naq.run.config import RunConfig
from naq.run.evaluate import BASELINE, Model, baseline_vectors, every_answer, every_head, other_weights
from naq.run.folder import RunFolder, begun_beside
from naq.run.given_table import GivenTable, check_takes_table
from naq.run.result import Result
from naq.run.select import SELECTIONS
from naq.run.tasks import TaskSource, labels_hash, task_source
from naq.run.training import ModelTraining
from naq.run.versions import arithmetic_warning, versions
from naq.tasks import ClassSplit
from naq.threads import arithmetic
from naq.training import Fitting, Trained, fit_together

ROWS = 1 << 16
"""Rows of vectors that are looked at at once."""


def warn(phase: str, facts: Mapping[str, Any]) -> None:
    """The listener of a run that is given none."""
    if phase == "warning":
        warnings.warn(str(facts["text"]), stacklevel=2)


@dataclass(frozen=True, eq=False)
class RunInputs:
    """What a run uses beside its configuration: the data, and where it keeps things.

    Attributes:
        graph: the graph; ``source`` is the name or path it was loaded from, where that is known.
        tasks, split, base_labels, out, checkpoint, cache, baseline, listener, table: as in :func:`run`.
        load_seconds: that loading the graph took.
    """

    graph: Graph
    source: str | None = None
    tasks: str | Path | None = None
    split: ClassSplit | None = None
    base_labels: np.ndarray | None = None
    out: str | Path | None = None
    checkpoint: str | Path | None = None
    cache: str | Path | None = ""
    baseline: bool = True
    listener: Listener = warn
    load_seconds: float = 0.0
    table: NeighborTable | str | Path | None = None

    def task_source(self, way: int, shot: int) -> TaskSource:
        return task_source(
            self.graph,
            self.source,
            self.tasks,
            way=way,
            shot=shot,
            split=self.split,
            base_labels=self.base_labels,
        )


def execute(config: RunConfig, inputs: RunInputs) -> Result:
    """Train, select and test as the configuration says; resume or read what is in the run folder."""
    (found,) = execute_together([(config, inputs)])
    if isinstance(found, Exception):
        raise found
    return found


def execute_together(runs: Sequence[tuple[RunConfig, RunInputs]]) -> list[Result | Exception]:
    """What :func:`execute` returns or raises for each of the runs; they are trained in turn, in this process. Faster where :func:`gains_together`.

    The seconds of a training are then those of all, and ``facts["trained_together"]`` says how many there were.
    """
    found: dict[int, Result | Exception] = {}
    begun: dict[int, _Run] = {}
    try:
        for number, (config, inputs) in enumerate(runs):
            try:
                begun[number] = _Run(config, inputs)
            except Exception as error:
                found[number] = error
        fittings = {number: one.fitting for number, one in begun.items() if one.fitting is not None}
        trained = dict(zip(fittings, fit_together(list(fittings.values())), strict=True))
        for number, one in list(begun.items()):
            found[number] = one.ended(trained.get(number), len(trained))
            del begun[number]
    except BaseException as error:
        for one in begun.values():
            one.leave(error)
        raise
    return [found[number] for number in range(len(runs))]


def gains_together(config: RunConfig) -> bool:
    """Whether several such runs are trained faster side by side: on a GPU that replays recorded steps, which leave room on it (docs/scale.md).

    Others start their kernels one by one, so that the host is what they wait for.
    """
    learner = config.known.learner
    there = torch.device(config.device).type == "cuda" and os.environ.get("NAQ_CUDA_GRAPHS", "1") != "0"
    return learner is not None and learner.name == "protonet" and there


class _Run:
    """A run before and after its training. Its run folder is locked until it ended, or :meth:`leave` gives it up.

    Attributes:
        fitting: its training; None where there is none, or none is left.
    """

    def __init__(self, config: RunConfig, inputs: RunInputs) -> None:
        mark, graph = time.perf_counter(), inputs.graph
        self.config, self.inputs = config, inputs
        checked_device(config.device)
        graph.check_files()
        self.table = None if inputs.table is None else GivenTable(inputs.table)
        if self.table is not None:
            check_takes_table(config.known)
        self.given = inputs.task_source(config.way, config.shot)
        self.others = {str(k): inputs.task_source(config.way, k) for k in config.also_shots}
        self.data = {
            "graph": graph.hash,
            "features": resolve(graph, config.features or "raw"),
            "tasks": self.given.fingerprint,
            "also": {k: other.fingerprint for k, other in self.others.items()},
            **({} if inputs.base_labels is None else {"base_labels": labels_hash(self.given.base_labels)}),
            **({} if self.table is None else {"table": self.table.description()}),
        }
        self.folder: RunFolder | None = None
        if inputs.out is not None:
            self.folder = RunFolder(inputs.out, config, self.data, inputs.listener)
        self.seconds = {"load": inputs.load_seconds + time.perf_counter() - mark}
        self.model: Model | None = None
        self.fitting: Fitting | None = None
        self.plan = ""
        try:
            self._done = None if self.folder is None else self.folder.finished()
            if self._done is None:
                self._begin()
        except BaseException as error:
            self.leave(error)
            raise

    def leave(self, error: BaseException | None = None) -> None:
        """Unlock the run folder; nothing stays there of a run that failed before it had begun."""
        if self.folder is not None:
            self.folder.__exit__(None if error is None else type(error), error, None)

    def _begin(self) -> None:
        """The features as the method reads them, and the model that is to be trained."""
        mark, inputs, config, folder = time.perf_counter(), self.inputs, self.config, self.folder
        kept = None if inputs.checkpoint is None else Path(inputs.checkpoint)
        begun = folder.begun_with if folder is not None else {} if kept is None else begun_beside(kept)
        if begun and (text := arithmetic_warning(begun, arithmetic())):
            inputs.listener("warning", {"text": text})
        self.read = weighted(inputs.graph, str(self.data["features"]))
        self.seconds["load"] += time.perf_counter() - mark
        if config.known.trains:
            cache = cache_folder() if inputs.cache == "" else inputs.cache
            key = json.dumps([config.to_json(), self.data], sort_keys=True)
            training = ModelTraining(
                config, self.read, self.given, self.others, key, cache, inputs.listener, self.table
            )
            self.model, self.fitting = training.fitting(kept if folder is None else folder.checkpoint)
            self.seconds |= training.seconds
            self.plan = training.plan

    def ended(self, trained: Trained | Exception | None, together: int) -> Result | Exception:
        """The result, or what went wrong."""
        try:
            if isinstance(trained, Exception):
                raise trained
            result = self._finished(trained, together)
        except Exception as error:
            self.leave(error)
            return error
        self.leave()
        return result

    def _finished(self, trained: Trained | None, together: int) -> Result:
        """Test, once; write the run folder."""
        config, inputs, graph = self.config, self.inputs, self.inputs.graph
        given, model, listener = self.given, self.model, self.inputs.listener
        if self._done is not None:
            listener("finished", {"folder": str(inputs.out)})
            return self._done
        if trained is not None:
            self.seconds["train"] = trained.seconds
        mark = time.perf_counter()
        listener("embed", {"method": config.method})
        graph.check_files()
        vectors, decided = _vectors(config, model, self.read)
        if decided:
            listener("plan", {"plan": decided})
        self.seconds["embed"] = time.perf_counter() - mark
        mark = time.perf_counter()
        listener("test", {"tasks": len(given.test)})

        def test(source: TaskSource, shot: str = "") -> dict[str, Evaluation]:
            chosen = trained.also.get(shot) if trained is not None else None
            if chosen is None or model is None:
                return every_answer(model, vectors, source.test, source.unbalanced, config.solver)
            with other_weights(model, chosen.weights):
                own = _vectors(config, model, self.read)[0]
                return every_answer(model, own, source.test, source.unbalanced, config.solver)

        def test_baseline(source: TaskSource) -> dict[str, Evaluation]:
            wanted = inputs.baseline and config.method != BASELINE
            return every_head(baseline_vectors(graph), source.test, source.unbalanced) if wanted else {}

        evaluations, also = test(given), {k: test(other, k) for k, other in self.others.items()}
        self.seconds["test"] = time.perf_counter() - mark
        mark = time.perf_counter()
        listener("baseline", {"method": BASELINE})
        baseline, also_baseline = test_baseline(given), {k: test_baseline(other) for k, other in self.others.items()}
        self.seconds["baseline"] = time.perf_counter() - mark
        graph.check_files()
        facts = _facts(config, graph, given.split, vectors) | _training_facts(config, trained, self.plan)
        if decided:
            facts["embedding"] = decided
        if trained is not None and together > 1:
            facts["trained_together"] = together
        history = trained.history if trained is not None else None
        result = Result(
            config, self.data, evaluations, baseline, facts, self.seconds, history, vectors, also, also_baseline
        )
        if self.folder is not None:
            self.folder.write(result, model)
        return result


def _vectors(config: RunConfig, model: Model | None, graph: Graph) -> tuple[np.ndarray, str]:
    """(n, d) of the trained model, else of the embedder that trains nothing; refined where that is asked for.

    With it, what the embedder decided about the graph.
    """
    plan = ""
    if model is not None:
        vectors = model.encode_all().cpu().numpy()
    else:
        kind = config.known.model
        assert issubclass(kind, Embedder)
        embedder = kind(graph.without_labels(), seed=config.seed, device=config.device, **config.options)
        vectors, plan = embedder.embed(), embedder.plan()
    return (refined(vectors, seed=config.seed, device=config.device) if config.refine else vectors), plan


def _facts(config: RunConfig, graph: Graph, split: ClassSplit, vectors: np.ndarray) -> dict[str, Any]:
    return {
        "reads_base_labels": config.known.reads_base_labels,
        "inductive": config.known.inductive,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "classes": {part: list(split.part(part)) for part in ("base", "valid", "test")},
        "zero_rows": _zero_rows(vectors),
        "versions": versions(),
        "arithmetic": arithmetic(),
    }


def _zero_rows(vectors: np.ndarray) -> float:
    """The share of rows that are zero; vectors of a mapped graph may be larger than memory."""
    found = sum(int((~vectors[start : start + ROWS].any(axis=1)).sum()) for start in range(0, len(vectors), ROWS))
    return found / len(vectors)


def _training_facts(config: RunConfig, trained: Trained | None, plan: str) -> dict[str, Any]:
    """How the weights were trained and chosen; ``best_step`` and ``steps_trained`` are counted in ``unit``."""
    facts: dict[str, Any] = {"training": plan} if plan else {}
    if trained is None or config.select is None:
        return {**facts, "selection": "nothing was selected"}
    return {
        **facts,
        "selection": SELECTIONS[config.select],
        "best_step": trained.best_step,
        "valid_accuracy": trained.best_valid,
        "stopped_early": trained.stopped_early,
        "steps_trained": trained.history.steps[-1],
        "unit": "episodes" if config.known.learner is not None else "epochs",
        "also_selected": {
            shot: {"best_step": one.step, "valid_accuracy": one.valid} for shot, one in trained.also.items()
        },
    }
