"""Vectors of a method by name, for all nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from naq.embedders import Embedder
from naq.embedders.closed_form import ClosedForm
from naq.errors import OptionError
from naq.graph import Graph
from naq.methods import get_method


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
    """(n, d) float32 vectors of a method that needs neither labels nor episodes, e.g. ``naq-plus`` or ``bgrl``.

    A method that is trained stops, and its weights are chosen, by label-free tasks: clusters of smoothed features as
    classes. A graph that is itself mapped is embedded in blocks with and without ``out``.

    Args:
        refine: apply the closed form of NaQ to the vectors, which ``naq-plus`` does anyway.
        out: a .npy file that the vectors are written to, in blocks (``naq-plus`` and ``smooth``, on the CPU); what is
            returned is mapped from it.
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
    vectors = pretrain(model).embed()
    return refine_vectors(vectors, seed, device) if refine else vectors


def pretrain(model: Embedder) -> Embedder:
    """The embedder itself, trained if it is a trained one: label-free tasks choose its weights, by prototypes."""
    trained: Any = model
    if not model.trains or trained.updates == 0:
        return model
    from naq.heads import make_head
    from naq.run.evaluate import label_free_tasks, validation_accuracy
    from naq.training import EpochTraining, Schedule, fit

    head = None if model.solves_tasks else make_head("prototype")
    tasks = label_free_tasks(model.graph, 5, device=str(model.device))
    schedule = Schedule(trained.evaluate_every, trained.patience)
    fit(EpochTraining(trained), lambda: validation_accuracy(trained, tasks, head), schedule)
    return model


def refine_vectors(vectors: np.ndarray, seed: int, device: str) -> np.ndarray:
    """The closed form as ``refine`` applies it: of mutual neighbours, sharpened less than in ``naq-plus``."""
    return ClosedForm(pairs="mutual", power=1.5, seed=seed, device=device).fit_transform(vectors)
