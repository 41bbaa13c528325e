"""``naq reproduce`` and ``naq report``: the paper's tables and analyses, and the page about them."""

# ruff: noqa: B006
from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from naq.cli.main import Stopped
from naq.device import checked_device
from naq.errors import OptionError
from naq.options import did_you_mean, read_pairs
from naq_paper.cells.cell import Cell, titles
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.profiles import PROFILES
from naq_paper.experiments.request import BUDGETS, Request
from naq_paper.report.format import count_words

if TYPE_CHECKING:
    from naq_paper.cells.runners import Outcome
    from naq_paper.report.page import Report

FOLDER = Path("runs/reproduce")
what, cost, training, computing = (
    partial(Option, rich_help_panel=panel)
    for panel in ("What", "At what cost", "How methods are trained and tested", "Where it is computed")
)
BUDGET_HELP = "; ".join(f"{name}: {budget.summary}" for name, budget in BUDGETS.items()) + "."
PROFILE_HELP = "; ".join(f"{name}: {profile.summary}" for name, profile in PROFILES.items()) + "."


def reproduce_command(
    names: Annotated[list[str], Argument(help="Names of 'naq list experiments', or all, tables, analyses, beyond.")],
    dataset: Annotated[list[str], what("--dataset", "-d", help="A dataset's name or path; may be repeated.")] = [],
    data: Annotated[Path | None, what(help="Folder with graphs of the paper as npz files.")] = None,
    method: Annotated[list[str], what("--method", "-m", help="Row of a table; may be repeated.")] = [],
    way: Annotated[list[int], what(help="Classes per task; may be repeated for tables.")] = [],
    shot: Annotated[list[int], what(help="Labelled nodes per class, likewise.")] = [],
    learner: Annotated[list[str], what(help="Base model of the analyses; may be repeated.")] = [],
    quick: Annotated[bool, cost("--quick", help="Same as --budget quick: minutes, whether everything runs.")] = False,
    budget: Annotated[str, cost(help=BUDGET_HELP)] = "standard",
    seeds: Annotated[int, cost(help="Trainings behind each number; 0: as the budget says.")] = 0,
    episodes: Annotated[int, cost(help="Most episodes of a training; 0: as the budget says.")] = 0,
    tune: Annotated[bool, cost("--tune", help="Choose each method's setting on validation tasks first.")] = False,
    profile: Annotated[str, training(help=PROFILE_HELP)] = "default",
    option: Annotated[
        list[str], training("--set", "-s", help="MODEL.NAME=VALUE, e.g. protonet.lr=3e-4; may be repeated.")
    ] = [],
    episode: Annotated[
        list[str], training("--episode", "-e", help="NAME=VALUE of the episodes, e.g. queries=5; may be repeated.")
    ] = [],
    head: Annotated[str, training(help="Solves the tasks; a name of 'naq list heads'.")] = "logistic",
    features: Annotated[str, training(help="What methods read: raw (the paper), binary, tfidf or auto.")] = "raw",
    select: Annotated[str, training(help="Chooses the checkpoint: valid, or clusters (needs no labels).")] = "valid",
    device: Annotated[str, computing(help="cpu, cuda, or several: cuda:0,cuda:1 share the cells.")] = "cpu",
    engine: Annotated[str, computing(help="local, processes or ray.")] = "local",
    workers: Annotated[int, computing(help="Cells at a time; more than one means --engine processes or ray.")] = 1,
    cache: Annotated[bool, computing(help="Keep neighbour tables in the cache folder.")] = True,
    retry: Annotated[bool, computing("--retry", help="Compute failed cells again.")] = False,
    plan_only: Annotated[bool, computing("--plan", help="Print what would be computed, and stop.")] = False,
    as_json: Annotated[bool, computing("--json", help="With --plan: cells with their configuration as JSON.")] = False,
    out: Annotated[Path, computing(help="Folder of results; what is done is not computed again.")] = FOLDER,
) -> None:
    """Compute tables and analyses of the paper, next to its own numbers, and write a report.

    A table or analysis is computed as cells, most of them one training each.
    Stopped with Ctrl-C or killed, the same command goes on; finished cells are kept.
    """
    from naq_paper.cells.runners import Setup, make_runner
    from naq_paper.cells.store import Store
    from naq_paper.cli.terminal import CellsProgress
    from naq_paper.experiments.datasets import make_requests
    from naq_paper.experiments.experiment import StoredRecords, cells_of, compute, expand
    from naq_paper.experiments.folder import Requests

    # Mistakes are reported before a graph is loaded.
    if as_json and not plan_only:
        raise OptionError("--json prints the plan of a request; give --plan too.")
    if quick and budget not in ("standard", "quick"):
        raise OptionError(f"--quick and --budget {budget} exclude each other; give one of them.")
    devices = devices_of(device, engine)
    if len(devices) > 1:
        device, workers = "cuda", max(workers, len(devices))
    runner = make_runner("processes" if engine == "local" and workers > 1 else engine, workers, devices)
    dataset_cache = runner.dataset_cache(Setup())
    requests = make_requests(
        names, dataset_cache, given=dataset, folder=data, remark=lambda sentence: _say(sentence, "yellow"),
        budget="quick" if quick else budget, profile=profile, seeds=seeds, episodes=episodes, tune=tune,
        learners=tuple(dict.fromkeys(learner)), ways=tuple(way), shots=tuple(shot), methods=tuple(method),
        head=head, features=features, select=select, device=device,
        options=options_of(option), episode=episode_options_of(episode),
    )  # fmt: skip
    store, setup = Store(out), Setup(dataset_cache.paths, "" if cache else None, retry)
    with runner:
        find = StoredRecords(store, dataset_cache)
        studies = [study for request in requests for study in expand(request, find)]
        cells = cells_of(studies)
        for sentence in without_effect(requests, cells):
            _say(sentence, "yellow")
        missing = [cell for cell in cells if (record := find(cell)) is None or not record.done]
        if plan_only:
            typer.echo(plan_json(requests, cells, missing) if as_json else plan_text(studies, cells, missing))
            return
        if missing and engine != "ray":
            for one in devices:
                checked_device(one)
        kept = Requests.load(out)
        kept.add(requests, dataset_cache.paths)
        store.prepare()
        kept.save(out)
        with CellsProgress() as listener:
            outcome = compute(studies, find, runner, setup, listener)
    from naq_paper.cli.terminal import print_sections
    from naq_paper.report.commands import section_name

    page = _write_report(out, out / "report.html", out=out)
    print_sections(page, {section_name(request) for request in requests})
    _print_outcome(outcome)
    _say(f"Written: {out / 'report.html'} and tables in {out / 'tables'}")
    if outcome.stopped:
        again = shlex.join(["naq", *sys.argv[1:]])
        _say(f"Stopped. Finished cells are kept; go on with:\n  {again}")
        raise Stopped
    if outcome.failed:
        raise typer.Exit(1)


