"""Fixtures of more than one room: a small graph, and small datasets in GPN's layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import savemat

from naq import Graph

WriteGpn = Callable[..., Path]


@pytest.fixture
def write_gpn(tmp_path: Path) -> WriteGpn:
    """Write a GPN dataset; ``train`` and ``test`` map node to class. Returns its folder."""

    def write(
        train: dict[int, int], test: dict[int, int], /, *, stem: str = "Toy", folder: Path | None = None, **change: Any,
    ) -> Path:  # fmt: skip
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


@pytest.fixture
def small() -> Graph:
    """Six nodes on a path, three classes."""
    features = sp.csr_array(
        np.array([[2, 0, 0, 1], [0, 0, 0, 0], [0, 3, 0, 0], [1, 1, 1, 1], [0, 0, 5, 0], [9, 0, 0, 0]])
    )
    return Graph(
        [[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]], features, [0, 0, 1, 1, 2, -1], nodes=6,
        names=["a", "b", "c", "d", "e", "ü"], class_names=["x", "y", "z"], vocab=["w0", "w1", "w2", "w3"], name="small",
    )  # fmt: skip
