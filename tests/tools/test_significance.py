"""The recorded simulation of marks: the error it promises, and the table in the docs."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("significance", ROOT / "benchmarks" / "significance.py")
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up by name
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "significance", module)
        spec.loader.exec_module(module)
        yield module


def test_no_size_of_table_has_more_than_five_percent_of_false_columns(benchmark):
    kept = json.loads(benchmark.RESULTS.read_text(encoding="utf-8"))
    for name in (*benchmark.RECORDS, "equal"):
        sizes = {(found["methods"], found["seeds"]) for found in kept[name]["columns"]}
        assert {(methods, seeds) for methods in (4, 12, 30) for seeds in (2, 3, 5)} <= sizes
        assert all(found["error"] <= 0.05 for found in kept[name]["columns"])


def test_the_docs_show_what_was_measured(benchmark):
    kept = json.loads(benchmark.RESULTS.read_text(encoding="utf-8"))
    assert benchmark.docs_table(kept) in benchmark.DOCS.read_text(encoding="utf-8")


def test_the_reason_for_five_seeds_is_what_was_measured(benchmark):
    kept = json.loads(benchmark.RESULTS.read_text(encoding="utf-8"))
    of = {column["seeds"]: column for column in kept["paper"]["columns"] if column["methods"] == 30}
    two, three, five = (f"{100 * of[seeds]['power against the best by points']['10']:.0f} %" for seeds in (2, 3, 5))
    sentence = (
        f"two seeds find a difference of 10 points from the best in {two} of cases, three in {three}, five in {five}"
    )
    assert sentence in benchmark.DOCS.read_text(encoding="utf-8")


def test_variances_are_found_again(benchmark):
    """From tables drawn with known ones."""
    truth = benchmark.Variances(0.1, 0.05, (0.02,), 0.06)
    column = benchmark.column(truth, 31, 5, 0)
    found = benchmark._variances([[score.runs for name, score in column.items() if name != benchmark.BASELINE]])
    assert found.tasks == pytest.approx(0.1, rel=0.1) and found.method_by_task == pytest.approx(0.05, rel=0.1)
    assert found.rest == pytest.approx(0.06, rel=0.05)
    assert np.sqrt(np.mean(np.square(found.seeds))) == pytest.approx(0.02, rel=0.15)
