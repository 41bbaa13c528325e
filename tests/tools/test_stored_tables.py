"""Tables of stored results that tools/pages.py writes, on small results with known answers."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(str(TOOLS))
    return runpy.run_path(str(TOOLS / "stored_tables.py"))


def test_values_are_filled_in_by_name(tables: dict[str, Any]) -> None:
    fill = tables["fill_values"]
    page = "a <!-- =one -->7<!-- / --> and <!-- =two --><!-- / -->"
    assert fill(page, {"one": "1", "two": "2 %"}) == "a <!-- =one -->1<!-- / --> and <!-- =two -->2 %<!-- / -->"
    with pytest.raises(KeyError, match="two"):
        fill(page, {"one": "1"})


def test_the_level_is_of_all_columns_of_a_size_and_power_by_seeds(tables: dict[str, Any]) -> None:
    def row(methods: int, seeds: int, error: float, power: float) -> dict[str, Any]:
        return {"methods": methods, "seeds": seeds, "error": error, tables["BEST"]: {"10": power}}

    some = [row(4, 3, 0.01, 0.5), row(4, 5, 0.03, 0.9), row(30, 3, 0.0, 0.1), row(30, 5, 0.004, 0.7)]
    other = [row(4, 3, 0.02, 0.6), row(4, 5, 0.02, 0.8), row(30, 3, 0.0, 0.2), row(30, 5, 0.0, 0.75)]
    kept = {"paper": {"columns": some}, "default": {"columns": other}, "equal": {"columns": []}}
    assert tables["significance_level"](kept) == [
        ["4", "2.0 %", "1.0 to 3.0 %", "50 to 60 %", "80 to 90 %"],
        ["30", "0.1 %", "0.0 to 0.4 %", "10 to 20 %", "70 to 75 %"],
    ]
    assert tables["power_values"](kept) == {"found-3": "10", "found-5": "70"}


def test_steps_are_differences_of_rows_of_the_decomposition(tables: dict[str, Any]) -> None:
    names = dict.fromkeys(name for pair in tables["STEPS"].values() for name in pair)
    graphs = {
        graph: {name: {"1": [scale * place, scale * place + 2], "5": [50.0]} for place, name in enumerate(names)}
        for graph, scale in (("a", 1.0), ("b", 3.0))
    }
    heads, rows = tables["decomposition_rows"]({"graphs": graphs})
    assert heads[1:] == ["a", "b", "average"]
    assert rows[1][1:] == ["2.0 / 50.0", "4.0 / 50.0", "3.0 / 50.0"]
    first = tables["step_rows"]({"graphs": graphs})[0]
    assert first == ["TF-IDF", "+2.0 (+1.0 to +3.0)", "+0.0 (+0.0 to +0.0)"]


def test_stored_steps_name_rows_that_are_stored(tables: dict[str, Any]) -> None:
    kept = json.loads((TOOLS.parent / "benchmarks" / "results" / "decomposition.json").read_text(encoding="utf-8"))
    draws = {len(found[shot]) for methods in kept["graphs"].values() for found in methods.values() for shot in "15"}
    assert draws == {10} and len(kept["graphs"]) == 5
    assert {name for pair in tables["STEPS"].values() for name in pair} <= set(kept["graphs"]["cora"])


def test_a_changed_table_of_the_reproduction_is_different(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--check`` makes the tables anew: one that was changed or left over is named."""
    monkeypatch.syspath_prepend(str(TOOLS))
    pages = runpy.run_path(str(TOOLS / "pages.py"))
    changed, left = tmp_path / "changed.md", tmp_path / "left.md"
    changed.write_text("old", encoding="utf-8")
    left.write_text("left over", encoding="utf-8")
    missing = tmp_path / "missing.md"
    monkeypatch.setitem(pages["PAGES"], "practice", lambda check: iter([(changed, "new"), (left, ""), (missing, "x")]))
    monkeypatch.setattr(sys, "argv", ["pages.py", "practice", "--check"])
    assert pages["main"]() == 1
    assert capsys.readouterr().err.startswith("changed.md, left.md, missing.md differ")
    monkeypatch.setattr(sys, "argv", ["pages.py", "practice"])
    assert pages["main"]() == 0
    assert changed.read_text(encoding="utf-8") == "new" and not left.exists() and missing.exists()
