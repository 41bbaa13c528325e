"""Nodes that belong to none of the named classes.

A node is said to belong to none where its cosine to the nearest class mean is below a threshold, which is found without labels: that which divides the
nodes' cosines into two groups with the least spread within them (Otsu, IEEE Trans. SMC 9, 1979). It takes for granted that there are such nodes.
``docs/classifier.md`` has its errors, which are many with one label.
"""

from __future__ import annotations

import numpy as np

NOBODY = None
"""What ``predict`` says for such a node."""
BINS = 256


def belongs_nowhere(cosines: np.ndarray, labelled: np.ndarray) -> np.ndarray:
    """(n,) bool from cosines (n, classes); never a labelled node."""
    nearest = cosines.max(axis=1)
    apart = nearest < otsu_threshold(nearest)
    apart[labelled] = False
    return apart


def otsu_threshold(values: np.ndarray) -> float:
    """The edge of a histogram's bins below and above which values spread least."""
    counts, edges = np.histogram(values, BINS)
    middle = (edges[1:] + edges[:-1]) / 2
    below, total = np.cumsum(counts).astype(np.float64), np.cumsum(counts * middle)
    above = below[-1] - below
    between = (total[-1] * below / below[-1] - total) ** 2 / np.maximum(below * above, 1.0)
    return float(edges[1:][between.argmax()])
