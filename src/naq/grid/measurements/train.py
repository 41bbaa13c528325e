"""``train``: a method trained, selected and tested as :func:`naq.run` does, on a dataset or what a perturbation makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from naq.errors import OptionError
from naq.grid.cells import Cell
from naq.grid.measurements.base import Context, register_measurement
from naq.grid.perturbations import resolve_perturbation
from naq.heads import make_head
from naq.options import merge_options
from naq.protocol.episodes import episode_options
from naq.protocol.evaluation import OWN
from naq.protocol.methods import Method, get_method
from naq.protocol.result import Result
from naq.protocol.runs import run, schedule_of
from naq.protocol.selection import check_selection


def train_cell(
    dataset: str,
    method: str,
    *,
    way: int = 5,
    shot: int = 1,
    also_shots: Sequence[int] = (),
    seed: int = 0,
    head: str = "logistic",
    features: str = "auto",
    episodes: int = 16_000,
    epochs: int | None = None,
    evaluate_every: int | None = None,
    patience: int | None = None,
    select: str = "valid",
    device: str = "cpu",
    options: Mapping[str, Any] | None = None,
    episode: Mapping[str, Any] | None = None,
    perturbation: Mapping[str, Any] | None = None,
    measurement: str = "train",
    **more: Any,
) -> Cell:
    """The cell of one run; arguments as those of :func:`naq.run`, every default written out.

    Args:
        epochs, evaluate_every, patience: what does not apply to the method is left out.
        perturbation: ``{"name": ..., ...}`` of :mod:`naq.grid.perturbations`.
        measurement, more: for a measurement that trains and then measures something else.
    """
    known = get_method(method)
    model = known.learner or known.embedder
    assert model is not None
    check_selection(select)
    given = dict(options or {})
    if known.in_epochs and epochs is not None:
        given["epochs"] = epochs
    config: dict[str, Any] = {
        "dataset": dataset,
        "method": known.name,
        "way": int(way),
        "shot": int(shot),
        "also_shots": sorted({int(k) for k in also_shots} - {int(shot)}),
        "seed": int(seed),
        "head": OWN if known.solves_tasks else make_head(head).name,
        "features": features,
        "options": merge_options(known.name, model.defaults, given),
        "episode": _episode(known, way, shot, episode or {}),
        "device": device,
        "perturbation": resolve_perturbation(perturbation),
        **more,
    }
    if known.learner is not None:
        config["episodes"] = int(episodes)
    if known.learner is not None or known.in_epochs:
        config |= {**schedule_of(model, evaluate_every, patience), "select": select}
    return Cell(measurement, config)


def _episode(method: Method, way: int, shot: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the episodes; a way or shot equal to the tasks' own is the default, and is written as such."""
    own = {
        name: value
        for name, value in (("way", way), ("shot", shot))
        if method.episodes == "supervised" or name == "way"
    }
    return episode_options(method, {k: v for k, v in given.items() if k not in own or int(v) != own[k]})


def trained(config: Mapping[str, Any], context: Context) -> Result:
    """The run that a train cell's configuration describes, with its vectors where it was not resumed from a finished one."""
    perturbed = context.perturbed(config)
    method = get_method(str(config["method"]))
    tasks = None if perturbed.redraw else context.dataset_cache.tasks(str(config["dataset"]))
    if perturbed.redraw and perturbed.split is None:
        raise OptionError(
            f"the perturbation {config['perturbation']} removes nodes but names no classes; tasks cannot be drawn."
        )
    return run(
        perturbed.graph,
        method.name,
        way=config["way"],
        shot=config["shot"],
        also_shots=config["also_shots"],
        seed=config["seed"],
        tasks=tasks,
        split=perturbed.split,
        base_labels=perturbed.base_labels,
        head="logistic" if config["head"] == OWN else config["head"],
        features=config["features"],
        episodes=config.get("episodes", 16_000),
        evaluate_every=config.get("evaluate_every"),
        patience=config.get("patience") or 0,
        select=config.get("select", "valid"),
        device=config["device"],
        checkpoint=None if context.scratch is None else context.scratch / "checkpoint.safetensors",
        options=config["options"],
        episode=config["episode"],
        cache=context.cache,
        reference=False,  # a cell of its own computes it once
        listener=context.listener,
    )


@register_measurement("train")
def train(config: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Everything a run reports but the vectors, and what the perturbation did."""
    result = trained(config, context)
    return {**result.to_json(), "perturbation": dict(context.perturbed(config).facts)}
