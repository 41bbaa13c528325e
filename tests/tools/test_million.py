"""``benchmarks/million.py`` on a small graph, and its table in docs/import.md."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def million() -> ModuleType:
    spec = importlib.util.spec_from_file_location("million", ROOT / "benchmarks" / "million.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_planted_classes_are_found(million: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    million.write_files(tmp_path, 2_000, 10_000, 64)
    degrees = np.zeros(2_000, dtype=int)
    for line in (tmp_path / "edges.csv").read_text().splitlines()[1:]:
        for end in line.split(","):
            degrees[int(end.removeprefix("node-"))] += 1
    assert degrees.max() > 8 * np.median(degrees)  # a power law
    monkeypatch.setattr(sys, "argv", ["million"])
    million.run_import(tmp_path)
    million.run_fit(tmp_path)
    found = million.run_predict(tmp_path)
    assert found["nodes"] == 2_000 and found["features"] == 64 and found["accuracy"] > 0.5
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 2_001


def test_the_table_is_that_of_the_results(million: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "import.md"
    page.write_text((ROOT / "docs" / "import.md").read_text())
    million.write_page(json.loads((ROOT / "benchmarks" / "results" / "million.json").read_text()), page)
    assert page.read_text() == (ROOT / "docs" / "import.md").read_text()
