"""``naq run``: the main job."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.markup import escape
from typer import Argument, Option

from naq.cli.arguments import Device, Nodes, Seed
from naq.cli.main import Stopped
from naq.errors import OptionError, plain
from naq.options import check_whole, did_you_mean, parse_value, read_pairs

if TYPE_CHECKING:
    from naq.run import Result, RunConfig

DEFAULT_METHODS = ("smooth", "naq-plus", "naq-feat/protonet")
"""What ``naq run`` shows by default: the baseline, the closed form, and the paper's method."""


def run_command(
    dataset: Annotated[str, Argument(help="A name of 'naq list datasets', or a path.")] = "debian",
    nodes: Nodes = None,
    method: Annotated[
        list[str],
        Option(
            "--method",
            "-m",
            help="A name of 'naq list methods'; may be repeated. By default smooth, naq-plus and naq-feat/protonet.",
        ),
    ] = [],  # noqa: B006
    way: Annotated[int, Option(help="Classes per task.")] = 5,
    shot: Annotated[int, Option(help="Labelled nodes per class.")] = 1,
    head: Annotated[
        str, Option(help="Solves tasks and selects the checkpoint; a name of 'naq list heads'.")
    ] = "logistic",
    seed: Seed = 0,
    seeds: Annotated[int, Option(help="Trainings, by --seed and the next numbers: mean and interval.")] = 1,
    episodes: Annotated[int, Option(help="Training episodes of a learner.")] = 16_000,
    device: Device = "cpu",
    tasks: Annotated[Path | None, Option(help="A task file; else the dataset's own, else tasks are drawn.")] = None,
    table: Annotated[Path | None, Option(help="Table of 'naq neighbors --out' that episodes are drawn from.")] = None,
    out: Annotated[
        Path | None, Option(help="Folder for this run, or for one of each method; else under runs/.")
    ] = None,
    baseline: Annotated[bool, Option("--baseline/--no-baseline", help="Also test the smooth baseline.")] = True,
    given: Annotated[
        list[str],
        Option(
            "--set",
            "-s",
            help="NAME=VALUE: an option of the method (lr=3e-4), of the episodes (episode.queries=5), of the head "
            "(head.C=1), or of the run: features (raw, binary, tfidf, auto), epochs, evaluate_every, patience, "
            "select (valid or clusters), refine, cache.",
        ),
    ] = [],  # noqa: B006
) -> None:
    """Train, choose on validation tasks, test; print a table and write a run folder.

    Stopped with Ctrl-C or killed, the same command goes on where it was.
    """
    from naq.cli.terminal import console, load_shown, result_table, show_progress, table_console
    from naq.methods import get_method
    from naq.run.config import RunConfig
    from naq.run.episodes import check_takes_table, takes_table
    from naq.run.evaluate import BASELINE
    from naq.run.run import run

    check_whole("seeds", seeds)
    known = [get_method(name) for name in method or DEFAULT_METHODS]
    settings, options, of_episodes = sorted_settings(read_pairs(given, "--set"))
    keep_tables, epochs = settings.pop("cache", True), settings.pop("epochs", None)
    if epochs is not None and not any(m.in_epochs for m in known):
        raise OptionError(f"epochs is {epochs}, but {known[0].name} is not trained in epochs; leave it out.")
    if table is not None and not any(map(takes_table, known)):
        check_takes_table(known[0])
    for name in options if len(known) > 1 else ():  # methods that do not know an option go without it
        if not any(name in m.defaults for m in known):
            every = {option for m in known for option in m.defaults}
            raise OptionError(f"none of the {len(known)} methods has an option {name!r}; {did_you_mean(name, every)}")
    configs = [
        RunConfig.resolve(
            m, way=way, shot=shot, seed=seed, head=head, episodes=episodes, device=device,
            options={name: value for name, value in options.items() if name in m.defaults or len(known) == 1},
            episode=of_episodes if m.episodes or len(known) == 1 else {},
            epochs=epochs if m.in_epochs else None, **settings,
        )
        for m in known
    ]  # fmt: skip
    graph = load_shown(dataset, nodes)
    name = escape(plain(graph.name, 80))
    console.print(f"[bold]{name}[/bold]: {graph.num_nodes:,} nodes, {graph.num_edges:,} edges, "
                  f"{graph.num_features:,} features, {graph.num_classes} classes")  # fmt: skip
    results: list[tuple[Result, Path]] = []
    with_baseline = baseline and not any(m.name == BASELINE for m in known)
    for config in [replace(c, dataset=graph.name) for c in configs]:
        folder = default_folder(config, seeds) if out is None else out
        if out is not None and len(configs) > 1:
            folder = out / config.method.replace("/", "-")
        with show_progress(config.method) as listener:
            try:
                result = run(
                    graph, config, tasks=tasks, out=folder, cache="" if keep_tables else None,
                    baseline=with_baseline, listener=listener, table=table if takes_table(config.spec) else None,
                    seeds=None if seeds == 1 else seeds,
                )  # fmt: skip
            except KeyboardInterrupt:
                again = shlex.join(["naq", *sys.argv[1:]])
                console.print(
                    f"Stopped. What is done is in {folder}; go on with:\n  {again}", highlight=False, soft_wrap=True
                )
                raise Stopped from None
        results.append((result, folder))
    table_console(100).print(result_table(result for result, _ in results))
    for result, folder in results:
        if by_seed := ", ".join(f"{100 * one.accuracy:.2f}" for one in result.per_seed):
            print(f"{result.config.method}: {result.config.head} by seed {by_seed} %.")
        for one in result.per_seed or (result,):
            _after(one)
        print(f"Written: {folder}")
    _next_steps(dataset, nodes, tasks, [result for result, _ in results])


