"""``naq run``: the main job."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from naq.cli.streams import Stopped
from naq.errors import OptionError, plain
from naq.options import nearest

if TYPE_CHECKING:
    from naq.methods import Method
    from naq.run import Result, RunConfig

SIDE_BY_SIDE = ("smooth", "naq-plus", "naq-feat/protonet")
"""What ``naq run`` shows where no method is asked for: the baseline, the closed form, and the paper's method."""


def pairs(given: list[str], flag: str) -> dict[str, str]:
    """``["lr=1e-3"]`` as a dictionary."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise OptionError(f"{flag} is {text!r}; expected NAME=VALUE, e.g. {flag} lr=1e-3.")
        found[name.strip()] = value.strip()
    return found


def run_command(
    dataset: Annotated[str, typer.Argument(help="A name of 'naq list datasets', or a path.")] = "debian",
    nodes: Annotated[Path | None, typer.Option(help="Table of nodes, where the graph is an edge list.")] = None,
    method: Annotated[
        list[str],
        typer.Option(
            "--method",
            "-m",
            help="A name of 'naq list methods'; may be repeated. By default smooth, naq-plus and naq-feat/protonet.",
        ),
    ] = [],  # noqa: B006
    way: Annotated[int, typer.Option(help="Classes per task.")] = 5,
    shot: Annotated[int, typer.Option(help="Labelled nodes per class.")] = 1,
    also_shot: Annotated[
        list[int], typer.Option(help="Also select and test the training on tasks of this shot; may be repeated.")
    ] = [],  # noqa: B006
    head: Annotated[
        str,
        typer.Option(
            help="Solves tasks and selects the checkpoint; a name of 'naq list heads'. Some methods solve tasks themselves."
        ),
    ] = "logistic",
    features: Annotated[
        str, typer.Option(help="What the method reads: raw (the paper), binary, tfidf, or auto: tfidf for word counts.")
    ] = "raw",
    seed: Annotated[int, typer.Option(help="Of weights and episodes.")] = 0,
    episodes: Annotated[int, typer.Option(help="Training episodes of a learner.")] = 16_000,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the graph of a method without episodes; by default its own.")
    ] = None,
    evaluate_every: Annotated[
        int | None, typer.Option(help="Episodes or epochs between two validations; 160 episodes, or the method's own.")
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            help="Stop after so many validations without a new best, 0 for never; by default never for learners, else the method's own."
        ),
    ] = None,
    select: Annotated[
        str,
        typer.Option(
            help="Chooses the checkpoint: valid (tasks of validation classes) or clusters (tasks without labels)."
        ),
    ] = "valid",
    tasks: Annotated[
        Path | None, typer.Option(help="A task file; by default the dataset's own, else tasks are drawn.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    refine: Annotated[
        bool, typer.Option("--refine", help="Apply the closed form of NaQ to the vectors before testing.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for this run, with one inside for each of several methods; by default one under runs/."
        ),
    ] = None,
    option: Annotated[
        list[str], typer.Option("--set", "-s", help="Option of the method, NAME=VALUE, e.g. lr=3e-4.")
    ] = [],  # noqa: B006
    episode: Annotated[
        list[str], typer.Option("--episode", "-e", help="Option of the episodes, NAME=VALUE, e.g. queries=5.")
    ] = [],  # noqa: B006
    cache: Annotated[bool, typer.Option(help="Keep neighbour tables in the cache folder.")] = True,
    baseline: Annotated[
        bool, typer.Option("--baseline/--no-baseline", help="Also test the smooth baseline on the same tasks.")
    ] = True,
    table: Annotated[
        Path | None,
        typer.Option(help="Table of 'naq neighbors --out' that naq-feat/... or naq-diff/... draws its episodes from."),
    ] = None,
) -> None:
    """Train, choose on validation tasks, test; print a table and write a run folder.

    Stopped with Ctrl-C or killed, the same command goes on where it was.
    """
    from rich.markup import escape

    from naq.cli.progress import console, load_shown, show_progress
    from naq.cli.table import result_table
    from naq.methods import get_method
    from naq.run import RunConfig, RunInputs, execute
    from naq.run.evaluate import BASELINE
    from naq.run.given_table import check_takes_table, takes_table

    known = [get_method(name) for name in method or SIDE_BY_SIDE]
    if epochs is not None and not any(m.in_epochs for m in known):
        raise OptionError(f"--epochs is {epochs}, but {known[0].name} is not trained in epochs; leave it out.")
    if table is not None and not any(map(takes_table, known)):
        check_takes_table(known[0])
    options = _shared_out(pairs(option, "--set"), known)
    configs = [
        RunConfig.resolve(
            m, way=way, shot=shot, also_shots=also_shot, seed=seed, head=head, features=features, options=options[m.name],
            episode=pairs(episode, "--episode") if m.episodes or len(known) == 1 else {}, episodes=episodes, epochs=epochs if m.in_epochs else None, evaluate_every=evaluate_every,
            patience=patience, select=select, device=device, refine=refine,
        )
        for m in known
    ]  # fmt: skip
    graph = load_shown(dataset, nodes)
    console.print(f"[bold]{escape(plain(graph.name, 80))}[/bold]: {graph.num_nodes:,} nodes, {graph.num_edges:,} edges, "
                  f"{graph.num_features:,} features, {graph.num_classes} classes")  # fmt: skip
    results: list[Result] = []
    folders: list[Path] = []
    with_baseline = baseline and not any(m.name == BASELINE for m in known)
    for config in configs:
        config = replace(config, dataset=graph.name)
        folders.append(folder := default_folder(config) if out is None else _own_folder(out, config, configs))
        with show_progress(config.method) as listener:
            inputs = RunInputs(
                graph,
                dataset,
                tasks,
                out=folder,
                cache="" if cache else None,
                baseline=with_baseline,
                listener=listener,
                table=table if takes_table(config.known) else None,
            )
            try:
                results.append(execute(config, inputs))
            except KeyboardInterrupt:
                again = shlex.join(["naq", *sys.argv[1:]])
                console.print(
                    f"Stopped. What is done is in {folder}; go on with:\n  {again}",
                    highlight=False,
                    soft_wrap=True,
                )
                raise Stopped from None
    print_table(result_table(results))
    for result, folder in zip(results, folders):
        _after(result, folder)
    _next_steps(dataset, nodes, tasks, results)


def _shared_out(given: dict[str, str], known: list[Method]) -> dict[str, dict[str, str]]:
    """The options of each method: with several methods, one that does not know an option goes without it."""
    if len(known) > 1:
        for name in given:
            if not any(name in m.defaults for m in known):
                every = sorted({option for m in known for option in m.defaults})
                raise OptionError(f"none of the {len(known)} methods has an option {name!r}; {nearest(name, every)}")
        return {m.name: {name: value for name, value in given.items() if name in m.defaults} for m in known}
    return {m.name: given for m in known}


def _own_folder(out: Path, config: RunConfig, configs: list[RunConfig]) -> Path:
    """``--out`` itself, or a folder in it for each of several methods."""
    return out if len(configs) == 1 else out / config.method.replace("/", "-")


def default_folder(config: RunConfig) -> Path:
    """``runs/debian/naq-feat-protonet/5way-1shot-seed0``."""
    name = f"{config.way}way-{config.shot}shot-seed{config.seed}{'-refined' if config.refine else ''}"
    dataset = config.dataset if config.dataset.strip(". ") else "graph"
    return Path("runs") / dataset / config.method.replace("/", "-") / name


def print_table(table: Any) -> None:
    from rich.console import Console

    wide = Console()
    (wide if wide.is_terminal else Console(width=100)).print(table)


def _after(result: Result, folder: Path) -> None:
    config, facts = result.config, result.facts
    if result.history is not None:
        stop = "stopped early" if facts["stopped_early"] else "trained to the end"
        unit = facts["unit"]
        tasks = "tasks without labels" if config.select == "clusters" else "validation tasks"
        labels = "labels of base classes" if facts["reads_base_labels"] else "no labels"
        print(
            f"{config.method}: {facts['steps_trained']:,} {unit} with {labels}, {stop}; checkpoint of "
            f"{facts['best_step']:,} {unit} selected at {100 * facts['valid_accuracy']:.2f} % on {tasks}."
        )
    if config.also_shots and facts["reads_base_labels"] and not (config.episode or {}).get("shot"):
        print(
            f"{config.method}: its episodes are {config.shot}-shot for every shot tested here; "
            f"the paper trains anew for each: --shot {config.also_shots[-1]}."
        )
    print(f"Written: {folder}")


def _next_steps(dataset: str, nodes: Path | None, tasks: Path | None, results: list[Result]) -> None:
    """Commands on the same graph and tasks; the graph may have none of the default way."""
    from naq.run.config import EPISODES

    configs = [result.config for result in results]
    way, shot = configs[0].way, configs[0].shot
    files = [
        word for flag, path in (("--nodes", nodes), ("--tasks", tasks)) if path is not None for word in (flag, path)
    ]
    graph = shlex.join(["naq", "run", dataset, *map(str, files), *(["--way", str(way)] if way != 5 else [])])
    same = graph + (f" --shot {shot}" if shot != 1 else "")
    shown = {config.method for config in configs}
    other = next(m for m in ("naq-diff/protonet", "naq-plus", "naq-feat/protonet", "smooth") if m not in shown)
    lines = [f"{same} --method {other}", "naq list methods"]
    if (way, shot) == (5, 1):
        lines.insert(1, f"{graph} --shot 5")
    if any(config.episodes is not None and config.episodes < EPISODES for config in configs):
        lines.insert(0, f"{same} --out runs/full      (the paper's schedule: {EPISODES:,} episodes)")
    print("Next:\n  " + "\n  ".join(lines))
