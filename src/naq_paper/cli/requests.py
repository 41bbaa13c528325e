"""Options of ``naq reproduce``, checked before a graph is loaded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from naq.errors import OptionError
from naq.options import nearest
from naq_paper.cells.cell import Cell, titles
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.request import Request
from naq_paper.report.format import counted

if TYPE_CHECKING:
    from naq_paper.cells.cell import Cell


def check_words(quick: bool, budget: str, features: str, learners: Sequence[str]) -> None:
    """Raise one sentence for options that no request takes."""
    from naq.graph.weighting import WEIGHTINGS
    from naq.learners import LEARNERS

    if quick and budget not in ("standard", "quick"):
        raise OptionError(f"--quick and --budget {budget} exclude each other; give one of them.")
    for name in learners:
        if name not in LEARNERS:
            raise OptionError(f"--learner is {name!r}; {nearest(name, LEARNERS)}")
    if features not in ("auto", *WEIGHTINGS):
        raise OptionError(f"--features is {features!r}; {nearest(features, ('auto', *WEIGHTINGS))}")


def options_of(given: list[str]) -> dict[str, dict[str, Any]]:
    """``["protonet.lr=3e-4"]`` as options by learner or embedder, checked."""
    if not given:
        return {}
    from naq.cli.running import pairs
    from naq.embedders import EMBEDDERS
    from naq.learners import LEARNERS
    from naq.options import merge_options

    found: dict[str, dict[str, Any]] = {}
    for key, value in pairs(given, "--set").items():
        owner, dot, name = key.partition(".")
        if not dot or not name:
            raise OptionError(f"--set is {key}={value}; expected LEARNER.NAME=VALUE, e.g. protonet.lr=3e-4.")
        if owner not in LEARNERS and owner not in EMBEDDERS:
            raise OptionError(f"--set names {owner!r}; {nearest(owner, [*LEARNERS, *EMBEDDERS])}")
        model: Any = LEARNERS[owner] if owner in LEARNERS else EMBEDDERS[owner]
        found.setdefault(owner, {})[name] = merge_options(owner, dict(model.defaults), {name: value})[name]
    return found


def episode_options_of(given: list[str]) -> dict[str, Any]:
    """``["queries=5"]`` as options of episodes, checked against the kinds of episodes that have them."""
    if not given:
        return {}
    from naq.cli.running import pairs
    from naq.options import merge_options
    from naq.run.episodes import DEFAULTS

    known = {name: value for options in DEFAULTS.values() for name, value in options.items()}
    found = pairs(given, "--episode")
    return {name: merge_options("an episode", known, {name: value})[name] for name, value in found.items()}


def without_effect(requests: Sequence[Request], cells: Sequence[Cell]) -> list[str]:
    """Sentences on options that were given and are in no cell: it trains other models, or its levels set the option themselves."""
    from naq_paper.experiments.names import learner_of

    if not requests:
        return []
    trained = {learner_of(str(cell.config["method"])) for cell in cells if cell.config.get("method")}
    names = ", ".join(dict.fromkeys(request.experiment for request in requests))
    idle = [f"--set {model}: no cell of {names} trains it." for model in requests[0].options if model not in trained]
    for name, value in requests[0].episode.items():
        if not any(value in ((cell.config.get("episode") or {}).get(name), cell.config.get(name)) for cell in cells):
            why = "their own values come later, or none has episodes with it"
            idle.append(f"--episode {name}={value}: no cell of {names} takes it; {why}.")
    return idle


def plan_text(studies: Sequence[Study], cells: Sequence[Cell], missing: Sequence[Cell]) -> str:
    """The requests, how many of their cells are done, and every cell that is not."""
    lines = []
    for study in studies:
        if study.dataset == study.request.datasets[0]:
            lines.append(f"{study.experiment.name} on {', '.join(study.request.datasets)}: {study.experiment.question}")
    requests = [study.request for study in studies]
    lines += dict.fromkeys(f"Profile {request.profile}: {request.settings.summary}." for request in requests)
    lines += dict.fromkeys(f"Budget {request.budget}: {request.cost}" for request in requests)
    tried = {cell for study in studies for group in study.groups.values() for cell in group.tried}
    tuning = f" Tuning: {counted(len(tried), 'candidate')} among them, trainings with what they choose follow."
    later = tuning if tried else ""
    lines.append(f"{counted(len(cells), 'cell')}, {len(cells) - len(missing)} done, {len(missing)} to compute.{later}")
    return "\n".join([*lines, *(f"  {line}" for line in titles(missing))])


def plan_json(requests: Sequence[Request], cells: Sequence[Cell], missing: Sequence[Cell]) -> str:
    """The requests, and their cells in the order in which they are computed; docs/reproduction.md describes it."""
    left = set(missing)
    plan = {
        "requests": [request.to_json() for request in requests],
        "cells": [
            {"title": cell.title, "measurement": cell.measurement, "config": cell.config, "done": cell not in left}
            for cell in cells
        ],
    }
    return json.dumps(plan, indent=2, allow_nan=False)
