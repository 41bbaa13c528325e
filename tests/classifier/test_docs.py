"""docs/classifier.md: its examples run, and its tables are those of the results."""

from __future__ import annotations

import json
import re
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
    copy = tmp_path / "repository"
    (copy / "benchmarks").mkdir(parents=True)
    (copy / "docs").mkdir()
    (copy / "src" / "naq" / "classifier").mkdir(parents=True)
    (copy / "benchmarks" / "results").symlink_to(ROOT / "benchmarks" / "results")
    for script in ("classifier_page.py", "marked_page.py"):
        (copy / "benchmarks" / script).write_text((ROOT / "benchmarks" / script).read_text())
    (copy / "docs" / "classifier.md").write_text(PAGE.read_text())
    subprocess.run([sys.executable, copy / "benchmarks" / "classifier_page.py"], check=True)
    assert (copy / "docs" / "classifier.md").read_text() == PAGE.read_text()
    written = json.loads((copy / "src" / "naq" / "classifier" / "measured.json").read_text())
    assert written == json.loads((ROOT / "src" / "naq" / "classifier" / "measured.json").read_text())
