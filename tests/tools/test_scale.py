"""The page of measured costs is made of the recorded results."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def benchmark(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    for name in ("scale", "estimate", "neighbor_scale"):
        monkeypatch.setitem(sys.modules, name, None)


def test_slopes_are_exponents():
    module = benchmark("scale")
    rows = [
        {"nodes": n, "stages": {stage: {"cpu_seconds": 1e-3 * n**1.25} for stage in module.STAGES}}
        for n in (10**5, 10**6)
    ]
    assert set(module.slopes(rows, "cpu_seconds").values()) == {1.25}
    del rows[0]["stages"]["words"]
    assert "words" not in module.slopes(rows, "cpu_seconds")


def test_the_slope_of_neighbours_is_an_exponent():
    module = benchmark("neighbor_scale")
    assert module.slope({n: 2e-5 * n**1.1 for n in (10**5, 3 * 10**5, 10**6)}) == pytest.approx(1.1)


def test_pages_are_those_of_the_results(tmp_path, monkeypatch):
    kept = ROOT / "docs" / "scale.md"
    for name, arguments in (
        ("scale", ()),
        ("neighbor_scale", ()),
        ("estimate", (json.loads((ROOT / "benchmarks/results/estimate.json").read_text()),)),
    ):
        module = benchmark(name)
        page = tmp_path / "scale.md"
        page.write_text(kept.read_text())
        monkeypatch.setattr(module, "PAGE", page)
        monkeypatch.setattr(module, "PICTURE", tmp_path / "scale.png", raising=False)
        module.write_page(*arguments)
        assert page.read_text() == kept.read_text()
