"""What a reader of the code meets stays within bounds: files that a run and a prediction enter, modules that ``fit`` imports.

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
    "run": {"files": 57, "functions": 351, "depth": 18},
    "fit": {"files": 27, "modules": 48},
}


@pytest.fixture(scope="module", params=list(BOUNDS))
def walk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, int]]:
    """A walk in a process of its own, with its counts."""
    words = [sys.executable, ROOT / "tools" / "walk.py", "--walk", request.param]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    folder = tmp_path_factory.mktemp("walk")
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return request.param, json.loads(done.stdout)


def test_a_walk_stays_within_its_bounds(walk: tuple[str, dict[str, int]]) -> None:
    name, counts = walk
    assert not {what: counts[what] for what, most in BOUNDS[name].items() if counts[what] > most}
