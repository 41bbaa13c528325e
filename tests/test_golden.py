"""No number has changed: tools/golden.py finds what tests/golden.json holds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_golden_numbers() -> None:
    done = subprocess.run([sys.executable, ROOT / "tools" / "golden.py"], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_every_method_and_head_has_golden_numbers() -> None:
    entries = json.loads((ROOT / "tests" / "golden.json").read_text())["entries"]
    assert {f"method/{name}/accuracy" for name in entries["methods"]["shown"]} <= set(entries)
    assert {f"head/{name}/1-shot" for name in entries["heads"]["shown"]} <= set(entries)
