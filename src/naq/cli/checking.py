"""Values of options, checked before anything is loaded or written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from naq.errors import OptionError


def check_outputs(
    outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None], example: str = "out.csv"
) -> None:
    """Whether files of the kind of ``example`` (``--report``: a page) can be written, and are not those that are read; both by option."""
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
            why = f"you may not write to {folder}" if folder.is_dir() else f"{folder} is no folder"
            raise OptionError(f"{option} is {path}, but {why}; choose a folder you may write to.")
        if path.suffix.lower() != (kind := ".html" if option == "--report" else Path(example).suffix):
            raise OptionError(f"{option} is {path}; expected a name that ends in {kind}, which is what is written.")
        taken[option] = path


def _exists(path: Path) -> bool:
    """False also of what can be no name: too long, or with a zero byte."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
