"""The program ``naq``: commands, and one sentence for every mistake."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from naq import __version__
from naq.cli import doctor, importing, inspecting, listing, predicting, reproducing, running
from naq.errors import NaqError
from naq.threads import prepare_process

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
app.command("reproduce")(reproducing.reproduce_command)
app.command("report")(reproducing.report_command)
app.command("list")(listing.list_command)
app.command("doctor")(doctor.doctor_command)
app.command("neighbors")(inspecting.neighbors_command)
app.command("episodes")(inspecting.episodes_command)


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
    prepare_process()
    try:
        app(standalone_mode=True)
    except NaqError as error:
        print(f"naq: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("naq: stopped.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
    except MemoryError:
        print(
            "naq: not enough memory; use a smaller graph, a smaller latent width or fewer queries.",
            file=sys.stderr,
        )
        sys.exit(1)
