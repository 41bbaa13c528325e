"""Both readers of delimited text: by pyarrow and by the standard library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from naq.io.tables import reading

Write = Callable[..., Path]


@pytest.fixture(params=["pyarrow", "csv"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The test runs once with each reader."""
    if request.param == "pyarrow":
        pytest.importorskip("pyarrow")
    else:
        monkeypatch.setattr(reading, "_by_pyarrow", lambda file, wanted: None)
    return str(request.param)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """``write("edges.csv", "a,b\\n")`` gives the path."""

    def make(name: str, content: Any) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make
