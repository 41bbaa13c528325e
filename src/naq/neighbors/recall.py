"""How much of the exact table an approximate one has, measured on a sample of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from naq.neighbors.inverted_index import inverted_index_topk
from naq.neighbors.similarity import METRICS, binary, metric_scores, squared_norms
from naq.neighbors.topk import Best
from naq.random import stream

SAMPLE = 512
"""Nodes whose true neighbours are found to measure recall."""
BLOCK = 1 << 15
"""Nodes that the sample is compared with at once."""


def recall(found: np.ndarray, true: np.ndarray) -> float:
    """The share of the true neighbours that was found, 1 where there are none; both (rows, k) with -1 where there is none."""
    hits = ((found[:, :, None] == true[:, None, :]) & (true[:, None, :] >= 0)).any(axis=1)
    return float(hits.sum() / (true >= 0).sum()) if (true >= 0).any() else 1.0


def recall_with_ties(found: np.ndarray, scores: np.ndarray, true: np.ndarray, true_scores: np.ndarray) -> float:
    """As :func:`recall`, but one that is as near as the last true one counts as found."""
    there = true >= 0
    last = np.where(there, true_scores, np.inf).min(axis=1, initial=np.inf)[:, None]
    hits = np.minimum(((found >= 0) & (scores >= last)).sum(axis=1), there.sum(axis=1))
    return float(hits.sum() / there.sum()) if there.any() else 1.0


def measured_recall(features: Any, ids: np.ndarray, scores: np.ndarray, metric: str) -> dict[str, float]:
    """``recall`` and ``recall_with_ties`` of an approximate feature table, on ``SAMPLE`` random nodes."""
    n, k = ids.shape
    sample = np.sort(stream(0, "feature-neighbors/recall").choice(n, min(SAMPLE, n), replace=False))
    true, true_scores = true_rows(features, sample, k, metric)
    found = ids[sample]
    return {
        "recall": recall(found, true),
        "recall_with_ties": recall_with_ties(found, scores[sample], true, true_scores),
    }


def true_rows(features: Any, nodes: np.ndarray, k: int, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """ids and scores (nodes, k) of the exact table; time O(nodes x n), memory O(nodes x block)."""
    if not isinstance(features, np.ndarray):
        return inverted_index_topk(features, k, metric, None, nodes)
    best, own = Best(len(nodes), k, torch.device("cpu")), np.array(features[nodes])
    left = torch.from_numpy((binary(own) if metric == "jaccard" else own).astype(np.float64))
    size = left.square().sum(dim=1)[:, None]
    places = torch.arange(len(nodes))
    for start in range(0, len(features), BLOCK):
        rows = np.array(features[start : start + BLOCK])
        rows = binary(rows) if metric == "jaccard" else rows
        dots = left @ torch.from_numpy(rows.astype(np.float64)).T
        values = metric_scores(metric, dots, size, torch.from_numpy(squared_norms(rows))[None])
        inside = np.flatnonzero((nodes >= start) & (nodes < start + len(rows)))
        values[inside, nodes[inside] - start] = -torch.inf
        if metric != METRICS[1]:
            values[values == 0] = -torch.inf
        # Owners are places in the sample, and none of the candidates has such a number.
        best.offer(values, places, torch.arange(start, start + len(rows)) + len(nodes))
    ids, scores = best.arrays()
    return np.where(ids >= 0, ids - len(nodes), -1), scores
