"""Feature top-k by blocks of matrix products in torch: dense features on the CPU, any features on CUDA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from naq.graph.sparse_tensor import csr_tensor
from naq.memory import require
from naq.neighbors.similarity import binary, metric_scores, squared_norms
from naq.neighbors.topk import Mark, no_mark, stable_topk

BLOCK_ENTRIES = 1 << 25
"""Scores held at once: a block of rows times n; 256 MiB in float64."""


def block_topk(
    features: sp.csr_array | np.ndarray,
    k: int,
    metric: str,
    device: str,
    progress: Callable[[int, int], None] | None,
    mark: Mark = no_mark,
    seeds: tuple[int, int] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """ids (s, k) and scores (s, k); same rules as the inverted index: float64 scores rounded to float32, ties to the lowest id.

    Args:
        seeds: the nodes first..last-1 whose rows are wanted; None is all of them.
    """
    n = features.shape[0]
    first, last = (0, n) if seeds is None else seeds
    block = int(max(1, min(4096, BLOCK_ENTRIES // n)))
    if str(device) == "cpu":
        held = 8.0 * (features.size if isinstance(features, np.ndarray) else 2 * features.nnz)
        rows = min(block, last - first)
        what = f"a block of {rows:,} x {n:,} scores beside the features in float64"
        require(held + 32.0 * rows * n, what, "use fewer workers, or a machine with more memory")
    if metric == "jaccard":
        features = binary(features)
    size = torch.from_numpy(squared_norms(features)).to(device)
    mark("compute")
    right = _on_device(features, device)
    mark("transfer")
    ids = np.full((last - first, k), -1, dtype=np.int32)
    scores = np.zeros((last - first, k), dtype=np.float32)
    for start in range(first, last, block):
        stop = min(last, start + block)
        left = features[start:stop]
        left = torch.from_numpy(np.array(left) if isinstance(left, np.ndarray) else left.toarray()).to(
            device, torch.float64
        )
        mark("transfer")
        dots = (right @ left.T).T
        values = metric_scores(metric, dots, size[start:stop, None], size[None, :])
        values[
            torch.arange(stop - start, device=values.device), torch.arange(start, stop, device=values.device)
        ] = -torch.inf
        if metric != "euclidean":
            values[values == 0] = -torch.inf
        mark("compute")
        chosen, found = stable_topk(values, k)
        mark("selection")
        keep = torch.isfinite(found)
        ids[start - first : stop - first] = torch.where(keep, chosen, -1).cpu().numpy()
        scores[start - first : stop - first] = torch.where(keep, found, 0).cpu().numpy()
        mark("transfer")
        if progress is not None:
            progress(stop - first, last - first)
    return ids, scores


def _on_device(features: Any, device: str) -> torch.Tensor:
    if isinstance(features, np.ndarray):
        return torch.from_numpy(np.array(features)).to(device, torch.float64)
    return csr_tensor(features.indptr, features.indices, features.data, features.shape, device, torch.float64)
