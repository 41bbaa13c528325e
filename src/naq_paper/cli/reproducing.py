"""``naq reproduce`` and ``naq report``: the paper's tables and analyses, and the page about them."""

# ruff: noqa: B006
from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from naq.cli.streams import Stopped
from naq.device import checked_device
from naq.errors import OptionError
from naq_paper.cli.requests import check_words, episode_options_of, options_of, without_effect
from naq_paper.experiments.profiles import PROFILES
from naq_paper.experiments.request import BUDGETS

if TYPE_CHECKING:
    from naq_paper.cells.runners import Outcome
    from naq_paper.report.page import Page

FOLDER = Path("runs/reproduce")
what, cost, training, computing = (
    partial(typer.Option, rich_help_panel=panel)
    for panel in ("What", "At what cost", "How methods are trained and tested", "Where it is computed")
)
BUDGET_HELP = "; ".join(f"{name}: {budget.summary}" for name, budget in BUDGETS.items()) + "."
PROFILE_HELP = "; ".join(f"{name}: {profile.summary}" for name, profile in PROFILES.items()) + "."


# fmt: off
def reproduce_command(
    names: Annotated[list[str], typer.Argument(help="Names of 'naq list experiments', or all, tables, analyses, beyond.", metavar="NAME")],
    dataset: Annotated[list[str], what("--dataset", "-d", help="A name of 'naq list datasets' or a path; may be repeated.", metavar="NAME")] = [],
    data: Annotated[Path | None, what(help="Folder with graphs of the paper (npz); each experiment takes those it uses.", metavar="DIR")] = None,
    method: Annotated[list[str], what("--method", "-m", help="Row of a table, instead of its own: a name of 'naq list methods'; may be repeated.", metavar="NAME")] = [],
    way: Annotated[list[int], what(help="Classes per task, instead of the experiment's own; may be repeated for tables.", metavar="N")] = [],
    shot: Annotated[list[int], what(help="Labelled nodes per class, likewise; may be repeated for tables.", metavar="N")] = [],
    learner: Annotated[list[str], what(help="Base model of the analyses, instead of the experiment's own; may be repeated. Tables have their own rows.", metavar="NAME")] = [],
    quick: Annotated[bool, cost("--quick", help="Same as --budget quick: minutes, to see that everything runs.")] = False,
    budget: Annotated[str, cost(help=BUDGET_HELP, metavar="NAME")] = "standard",
    seeds: Annotated[int, cost(help="Trainings behind each number; 0: as the budget says.", metavar="N")] = 0,
    episodes: Annotated[int, cost(help="Most episodes of a training; 0: as the budget says.", metavar="N")] = 0,
    tune: Annotated[bool, cost("--tune", help="First choose each method's setting among candidates, on validation tasks.")] = False,
    profile: Annotated[str, training(help=PROFILE_HELP, metavar="NAME")] = "default",
    option: Annotated[list[str], training("--set", "-s", help="Option of a model, e.g. protonet.lr=3e-4; may be repeated.", metavar="MODEL.NAME=VALUE")] = [],
    episode: Annotated[list[str], training("--episode", "-e", help="Option of the episodes, e.g. queries=5, for every kind of episodes that has it; may be repeated.", metavar="NAME=VALUE")] = [],
    head: Annotated[str, training(help="Solves the tasks; a name of 'naq list heads'.", metavar="NAME")] = "logistic",
    features: Annotated[str, training(help="What methods read: raw (the paper), binary, tfidf or auto.", metavar="NAME")] = "raw",
    select: Annotated[str, training(help="Chooses the checkpoint: valid, or clusters (needs no labels).", metavar="NAME")] = "valid",
    device: Annotated[str, computing(help="cpu or cuda.", metavar="NAME")] = "cpu",
    engine: Annotated[str, computing(help="local, processes or ray.", metavar="NAME")] = "local",
    workers: Annotated[int, computing(help="Cells computed at a time; more than one means --engine processes, unless it is ray.", metavar="N")] = 1,
    cache: Annotated[bool, computing(help="Keep neighbour tables in the cache folder.")] = True,
    retry: Annotated[bool, computing("--retry", help="Compute failed cells again.")] = False,
    plan_only: Annotated[bool, computing("--plan", help="Say what would be computed, and stop; nothing is written.")] = False,
    as_json: Annotated[bool, computing("--json", help="With --plan: every cell with its whole configuration, as JSON.")] = False,
    out: Annotated[Path, computing(help="Folder of results; what is done there is not computed again.", metavar="DIR")] = FOLDER,
) -> None:
    # fmt: on
    """Compute tables and analyses of the paper, beside the paper's numbers, and write a report.

    A table or analysis is computed as cells, most of them one training each.
    Stopped with Ctrl-C or killed, the same command goes on; finished cells are kept.
    """
    from naq_paper.cells.runners import Setup, make_runner
    from naq_paper.cells.store import Store
    from naq_paper.cli.requests import plan_json, plan_text
    from naq_paper.cli.terminal import CellsProgress
    from naq_paper.experiments.datasets import make_requests
    from naq_paper.experiments.experiment import StoredRecords, cells_of, compute, expand
    from naq_paper.experiments.folder import Requests

    # Mistakes are reported before a graph is loaded.
    if as_json and not plan_only:
        raise OptionError("--json prints the plan of a request; give --plan too.")
    check_words(quick, budget, features, learner)
    runner = make_runner("processes" if engine == "local" and workers > 1 else engine, workers)
    dataset_cache = runner.dataset_cache(Setup())
    requests = make_requests(
        names, dataset_cache, given=dataset, folder=data, remark=lambda sentence: _say(sentence, "yellow"),
        budget="quick" if quick else budget, profile=profile, seeds=seeds, episodes=episodes, learners=tuple(dict.fromkeys(learner)),
        ways=tuple(way), shots=tuple(shot), methods=tuple(method), head=head, features=features, select=select, device=device, tune=tune,
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
            checked_device(device)
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


# fmt: off
def report_command(
    folder: Annotated[Path, typer.Argument(help="A folder that 'naq reproduce' wrote, or a file packed with --pack.", metavar="FOLDER")] = FOLDER,
    out: Annotated[Path | None, typer.Option(help="The page to write; by default report.html in the folder. Tables go into 'tables' beside it.", metavar="FILE")] = None,
    title: Annotated[str, typer.Option(help="Heading of the page.", metavar="TEXT")] = "",
    pack: Annotated[Path | None, typer.Option(help="Also write all finished results into this one file; 'naq report' reads it.", metavar="FILE")] = None,
    any_version: Annotated[bool, typer.Option("--any-version", help="Where the present code has not computed a result, show that of an earlier version in its place; by default these stand apart.")] = False,
) -> None:
    # fmt: on
    """Write one HTML page from a folder of results, and every table as CSV, Markdown and LaTeX."""
    import tempfile

    from naq_paper.experiments.folder import pack_folder, unpack_folder
    from naq_paper.report.format import counted

    if not folder.exists():
        raise OptionError(f"{folder} does not exist; give a folder that naq reproduce wrote.")
    if folder.is_file() and pack is not None:
        raise OptionError(f"{folder} is packed already; --pack needs a folder.")
    if out is not None and out.is_dir():
        raise OptionError(f"--out is the folder {out}; give the file of the page, e.g. {out / 'report.html'}.")
    if folder.is_file():
        page = out or folder.with_name("report.html")
        with tempfile.TemporaryDirectory() as place:
            unpack_folder(folder, place)
            _write_report(Path(place), page, title, any_version=any_version)
    else:
        page = out or folder / "report.html"
        _write_report(folder, page, title, out=folder, any_version=any_version)
    typer.echo(f"Written: {page} and tables in {page.parent / 'tables'}")
    if pack is not None:
        typer.echo(f"Packed: {counted(pack_folder(folder, pack), 'result')} into {pack}")


def _say(words: str, style: str = "") -> None:
    """A line on the terminal as it is: names and errors may hold brackets, which are no markup."""
    from naq.cli.progress import console

    console.print(words, style=style or None, highlight=False, soft_wrap=True, markup=False)


def _write_report(folder: Path, page_file: Path, title: str = "", out: Path = FOLDER, any_version: bool = False) -> Page:
    """``out`` is what the page's commands call the folder."""
    from naq_paper.report.collect import page_of, tables_of
    from naq_paper.report.export import write_tables
    from naq_paper.report.render import write_page

    page = page_of(folder, title=title, out="" if out == FOLDER else str(out), any_version=any_version)
    write_tables(tables_of(page), page_file.parent)
    write_page(page, page_file)
    return page


def _print_outcome(outcome: Outcome) -> None:
    from naq_paper.cells.cell import titles

    counts = {
        "computed": len(outcome.done),
        "there before": len(outcome.skipped),
        "failed": len(outcome.failed),
        "failed before and left alone (--retry computes them again)": len(outcome.left),
        "being computed by another process": len(outcome.busy),
    }
    _say(f"Cells: {', '.join(f'{count} {what}' for what, count in counts.items() if count) or 'none'}.")
    for name, failure in list(zip(titles([one.cell for one in outcome.failed]), outcome.failed))[:10]:
        _say(f"  {name}: {failure.sentence}", "red")
    if len(outcome.failed) > 10:
        _say(f"  and {len(outcome.failed) - 10} more; the report names them all.")


def experiment_rows() -> list[dict[str, str]]:
    """What ``naq list experiments`` shows."""
    from naq_paper.experiments.experiment import EXPERIMENTS

    return [
        {"name": e.name, "kind": e.kind, "what": e.question, "in_the_paper": e.origin, "datasets": ", ".join(e.datasets)}
        for e in EXPERIMENTS.values()
    ]