def devices_of(text: str, engine: str) -> list[str]:
    """``cuda:0,cuda:1`` as a list; several have to be GPUs, and only worker processes of this machine share them."""
    devices = [one.strip() for one in text.split(",")]
    if len(devices) == 1:
        return devices
    if len(set(devices)) < len(devices) or not all(re.fullmatch(r"cuda:\d+", one) for one in devices):
        raise OptionError(f"--device is {text!r}; expected one device, or several GPUs by number, e.g. cuda:0,cuda:1.")
    if engine == "ray":
        raise OptionError("--device names several GPUs, which Ray shares out itself; give --device cuda.")
    return devices


def report_command(
    folder: Annotated[
        Path, Argument(help="A folder that 'naq reproduce' wrote, or a file packed with --pack.")
    ] = FOLDER,
    out: Annotated[Path | None, Option(help="The page; by default report.html in the folder.")] = None,
    title: Annotated[str, Option(help="Heading of the page.")] = "",
    pack: Annotated[Path | None, Option(help="Also write all finished results into this one file.")] = None,
    any_version: Annotated[
        bool, Option("--any-version", help="Show results of other versions for those that are not computed.")
    ] = False,
) -> None:
    """Write one HTML page from a folder of results, and every table as CSV, Markdown and LaTeX."""
    from naq_paper.experiments.folder import pack_folder

    if not folder.exists():
        raise OptionError(f"{folder} does not exist; give a folder that naq reproduce wrote.")
    if folder.is_file() and pack is not None:
        raise OptionError(f"{folder} is packed already; --pack needs a folder.")
    if out is not None and out.is_dir():
        raise OptionError(f"--out is the folder {out}; give the file of the page, e.g. {out / 'report.html'}.")
    page = out or (folder.with_name("report.html") if folder.is_file() else folder / "report.html")
    out_folder = FOLDER if folder.is_file() else folder
    _write_report(folder, page, title, out=out_folder, any_version=any_version)
    typer.echo(f"Written: {page} and tables in {page.parent / 'tables'}")
    if pack is not None:
        typer.echo(f"Packed: {count_words(pack_folder(folder, pack), 'result')} into {pack}")


