"""One run, top to bottom: train on episodes, choose the checkpoint on validation tasks, test once."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from naq.device import checked_device
from naq.errors import plain
from naq.files import cache_folder
from naq.graph import Graph, resolve, weighted
from naq.methods import Method
from naq.neighbors import NeighborTable
from naq.progress import Listener
from naq.run.config import RunConfig, check_settings
from naq.run.embed import refined
from naq.run.episodes import check_takes_table, table_info
from naq.run.evaluate import BASELINE, baseline_vectors, evaluate_heads, validation_accuracy
from naq.run.folder import RunFolder, arithmetic_of, arithmetic_warning
from naq.run.result import Result, versions
from naq.run.tasks import SELECTIONS, EvaluationTasks, evaluation_tasks, labels_hash, selection_tasks
from naq.tasks import ClassSplit
from naq.threads import arithmetic
from naq.training import EpochTraining, Steps, Trained, episode_training, fit


def warn(phase: str, facts: Mapping[str, Any]) -> None:
    """The default listener: warnings are warnings of Python, progress is not shown."""
    if phase == "warning":
        warnings.warn(plain(str(facts["text"])), stacklevel=2)


def run(
    graph: Graph | str | Path,
    method: str | Method = "naq-feat/protonet",
    *,
    tasks: str | Path | None = None,
    split: ClassSplit | None = None,
    base_labels: np.ndarray | None = None,
    out: str | Path | None = None,
    checkpoint: str | Path | None = None,
    cache: str | Path | None = "",
    baseline: bool = True,
    table: NeighborTable | str | Path | None = None,
    listener: Listener | None = None,
    **settings: Any,
) -> Result:
    """Train, select, test: the whole protocol of the paper.

    Test tasks are solved once, at the checkpoint with the first best accuracy on validation tasks: the same number as
    solving them at every checkpoint, as the paper's code does, and reading off that one.

    Args:
        graph: a graph, or a name or path for :func:`naq.load`.
        method: a name of ``naq list methods``.
        tasks: a task file; by default the one that comes with the dataset, else tasks are drawn (split and tasks by
            seed 0, whatever ``seed`` is).
        split: base, validation and test classes that tasks are drawn from, if no task file is given.
        base_labels: (n,) what a supervised method may read instead of every label of base classes; -1 for the others.
        out: run folder; a stopped run there is resumed, a finished one is read.
        checkpoint: a file that a stopped training goes on from, for callers that keep results themselves.
        cache: folder for neighbour tables; "" is the user's cache folder, None keeps none.
        baseline: whether the ``smooth`` baseline is computed on the same tasks.
        table: neighbours that NaQ episodes are drawn from, or the file of ``naq neighbors --out``. It has to be of this
            graph (as the method reads it), at least as wide as the episodes need, and made with their options; a table
            that does not say so is taken with a warning.
        listener: called with (phase, facts) as the run goes on; for progress displays and warnings.
        settings: fields of :class:`~naq.run.config.RunConfig`: ``way``, ``shot``, ``seed``, ``head``, ``episodes``, ...

    Example:
        >>> import naq
        >>> r = naq.run("debian", method="smooth")  # doctest: +SKIP
        >>> print(r)  # doctest: +SKIP
    """
    check_settings(settings)
    config = RunConfig.resolve(method, **settings)
    if table is not None:
        check_takes_table(config.spec)
    listener, mark, source = listener or warn, time.perf_counter(), None
    if not isinstance(graph, Graph):
        from naq.io import load

        source = str(graph)
        listener("load", {"source": source})
        graph = load(graph)
    return run_config(
        replace(config, dataset=graph.name), graph, source=source, tasks=tasks, split=split, base_labels=base_labels,
        out=out, checkpoint=checkpoint, cache=cache, baseline=baseline, table=table, listener=listener,
        load_seconds=time.perf_counter() - mark,
    )  # fmt: skip


def run_config(
    config: RunConfig,
    graph: Graph,
    *,
    source: str | None = None,
    tasks: EvaluationTasks | str | Path | None = None,
    split: ClassSplit | None = None,
    base_labels: np.ndarray | None = None,
    out: str | Path | None = None,
    checkpoint: str | Path | None = None,
    cache: str | Path | None = "",
    baseline: bool = True,
    table: NeighborTable | str | Path | None = None,
    listener: Listener = warn,
    load_seconds: float = 0.0,
) -> Result:
    """The run that a configuration describes, on a graph that is loaded; arguments as those of :func:`run`.

    Args:
        source: the name or path the graph was loaded from, if known; its tasks and split go with it.
        load_seconds: that loading the graph took.
    """
    method, seconds = config.spec, {"load": load_seconds}
    checked_device(config.device)
    graph.check_files()
    with _timed(seconds, "load"):
        if not isinstance(tasks, EvaluationTasks):
            tasks = evaluation_tasks(
                graph, source, tasks, way=config.way, shot=config.shot, split=split, base_labels=base_labels
            )
        if table is not None:
            check_takes_table(method)
            table = table if isinstance(table, NeighborTable) else NeighborTable.load(Path(table).expanduser())
        data = {
            "graph": graph.hash,
            "features": resolve(graph, config.features or "raw"),
            "tasks": tasks.hash,
            **({} if base_labels is None else {"base_labels": labels_hash(tasks.base_labels)}),
            **({} if table is None else {"table": table_info(table)}),
        }
    with nullcontext() if out is None else RunFolder(out, config, data, listener) as folder:
        if folder is not None and (finished := folder.finished()) is not None:
            listener("finished", {"folder": str(out)})
            return finished
        kept = folder.checkpoint if folder is not None else None if checkpoint is None else Path(checkpoint)
        begun = {} if kept is None else arithmetic_of(kept) if folder is None else folder.begun_with
        if begun and (text := arithmetic_warning(begun, arithmetic())):
            listener("warning", {"text": text})
        with _timed(seconds, "load"):
            inputs = weighted(graph, str(data["features"]))

        steps = trained = None
        if method.trains:
            place = cache_folder() if cache == "" else cache
            steps = training_steps(config, inputs, tasks, cache=place, table=table, listener=listener, seconds=seconds)
            if steps.updates:
                valid = selection_tasks(config, inputs, tasks)
                trained = fit(
                    steps,
                    partial(validation_accuracy, steps.model, valid, config.solver),
                    config.schedule,
                    checkpoint=kept,
                    key=_key(config, data, steps),
                    report=lambda facts: listener("train", facts),
                )
                seconds["train"] = trained.seconds

        listener("embed", {"method": config.method})
        graph.check_files()
        with _timed(seconds, "embed"):
            vectors, plan = _vectors(config, steps, inputs)
        if plan:
            listener("plan", {"plan": plan})
        listener("test", {"tasks": len(tasks.test)})
        with _timed(seconds, "test"):
            model = None if steps is None else steps.model
            evaluations = evaluate_heads(vectors, tasks.test, tasks.unbalanced, model=model, chosen=config.solver)
        listener("baseline", {"method": BASELINE})
        with _timed(seconds, "baseline"):
            compared = (
                evaluate_heads(baseline_vectors(graph), tasks.test, tasks.unbalanced)
                if baseline and config.method != BASELINE
                else {}
            )
        graph.check_files()
        facts = _facts(config, graph, tasks, steps, trained, vectors, plan)
        history = None if trained is None else trained.history
        result = Result(config, data, evaluations, compared, facts, seconds, history, vectors)
        if folder is not None:
            folder.write(result, model)
        return result


def training_steps(
    config: RunConfig,
    graph: Graph,
    tasks: EvaluationTasks,
    *,
    cache: str | Path | None = None,
    table: NeighborTable | None = None,
    listener: Listener = warn,
    seconds: dict[str, float] | None = None,
) -> Steps:
    """The model with its initial weights, and its training in steps; what it may not see of the labels is taken away here."""
    method, seconds = config.spec, {} if seconds is None else seconds

    def progress(done: int, total: int) -> None:
        listener("neighbors", {"done": done, "total": total})

    made: dict[str, Any] = {"seed": config.seed, "device": config.device, "progress": progress, **config.options}
    if method.learner is None:
        listener("build", {"method": config.method})
        with _timed(seconds, "build"):
            model: Any = method.model(graph.without_labels(), **made)
        listener("plan", {"plan": model.plan()})
        return EpochTraining(model)
    from naq.run.episodes import draw_episodes, episode_way

    way = episode_way(config)
    base_labels = tasks.base_labels if method.reads_base_labels else None
    seen = graph.without_labels() if base_labels is None else graph.with_labels(base_labels)
    listener("episodes", {"kind": method.episodes})
    with _timed(seconds, "episodes"):
        episodes = draw_episodes(
            config, seen, tasks.split, cache=cache, table=table, progress=progress,
            note=lambda text: listener("warning", {"text": text}),
        )  # fmt: skip
    listener("build", {"method": method.name})
    learner = method.learner(seen, way=way, base_labels=base_labels, **made)
    return episode_training(learner, episodes)


def _vectors(config: RunConfig, steps: Steps | None, graph: Graph) -> tuple[np.ndarray, str]:
    """(n, d) of the trained model, else of the embedder that trains nothing, and what the embedder decided about the graph."""
    plan = ""
    if steps is not None:
        model: Any = steps.model
        vectors = model.encode_all().cpu().numpy()
    else:
        assert config.spec.embedder is not None
        embedder = config.spec.embedder(
            graph.without_labels(), seed=config.seed, device=config.device, **config.options
        )
        vectors, plan = embedder.embed(), embedder.plan()
    return (refined(vectors, config.seed, config.device) if config.refine else vectors), plan


def _key(config: RunConfig, data: Mapping[str, Any], steps: Steps) -> str:
    """Identifies the training of a run, for its checkpoint."""
    told = [json.dumps([config.to_json(), data], sort_keys=True), _batches(steps)]
    return hashlib.blake2b(json.dumps(told).encode(), digest_size=16).hexdigest()


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
    facts: dict[str, Any] = {
        "reads_base_labels": config.spec.reads_base_labels,
        "inductive": config.spec.inductive,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "classes": {part: list(tasks.split.part(part)) for part in ("base", "valid", "test")},
        "zero_rows": _zero_rows(vectors),
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


def _zero_rows(vectors: np.ndarray, block: int = 1 << 16) -> float:
    """The share of rows that are zero, in blocks: vectors may be a memory-map."""
    found = sum(int((~vectors[start : start + block].any(axis=1)).sum()) for start in range(0, len(vectors), block))
    return found / len(vectors)


@contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    mark = time.perf_counter()
    yield
    seconds[phase] = seconds.get(phase, 0.0) + time.perf_counter() - mark
