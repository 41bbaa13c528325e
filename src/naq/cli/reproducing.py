"""``naq reproduce`` and ``naq report``: the paper's tables and analyses, and the page about them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from naq.errors import OptionError
from naq.options import nearest

if TYPE_CHECKING:
    from naq.experiments.asking import Ask
    from naq.experiments.runners import Outcome
    from naq.report.page import Page

FOLDER = Path("runs/reproduce")


def reproduce_command(
    names: Annotated[
        list[str],
        typer.Argument(help="Names of 'naq list experiments', or all, tables, analyses.", metavar="NAME..."),
    ],
    dataset: Annotated[
        list[str], typer.Option("--dataset", "-d", help="A name of 'naq list datasets' or a path; may be repeated.")
    ] = [],  # noqa: B006
    data: Annotated[
        Path | None, typer.Option(help="A folder with graphs of the paper; those an experiment uses are taken.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The same as --budget quick.")] = False,
    budget: Annotated[str, typer.Option(help="standard, paper (16,000 episodes) or quick.")] = "standard",
    seeds: Annotated[int, typer.Option(help="Trainings behind a number; 0 is the budget's own.")] = 0,
    episodes: Annotated[int, typer.Option(help="Episodes of a training at most; 0 is the budget's own.")] = 0,
    learner: Annotated[str, typer.Option(help="Base model of the analyses.")] = "protonet",
    way: Annotated[list[int], typer.Option(help="Classes per task, instead of the table's own.")] = [],  # noqa: B006
    shot: Annotated[list[int], typer.Option(help="Labelled nodes per class, likewise.")] = [],  # noqa: B006
    method: Annotated[
        list[str], typer.Option("--method", "-m", help="Rows of a table, instead of its own; may be repeated.")
    ] = [],  # noqa: B006
    tune: Annotated[
        bool, typer.Option("--tune", help="Choose each method's setting among candidates, on validation tasks.")
    ] = False,
    option: Annotated[list[str], typer.Option("--set", "-s", help="LEARNER.NAME=VALUE, e.g. protonet.lr=3e-4.")] = [],  # noqa: B006
    head: Annotated[str, typer.Option(help="Solves tasks; a name of 'naq list heads'.")] = "logistic",
    features: Annotated[str, typer.Option(help="raw, binary, tfidf or auto; empty is the budget's own.")] = "",
    select: Annotated[str, typer.Option(help="Chooses the checkpoint: valid or naq (no labels).")] = "valid",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    engine: Annotated[str, typer.Option(help="local, processes or ray.")] = "local",
    workers: Annotated[
        int, typer.Option(help="Cells at a time; more than one means processes unless --engine says otherwise.")
    ] = 1,
    retry: Annotated[bool, typer.Option("--retry", help="Compute failed cells again.")] = False,
    plan_only: Annotated[bool, typer.Option("--plan", help="Say what would be computed, and stop.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of results; what is done there is not computed again.")] = FOLDER,
    cache: Annotated[bool, typer.Option(help="Keep neighbour tables in the cache folder.")] = True,
) -> None:
    """Compute tables and analyses of the paper, beside the paper's numbers, and write a report.

    Stopped with Ctrl-C or killed, the same command goes on; finished cells are kept.
    """
    from naq.cli.progress import console
    from naq.experiments.reproduction import Plan, cells_of, compute, finder
    from naq.experiments.runners import Setup, make_runner
    from naq.experiments.store import Store

    asks, places = _asks(
        names, dataset, data,
        budget="quick" if quick else budget, seeds=seeds, episodes=episodes, learner=_learner(learner), ways=tuple(way), shots=tuple(shot),
        methods=tuple(method), head=head, features=features, select=select, device=device, tune=tune, options=_options(option),
    )  # fmt: skip
    runner = make_runner("processes" if engine == "local" and workers > 1 else engine, workers)
    store, setup = Store(out), Setup(places, "" if cache else None, retry)
    with runner:
        cells = cells_of(asks, finder(store, runner.bench(setup)))
        if plan_only:
            _print_plan(asks, cells, store, runner.bench(setup))
            return
        plan = Plan.load(out)
        plan.add(asks, places)
        store.prepare()
        plan.save(out)
        with _Progress() as tell:
            outcome = compute(asks, store, runner, setup, tell)
    page = _write_report(out, out / "report.html")
    _print_views(page, asks)
    _print_outcome(outcome)
    console.print(f"Written: {out / 'report.html'} and tables in {out / 'tables'}", highlight=False, soft_wrap=True)
    if outcome.stopped:
        again = shlex.join(["naq", *sys.argv[1:]])
        console.print(f"Stopped. Finished cells are kept; go on with:\n  {again}", highlight=False, soft_wrap=True)
        raise typer.Exit(130)
    if outcome.failed:
        raise typer.Exit(1)


def report_command(
    folder: Annotated[Path, typer.Argument(help="A folder of 'naq reproduce', or a file packed with --pack.")] = FOLDER,
    out: Annotated[Path | None, typer.Option(help="The page; by default report.html in the folder.")] = None,
    title: Annotated[str, typer.Option(help="Over the page.")] = "",
    pack: Annotated[Path | None, typer.Option(help="Also write all results into one file.")] = None,
) -> None:
    """Write one HTML page from a folder of results, and every table as CSV, Markdown and LaTeX."""
    import tempfile

    from naq.experiments.packing import pack_folder, unpack_folder

    if not folder.exists():
        raise OptionError(f"{folder} does not exist; give a folder that naq reproduce wrote.")
    if folder.is_file():
        page = out or folder.with_name("report.html")
        with tempfile.TemporaryDirectory() as place:
            unpack_folder(folder, place)
            _write_report(Path(place), page, title)
    else:
        page = out or folder / "report.html"
        _write_report(folder, page, title)
    typer.echo(f"Written: {page} and tables in {page.parent / 'tables'}")
    if pack is not None:
        typer.echo(f"Packed: {pack_folder(folder, pack)} results into {pack}")


def _asks(names: list[str], dataset: list[str], data: Path | None, **more: Any) -> tuple[list[Ask], dict[str, str]]:
    """One request per experiment, with its datasets and what is known of them."""
    from naq.cli.progress import console
    from naq.experiments.asking import Ask
    from naq.experiments.bench import Bench
    from naq.experiments.experiment import get_experiment
    from naq.experiments.reproduction import choose_datasets, facts_of, names_of, usable

    places: dict[str, str] = {}
    asks: list[Ask] = []
    facts: dict[str, dict[str, Any]] = {}
    bench = Bench(places)
    for name in dict.fromkeys(known for given in names for known in names_of(given)):
        experiment = get_experiment(name)
        Ask(name, (), **more)  # a mistake is said before any graph is loaded
        choice = choose_datasets(experiment, dataset, data)
        for remark in choice.remarks:
            console.print(remark, style="yellow", highlight=False, soft_wrap=True)
        bench.places |= choice.places
        kept = []
        for each in choice.datasets:
            why = usable(experiment, each, bench.graph(each))
            if why:
                console.print(why, style="yellow", highlight=False, soft_wrap=True)
                continue
            facts[each] = facts.get(each) or facts_of(each, bench)
            kept.append(each)
        if kept:
            asks.append(Ask(name, tuple(kept), facts={each: facts[each] for each in kept}, **more))
    if not asks:
        raise OptionError(f"nothing to do: no dataset fits {', '.join(names)}; see 'naq list experiments'.")
    return asks, bench.places


def _learner(name: str) -> str:
    from naq.learners import LEARNERS

    if name not in LEARNERS:
        raise OptionError(f"--learner is {name!r}; {nearest(name, LEARNERS)}")
    return name


def _options(given: list[str]) -> dict[str, dict[str, Any]]:
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


def _print_plan(asks: list[Ask], cells: list[Any], store: Any, bench: Any) -> None:
    from naq.experiments.code import identify
    from naq.experiments.experiment import get_experiment

    done = sum(store.get(identify(cell, bench).key(cell)) is not None for cell in cells)
    for ask in asks:
        budget = ask.plan.summary
        typer.echo(
            f"{ask.experiment} on {', '.join(ask.datasets)}: {get_experiment(ask.experiment).question} ({budget})"
        )
    later = (
        "; candidates are chosen among first, then further trainings follow" if any(ask.tune for ask in asks) else ""
    )
    typer.echo(f"{len(cells)} cells, {done} done, {len(cells) - done} to compute{later}.")
    for cell in cells:
        typer.echo(f"  {cell.title}")


def _write_report(folder: Path, page_file: Path, title: str = "") -> Page:
    from naq.report.formats import write_tables
    from naq.report.gathering import page_of, tables_of
    from naq.report.page import write_page

    page = page_of(folder, title=title)
    write_tables(tables_of(page), page_file.parent)
    write_page(page, page_file)
    return page


def _print_views(page: Page, asks: list[Ask]) -> None:
    """Sentences and tables of what was asked for now."""
    from rich.console import Console

    from naq.experiments.views import TableView, TextView
    from naq.report.gathering import section_name
    from naq.report.terminal import terminal_table

    console = Console()
    console = console if console.is_terminal else Console(width=140)
    wanted = {section_name(ask) for ask in asks}
    for section in page.sections:
        if section.name not in wanted:
            continue
        console.print(f"\n[bold]{section.title}[/bold]  ({section.where_in_paper})", highlight=False)
        for view in section.views:
            if isinstance(view, TextView):
                console.print("\n".join(view.sentences), highlight=False)
            elif isinstance(view, TableView):
                console.print(terminal_table(view))


def _print_outcome(outcome: Outcome) -> None:
    from naq.cli.progress import console

    counts = {
        "computed": len(outcome.done),
        "there before": len(outcome.skipped),
        "failed": len(outcome.failed),
        "failed before and left alone (--retry computes them again)": len(outcome.left),
        "being computed by another process": len(outcome.busy),
    }
    console.print(
        f"Cells: {', '.join(f'{count} {what}' for what, count in counts.items() if count) or 'none'}.", highlight=False
    )
    for failure in outcome.failed[:10]:
        console.print(f"  {failure.cell.title}: {failure.sentence}", style="red", highlight=False, soft_wrap=True)
    if len(outcome.failed) > 10:
        console.print(f"  and {len(outcome.failed) - 10} more; the report names them all.")


class _Progress(AbstractContextManager["_Progress"]):
    """A bar over all cells, and a line on what is being computed; elsewhere than on a terminal a line per cell."""

    def __init__(self) -> None:
        self.total = self.finished = 0
        self.bars: Any = None
        self.task: Any = None

    def __enter__(self) -> _Progress:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        from naq.cli.progress import console

        if console.is_terminal:
            columns = (
                TextColumn("[bold]cells"), BarColumn(bar_width=28), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"),
                TimeRemainingColumn(), TextColumn("{task.fields[note]}"),
            )  # fmt: skip
            self.bars = Progress(*columns, console=console, transient=True, refresh_per_second=5)
            self.bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.bars is not None:
            self.bars.stop()

    def __call__(self, phase: str, facts: Mapping[str, Any]) -> None:
        if phase == "plan":
            self.total += facts["todo"]
            self._show("")
        elif phase == "begun":
            self._show(str(facts["cell"]))
        elif phase == "progress":
            self._show(f"{facts['cell']}: {_words(facts['phase'], facts['facts'])}")
        elif phase == "finished":
            self.finished += 1
            self._finished(facts)

    def _show(self, note: str) -> None:
        if self.bars is None:
            return
        if self.task is None:
            self.task = self.bars.add_task("cells", total=self.total, note=note)
        self.bars.update(self.task, total=self.total, completed=self.finished, note=note[:90])

    def _finished(self, facts: Mapping[str, Any]) -> None:
        if self.bars is not None:
            self._show("")
            return
        what = f"failed: {facts['error']}" if facts["error"] else f"{facts['seconds']:.1f} s"
        print(f"{self.finished}/{self.total} {facts['cell']}: {what}", file=sys.stderr, flush=True)


def _words(phase: str, facts: Mapping[str, Any]) -> str:
    done, total = facts.get("done"), facts.get("total")
    return f"{phase} {done}/{total}" if done is not None and total is not None else phase
