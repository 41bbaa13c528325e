"""``benchmarks/end_to_end.py``: its material, its record of steps, what it measures, and its table in docs/scale.md."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from generate import generate
from naq.io import Choice, import_tables, load

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("end_to_end", ROOT / "benchmarks" / "end_to_end.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["end_to_end"] = module
    spec.loader.exec_module(module)
    return module


def test_the_files_hold_the_generated_graph(bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(bench, "ROWS", 700)
    made = load(generate(tmp_path / "graph", 2_000, 20_000, features=bench.WORDS, sparse=True))
    bench.write_files(tmp_path)
    choice = Choice(source="source", target="target", id="id", label="class", text=["words"])
    found, report = import_tables(tmp_path / "edges.csv", tmp_path / "nodes.parquet", choice)
    assert found.structure_hash == made.structure_hash and not report.dropped
    assert np.array_equal(found.labels, made.labels) and found.names.tolist() == [str(i) for i in range(2_000)]
    words = [int(word.removeprefix("word")) for word in found.vocab]
    assert (found.features != made.features[:, words]).nnz == 0 and len(words) > 1_900


def step(bench: ModuleType, code: str, **given: object) -> object:
    return bench.Step("one", (code,), **({"needs": (), "leaves": "out.txt"} | given))


def test_steps_are_taken_once_and_failures_again(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "naq_command", lambda code: [sys.executable, "-c", code])
    good = step(bench, "open('out.txt', 'a').write('x')", reached=lambda path: {"length": len(path.read_text())})
    record = bench.Record(tmp_path)
    bench.take(step(bench, "", needs=("graph",)), tmp_path, record)
    assert record.steps["one"] == {"state": "failed", "errors": "there is no graph", "attempts": 0}
    bench.take(step(bench, "raise SystemExit('no room')"), tmp_path, record)
    assert record.steps["one"]["state"] == "failed" and record.steps["one"]["errors"] == "no room"
    for _ in range(2):
        bench.take(good, tmp_path, record)
        facts = bench.Record(tmp_path).steps["one"]
        assert (facts["state"], facts["length"], facts["attempts"]) == ("done", 1, 1) and facts["seconds"] > 0
    record.put("one", facts | {"state": "running", "seconds": 100.0, "gigabytes": 7.0})
    bench.take(good, tmp_path, bench.Record(tmp_path))
    assert bench.Record(tmp_path).steps["one"]["seconds"] < 100  # it began anew
    record.put("one", facts | {"state": "running", "seconds": 100.0, "gigabytes": 7.0})
    bench.take(replace(good, resumes=True), tmp_path, record)
    facts = bench.Record(tmp_path).steps["one"]
    assert facts["seconds"] > 100 and facts["gigabytes"] == 7.0 and facts["attempts"] == 2 and facts["length"] == 2


def test_memory_and_time_are_those_of_all_processes(bench: ModuleType, tmp_path: Path) -> None:
    child = "import time; held = bytearray(150_000_000); time.sleep(1.5)"
    code = f"import subprocess, sys; held = bytearray(100_000_000); subprocess.run([sys.executable, '-c', {child!r}]); sum(range(10**7))"
    seen: list[float] = []
    taken = bench.watched(
        [sys.executable, "-c", code], tmp_path / "log", lambda so_far: seen.append(so_far.seconds), every=0.2
    )
    assert taken.status == 0 and 0.25 < taken.gigabytes < 0.4
    assert taken.seconds > 1.5 and taken.cpu_seconds > 0 and len(seen) > 2


def test_the_table_is_that_of_the_results(bench: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "scale.md"
    page.write_text((ROOT / "docs" / "scale.md").read_text())
    bench.write_page(json.loads(bench.RESULTS.read_text()), page)
    assert page.read_text() == (ROOT / "docs" / "scale.md").read_text()


def test_every_step_needs_what_an_earlier_one_leaves(bench: ModuleType) -> None:
    there: set[str] = {"edges.csv"}  # beside nodes.parquet
    for one in bench.steps_of(1_000):
        assert set(one.needs) <= there
        there.add(one.leaves)
    assert set(bench.SHOWN) == {one.name for one in bench.steps_of(1_000) if one.counted}
