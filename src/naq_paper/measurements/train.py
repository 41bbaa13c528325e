"""``train``: a method trained, selected and tested as :func:`naq.run` does, on a dataset or what a perturbation makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from naq.errors import OptionError
from naq.methods import get_method
from naq.run import Result, RunConfig, RunInputs, execute, execute_together, gains_together
from naq_paper.cells.cell import Cell, canonical
from naq_paper.measurements.base import Context, register_measurement
from naq_paper.perturbations import resolve_perturbation


def train_cell(
    dataset: str,
    method: str,
    *,
    epochs: int | None = None,
    perturbation: Mapping[str, Any] | None = None,
    measurement: str = "train",
    more: Mapping[str, Any] | None = None,
    **given: Any,
) -> Cell:
    """The cell of one run: its :class:`~naq.run.RunConfig` as JSON, and the perturbation.

    Args:
        epochs: left out where the method is not trained in epochs.
        perturbation: ``{"name": ..., ...}`` of :mod:`naq_paper.perturbations`.
        measurement, more: for a measurement that trains and then measures something else: its name and what it adds to the configuration.
        given: arguments of :func:`naq.run` that belong to the configuration.
    """
    known = get_method(method)
    config = RunConfig.resolve(known, dataset=dataset, epochs=epochs if known.in_epochs else None, **given)
    perturbed = resolve_perturbation(perturbation)
    return Cell(measurement, {**config.to_json(), "perturbation": perturbed, **(more or {})})


def trained(config: Mapping[str, Any], context: Context) -> Result:
    """The run that a train cell's configuration describes, with its vectors where it was not resumed from a finished one."""
    return execute(*_run(config, context))


def _run(config: Mapping[str, Any], context: Context) -> tuple[RunConfig, RunInputs]:
    run = RunConfig.from_json({name: value for name, value in config.items() if name != "perturbation"})
    perturbed = context.perturbed(config)
    if perturbed.redraw and perturbed.split is None:
        raise OptionError(
            f"the perturbation {config['perturbation']} removes nodes but names no classes; tasks cannot be drawn."
        )
    return run, RunInputs(
        perturbed.graph,
        tasks=None if perturbed.redraw else context.dataset_cache.tasks(run.dataset),
        split=perturbed.split,
        base_labels=perturbed.base_labels,
        checkpoint=None if context.scratch is None else context.scratch / "checkpoint.safetensors",
        cache=context.cache,
        baseline=False,  # a cell of its own computes it once
        listener=context.listener,
    )


@register_measurement("train")
def train(config: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Everything a run reports but the vectors, and what the perturbation did."""
    return _reported(trained(config, context), config, context)


def _reported(result: Result, config: Mapping[str, Any], context: Context) -> dict[str, Any]:
    return {**result.to_json(), "perturbation": dict(context.perturbed(config).facts)}


def group_of(cell: Cell) -> str | None:
    """Equal for train cells that differ in their seed alone and are computed faster together; None where nothing is gained."""
    if cell.measurement != "train":
        return None
    config = {name: value for name, value in cell.config.items() if name not in ("perturbation", "seed")}
    if not gains_together(RunConfig.from_json({**config, "seed": 0})):
        return None
    return canonical({**config, "perturbation": cell.config["perturbation"]})


def train_together(
    given: Sequence[tuple[Mapping[str, Any], Context]],
) -> list[dict[str, Any] | Exception]:
    """What ``train`` returns or raises for each, trained side by side."""
    found: list[dict[str, Any] | Exception] = []
    results = execute_together([_run(config, context) for config, context in given])
    for (config, context), result in zip(given, results, strict=True):
        found.append(result if isinstance(result, Exception) else _reported(result, config, context))
    return found
