"""Small random graphs for tests."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from naq import Graph


def random_edges(n: int, edges: int, seed: int = 0) -> np.ndarray:
    """(2, edges) pairs drawn uniformly: loops and repeats may occur."""
    return np.random.default_rng(seed).integers(0, n, size=(2, edges))


def random_counts(n: int, d: int, seed: int = 0, *, density: float = 0.1, heavy: int = 0) -> sp.csr_array:
    """Small counts; the first ``heavy`` columns are half full. Every 17th row is empty."""
    random = np.random.default_rng(seed)
    dense = random.integers(1, 4, size=(n, d)) * (random.random((n, d)) < density)
    dense[:, :heavy] = random.integers(0, 2, size=(n, heavy))
    dense[::17] = 0
    return sp.csr_array(dense.astype(np.float32))


def random_graph(
    n: int = 60, edges: int = 120, d: int = 20, *, seed: int = 0, dense: bool = False, density: float = 0.1
) -> Graph:
    """A random graph with count features (or dense Gaussian ones) and three classes; the last node is isolated."""
    random = np.random.default_rng(seed)
    features = random.standard_normal((n, d)) if dense else random_counts(n, d, seed, density=density)
    return Graph(random_edges(n - 1, edges, seed), features, random.integers(0, 3, n), nodes=n, name="random")


def islands() -> Graph:
    """A triangle with a tail, a pair, an isolated node and a path of twelve, in mixed order of ids."""
    edges = [(0, 5), (5, 9), (9, 0), (9, 2), (1, 7)] + [(a, a + 1) for a in range(10, 21)]
    features = random_counts(22, 12, seed=3, density=0.4)
    return Graph(np.array(edges).T, features, nodes=22, name="islands")


def without_features(graph: Graph) -> Graph:
    return Graph(graph.adjacency, name=graph.name)


def sub_graph(adjacency: np.ndarray, v: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes within two hops of v and D^-1/2 A D^-1/2 among them with their own degrees, dense: an oracle."""
    near = adjacency[v] > 0
    inside = near | (adjacency[near] > 0).any(axis=0)
    inside[v] = True
    nodes = np.flatnonzero(inside)
    block = adjacency[np.ix_(nodes, nodes)].astype(np.float64)
    scale = 1 / np.sqrt(np.maximum(block.sum(axis=1), 1))
    return nodes, scale[:, None] * block * scale[None, :]
