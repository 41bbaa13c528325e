"""Small files in the layouts that the readers know."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from small_datasets import small, write_gpn  # noqa: F401

WriteOgb = Callable[..., Path]


@pytest.fixture
def write_ogb(tmp_path: Path) -> WriteOgb:
    """Write OGB's raw files of a four-node graph, with changes by file name (None leaves a file out)."""

    def write(folder: Path | None = None, **change: str | None) -> Path:
        folder = folder or tmp_path / "arxiv"
        texts: dict[str, str | None] = {
            "edge": "0,1\n1,2\n3,2\n",
            "node-feat": "0.5,-1e-3\n1.25,2\n-0.0625,3\n7,8.5\n",
            "node-label": "0\n1\n1\n0\n",
            "num-node-list": "4\n",
            "num-edge-list": "3\n",
        } | {key.replace("_", "-"): value for key, value in change.items()}
        (folder / "raw").mkdir(parents=True, exist_ok=True)
        for stem, text in texts.items():
            if text is not None:
                (folder / "raw" / f"{stem}.csv.gz").write_bytes(gzip.compress(text.encode()))
        return folder

    return write


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """``write("edges.csv", "a,b\\n")`` gives the path."""

    def make(name: str, content: Any) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make
