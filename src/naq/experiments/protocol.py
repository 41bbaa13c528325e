"""One run: train on episodes, choose the checkpoint on validation tasks, test once."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from naq.data import load
from naq.embedders import Embedder, TrainedEmbedder
from naq.errors import NaqError, OptionError
from naq.experiments.episodes_for import episode_options
from naq.experiments.folder import RunFolder
from naq.experiments.model_training import ModelTraining, Tell, pretrained
from naq.experiments.result import Result, versions
from naq.experiments.selection import SELECTIONS, check_selection
from naq.experiments.task_source import TaskSource, task_source
from naq.experiments.testing import OWN, REFERENCE, every_answer, every_head, reference_vectors
from naq.graph import Graph, resolve, weighted
from naq.heads import Evaluation, Head, make_head
from naq.learners import Learner
from naq.methods import Method, get_method
from naq.neighbors.table import cache_folder
from naq.options import merge_options
from naq.tasks import ClassSplit
from naq.training import Schedule, Trained

EVALUATE_EVERY = 160
"""Episodes between two evaluations of a learner: the paper's 100 evaluations in 16,000."""


def embed(graph: Graph, method: str = "smooth", *, seed: int = 0, device: str = "cpu", **options: Any) -> np.ndarray:
    """(n, d) float32 vectors of a registered method that needs no labels and no episodes, e.g. ``smooth`` or ``bgrl``.

    A method that is trained stops, and its weights are chosen, by label-free tasks: drawn nodes and their nearest.
    """
    found = get_method(method)
    if found.embedder is None:
        raise OptionError(f"{method} is trained on episodes; use naq.run(graph, method={method!r}).embedding instead.")
    model = found.embedder(graph, seed=seed, device=device, **options)
    if isinstance(model, TrainedEmbedder):
        pretrained(model, cache=cache_folder())
    return model.embed()


def run(
    graph: Graph | str | Path,
    method: str = "naq-feat/protonet",
    *,
    way: int = 5,
    shot: int = 1,
    also_shots: Sequence[int] = (),
    seed: int = 0,
    tasks: str | Path | None = None,
    split: ClassSplit | None = None,
    base_labels: np.ndarray | None = None,
    head: str | Head = "logistic",
    features: str = "auto",
    episodes: int = 16_000,
    epochs: int | None = None,
    evaluate_every: int | None = None,
    patience: int | None = None,
    select: str = "valid",
    device: str = "cpu",
    out: str | Path | None = None,
    checkpoint: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    episode: Mapping[str, Any] | None = None,
    cache: str | Path | None = "",
    reference: bool = True,
    tell: Tell | None = None,
) -> Result:
    """Train, select, test: the whole protocol of the paper.

    Test tasks are solved once, at the checkpoint with the first best accuracy on validation tasks: the same number as
    solving them at every checkpoint, as the paper's code does, and reading off that one.

    Args:
        graph: a graph, or a name or path for :func:`naq.load`.
        method: a name of ``naq list methods``.
        way, shot: of the tasks; training episodes have the same way unless ``episode`` says otherwise.
        also_shots: tasks of other shots that the selected weights are tested on too; one training serves them all.
        seed: of weights and episodes.
        tasks: a task file; by default the one that comes with the dataset, else tasks are drawn (split and tasks by seed 0,
            whatever ``seed`` is).
        split: base, validation and test classes that tasks are drawn from, where no task file is given.
        base_labels: (n,) what a supervised method may read instead of every label of base classes; -1 where it may not.
        head: solves the tasks and chooses the checkpoint; the other heads are reported beside it. A method that solves tasks
            itself (``naq list methods`` says so) uses none.
        features: what the method reads: ``raw`` as in the paper, ``binary``, ``tfidf``, or ``auto``: ``tfidf`` where features are
            sparse and non-negative (on two graphs 2 to 5 points better on validation tasks), else ``raw``.
        episodes, epochs: how long a learner and a trained embedder train at most; 16,000 as in the paper, and the embedder's own option
            ``epochs``.
        evaluate_every, patience: episodes or epochs between two evaluations, and evaluations without a new best before the training stops
            (0: it never does). By default a learner is evaluated every 160 episodes and trains to the end, as in the paper; an
            embedder has a schedule of its own.
        select: what chooses the checkpoint: ``valid``, the tasks of validation classes, or ``naq``, tasks without labels.
        device: ``cpu`` or ``cuda``.
        out: run folder; a stopped run there is resumed, a finished one is read.
        checkpoint: a file that a stopped training goes on from, for callers that keep results themselves and give no ``out``.
        options: of the learner or embedder, e.g. ``{"lr": 3e-4}``.
        episode: of the episodes, e.g. ``{"queries": 5}``.
        cache: folder for neighbour tables; "" is the user's cache folder, None keeps none.
        reference: whether the training-free line is computed on the same tasks.
        tell: called with (phase, facts) as the run goes on; for progress displays.

    Example:
        >>> import naq
        >>> r = naq.run("debian", method="smooth")  # doctest: +SKIP
        >>> print(r)  # doctest: +SKIP
    """
    started = time.perf_counter()
    tell = tell or (lambda phase, facts: None)
    found, chosen = get_method(method), make_head(head)
    if not isinstance(graph, Graph):
        tell("load", {"source": str(graph)})
    source = None if isinstance(graph, Graph) else str(graph)
    graph = load(graph) if not isinstance(graph, Graph) else graph
    check_device(device)
    check_selection(select)

    def tasks_of(shot: int) -> TaskSource:
        return task_source(graph, source, tasks, way=way, shot=shot, split=split, base_labels=base_labels)

    given = tasks_of(shot)
    others = {int(k): tasks_of(int(k)) for k in also_shots if int(k) != shot}
    model_class = found.learner or found.embedder
    assert model_class is not None
    trains = found.learner is not None or found.in_epochs
    if epochs is not None:
        if not found.in_epochs:
            what = (
                "is trained on episodes: give episodes" if found.learner is not None else "is not trained: leave it out"
            )
            raise OptionError(f"epochs is {epochs}, but {found.name} {what}.")
        options = {**(options or {}), "epochs": epochs}
    config: dict[str, Any] = {
        "dataset": graph.name,
        "data_hash": graph.hash,
        "method": found.name,
        "way": way,
        "shot": shot,
        "head": OWN if found.solves_tasks else chosen.name,
        "head_options": {} if found.solves_tasks else dict(chosen.options),
        "features": "raw"
        if found.embedder is not None and found.embedder.weighs_features
        else resolve(graph, features),
        "seed": int(seed),
        "tasks": given.fingerprint,
        **({} if base_labels is None else {"base_labels": _fingerprint(given.base_labels)}),
        **({"also": {str(k): other.fingerprint for k, other in others.items()}} if others else {}),
        "options": merge_options(found.name, model_class.defaults, options or {}),
        "episode": episode_options(found, episode or {}),
        "device": str(device),
    }
    if found.learner is not None:
        config["episodes"] = int(episodes)
    if trains:
        config |= {**schedule_of(model_class, evaluate_every, patience), "select": select}
    folder = RunFolder(out, config) if out is not None else None
    if folder is not None and (done := folder.finished()) is not None:
        tell("finished", {"folder": str(out)})
        return done
    read = weighted(graph, config["features"])
    tables = cache_folder() if cache == "" else cache
    seconds: dict[str, float] = {"load": time.perf_counter() - started}
    trained, model, plan = None, None, ""
    if trains:
        training = ModelTraining(found, read, given, config, chosen, tables, tell)
        try:
            kept = Path(checkpoint) if checkpoint is not None else None
            model, trained = training.run(folder.checkpoint if folder is not None else kept)
        except NaqError:
            if folder is not None:
                folder.forget()
            raise
        seconds |= training.seconds
        plan = training.plan
    mark = time.perf_counter()
    tell("embed", {"method": found.name})
    vectors = (
        embed(read.without_labels(), found.name, seed=seed, device=device, **config["options"])
        if model is None
        else model.encode_all().cpu().numpy()
    )
    seconds["embed"] = time.perf_counter() - mark
    mark = time.perf_counter()

    def test(source: TaskSource) -> dict[str, Evaluation]:
        return every_answer(model, vectors, source.test, chosen)

    def refer(source: TaskSource) -> dict[str, Evaluation]:
        return {} if found.name == REFERENCE or not reference else every_head(reference_vectors(graph), source.test)

    tell("test", {"tasks": len(given.test)})
    evaluations, also = test(given), {str(k): test(other) for k, other in others.items()}
    seconds["test"] = time.perf_counter() - mark
    mark = time.perf_counter()
    floor, also_floor = refer(given), {str(k): refer(other) for k, other in others.items()}
    seconds["reference"] = time.perf_counter() - mark
    result = Result(
        config,
        evaluations,
        floor,
        _facts(found, graph, given, vectors, trained, config, plan),
        seconds,
        trained.history if trained else None,
        vectors,
        also,
        also_floor,
    )
    if folder is not None:
        folder.write(result, model)
    return result


