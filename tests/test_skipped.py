"""What ``make test`` says at its end of tests that were skipped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from skipped import NEEDS, in_words

TESTS = Path(__file__).parent


def test_every_reason_in_the_tests_is_understood() -> None:
    reasons = [
        found[1]
        for path in TESTS.rglob("*.py")
        for found in re.finditer(
            r'(?:pytest\.skip\(f?|skipif\(.*reason=|return )"((?:needs|no) [^"{]+)', path.read_text()
        )
    ]
    assert len(reasons) > 10
    assert not [one for one in reasons if "something else" in in_words([one])]
    assert "something else" in in_words(["a feature table is not filled by features"])
    assert {in_words([f"Skipped: could not import {name!r}"]) for name in ("ray", "pyarrow")} == {
        f"Skipped: 1 needs {NEEDS['playwright|could not import']}."
    }


def test_the_last_line_counts_them(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    lines = ["import pytest", "def test_one(): pytest.skip('no CUDA device here')", "def test_two(): pass"]
    (tmp_path / "test_it.py").write_text("\n".join(lines))
    for more in ([], ["-n", "2"]):
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *more, str(tmp_path)]
        path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=300, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}
        )
        assert done.stdout.splitlines()[-1] == "Skipped: 1 needs a CUDA device.", done.stdout + done.stderr
