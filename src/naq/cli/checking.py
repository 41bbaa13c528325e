"""Values of options, checked before anything is loaded or written."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naq.errors import OptionError
from naq.options import nearest

if TYPE_CHECKING:
    from naq_paper.cells.cell import Cell
    from naq_paper.experiments.request import Request


def budget_of(name: str, quick: bool) -> str:
    if quick and name not in ("standard", "quick"):
        raise OptionError(f"--quick and --budget {name} exclude each other; give one of them.")
    return "quick" if quick else name


def features_of(name: str) -> str:
    from naq.graph.weighting import WEIGHTINGS

    if name not in ("auto", *WEIGHTINGS):
        raise OptionError(f"--features is {name!r}; {nearest(name, ('auto', *WEIGHTINGS))}")
    return name


def check_device_of(device: str) -> None:
    from naq.device import checked_device

    checked_device(device)


def check_outputs(
    outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None], example: str = "out.csv"
) -> None:
    """Whether files can be written, and are not those that are read; both by option."""
    taken = {option: path for option, path in inputs.items() if path is not None and _exists(path)}
    for option, path in outputs.items():
        if path is None:
            continue
        if _exists(path) and path.is_dir():
            raise OptionError(f"{option} is {path}, a folder; expected the name of a file, e.g. {path / example}.")
        for other, used in taken.items():
            if path.absolute() == used.absolute() or (_exists(path) and _exists(used) and path.samefile(used)):
                raise OptionError(f"{option} is {path}, the same file as {other}; it would be lost: give another name.")
        folder = next(one for one in path.absolute().parents if _exists(one))
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            why = f"you may not write to {folder}" if folder.is_dir() else f"{folder} is no folder"
            raise OptionError(f"{option} is {path}, but {why}; choose a folder you may write to.")
        taken[option] = path


def _exists(path: Path) -> bool:
    """False also of what can be no name: too long, or with a zero byte."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def known_learners(names: list[str]) -> tuple[str, ...]:
    from naq.learners import LEARNERS

    for name in names:
        if name not in LEARNERS:
            raise OptionError(f"--learner is {name!r}; {nearest(name, LEARNERS)}")
    return tuple(dict.fromkeys(names))


def options_of(given: list[str]) -> dict[str, dict[str, Any]]:
    """``["protonet.lr=3e-4"]`` as options by learner or embedder, checked."""
    from naq.cli.running import pairs
    from naq.embedders import EMBEDDERS
    from naq.learners import LEARNERS
    from naq.options import merge_options

    found: dict[str, dict[str, Any]] = {}
    models: dict[str, Any] = {**LEARNERS, **EMBEDDERS}
    for key, value in pairs(given, "--set").items():
        owner, dot, name = key.partition(".")
        if not dot or not name:
            raise OptionError(f"--set is {key}={value}; expected LEARNER.NAME=VALUE, e.g. protonet.lr=3e-4.")
        if owner not in models:
            raise OptionError(f"--set names {owner!r}; {nearest(owner, models)}")
        found.setdefault(owner, {})[name] = merge_options(owner, dict(models[owner].defaults), {name: value})[name]
    return found


def episode_options_of(given: list[str]) -> dict[str, Any]:
    """``["queries=5"]`` as options of episodes, checked against the kinds of episodes that have them."""
    from naq.cli.running import pairs
    from naq.options import merge_options
    from naq.run.episodes import DEFAULTS

    known = {name: value for options in DEFAULTS.values() for name, value in options.items()}
    return {
        name: merge_options("an episode", known, {name: value})[name]
        for name, value in pairs(given, "--episode").items()
    }


def without_effect(requests: Sequence[Request], cells: Sequence[Cell]) -> list[str]:
    """Sentences on options that were given and are in no cell: it trains other models, or its levels set the option themselves."""
    from naq_paper.experiments.tuning import learner_of

    if not requests:
        return []
    trained = {learner_of(str(cell.config["method"])) for cell in cells if cell.config.get("method")}
    names = ", ".join(dict.fromkeys(request.experiment for request in requests))
    idle = [f"--set {model}: no cell of {names} trains it." for model in requests[0].options if model not in trained]
    for name, value in requests[0].episode.items():
        if not any(value in ((cell.config.get("episode") or {}).get(name), cell.config.get(name)) for cell in cells):
            idle.append(
                f"--episode {name}={value}: no cell of {names} takes it; their own values come later, or none has episodes with it."
            )
    return idle
