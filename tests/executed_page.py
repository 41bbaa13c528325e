"""Runs a page of docs/ from top to bottom: files are written, commands give the output shown, Python holds.

A block ```` ```csv NAME ```` is a file; ```` ```console ```` has commands ``$ naq ...``, each with its output below, or
``...`` for any; before another command there may be none. ```` ```python ```` blocks share their names.
"""

from __future__ import annotations

import re
import shlex
import sys
import warnings
from pathlib import Path

import pytest

from naq.cli.main import main

BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.M | re.S)


def run_page(
    page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> dict[str, int]:
    """How many blocks of each kind ran, in ``folder``."""
    monkeypatch.chdir(folder)
    names: dict[str, object] = {}
    ran = {"console": 0, "python": 0, "file": 0}
    for kind, file, content in BLOCK.findall(page.read_text(encoding="utf-8")):
        if file:
            Path(file).write_text(content, encoding="utf-8")
            ran["file"] += 1
        elif kind == "console":
            *others, last = content.removeprefix("$ ").split("\n$ ")
            for command, _, shown in (*((one, "", "...\n") for one in others), last.partition("\n")):
                monkeypatch.setattr(sys, "argv", shlex.split(command))
                capsys.readouterr()
                with pytest.raises(SystemExit) as ended:
                    main()
                out = capsys.readouterr()
                assert not ended.value.code, out.err
                assert shown == "...\n" or out.out == shown
                ran["console"] += 1
        elif kind == "python":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                exec(compile(content, str(page), "exec"), names)
            ran["python"] += 1
    return ran
