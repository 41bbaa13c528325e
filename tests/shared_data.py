"""Real graphs that live beside the repository and are never part of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def shared(name: str) -> Path:
    """Path of a shared file; skips the test where the folder or the file is absent."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get("NAQ_SHARED_DATA", beside)) / name
    if not path.is_file():
        pytest.skip(f"needs the shared data file {name}; set NAQ_SHARED_DATA to its folder")
    return path
