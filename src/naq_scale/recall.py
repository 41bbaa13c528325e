"""How many of the true neighbours an approximate table has, measured on a sample of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from naq.neighbors.feature_exact import binary, inverted_index_topk, metric_scores, squared_norms
from naq.neighbors.topk import Best, Lists
from naq.random import stream

SAMPLE = 512
"""Rows whose true neighbours are found."""


def recall(found: np.ndarray, true: np.ndarray) -> float:
    """The share of the true neighbours that was found, 1 if there are none; both (rows, k), -1 for no neighbour."""
    hits = ((found[:, :, None] == true[:, None, :]) & (true[:, None, :] >= 0)).any(axis=1)
    return float(hits.sum() / (true >= 0).sum()) if (true >= 0).any() else 1.0


def recall_with_ties(found: np.ndarray, scores: np.ndarray, true: np.ndarray, true_scores: np.ndarray) -> float:
    """As :func:`recall`, but one that is as near as the last true one counts as found."""
    there = true >= 0
    last = np.where(there, true_scores, np.inf).min(axis=1, initial=np.inf)[:, None]
    hits = np.minimum(((found >= 0) & (scores >= last)).sum(axis=1), there.sum(axis=1))
    return float(hits.sum() / there.sum()) if there.any() else 1.0


def measure_recall(
    features: Any, ids: np.ndarray, scores: np.ndarray, metric: str, sampled: int = SAMPLE
) -> dict[str, float]:
    """``recall`` and ``recall_with_ties`` of an approximate feature table, on some random nodes."""
    n, k = ids.shape
    sample = np.sort(stream(0, "feature-neighbors/recall").choice(n, min(sampled, n), replace=False))
    true, true_scores = true_rows(features, sample, k, metric)
    with_ties = recall_with_ties(ids[sample], scores[sample], true, true_scores)
    return {"recall": recall(ids[sample], true), "recall_with_ties": with_ties}


def true_rows(features: Any, nodes: np.ndarray, k: int, metric: str, block: int = 1 << 15) -> Lists:
    """ids and scores (nodes, k) of the exact table; time O(nodes x n), memory O(nodes x block)."""
    if not isinstance(features, np.ndarray):
        return inverted_index_topk(features, k, metric, None, nodes)
    best, own = Best(len(nodes), k, torch.device("cpu")), np.array(features[nodes])
    left = torch.from_numpy((binary(own) if metric == "jaccard" else own).astype(np.float64))
    size = left.square().sum(dim=1)[:, None]
    places = torch.arange(len(nodes))
    for start in range(0, len(features), block):
        rows = np.array(features[start : start + block])
        rows = binary(rows) if metric == "jaccard" else rows
        dots = left @ torch.from_numpy(rows.astype(np.float64)).T
        values = metric_scores(metric, dots, size, torch.from_numpy(squared_norms(rows))[None])
        inside = np.flatnonzero((nodes >= start) & (nodes < start + len(rows)))
        values[inside, nodes[inside] - start] = -torch.inf
        if metric != "euclidean":
            values[values == 0] = -torch.inf
        # Owners are places in the sample, and none of the candidates has such a number.
        best.offer(values, places, torch.arange(start, start + len(rows)) + len(nodes))
    ids, scores = best.arrays()
    return np.where(ids >= 0, ids - len(nodes), -1), scores
