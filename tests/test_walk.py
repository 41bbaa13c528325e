"""What a reader meets stays within bounds: files that a run and a prediction enter, modules that ``fit`` imports.

``python tools/walk.py`` shows the counts. A bound that has to be raised is raised in a commit that says why.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BOUNDS = {
    "run": {"files": 42, "functions": 345, "depth": 18},
    "fit": {"files": 20, "modules": 36},
}


@pytest.mark.parametrize("name", BOUNDS)
def test_a_walk_stays_within_its_bounds(name: str) -> None:
    words = [sys.executable, ROOT / "tools" / "walk.py", "--walk", name]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert not {what: counts[what] for what, most in BOUNDS[name].items() if counts[what] > most}
