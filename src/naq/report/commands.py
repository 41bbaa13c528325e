"""What a request is called and what computes it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from naq.experiments.asking import Ask
from naq.experiments.cells import canonical, digest
from naq.experiments.showing import dataset_slug


def section_name(ask: Ask, older: str = "") -> str:
    """The anchor of a request's section."""
    datasets = (dataset_slug(name) for name in ask.datasets)
    return "-".join((ask.experiment, *datasets, *special(ask), *([older] if older else [])))


def special(ask: Ask) -> list[str]:
    """What tells a request from the plain one of its experiment, in short words; none for the plain one."""
    parts = [ask.budget] if ask.budget != "standard" else []
    parts += [ask.learner] if ask.learner != "protonet" else []
    parts += ["tuned"] if ask.tune else []
    rest = replace(ask, facts={}, budget="standard", learner="protonet", tune=False, experiment="")
    plain = Ask("", rest.datasets)
    return [*parts, *([digest(canonical(rest.to_json()), 3)] if rest != plain else [])]


def command(asks: Sequence[Ask], places: Mapping[str, str] | None = None, out: str = "") -> str:
    """What computes the requests again; several lines where they differ in more than their name.

    Args:
        places: paths of datasets that are no names.
        out: folder of the results; "" is the usual one.
    """
    lines: dict[tuple[str, ...], list[str]] = {}
    for ask in asks:
        lines.setdefault(tuple(_flags(ask, places or {})), []).append(ask.experiment)
    into = ["--out", out] if out else []
    return "\n".join(shlex.join(["naq", "reproduce", *names, *flags, *into]) for flags, names in lines.items())


def _flags(ask: Ask, places: Mapping[str, str]) -> list[str]:
    flags = [part for dataset in ask.datasets for part in ("--dataset", places.get(dataset, dataset))]
    if ask.budget != "standard":
        flags += ["--budget", ask.budget]
    for flag, value, default in (
        ("--seeds", ask.seeds, 0),
        ("--episodes", ask.episodes, 0),
        ("--learner", ask.learner, "protonet"),
        ("--head", ask.head, "logistic"),
        ("--features", ask.features, ""),
        ("--select", ask.select, "valid"),
        ("--device", ask.device, "cpu"),
    ):
        flags += [flag, str(value)] if value != default else []
    for flag, values in (("--way", ask.ways), ("--shot", ask.shots), ("--method", ask.methods)):
        flags += [part for value in values for part in (flag, str(value))]
    for name, options in ask.options.items():
        flags += [part for option, value in options.items() for part in ("--set", f"{name}.{option}={value}")]
    return flags + (["--tune"] if ask.tune else [])
