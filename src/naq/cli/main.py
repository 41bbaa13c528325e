"""The program ``naq``: commands, and one sentence for every mistake."""

from __future__ import annotations

import re
import sys
import warnings
from math import isfinite
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_from_info
from typer.models import CommandInfo

from naq import __version__
from naq.cli.streams import Stopped, steady_streams
from naq.errors import NaqError, OptionError, plain
from naq.plugins import imported, installed
from naq.threads import prepare_process

COMMANDS = {
    "run": ("naq.cli.running:run_command", "Train, choose on validation tasks, test; print a table and write a run folder."),
    "import": ("naq.cli.importing:import_command", "Make a graph file from your own tables, and print a summary to check."),
    "predict": ("naq.cli.predicting:predict_command", "Name the class of every node from a few labels; write a table and print what to expect of it."),
    "check": ("naq.cli.predicting:check_command", "Show labels that all else contradicts, with the class that is meant instead."),
    "suggest": ("naq.cli.predicting:suggest_command", "Say which nodes to label next: those that stand for many others, and those between two classes."),
    "studio": ("naq_studio.cli:studio_command", "See a graph as a map in the browser, name classes by labelling a few nodes, watch the rest take colour."),
    "reproduce": ("naq_paper.cli.reproducing:reproduce_command", "Compute tables and analyses of the paper, beside the paper's numbers, and write a report."),
    "report": ("naq_paper.cli.reproducing:report_command", "Write one HTML page from a folder of results, and every table as CSV, Markdown and LaTeX."),
    "list": ("naq.cli.listing:list_command", "List datasets, methods, heads and experiments."),
    "doctor": ("naq.cli.doctor:doctor_command", "Show versions, devices, threads, folders, and what is missing for each extra; exit code 1 if naq cannot work here."),
    "neighbors": ("naq.cli.inspecting:neighbors_command", "Make a table of nearest nodes; show some of it, save it."),
    "episodes": ("naq.cli.inspecting:episodes_command", "Draw label-free episodes; show one, their overlap, save them."),
    "embed": ("naq_scale.cli:embed_command", "Write the vectors of all nodes to a file, in blocks: the graph may be larger than memory."),
    "estimate": ("naq_scale.cli:estimate_command", "Print time and memory of each stage before it is run; takes about a second."),
}  # fmt: skip
"""Where each command is and what it does; it is imported when it is called. Others are added by the entry point ``naq.commands``."""
STOPPED = 130
"""Exit code of Ctrl-C."""
LESS_MEMORY = {
    "run": "use narrower vectors (--set dim=... or latent=...), fewer queries (--episode queries=...) or a graph folder (naq import --mmap)",
    "neighbors": "use fewer neighbours (-k) or fewer workers (--workers)",
    "embed": "use fewer columns (--set dim=...) or fewer workers (--workers)",
    "import": "drop columns of the tables, or use a machine with more memory",
}
"""By command: what lowers the memory it takes."""


class _Commands(TyperGroup):
    """Knows commands by their summaries and imports the one that is called."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        added = {name: f"From {point.value}." for name, point in installed("naq.commands").items()}
        summaries = added | {name: summary for name, (_, summary) in COMMANDS.items()}
        self.commands = {name: TyperCommand(name, help=text) for name, text in summaries.items()}

    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS, *(name for name in self.commands if name not in COMMANDS)]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if name is None or command is None:
            return name, command, rest
        called = imported(COMMANDS[name][0]) if name in COMMANDS else installed("naq.commands")[name].load()
        info = CommandInfo(name=name, callback=called)
        made = get_command_from_info(info, pretty_exceptions_short=True, rich_markup_mode="rich")
        for parameter in made.params:
            parameter.process_value = _strict(parameter)  # type: ignore[method-assign]
        return name, made, rest


def _strict(parameter: Any) -> Any:
    """How values of a parameter are read, without what Python reads and nobody means: 1_000, infinity, and - as the name of a file."""
    process, name = parameter.process_value, parameter.opts[-1]

    def processed(ctx: Any, value: Any) -> Any:
        found = process(ctx, value)
        if isinstance(value, str) and isinstance(found, int | float) and ("_" in value or not isfinite(found)):
            raise OptionError(f"{name} is {value!r}; expected a finite number in plain digits.")
        if parameter.name in ("out", "report") and str(value) == "-":
            raise OptionError(f"{name} is '-', which is not the name of a file; standard output is not written to.")
        return found

    return processed


app = typer.Typer(
    name="naq",
    cls=_Commands,
    help="Few-shot node classification without labels to train on (Neighbors as Queries).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"naq {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point: a user's mistake is one sentence and exit code 2, Ctrl-C is 130."""
    with steady_streams() as lost, warnings.catch_warnings():
        warnings.showwarning = _show_warning  # type: ignore[assignment]
        prepare_process()
        code = _run()
    for sentence in lost:
        print(f"naq: {sentence}", file=sys.stderr)
    sys.exit(code or (1 if lost else 0))


def _run() -> int:
    """The one place that turns failures into sentences; what is not listed is a bug, and its traceback is shown."""
    try:
        found = app(standalone_mode=False)
        if found == STOPPED:  # Typer makes this of a KeyboardInterrupt
            raise KeyboardInterrupt
        return found if isinstance(found, int) else 0
    except Stopped:
        return STOPPED
    except NaqError as error:
        return _failed(str(error), 2)
    except KeyboardInterrupt:
        return _failed("stopped.", STOPPED)
    except MemoryError as error:
        return _failed(_no_memory(error), 1)
    except BrokenPipeError:
        return 0
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _failed(f"{place}{error.strerror or error}.", 2)
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()  # type: ignore[attr-defined]
            return 2
        if type(error).__name__ == "Abort":
            return _failed("stopped.", STOPPED)
        if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # of Click, which Typer may carry along
            return _failed(f"{error.format_message()} ('--help' lists the options.)", error.exit_code)
        if any(words in str(error) for words in ("can't allocate memory", "out of memory", "Unable to allocate")):
            return _failed(_no_memory(error), 1)
        raise


def _no_memory(error: BaseException) -> str:
    """How much was asked for, where the message of NumPy or PyTorch says so, and what lowers it."""
    from naq.device import room

    asked = re.search(r"allocate ([\d.,]+ ?(?:bytes|[KMGT]?i?B))", str(error))
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    advice = LESS_MEMORY.get(command, "use a smaller graph or fewer workers")
    return f"not enough memory: {asked[1] if asked else 'a block'} could not be had, {room() / 1e9:.1f} GB are free; {advice}."


def _failed(sentence: str, code: int) -> int:
    print(f"naq: {plain(sentence)}", file=sys.stderr)
    return code


def _show_warning(message: Warning | str, category: type[Warning], *rest: Any) -> None:
    if issubclass(category, UserWarning):
        print(f"naq: {plain(str(message))}", file=sys.stderr)
