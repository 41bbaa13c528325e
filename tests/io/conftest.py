"""Small files in the layouts that the readers know."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import savemat

from naq import Graph


@pytest.fixture
def small() -> Graph:
    """Six nodes on a path, three classes."""
    features = sp.csr_array(
        np.array([[2, 0, 0, 1], [0, 0, 0, 0], [0, 3, 0, 0], [1, 1, 1, 1], [0, 0, 5, 0], [9, 0, 0, 0]])
    )
    return Graph(
        [[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]],
        features,
        [0, 0, 1, 1, 2, -1],
        nodes=6,
        names=["a", "b", "c", "d", "e", "ü"],
        class_names=["x", "y", "z"],
        vocab=["w0", "w1", "w2", "w3"],
        name="small",
    )


WriteGpn = Callable[..., Path]


@pytest.fixture
def write_gpn(tmp_path: Path) -> WriteGpn:
    """Write a GPN dataset; ``train`` and ``test`` map node to class. Returns its folder."""

    def write(
        train: dict[int, int],
        test: dict[int, int],
        /,
        *,
        stem: str = "Toy",
        folder: Path | None = None,
        **change: Any,
    ) -> Path:
        folder = folder or tmp_path / "gpn"
        folder.mkdir(parents=True, exist_ok=True)
        for part, nodes in (("train", train), ("test", test)):
            index = np.array(list(nodes), dtype=np.int32)
            rows = [[node + 1, 0, node % 2] for node in nodes]
            content = {
                "Index": index.reshape(-1, 1),
                "Label": np.array(list(nodes.values()), dtype=np.float64).reshape(-1, 1),
                "Attributes": sp.csc_matrix(np.array(rows, dtype=np.float64).reshape(-1, 3)),
            }
            content |= change.get(part, {})
            savemat(folder / f"{stem}_{part}.mat", {k: v for k, v in content.items() if v is not None})
        n = len(train) + len(test)
        edges = change.get("edges", [(i, (i + 1) % n) for i in range(n)])
        lines = [f"{a}\t{b}\n{b}\t{a}\n" for a, b in edges]
        (folder / f"{stem}_network").write_text("".join(lines))
        return folder

    return write


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
