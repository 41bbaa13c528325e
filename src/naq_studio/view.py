"""What is drawn over the points of a map: edges of the part that is in view, and words that name its regions."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from naq.graph import Graph

MOST_EDGES = 30_000
REGIONS, NODES, WORDS = 40, 50, 2
"""Regions at most, their nodes on average at least, and the words that name one."""
SAMPLE = 20_000
"""Nodes by whose places regions are found."""
FEWEST = 5
"""Nodes of a region that is named."""


def edges_in_view(
    graph: Graph, places: np.ndarray, box: tuple[float, float, float, float], most: int = MOST_EDGES
) -> tuple[int, np.ndarray]:
    """How many edges have an end in the box (x0, y0, x1, y1), and their ends (edges, 2) uint32.

    At most so many; which of them depends on nothing but their ends, so that they stay while the map moves.
    """
    x, y = places.T
    seen = (x >= box[0]) & (y >= box[1]) & (x <= box[2]) & (y <= box[3])
    rows = np.flatnonzero(seen)
    part = graph.adjacency if len(rows) == len(seen) else graph.adjacency[rows]
    one = np.repeat(rows, np.diff(part.indptr)).astype(np.uint32)
    two = part.indices.astype(np.uint32)
    once = (one < two) | ~seen[two]
    one, two = one[once], two[once]
    total = len(one)
    if total > most:
        low, high = np.minimum(one, two).astype(np.uint64), np.maximum(one, two).astype(np.uint64)
        mixed = (low * np.uint64(graph.num_nodes) + high) * np.uint64(0x9E3779B97F4A7C15)  # Fibonacci hashing
        kept = np.argpartition(mixed ^ (mixed >> np.uint64(32)), most)[:most]
        one, two = one[kept], two[kept]
    return total, np.stack([one, two], axis=1)


def name_regions(graph: Graph, places: np.ndarray, seed: int = 0) -> list[tuple[float, float, int, str]]:
    """Parts of a map, the largest first: middle, nodes, and the words that its nodes have more often than others."""
    from naq.classifier.table import LARGEST_PROFILE, class_profiles, weighted_words
    from naq.classifier.views import thin_out

    if graph.vocab is None or not graph.sparse_features or REGIONS * graph.num_features > LARGEST_PROFILE:
        return []
    columns, words = weighted_words(graph)
    own = np.concatenate([np.arange(0), *(np.arange(b.start, b.stop) for b in graph.blocks if b.kind == "words")])
    columns, words = np.intersect1d(columns, own), sp.csr_array(words[:, np.isin(columns, own)])
    some = np.unique(thin_out(places, SAMPLE), axis=0)
    count = min(REGIONS, len(some), max(1, len(places) // NODES))
    if not len(columns):
        return []
    from sklearn.cluster import KMeans

    model = KMeans(count, n_init=1, max_iter=50, random_state=seed).fit(some)
    home = model.predict(places)
    profile, sizes = class_profiles(words, home, count), np.bincount(home, minlength=count)
    found = []
    for region in np.argsort(-sizes, kind="stable").tolist():
        best = np.argsort(-profile[region], kind="stable")[:WORDS]
        name = ", ".join(str(graph.vocab[columns[one]])[:30] for one in best if profile[region, one] > 0)
        if name and sizes[region] >= FEWEST:
            x, y = np.median(places[home == region], axis=0)
            found.append((float(x), float(y), int(sizes[region]), name))
    return found
