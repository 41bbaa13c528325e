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
    (copy / "benchmarks" / "results").symlink_to(ROOT / "benchmarks" / "results")
    (copy / "benchmarks" / "classifier_page.py").write_text((ROOT / "benchmarks" / "classifier_page.py").read_text())
    (copy / "docs" / "classifier.md").write_text(PAGE.read_text())
    subprocess.run([sys.executable, copy / "benchmarks" / "classifier_page.py"], check=True)
    assert (copy / "docs" / "classifier.md").read_text() == PAGE.read_text()


def test_the_shipped_errors_are_those_that_were_measured() -> None:
    from naq.classifier.confidence import ERRORS, prior_temperature

    measured = json.loads((ROOT / "benchmarks" / "results" / "calibration.json").read_text())
    for shot, shipped in ERRORS.items():
        off = [abs(row["off"]) for row in measured["calibration"] if row["shot"] == shot]
        assert abs(np.quantile(off, 0.9) - shipped) < 0.01
        best = [t for row in measured["best"] if row["shot"] == shot for t in row["temperatures"]]
        assert abs(np.log(prior_temperature(shot)) - np.log(np.median(best))) < 0.1
