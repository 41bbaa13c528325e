"""One run: train on episodes, choose the checkpoint on validation tasks, test once."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from naq.data import load
from naq.devices import checked_device
from naq.embedders import Embedder, TrainedEmbedder, refined
from naq.errors import OptionError
from naq.files import cache_folder
from naq.graph import Graph, resolve, weighted
from naq.heads import Evaluation, Head
from naq.progress import Listener
from naq.protocol.config import EPISODES, FEATURES, RunConfig
from naq.protocol.evaluation import BASELINE, Model, baseline_vectors, every_answer, every_head, other_weights
from naq.protocol.folder import RunFolder, begun_beside
from naq.protocol.machine import arithmetic_warning, versions
from naq.protocol.methods import get_method
from naq.protocol.result import Result
from naq.protocol.selection import SELECTIONS
from naq.protocol.tasks import TaskSource, labels_hash, task_source
from naq.protocol.training import ModelTraining, pretrained
from naq.tasks import ClassSplit
from naq.threads import arithmetic
from naq.training import Trained


def embed(
    graph: Graph,
    method: str = "naq-plus",
    *,
    refine: bool = False,
    seed: int = 0,
    device: str = "cpu",
    out: str | Path | None = None,
    **options: Any,
) -> np.ndarray:
    """(n, d) float32 vectors of a registered method that needs no labels and no episodes, e.g. ``naq-plus`` or ``bgrl``.

    ``refine`` applies the closed form of NaQ to the vectors, which ``naq-plus`` does anyway.

    ``out`` is a .npy file that the vectors are written to, in blocks (``naq-plus`` and ``smooth``, on the CPU); what is returned is mapped from it. A graph that is itself
    mapped is embedded in blocks with and without ``out``.

    A method that is trained stops, and its weights are chosen, by label-free tasks: clusters of smoothed features as classes.
    """
    found = get_method(method)
    if found.embedder is None:
        raise OptionError(f"{method} is trained on episodes; use naq.run(graph, method={method!r}).embedding instead.")
    model = found.embedder(graph, seed=seed, device=device, **options)
    if out is not None:
        if refine:
            raise OptionError(
                "refine=True does not work in blocks; leave out= away, or use naq-plus, which is refined."
            )
        return model.embed_to(out)
    if isinstance(model, TrainedEmbedder):
        pretrained(model)
    vectors = model.embed()
    return refined(vectors, seed=seed, device=device) if refine else vectors


def _warn(phase: str, facts: Mapping[str, Any]) -> None:
    """The listener of a run that is given none."""
    if phase == "warning":
        warnings.warn(str(facts["text"]), stacklevel=2)


@dataclass(frozen=True, eq=False)
class RunInputs:
    """What a run uses beside its configuration: the data, and where it keeps things.

    Attributes:
        graph: the graph; ``source`` is the name or path it was loaded from, where that is known.
        tasks, split, base_labels, out, checkpoint, cache, baseline, listener: as in :func:`run`.
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
    listener: Listener = _warn
    load_seconds: float = 0.0

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
    features: str = FEATURES,
    episodes: int = EPISODES,
    epochs: int | None = None,
    evaluate_every: int | None = None,
    patience: int | None = None,
    select: str = "valid",
    device: str = "cpu",
    refine: bool = False,
    out: str | Path | None = None,
    checkpoint: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    episode: Mapping[str, Any] | None = None,
    cache: str | Path | None = "",
    baseline: bool = True,
    listener: Listener | None = None,
) -> Result:
    """Train, select, test: the whole protocol of the paper.

    Test tasks are solved once, at the checkpoint with the first best accuracy on validation tasks: the same number as
    solving them at every checkpoint, as the paper's code does, and reading off that one.

    Args:
        graph: a graph, or a name or path for :func:`naq.load`.
        method: a name of ``naq list methods``.
        way, shot: of the tasks; training episodes have the same way unless ``episode`` says otherwise.
        also_shots: other shots that the same training serves: for each, the weights are selected on its validation tasks and tested on its
            test tasks, as a run of that shot would (but for supervised episodes, which have the shot of the run itself).
        seed: of weights and episodes.
        tasks: a task file; by default the one that comes with the dataset, else tasks are drawn (split and tasks by seed 0,
            whatever ``seed`` is).
        split: base, validation and test classes that tasks are drawn from, where no task file is given.
        base_labels: (n,) what a supervised method may read instead of every label of base classes; -1 where it may not.
        head: solves the tasks and chooses the checkpoint; the other heads are reported beside it. A method that solves tasks
            itself (``naq list methods`` says so) uses none.
        features: what the method reads: ``raw`` as in the paper, ``binary``, ``tfidf``, or ``auto``: ``tfidf`` where features are
            sparse and non-negative, else ``raw``. Which is better depends on the graph. ``smooth`` has a weighting of its own.
        episodes, epochs: how long a learner and a trained embedder train at most; 16,000 as in the paper, and the embedder's own option
            ``epochs``.
        evaluate_every, patience: episodes or epochs between two evaluations, and evaluations without a new best before the training stops
            (0: it never does). By default a learner is evaluated every 160 episodes and trains to the end, as in the paper; an
            embedder has a schedule of its own.
        select: what chooses the checkpoint: ``valid``, the tasks of validation classes, or ``clusters``, tasks without labels.
        device: ``cpu`` or ``cuda``.
        refine: apply the closed form of NaQ (:func:`naq.embedders.refined`) to the vectors before testing; checkpoints are selected without it.
        out: run folder; a stopped run there is resumed, a finished one is read.
        checkpoint: a file that a stopped training goes on from, for callers that keep results themselves and give no ``out``.
        options: of the learner or embedder, e.g. ``{"lr": 3e-4}``.
        episode: of the episodes, e.g. ``{"queries": 5}``.
        cache: folder for neighbour tables; "" is the user's cache folder, None keeps none.
        baseline: whether the ``smooth`` baseline is computed on the same tasks.
        listener: called with (phase, facts) as the run goes on; for progress displays and warnings.

    Example:
        >>> import naq
        >>> r = naq.run("debian", method="smooth")  # doctest: +SKIP
        >>> print(r)  # doctest: +SKIP
    """
    config = RunConfig.resolve(
        method, way=way, shot=shot, also_shots=also_shots, seed=seed, head=head, features=features, options=options, episode=episode,
        episodes=episodes, epochs=epochs, evaluate_every=evaluate_every, patience=patience, select=select, device=device, refine=refine,
    )  # fmt: skip
    listener, mark, source = listener or _warn, time.perf_counter(), None
    if not isinstance(graph, Graph):
        source = str(graph)
        listener("load", {"source": source})
        graph = load(graph)
    inputs = RunInputs(
        graph, source, tasks, split, base_labels, out, checkpoint, cache, baseline, listener, time.perf_counter() - mark
    )
    return execute(replace(config, dataset=graph.name), inputs)