RUN_SETTINGS = ("features", "epochs", "evaluate_every", "patience", "select", "refine", "cache")
"""What ``--set`` reaches of a run's configuration; everything else without a dot is an option of the method."""


def sorted_settings(given: dict[str, str]) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
    """Settings of the run, options of the method, options of the episodes."""
    settings: dict[str, Any] = {}
    options: dict[str, str] = {}
    of_episodes: dict[str, str] = {}
    for name, value in given.items():
        kind, dot, rest = name.partition(".")
        if dot and kind == "episode":
            of_episodes[rest] = value
        elif dot and kind == "head":
            settings.setdefault("head_options", {})[rest] = value
        elif name in RUN_SETTINGS:
            settings[name] = parse_value(value)
        else:
            options[rest if dot and kind == "method" else name] = value
    for name in ("epochs", "evaluate_every", "patience"):
        if name in settings:
            settings[name] = check_whole(f"--set {name}", settings[name], 0)
    for name in ("refine", "cache"):
        if not isinstance(settings.get(name, True), bool):
            raise OptionError(f"--set {name} is {settings[name]!r}; expected true or false.")
    return settings, options, of_episodes


def default_folder(config: RunConfig, seeds: int) -> Path:
    """``runs/debian/naq-feat-protonet/5way-1shot-seed0``; of several seeds without the last part."""
    own = f"-seed{config.seed}" if seeds == 1 else ""
    name = f"{config.way}way-{config.shot}shot{own}{'-refined' if config.refine else ''}"
    dataset = config.dataset if config.dataset.strip(". ") else "graph"
    return Path("runs") / dataset / config.method.replace("/", "-") / name


def _after(result: Result) -> None:
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


def _next_steps(dataset: str, nodes: Path | None, tasks: Path | None, results: list[Result]) -> None:
    """Commands on the same graph and tasks; the graph may have none of the default way."""
    from naq.cli.terminal import shell_line
    from naq.run.config import EPISODES

    configs = [result.config for result in results]
    way, shot = (None if value == usual else value for value, usual in ((configs[0].way, 5), (configs[0].shot, 1)))
    again = shell_line("run", dataset, {"--nodes": nodes, "--tasks": tasks, "--way": way, "--shot": shot})
    shown = {config.method for config in configs}
    other = next(m for m in ("naq-diff/protonet", "naq-plus", "naq-feat/protonet", "smooth") if m not in shown)
    lines = [f"{again} --method {other}", "naq list methods"]
    if any(config.episodes is not None and config.episodes < EPISODES for config in configs):
        lines.insert(0, f"{again} --out runs/full      (the paper's schedule: {EPISODES:,} episodes)")
    print("Next:\n  " + "\n  ".join(lines))
