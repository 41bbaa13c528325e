"""docs/import.md, run from top to bottom: files are written, commands give the output shown, Python holds."""

from __future__ import annotations

import re
import shlex
import sys
import warnings
from pathlib import Path

import pytest

from naq.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "import.md"
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.M | re.S)


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("networkx")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    ran = {"console": 0, "python": 0, "file": 0}
    for kind, file, content in BLOCK.findall(PAGE.read_text()):
        if file:
            Path(file).write_text(content)
            ran["file"] += 1
        elif kind == "console":
            command, _, shown = content.partition("\n")
            monkeypatch.setattr(sys, "argv", shlex.split(command.removeprefix("$ ")))
            with pytest.raises(SystemExit) as ended:
                main()
            out = capsys.readouterr()
            assert not ended.value.code, out.err
            assert shown == "...\n" or out.out == shown
            ran["console"] += 1
        elif kind == "python":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                exec(compile(content, str(PAGE), "exec"), names)
            ran["python"] += 1
    assert ran == {"console": 3, "python": 6, "file": 7}