def execute(config: RunConfig, inputs: RunInputs) -> Result:
    """Train, select and test as the configuration says; resume or read what is in the run folder."""
    mark, seconds = time.perf_counter(), {"load": inputs.load_seconds}
    graph, listener = inputs.graph, inputs.listener
    checked_device(config.device)
    graph.check_files()
    given = inputs.task_source(config.way, config.shot)
    others = {str(k): inputs.task_source(config.way, k) for k in config.also_shots}
    data = {
        "graph": graph.hash,
        "features": resolve(graph, config.features or "raw"),
        "tasks": given.fingerprint,
        "also": {k: other.fingerprint for k, other in others.items()},
        **({} if inputs.base_labels is None else {"base_labels": labels_hash(given.base_labels)}),
    }
    seconds["load"] += time.perf_counter() - mark
    if inputs.out is None:
        return _execute(config, inputs, data, given, others, None, seconds)
    with RunFolder(inputs.out, config, data, listener) as folder:
        return _execute(config, inputs, data, given, others, folder, seconds)


def _execute(
    config: RunConfig,
    inputs: RunInputs,
    data: Mapping[str, Any],
    given: TaskSource,
    others: Mapping[str, TaskSource],
    folder: RunFolder | None,
    seconds: dict[str, float],
) -> Result:
    graph, listener, mark = inputs.graph, inputs.listener, time.perf_counter()
    if folder is not None and (done := folder.finished()) is not None:
        listener("finished", {"folder": str(inputs.out)})
        return done
    kept = None if inputs.checkpoint is None else Path(inputs.checkpoint)
    begun = folder.begun_with if folder is not None else {} if kept is None else begun_beside(kept)
    if begun and (text := arithmetic_warning(begun, arithmetic())):
        listener("warning", {"text": text})
    read = weighted(graph, str(data["features"]))
    seconds["load"] += time.perf_counter() - mark
    trained, model, plan = None, None, ""
    if config.known.trains:
        cache = cache_folder() if inputs.cache == "" else inputs.cache
        key = json.dumps([config.to_json(), data], sort_keys=True)
        training = ModelTraining(config, read, given, others, key, cache, listener)
        model, trained = training.run(kept if folder is None else folder.checkpoint)
        seconds |= training.seconds
        plan = training.plan
    mark = time.perf_counter()
    listener("embed", {"method": config.method})
    graph.check_files()
    vectors, decided = _vectors(config, model, read)
    if decided:
        listener("plan", {"plan": decided})
    seconds["embed"] = time.perf_counter() - mark
    mark = time.perf_counter()
    listener("test", {"tasks": len(given.test)})

    def test(source: TaskSource, shot: str = "") -> dict[str, Evaluation]:
        chosen = trained.also.get(shot) if trained is not None else None
        if chosen is None or model is None:
            return every_answer(model, vectors, source.test, source.unbalanced, config.solver)
        with other_weights(model, chosen.weights):
            return every_answer(model, _vectors(config, model, read)[0], source.test, source.unbalanced, config.solver)

    def test_baseline(source: TaskSource) -> dict[str, Evaluation]:
        wanted = inputs.baseline and config.method != BASELINE
        return every_head(baseline_vectors(graph), source.test, source.unbalanced) if wanted else {}

    evaluations, also = test(given), {k: test(other, k) for k, other in others.items()}
    seconds["test"] = time.perf_counter() - mark
    mark = time.perf_counter()
    listener("baseline", {"method": BASELINE})
    baseline, also_baseline = test_baseline(given), {k: test_baseline(other) for k, other in others.items()}
    seconds["baseline"] = time.perf_counter() - mark
    graph.check_files()
    facts = _facts(config, graph, given.split, vectors) | _training_facts(config, trained, plan)
    if decided:
        facts["embedding"] = decided
    history = trained.history if trained is not None else None
    result = Result(config, data, evaluations, baseline, facts, seconds, history, vectors, also, also_baseline)
    if folder is not None:
        folder.write(result, model)
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
        "zero_rows": float((np.abs(vectors).sum(axis=1) == 0).mean()),
        "versions": versions(),
        "arithmetic": arithmetic(),
    }


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
