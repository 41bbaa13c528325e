"""Vectors of a method, and the whole protocol, from what a caller names."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from naq.embedders import TrainedEmbedder, refined
from naq.errors import OptionError
from naq.graph import Graph
from naq.heads import Head
from naq.io import load
from naq.methods import get_method
from naq.neighbors import NeighborTable
from naq.progress import Listener
from naq.run.config import EPISODES, FEATURES, RunConfig
from naq.run.execution import RunInputs, execute, warn
from naq.run.given_table import check_takes_table
from naq.run.result import Result
from naq.run.training import pretrained
from naq.tasks import ClassSplit


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
    table: NeighborTable | str | Path | None = None,
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
        table: neighbours that NaQ episodes are drawn from, or the file of ``naq neighbors --out``, in place of a table that is made here. It has to be of this graph
            (as the method reads it), at least as wide as the episodes need, and made with their options; a table that does not say so is taken with a warning.

    Example:
        >>> import naq
        >>> r = naq.run("debian", method="smooth")  # doctest: +SKIP
        >>> print(r)  # doctest: +SKIP
    """
    config = RunConfig.resolve(
        method, way=way, shot=shot, also_shots=also_shots, seed=seed, head=head, features=features, options=options, episode=episode,
        episodes=episodes, epochs=epochs, evaluate_every=evaluate_every, patience=patience, select=select, device=device, refine=refine,
    )  # fmt: skip
    if table is not None:
        check_takes_table(config.known)
    listener, mark, source = listener or warn, time.perf_counter(), None
    if not isinstance(graph, Graph):
        source = str(graph)
        listener("load", {"source": source})
        graph = load(graph)
    inputs = RunInputs(
        graph, source, tasks, split, base_labels, out, checkpoint, cache, baseline, listener, time.perf_counter() - mark,
        table,
    )  # fmt: skip
    return execute(replace(config, dataset=graph.name), inputs)
