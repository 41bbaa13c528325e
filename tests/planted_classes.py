"""Graphs whose classes have words and edges of their own, and a few labels of them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import naq


def planted(classes: int = 3, each: int = 30, seed: int = 0, isolated: int = 0) -> naq.Graph:
    """Classes with words and edges of their own, in mixed order; some nodes of the last class without edges."""
    random = np.random.default_rng(seed)
    n = classes * each
    truth = random.permutation(np.repeat(np.arange(classes), each))
    words = (random.random((n, 12 * classes)) < 0.05).astype(np.float32)
    for c in range(classes):
        words[np.ix_(truth == c, range(12 * c, 12 * c + 12))] += random.random((each, 12)) < 0.4
    words[:, 0] += words.sum(axis=1) == 0
    ends = random.integers(0, n, (2, 12 * n))
    ends = ends[:, (truth[ends[0]] == truth[ends[1]]) | (random.random(12 * n) < 0.05)]
    alone = np.flatnonzero(truth == classes - 1)[:isolated]
    ends = ends[:, ~np.isin(ends, alone).any(axis=0)]
    return naq.Graph(
        ends, sp.csr_array(words), truth, names=[f"node {i}" for i in range(n)],
        class_names=[f"class {c}" for c in range(classes)], vocab=[f"word{j}" for j in range(12 * classes)], nodes=n,
        name="planted",
    )  # fmt: skip


def few(graph: naq.Graph, each: int = 2) -> dict[int, str]:
    assert graph.labels is not None and graph.class_names is not None
    return {
        int(i): str(graph.class_names[c])
        for c in np.unique(graph.labels)
        for i in np.flatnonzero(graph.labels == c)[-each:]
    }
