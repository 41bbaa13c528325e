"""docs/tutorial.md, run from top to bottom."""

from __future__ import annotations

from pathlib import Path

import pytest

from executed_page import run_page

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"


@pytest.mark.slow
def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_page(PAGE, tmp_path, monkeypatch, capsys) == {"console": 3, "python": 5, "file": 2}
