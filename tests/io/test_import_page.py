"""docs/import.md, run from top to bottom: files are written, commands give the output shown, Python holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from executed_page import run_page

PAGE = Path(__file__).parents[2] / "docs" / "import.md"


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_page(PAGE, tmp_path, monkeypatch, capsys) == {"console": 6, "python": 17, "file": 16}
