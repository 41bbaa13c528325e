"""docs/classifier.md and docs/names.md: examples run, tables are those of the results."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest

import naq
from naq import load
from naq.files import read_json
from naq_paper.perturbations import sub_graph

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "classifier.md"


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On three sections of ``debian`` and every fiftieth node of the others."""
    whole = load("debian")
    assert whole.labels is not None and whole.class_names is not None
    kept = np.isin(whole.class_names[whole.labels], ("shells", "editors", "graphics"))
    kept[::50] = True
    small = sub_graph(whole, np.flatnonzero(kept))
    monkeypatch.setattr(naq, "load", {"debian": small}.__getitem__)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, names)
    by_name = dict(zip(names["graph"].names.tolist(), names["classes"].tolist()))
    assert (by_name["dash"], by_name["neovim"], by_name["krita"]) == ("shells", "editors", "graphics")
    np.testing.assert_array_equal(names["again"].predict(), names["clf"].predict())
    assert names["new_class"] in ("shells", "editors", "graphics")


def test_tables_are_those_of_the_results(tmp_path: Path) -> None:
    """What is between two marks was written by the benchmark, from its results."""
    benchmark, page = run_path(str(ROOT / "benchmarks" / "classifier.py")), tmp_path / PAGE.name
    shutil.copy(PAGE, page)
    tables = benchmark["pages"](read_json(benchmark["RESULTS"]))
    assert sorted(tables) == sorted(re.findall(r"<!-- (\w+):begin -->", PAGE.read_text()))
    for name, text in tables.items():
        benchmark["write_between"](page, name, text)
    assert page.read_text() == PAGE.read_text()


def test_tables_of_names_are_those_of_the_results() -> None:
    benchmark = run_path(str(ROOT / "benchmarks" / "names.py"))
    table, rows = benchmark["table"], read_json(benchmark["RESULTS"])
    for page, made in (
        ("docs/names.md", table(rows)), ("docs/names.md", benchmark["told"](rows)),
        ("README.md", table(rows, benchmark["IN_README"])),
    ):  # fmt: skip
        assert made.strip() in (ROOT / page).read_text(encoding="utf-8")


def test_the_demo_says_how_often_it_is_right(tmp_path: Path) -> None:
    """Half of the packages under their own section, 95 % sure, half under another, 5 % sure."""
    graph = load("debian")
    assert graph.names is not None and graph.labels is not None and graph.class_names is not None
    lines = ["node,class,probability,text"]
    for node, (name, label) in enumerate(zip(graph.names, graph.labels)):
        lines.append(f"{name},{graph.class_names[label]},0.95," if node % 2 else f"{name},none,0.05,")
    (tmp_path / "p.csv").write_text("\n".join(lines), encoding="utf-8")
    words = [sys.executable, ROOT / "examples" / "class_names.py", tmp_path / "p.csv"]
    *_, means, sure, last = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert means.count("50 %") == 2 and "17,084" in sure and "100 %" in sure and "34,169 packages" in last
