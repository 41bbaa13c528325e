"""What a request is called and what computes it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from naq.methods import get_method
from naq.run import RunConfig
from naq_paper.cells.cell import canonical, digest
from naq_paper.experiments.captions import dataset_slug
from naq_paper.experiments.request import Request


def section_name(request: Request, older: str = "") -> str:
    """The anchor of a request's section."""
    datasets = (dataset_slug(name) for name in request.datasets)
    return "-".join((request.experiment, *datasets, *request_parts(request), *older.replace(",", "").split()))


def request_parts(request: Request) -> list[str]:
    """How a request differs from the plain one of its experiment, in short words."""
    parts = [request.budget] if request.budget != "standard" else []
    parts += [f"{request.profile}-profile"] if request.profile != "default" else []
    parts += request.learners
    parts += ["tuned"] if request.tune else []
    plain = Request("", request.datasets)
    named = {name: getattr(plain, name) for name in ("budget", "profile", "learners", "tune")}
    rest = replace(request, facts={}, experiment="", **named)
    return [*parts, *([digest(canonical(rest.to_json()), 3)] if rest != plain else [])]


def reproduce_command_of(requests: Sequence[Request], paths: Mapping[str, str] | None = None, out: str = "") -> str:
    """What computes the requests again, a line for those that differ in their name only; "" is the usual folder."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for request in requests:
        lines.setdefault(tuple(_flags(request, paths or {})), []).append(request.experiment)
    into = ["--out", out] if out else []
    return "\n".join(shlex.join(["naq", "reproduce", *names, *flags, *into]) for flags, names in lines.items())


PLACE = ("device", "memory")
"""Where a run computes, not what: the reader's machine is another."""


def run_command_of(config: Mapping[str, Any], at: tuple[int, int], paths: Mapping[str, str] | None = None) -> str:
    """``naq run`` with the settings of a train cell, on tasks of this way and shot; defaults are left out."""
    method, dataset = get_method(str(config["method"])), str(config["dataset"])
    plain = RunConfig.resolve(method, way=at[0], shot=at[1]).to_json()
    words = ["naq", "run", (paths or {}).get(dataset, dataset), "--method", method.name]
    for name, value, usual in (("way", at[0], 5), ("shot", at[1], 1)):
        words += [f"--{name}", str(value)] if value != usual else []
    for name in ("head", "features", "episodes", "evaluate_every", "patience", "select"):
        if name in config and config[name] != plain[name]:
            text = str(config[name])
            words += [f"--{name}", text] if name in ("head", "episodes") else ["--set", f"{name}={text}"]
    for kind, prefix in (("options", ""), ("episode", "episode.")):
        for name, value in (config.get(kind) or {}).items():
            if name not in PLACE and value != plain[kind][name]:
                words += ["--set", f"{prefix}{name}={value}"]
    return shlex.join(words)


def _flags(request: Request, paths: Mapping[str, str]) -> list[str]:
    flags = [part for dataset in request.datasets for part in ("--dataset", paths.get(dataset, dataset))]
    plain = Request("", ())
    for name in ("budget", "profile", "seeds", "episodes", "head", "features", "select", "device"):
        value = getattr(request, name)
        flags += [f"--{name}", str(value)] if value != getattr(plain, name) else []
    for name in ("learners", "ways", "shots", "methods"):
        flags += [part for value in getattr(request, name) for part in (f"--{name[:-1]}", str(value))]
    for name, options in request.options.items():
        flags += [part for option, value in options.items() for part in ("--set", f"{name}.{option}={value}")]
    flags += [part for option, value in request.episode.items() for part in ("--episode", f"{option}={value}")]
    return flags + (["--tune"] if request.tune else [])
