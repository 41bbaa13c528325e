"""The program ``naq``: commands, and one sentence for every mistake."""

from __future__ import annotations

import re
import sys
import warnings
from typing import Annotated, Any

import typer

from naq import __version__
from naq.cli import doctor, importing, inspecting, listing, predicting, running
from naq.cli.streams import Stopped, steady_streams
from naq.errors import NaqError, plain
from naq.threads import prepare_process
from naq_paper.cli import reproducing
from naq_scale.cli import large_graphs
from naq_studio import cli as studio

STOPPED = 130
"""Exit code of Ctrl-C."""
LESS_MEMORY = {
    "run": "use narrower vectors (--set dim=... or latent=...), fewer queries (--episode queries=...) or a graph folder (naq import --mmap)",
    "neighbors": "use fewer neighbours (-k) or fewer workers (--workers)",
    "embed": "use fewer columns (--set dim=...) or fewer workers (--workers)",
    "import": "drop columns of the tables, or use a machine with more memory",
}
"""By command: what lowers the memory it takes."""

app = typer.Typer(
    name="naq",
    help="Few-shot node classification without labels to train on (Neighbors as Queries).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("run")(running.run_command)
app.command("import")(importing.import_command)
app.command("predict")(predicting.predict_command)
app.command("suggest")(predicting.suggest_command)
app.command("studio")(studio.studio_command)
app.command("reproduce")(reproducing.reproduce_command)
app.command("report")(reproducing.report_command)
app.command("list")(listing.list_command)
app.command("doctor")(doctor.doctor_command)
app.command("neighbors")(inspecting.neighbors_command)
app.command("episodes")(inspecting.episodes_command)
app.command("embed")(large_graphs.embed_command)
app.command("estimate")(large_graphs.estimate_command)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"naq {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
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
    from naq.memory import room

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
