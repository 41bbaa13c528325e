"""docs/classifier.md: its examples run, and its tables are those of the results."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "classifier.md"


@pytest.mark.slow
def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, names)
    by_name = dict(zip(names["graph"].names.tolist(), names["classes"].tolist()))
    assert (by_name["dash"], by_name["neovim"], by_name["krita"]) == ("shells", "editors", "graphics")
    np.testing.assert_array_equal(names["again"].predict(), names["clf"].predict())
    assert names["new_class"] in ("shells", "editors", "graphics")


def test_tables_are_those_of_the_results(tmp_path: Path) -> None:
    """What is between two marks was written by the benchmark, from its results; nothing without results."""
    script, results = ROOT / "benchmarks" / "classifier.py", ROOT / "benchmarks" / "results" / "classifier.json"
    text = PAGE.read_text()
    tables = dict(re.findall(r"<!-- (\w+):begin -->\n(.*?)<!-- \1:end -->", text, re.DOTALL))
    assert text.count(":begin -->") == text.count(":end -->") == len(tables)
    assert sorted(tables) == sorted(re.findall(r'^ {8}"(\w+)": table\(', script.read_text(), re.MULTILINE))
    if not results.is_file():
        assert set(tables.values()) == {""}
        return
    for name in ("benchmarks", "docs"):
        (tmp_path / name).mkdir()
    for file in (script, script.with_name("marked_page.py"), PAGE):
        shutil.copy(file, tmp_path / file.parent.name)
    subprocess.run([sys.executable, tmp_path / "benchmarks" / script.name, "--page", "--out", results], check=True)
    assert (tmp_path / "docs" / PAGE.name).read_text() == text
