"""Nodes that belong to none of the named classes.

A node is said to belong to none where its cosine to the nearest class mean is below a threshold, which is found without labels: halfway between two that err on different
sides. The higher divides the nodes' cosines into two groups with the least spread within them (Otsu, IEEE Trans. SMC 9, 1979). The lower best parts the nodes' highest cosines from
their second highest: to a node whose class is not named, the nearest mean is as near as the second nearest is to others. Both take for granted
that there are such nodes. ``docs/classifier.md`` has the errors.
"""

from __future__ import annotations

import numpy as np

NOBODY = None
"""What ``predict`` says for such a node."""
BINS = 256


def belongs_nowhere(cosines: np.ndarray, labelled: np.ndarray) -> np.ndarray:
    """(n,) bool from cosines (n, classes); never a labelled node."""
    second, nearest = np.partition(cosines, -2, axis=1)[:, -2:].T
    apart = nearest < (otsu_threshold(nearest) + parting_threshold(second, nearest)) / 2
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


def parting_threshold(low: np.ndarray, high: np.ndarray) -> float:
    """The edge of a histogram's bins with the fewest of ``low`` from it on and of ``high`` below it, together."""
    edges = np.histogram_bin_edges(np.concatenate([low, high]), BINS)
    under_low, under_high = (np.cumsum(np.histogram(values, edges)[0]) for values in (low, high))
    return float(edges[1:][(under_low - under_high).argmax()])
