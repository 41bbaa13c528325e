"""The program ``naq``: commands, and one sentence for every mistake."""

from __future__ import annotations

import contextlib
import errno
import io
import os
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
from naq.errors import NaqError, OptionError, plain, with_flags
from naq.options import imported, installed
from naq.threads import prepare_process

COMMANDS = {
    "run": ("naq.cli.running:run_command", "Train, choose on validation tasks, test; print a table, write a folder."),
    "import": ("naq.cli.importing:import_command", "Make a graph file from your own tables."),
    "predict": ("naq.cli.predicting:predict_command", "Name the class of every node from a few labels."),
    "check": ("naq.cli.predicting:check_command", "Show labels that all else contradicts."),
    "suggest": ("naq.cli.predicting:suggest_command", "Say which nodes to label next."),
    "studio": ("naq_studio.cli:studio_command", "See a graph as a map in the browser; label nodes there."),
    "reproduce": ("naq_paper.cli.reproducing:reproduce_command", "Compute tables and analyses of the paper."),
    "report": ("naq_paper.cli.reproducing:report_command", "Write one HTML page from a folder of results."),
    "list": ("naq.cli.listing:list_command", "List datasets, methods, heads and experiments."),
    "doctor": ("naq.cli.doctor:doctor_command", "Show versions, devices, folders and what is missing for each extra."),
    "neighbors": ("naq.cli.inspecting:neighbors_command", "Make a table of nearest nodes; show and save it."),
    "episodes": ("naq.cli.inspecting:episodes_command", "Draw label-free episodes; show and save them."),
    "embed": ("naq_scale.cli:embed_command", "Write the vectors of all nodes to a file, in blocks."),
    "estimate": ("naq_scale.cli:estimate_command", "Print time and memory of each stage before it is run."),
}
"""Where each command is, imported when it is called, and what it does; the entry point ``naq.commands`` adds others."""
STOPPED = 130
"""Exit code of Ctrl-C."""
LESS_MEMORY = {
    "run": "use narrower vectors (--set dim=... or latent=...) or a graph folder (naq import --mmap)",
    "neighbors": "use fewer neighbours (-k) or fewer workers (--workers)",
    "embed": "use fewer columns (--set dim=...) or fewer workers (--workers)",
    "import": "drop columns of the tables, or use a machine with more memory",
}
"""By command: what lowers the memory it takes."""


class Stopped(Exception):
    """Ctrl-C, after the command has said what is kept and how to go on."""


class _SafeFile(io.FileIO):
    """A file whose reader may go away or whose disk may be full: what cannot be written is dropped."""

    failure: OSError | None = None

    def write(self, content: Any) -> int:
        try:
            return os.write(self.fileno(), content)
        except OSError as error:
            self.failure = error
            return len(content)


def safe_stdio() -> list[_SafeFile]:
    """Replace standard output and error by ones that end no computation: closed, full, or in another encoding."""
    files = []
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        elif type(stream) is io.TextIOWrapper:  # not what a test put there
            files.append(file := _SafeFile(stream.fileno(), "w", closefd=False))
            wrapped = io.TextIOWrapper(
                io.BufferedWriter(file), stream.encoding, "backslashreplace", line_buffering=True
            )
            setattr(sys, name, wrapped)
    return files


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
    """A reader of the parameter's values that refuses what nobody means: 1_000, infinity, - as the name of a file."""
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
    name="naq", cls=_Commands, help="Few-shot node classification without labels to train on (Neighbors as Queries).",
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich",
)  # fmt: skip


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
    """Entry point: a user's mistake is one sentence and exit code 2, Ctrl-C is 130, output that is lost 1."""
    files = safe_stdio()
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning  # type: ignore[assignment]
        prepare_process()
        code = _run()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    for file in files:
        if file.failure is not None and file.failure.errno != errno.EPIPE:  # a reader that has enough is no loss
            code = code or _failed(f"output could not be written: {file.failure.strerror}.", 1)
    sys.exit(code)


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
        return _failed(with_flags(error), 2)
    except KeyboardInterrupt:
        return _failed("stopped.", STOPPED)
    except MemoryError as error:
        return _failed(_no_memory(error), 1)
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
            from naq.cli.arguments import import_first

            advice = import_first(sys.argv[1:]) or "('--help' lists the options.)"
            return _failed(f"{error.format_message().rstrip('.')}. {advice}", error.exit_code)
        if any(words in str(error) for words in ("can't allocate memory", "out of memory", "Unable to allocate")):
            return _failed(_no_memory(error), 1)
        raise


def _no_memory(error: BaseException) -> str:
    """How much was asked for, where the message of NumPy or PyTorch says so, and what lowers it."""
    from naq.device import room

    asked = re.search(r"allocate ([\d.,]+ ?(?:bytes|[KMGT]?i?B))", str(error))
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    advice = LESS_MEMORY.get(command, "use a smaller graph or fewer workers")
    block = asked[1] if asked else "a block"
    return f"not enough memory: {block} was asked for, {room() / 1e9:.1f} GB are free; {advice}."


def _failed(sentence: str, code: int) -> int:
    print(f"naq: {plain(sentence)}", file=sys.stderr)
    return code


def _show_warning(message: Warning | str, category: type[Warning], *rest: Any) -> None:
    if issubclass(category, UserWarning):
        print(f"naq: {plain(with_flags(message))}", file=sys.stderr)
