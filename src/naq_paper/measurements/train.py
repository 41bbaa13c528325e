"""``train``: a method trained, selected and tested as :func:`naq.run` does, on a dataset or what a perturbation makes
of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from naq.errors import OptionError
from naq.methods import get_method
from naq.run.config import RunConfig
from naq_paper.cells.cell import Cell
from naq_paper.measurements import Context
from naq_paper.perturbations import resolve_perturbation

if TYPE_CHECKING:
    from naq.run import Result


def train_cell(
    dataset: str, method: str, *, epochs: int | None = None, perturbation: Mapping[str, Any] | None = None,
    measurement: str = "train", more: Mapping[str, Any] | None = None, **given: Any,
) -> Cell:  # fmt: skip
    """The cell of one run: its :class:`~naq.run.RunConfig` (``given`` as to :func:`naq.run`), and the perturbation.

    ``measurement`` and ``more`` are for one that trains and then measures something else: its name, and what it adds to
    the configuration.
    """
    known = get_method(method)
    config = RunConfig.resolve(known, dataset=dataset, epochs=epochs if known.in_epochs else None, **given)
    perturbed = resolve_perturbation(perturbation)
    return Cell(measurement, {**config.to_json(), "perturbation": perturbed, **(more or {})})


def train_run(config: Mapping[str, Any], context: Context) -> Result:
    """The run that a train cell describes, with its vectors unless a finished one was found."""
    from naq.run.run import run  # not needed to plan a cell

    settings = RunConfig.from_json({name: value for name, value in config.items() if name != "perturbation"})
    perturbed = context.perturbed(config)
    if perturbed.redraw and perturbed.split is None:
        what = config["perturbation"]
        raise OptionError(f"the perturbation {what} removes nodes but names no classes; tasks cannot be drawn.")
    return run(
        perturbed.graph,
        settings,
        tasks=None if perturbed.redraw else context.dataset_cache.tasks(settings.dataset),
        split=perturbed.split,
        base_labels=perturbed.base_labels,
        checkpoint=None if context.scratch is None else context.scratch / "checkpoint.safetensors",
        cache=context.cache,
        baseline=False,  # another cell computes it once
        listener=context.listener,
    )


def train(config: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Everything a run reports but the vectors, and what the perturbation did."""
    result = train_run(config, context)
    return {**result.to_json(), "perturbation": dict(context.perturbed(config).facts)}
