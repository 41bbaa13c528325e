"""One run, top to bottom: train on episodes, choose the checkpoint on validation tasks, test once."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from naq.device import checked_device
from naq.errors import Listener, OptionError, counted, unbroken, warn
from naq.files import cache_folder, write_sealed
from naq.graph import Graph, resolve, weighted
from naq.heads import Evaluation
from naq.heads.base import ROWS
from naq.io import load
from naq.methods import Method
from naq.neighbors import NeighborTable
from naq.nn.given import MakeEncoder, describe_encoder
from naq.options import check_whole
from naq.run.config import SELECTIONS, RunConfig, check_settings
from naq.run.embed import refine_vectors
from naq.run.episodes import check_takes_table, draw_episodes, episode_way
from naq.run.evaluate import (
    BASELINE,
    EvaluationTasks,
    baseline_vectors,
    evaluate_heads,
    evaluation_tasks,
    selection_tasks,
    validation_accuracy,
)
from naq.run.folder import FORMAT, RunFolder, arithmetic_of, arithmetic_warning
from naq.run.result import Result, versions
from naq.run.seeds import over_seeds
from naq.tasks import ClassSplit, Tasks
from naq.threads import arithmetic
from naq.training import EpochTraining, Steps, Trained, episode_training, fit


def warn_only(phase: str, facts: Mapping[str, Any]) -> None:
    """The default listener: warnings are warnings of Python, progress is not shown."""
    if phase == "warning":
        warn(facts["text"])


def run(
    graph: Graph | str | Path,
    method: str | Method | RunConfig = "naq-feat/protonet",
    *,
    tasks: EvaluationTasks | Tasks | str | Path | None = None,
    split: ClassSplit | None = None,
    base_labels: np.ndarray | None = None,
    out: str | Path | None = None,
    checkpoint: str | Path | None = None,
    cache: str | Path | None = "",
    baseline: bool = True,
    table: NeighborTable | str | Path | None = None,
    encoder: MakeEncoder | None = None,
    seeds: int | None = None,
    record_losses: bool = False,
    listener: Listener | None = None,
    **settings: Any,
) -> Result:
    """Train, select, test: the whole protocol of the paper.

    Test tasks are solved once, at the checkpoint with the first best accuracy on validation tasks: the same number as
    solving them at every checkpoint, as the paper's code does, and reading off that one.

    Args:
        graph: a graph, or a name or path for :func:`naq.load`.
        method: a name of ``naq list methods``, or a whole configuration, which has all settings.
        tasks: test tasks, which say way and shot, or a task file; by default the file that comes with the dataset, else
            tasks are drawn (split and tasks by seed 0, whatever ``seed`` is).
        split: base, validation and test classes that tasks are drawn from, if no task file is given.
        base_labels: (n,) what a supervised method may read instead of every label of base classes; -1 for the others.
        out: run folder; a stopped run there is resumed, a finished one is read. Of ``seeds`` it holds ``seed0``, ...,
            and ``metrics.json`` over them.
        checkpoint: a file that a stopped training goes on from, for callers that keep results themselves.
        cache: folder for neighbour tables; "" is the user's cache folder, None keeps none.
        baseline: whether the ``smooth`` baseline is computed on the same tasks.
        table: neighbours that NaQ episodes are drawn from, or the file of ``naq neighbors --out``. It has to be of this
            graph (as the method reads it), at least as wide as the episodes need, and made with their options; a table
            that does not say so is taken with a warning.
        encoder: a class, or a function of the number of input features, that makes an ``nn.Module`` with
            ``forward(x, edge_index)``, to be trained in place of the learner's own encoder.
        seeds: so many runs, by ``seed``, ``seed + 1``, ...: their mean, with an interval over seeds and tasks.
        record_losses: keep the loss of every update in the result's ``history.losses``.
        listener: called with (phase, facts) as the run goes on, for displays and trackers (:mod:`naq.listeners`). One
            that fails is left out with a warning; it stops the run by a ``NaqError``, or by what its attribute
            ``raises`` lists.
        settings: fields of :class:`~naq.run.config.RunConfig`: ``way``, ``shot``, ``seed``, ``head``, ``episodes``, ...

    Example:
        >>> import naq
        >>> r = naq.run("debian", method="smooth")  # doctest: +SKIP
        >>> print(r)  # doctest: +SKIP
    """
    listener, start = unbroken(listener or warn_only), time.perf_counter()
    check_settings(settings)
    if isinstance(method, RunConfig) and settings:
        raise OptionError(f"{', '.join(settings)} came with a whole configuration; put it into the configuration.")
    if isinstance(tasks, Tasks):
        settings = {"way": tasks.way, "shot": tasks.shot} | settings
    if encoder is not None:
        settings["encoder"] = {}
    config = method if isinstance(method, RunConfig) else RunConfig.resolve(method, **settings)
    if (encoder is None) != (config.encoder is None):
        was, has = ("not given", "one") if encoder is None else ("given", "none")
        raise OptionError(f"encoder was {was}, but the configuration has {has}; give both or neither.")
    if table is not None:
        check_takes_table(config.spec)
    checked_device(config.device)
    if not isinstance(graph, Graph):
        listener("load", {"source": str(graph)})
        graph = load(graph)
    if not isinstance(method, RunConfig):
        config = replace(config, dataset=graph.name)
    if seeds is not None:
        if checkpoint is not None:
            raise OptionError("checkpoint is of one training, but seeds were given; give out instead.")
        each = [replace(config, seed=config.seed + number) for number in range(check_whole("seeds", seeds))]
        if out is not None and (Path(out) / "config.json").exists():
            raise OptionError(f"{out} holds a run of one seed, but seeds is {seeds}; choose another folder.")
        result = over_seeds([
            run(graph, one, tasks=tasks, split=split, base_labels=base_labels, cache=cache, baseline=baseline,
                out=None if out is None else Path(out) / f"seed{one.seed}", table=table, encoder=encoder,
                record_losses=record_losses, listener=listener)
            for one in each
        ])  # fmt: skip
        if out is not None:
            write_sealed(Path(out) / "metrics.json", {"format": FORMAT, **result.to_json()})
        return result
    if out is not None and "<lambda>" in (config.head, *(config.heads or ())):
        raise OptionError("a head is a lambda, which no run folder tells from another; give a function with a name.")
    if encoder is not None:
        config = replace(config, encoder=describe_encoder(encoder, graph.num_features, config.seed))
    seconds = {"load": time.perf_counter() - start}
    graph.check_files()
    with _timed(seconds, "load"):
        if not isinstance(tasks, EvaluationTasks):
            tasks = evaluation_tasks(
                graph, tasks, way=config.way, shot=config.shot, split=split, base_labels=base_labels,
                any_class=config.select != "valid" and not config.spec.reads_base_labels,
            )  # fmt: skip
        if table is not None:
            table = table if isinstance(table, NeighborTable) else NeighborTable.load(Path(table).expanduser())
        data: dict[str, Any] = {
            "graph": graph.hash,
            "features": resolve(graph, config.features or "raw"),
            "tasks": tasks.hash,
        }
        if base_labels is not None:
            read = np.ascontiguousarray(tasks.base_labels, dtype="<i8").tobytes()
            data["base_labels"] = hashlib.blake2b(read, digest_size=12).hexdigest()
        if table is not None:
            data["table"] = {"hash": table.hash, "info": json.loads(json.dumps(dict(table.info)))}
    with nullcontext() if out is None else RunFolder(out, config, data, listener) as folder:
        if folder is not None and (finished := folder.finished()) is not None:
            listener("finished", {"folder": str(out)})
            return finished
        listener("config", {"config": config.to_json()})
        if folder is not None:
            checkpoint, before = folder.checkpoint, folder.arithmetic
        else:
            checkpoint = None if checkpoint is None else Path(checkpoint)
            before = {} if checkpoint is None else arithmetic_of(checkpoint)
        if text := arithmetic_warning(before, arithmetic()):
            listener("warning", {"text": text})
        with _timed(seconds, "load"):
            seen = weighted(graph, str(data["features"]))

        steps = trained = None
        if config.spec.trains:
            place = cache_folder() if cache == "" else cache
            steps = training_steps(
                config, seen, tasks, cache=place, table=table, encoder=encoder, listener=listener, seconds=seconds
            )
            if steps.updates:
                valid = selection_tasks(config, seen, tasks)
                trained = fit(
                    steps,
                    partial(validation_accuracy, steps.model, valid, config.solver),
                    config.schedule,
                    checkpoint=checkpoint,
                    key=_key(config, data, steps),
                    record_losses=record_losses,
                    report=partial(listener, "train"),
                )
                seconds["train"] = trained.seconds
        model: Any = None if steps is None else steps.model
        trainable = model

        listener("embed", {"method": config.method})
        graph.check_files()
        with _timed(seconds, "embed"):
            if steps is not None:
                vectors, plan = model.encode_all().cpu().numpy(), ""
            else:
                given: dict[str, Any] = {"seed": config.seed, "device": config.device, **config.options}
                model = config.spec.model(seen.without_labels(), **given)
                vectors, plan = model.embed(), model.plan()
            vectors = refine_vectors(vectors, config.seed, config.device) if config.refine else vectors
        if plan:
            listener("plan", {"plan": plan})

        listener("test", {"tasks": len(tasks.test)})
        with _timed(seconds, "test"):
            evaluations = evaluate_heads(
                vectors, tasks.test, tasks.unbalanced, model=trainable, chosen=config.solver, heads=config.solvers
            )
        listener("baseline", {"method": BASELINE})
        with _timed(seconds, "baseline"):
            compared: dict[str, Evaluation] = {}
            if baseline and config.method != BASELINE:
                compared = evaluate_heads(baseline_vectors(graph), tasks.test, tasks.unbalanced, heads=config.solvers)

        graph.check_files()
        facts = _facts(config, graph, tasks, steps, trained, vectors, plan)
        history = None if trained is None else trained.history
        result = Result(config, data, evaluations, compared, facts, seconds, history, vectors, model)
        if folder is not None:
            folder.write(result, trainable)
        accuracies = {name: one.accuracy for name, one in evaluations.items()}
        listener("result", {"accuracy": result.accuracy, "ci95": result.ci95, "heads": accuracies})
        return result


def training_steps(
    config: RunConfig,
    graph: Graph,
    tasks: EvaluationTasks,
    *,
    cache: str | Path | None = None,
    table: NeighborTable | None = None,
    encoder: MakeEncoder | None = None,
    listener: Listener = warn_only,
    seconds: dict[str, float] | None = None,
) -> Steps:
    """The model with its initial weights and its training in steps; labels that it may not see are taken away here."""
    method, seconds = config.spec, {} if seconds is None else seconds
    progress = counted(listener, "neighbors")
    made: dict[str, Any] = {"seed": config.seed, "device": config.device, "progress": progress, **config.options}
    if method.learner is None:
        listener("build", {"method": config.method})
        with _timed(seconds, "build"):
            model: Any = method.model(graph.without_labels(), **made)
        listener("plan", {"plan": model.plan()})
        return EpochTraining(model)
    way = episode_way(config)
    base_labels = tasks.base_labels if method.reads_base_labels else None
    graph = graph.without_labels() if base_labels is None else graph.with_labels(base_labels)
    listener("episodes", {"kind": method.episodes})
    with _timed(seconds, "episodes"):
        episodes = draw_episodes(
            config, graph, tasks.split, cache=cache, table=table, progress=progress,
            note=lambda text: listener("warning", {"text": text}),
        )  # fmt: skip
    listener("build", {"method": method.name})
    made |= {} if encoder is None else {"make_encoder": encoder}
    learner = method.learner(graph, way=way, base_labels=base_labels, **made)
    return episode_training(learner, episodes)


def _key(config: RunConfig, data: Mapping[str, Any], steps: Steps) -> str:
    """Identifies the training of a run, for its checkpoint."""
    text = json.dumps([json.dumps([config.to_json(), data], sort_keys=True), _batches(steps)])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _batches(steps: Steps | None) -> str:
    """How a model that is trained in epochs reads the graph."""
    if not isinstance(steps, EpochTraining):
        return ""
    return f"batches of {steps.model.batch}" if steps.model.batch else "whole graph"


def _facts(
    config: RunConfig,
    graph: Graph,
    tasks: EvaluationTasks,
    steps: Steps | None,
    trained: Trained | None,
    vectors: np.ndarray,
    plan: str,
) -> dict[str, Any]:
    """How the numbers came about; ``best_step`` and ``steps_trained`` are counted in ``unit``."""
    blocks = (vectors[start : start + ROWS] for start in range(0, len(vectors), ROWS))  # it may be a memory-map
    zeros = sum(int((~block.any(axis=1)).sum()) for block in blocks)
    facts: dict[str, Any] = {
        "reads_base_labels": config.spec.reads_base_labels,
        "inductive": config.spec.inductive,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "classes": {part: list(tasks.split.part(part)) for part in ("base", "valid", "test")},
        "zero_rows": zeros / len(vectors),
        "versions": versions(),
        "arithmetic": arithmetic(),
        "selection": "nothing was selected",
    }
    if batches := _batches(steps):
        facts["training"] = batches
    if plan:
        facts["embedding"] = plan
    if steps is None or trained is None or config.select is None:
        return facts
    return facts | {
        "selection": SELECTIONS[config.select],
        "best_step": trained.best_step,
        "valid_accuracy": trained.best_valid,
        "stopped_early": trained.stopped_early,
        "steps_trained": trained.history.steps[-1],
        "unit": steps.unit,
    }


@contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    mark = time.perf_counter()
    yield
    seconds[phase] = seconds.get(phase, 0.0) + time.perf_counter() - mark