def _say(words: str, style: str = "") -> None:
    """A line on the terminal without markup: names and errors may hold brackets."""
    from naq.cli.terminal import console

    console.print(words, style=style or None, highlight=False, soft_wrap=True, markup=False)


def _write_report(folder: Path, file: Path, title: str = "", out: Path = FOLDER, any_version: bool = False) -> Report:
    """``out`` is what the page's commands call the folder."""
    from naq_paper.report.collect import report_of, tables_of
    from naq_paper.report.export import write_tables
    from naq_paper.report.render import write_page

    report = report_of(folder, title=title, out="" if out == FOLDER else str(out), any_version=any_version)
    write_tables(tables_of(report), file.parent)
    write_page(report, file)
    return report


def _print_outcome(outcome: Outcome) -> None:
    counts = {
        "computed": len(outcome.done), "there before": len(outcome.skipped), "failed": len(outcome.failed),
        "failed before and left alone (--retry computes them again)": len(outcome.left),
        "being computed by another process": len(outcome.busy),
    }  # fmt: skip
    _say(f"Cells: {', '.join(f'{count} {what}' for what, count in counts.items() if count) or 'none'}.")
    for name, failure in list(zip(titles([one.cell for one in outcome.failed]), outcome.failed))[:10]:
        _say(f"  {name}: {failure.sentence}", "red")
    if len(outcome.failed) > 10:
        _say(f"  and {len(outcome.failed) - 10} more; the report names them all.")


def experiment_rows() -> list[dict[str, str]]:
    """What ``naq list experiments`` shows."""
    from naq_paper.experiments.experiment import EXPERIMENTS

    fields = {"name": "name", "kind": "kind", "what": "question", "in_the_paper": "origin"}
    return [
        {key: getattr(one, field) for key, field in fields.items()} | {"datasets": ", ".join(one.datasets)}
        for one in EXPERIMENTS.values()
    ]


# Options of naq reproduce, checked before a graph is loaded, and its plan.


def options_of(given: list[str]) -> dict[str, dict[str, Any]]:
    """``["protonet.lr=3e-4"]`` as options by learner or embedder, checked."""
    if not given:
        return {}
    from naq.embedders import EMBEDDERS
    from naq.learners import LEARNERS
    from naq.options import merge_options

    found: dict[str, dict[str, Any]] = {}
    for key, value in read_pairs(given, "--set").items():
        owner, dot, name = key.partition(".")
        if not dot or not name:
            raise OptionError(f"--set is {key}={value}; expected LEARNER.NAME=VALUE, e.g. protonet.lr=3e-4.")
        if owner not in LEARNERS and owner not in EMBEDDERS:
            raise OptionError(f"--set names {owner!r}; {did_you_mean(owner, [*LEARNERS, *EMBEDDERS])}")
        model: Any = LEARNERS[owner] if owner in LEARNERS else EMBEDDERS[owner]
        found.setdefault(owner, {})[name] = merge_options(owner, dict(model.defaults), {name: value})[name]
    return found


def episode_options_of(given: list[str]) -> dict[str, Any]:
    """``["queries=5"]`` as options of episodes, checked against the kinds of episodes that have them."""
    if not given:
        return {}
    from naq.options import merge_options
    from naq.run.episodes import DEFAULTS

    known = {name: value for options in DEFAULTS.values() for name, value in options.items()}
    found = read_pairs(given, "--episode")
    return {name: merge_options("an episode", known, {name: value})[name] for name, value in found.items()}


def without_effect(requests: Sequence[Request], cells: Sequence[Cell]) -> list[str]:
    """Sentences on options that were given and are in no cell."""
    from naq_paper.experiments.names import learner_of

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
    tuning = f" Tuning: {count_words(len(tried), 'candidate')} among them, trainings with what they choose follow."
    count, left = len(cells), len(missing)
    lines.append(f"{count_words(count, 'cell')}, {count - left} done, {left} to compute.{tuning if tried else ''}")
    return "\n".join([*lines, *(f"  {line}" for line in titles(missing))])


def plan_json(requests: Sequence[Request], cells: Sequence[Cell], missing: Sequence[Cell]) -> str:
    """The requests, and their cells in the order in which they are computed; docs/reproduction.md describes it."""
    left = set(missing)
    plan = {
        "requests": [request.to_json() for request in requests],
        "cells": [
            {"title": title, "measurement": cell.measurement, "config": cell.config, "done": cell not in left}
            for cell, title in zip(cells, titles(cells))
        ],
    }
    return json.dumps(plan, indent=2, allow_nan=False)