def _fingerprint(labels: np.ndarray) -> str:
    return hashlib.blake2b(np.ascontiguousarray(labels, dtype="<i8").tobytes(), digest_size=12).hexdigest()


def check_device(device: str) -> None:
    """One sentence where the device is not there."""
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise OptionError(
            f"device is {device!r}, which cannot be used here; choose 'cpu' or an available 'cuda'."
        ) from error


def schedule_of(
    model: type[Learner] | type[Embedder], evaluate_every: int | None, patience: int | None
) -> dict[str, int | None]:
    """The schedule that is asked for, else the paper's for learners and the embedder's own."""
    if issubclass(model, TrainedEmbedder):
        every, wait = model.evaluate_every, model.patience
    else:
        every, wait = EVALUATE_EVERY, 0
    wait = wait if patience is None else int(patience)
    schedule = Schedule(every if evaluate_every is None else int(evaluate_every), wait or None)
    return {"evaluate_every": schedule.evaluate_every, "patience": schedule.patience}


def _facts(
    method: Method,
    graph: Graph,
    given: TaskSource,
    vectors: np.ndarray,
    trained: Trained | None,
    config: Mapping[str, Any],
    plan: str,
) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "reads_base_labels": method.reads_base_labels,
        "inductive": method.inductive,
        "selection": SELECTIONS[config["select"]] if trained else "nothing was selected",
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "classes": {
            "base": list(given.split.base),
            "valid": list(given.split.valid),
            "test": list(given.split.test),
        },
        "zero_rows": float((np.abs(vectors).sum(axis=1) == 0).mean()),
        "versions": versions(),
    }
    if trained is not None:
        facts |= {
            "best_episodes": trained.best_step,
            "valid_accuracy": trained.best_valid,
            "stopped_early": trained.stopped_early,
            "episodes_trained": trained.history.steps[-1],
            "unit": "episodes" if method.learner is not None else "epochs",
        }
    if plan:
        facts["training"] = plan
    return facts
