"""Arguments that several commands have, and a check of the files that they write."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from inspect import signature
from itertools import chain, pairwise
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from naq.errors import OptionError

GraphName = Annotated[
    str,
    Argument(
        help="A graph file, an edge list (.csv, .txt, .parquet, .duckdb, .graphml), or a name of 'naq list datasets'."
    ),
]
Nodes = Annotated[Path | None, Option(help="Table of nodes, where the graph is an edge list.")]
LabelFile = Annotated[Path | None, Option(help="CSV with the columns node and class: names or numbers of some nodes.")]
ClassFile = Annotated[
    Path | None, Option("--classes", help="Text file: a class per line, and after a comma what it is about.")
]
TextEncoder = Annotated[
    str | None, Option(help="Text also as sentence vectors: a model of sentence-transformers, by folder or name.")
]
Label = Annotated[str | None, Option(help="Column of nodes: classes; these are labels, where no --labels are given.")]
Ignore = Annotated[list[str], Option(help="Column that is not read; may be repeated.")]
MethodName = Annotated[str, Option("--method", "-m", help="A name of 'naq list methods' that needs no labels.")]
Device = Annotated[str, Option(help="cpu or cuda.")]
NoCache = Annotated[bool, Option("--no-cache", help="Neither read nor keep what was learned without labels.")]
Seed = Annotated[int, Option(help="Of whatever the method draws.")]


def import_first(words: Sequence[str]) -> str:
    """What to type in place of ``naq predict`` and the like with options that ``naq import`` alone has, or with several
    edge files; "" for other words."""
    from naq.cli.importing import import_command

    options = {f"--{name.replace('_', '-')}" for name in signature(import_command).parameters} - {"--out", "--edges"}
    shared, flags = {"--nodes", "--label", "--ignore", "--text-encoder"}, ("--directed", "--undirected")
    pairs = [*pairwise([*words, ""])]
    files = [two for one, two in pairs if two and two[0] != "-" and (one[:1] != "-" or one in flags)]
    given = [[one] if one in flags else [one, two] for one, two in pairs if one in options or one in flags]
    if words[:1] not in (["predict"], ["check"], ["suggest"], ["studio"]) or not files:
        return ""
    if len(files) == 1 and {one[0] for one in given} <= shared:
        return ""
    line = shlex.join(["naq", "import", *files, *chain.from_iterable(given), "--out", "graph.npz"])
    return f"Read the tables first: {line}; then naq {words[0]} graph.npz and the other options."


def check_outputs(
    outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None], example: str = "out.csv", also: str = ""
) -> None:
    """Raise an ``OptionError`` for an output that cannot be written, is an input, or does not end as ``example`` or in
    ``also``."""
    taken = {option: path for option, path in inputs.items() if path is not None and _exists(path)}
    for option, path in outputs.items():
        if path is None:
            continue
        if _exists(path) and path.is_dir():
            raise OptionError(f"{option} is {path}, a folder; expected the name of a file, e.g. {path / example}.")
        if _exists(path) and not path.is_file():
            raise OptionError(f"{option} is {path}, a pipe or a device; expected the name of a file, e.g. {example}.")
        for other, used in taken.items():
            if path.absolute() == used.absolute() or (_exists(path) and _exists(used) and path.samefile(used)):
                raise OptionError(f"{option} is {path}, the same file as {other}; it would be lost: give another name.")
        folder = next(one for one in path.absolute().parents if _exists(one))
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            why = f"you may not write to {folder}" if folder.is_dir() else f"{folder} is not a folder"
            raise OptionError(f"{option} is {path}, but {why}; choose a folder you may write to.")
        kinds = [".html"] if option == "--report" else [Path(example).suffix, *filter(None, [also])]
        if path.suffix.lower() not in kinds:
            named = " or ".join(kinds)
            raise OptionError(f"{option} is {path}; expected a name that ends in {named}, which is what is written.")
        taken[option] = path


def _exists(path: Path) -> bool:
    """False also of what cannot be a name: too long, or with a zero byte."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
