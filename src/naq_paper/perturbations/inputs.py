"""Perturbations of features and edges."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from naq.embedders.closed_form import NaqPlus
from naq.errors import OptionError
from naq.graph import Graph
from naq.options import option
from naq.random import stream
from naq.tasks import ClassSplit
from naq_paper.perturbations import Perturbation, Perturbed, with_edges

BLOCK = 1024
"""Nodes that share a random stream, which always draws for all of them."""


class FeatureNoise(Perturbation):
    """Feature noise: some nodes have dimensions flipped, for neighbours, training and testing.

    round(share * n) nodes are chosen. With m_i the share of non-zeros in row i, and b_ij ~ Bernoulli(m_i) for each of
    its d dimensions,

        xor        x'_ij = x_ij where b_ij = 0;   where b_ij = 1 a zero becomes 1 and a non-zero becomes 0
        replace    x'_ij = b_ij

    The paper flips "by a Bernoulli draw with probability (1/d) sum_i x_i", which may mean either; ``xor`` is the
    default. For 0/1 features m_i is that mean; for counts and real values the mean is binarised to the share of
    non-zeros. A row without zeros, as embeddings have, thus becomes all 0 under ``xor`` and all 1 under ``replace``; a
    row without non-zeros stays.

    Nodes are a prefix of one random order per seed and their draws depend on their place in it: a node that is noisy at
    a lower share has the same noise at every higher one.

    Rows stay sparse: the number of flipped zeros is drawn (binomial), then as many distinct positions among the zeros.

    Cost: linear in nodes and non-zeros.
    """

    name = "feature-noise"
    summary = "Flipped feature dimensions of some nodes."

    @dataclass(frozen=True)
    class Options(Perturbation.Options):
        share: float = option(0.1, at_least=0, at_most=1)  # of the nodes
        reading: str = option("xor", choices=("xor", "replace"))  # flip dimensions, or replace the row by a new one

    options: Options

    def apply(self, graph: Graph, split: ClassSplit, seed: int) -> Perturbed:
        share, reading = self.options.share, self.options.reading
        features = graph.require_features("feature noise")
        count = round(share * graph.num_nodes)
        order = stream(seed, "change/feature-noise/nodes").permutation(graph.num_nodes)
        facts = {"nodes": count, "non_zeros_before": _non_zeros(features)}
        if not count:
            return Perturbed(graph, facts={**facts, "non_zeros": facts["non_zeros_before"]})
        blocks = [
            noisy_rows(
                stream(seed, f"change/feature-noise/{reading}", number),
                sp.csr_array(features[order[start : start + BLOCK]]),
                replace=reading == "replace",
            )
            for number, start in enumerate(range(0, count, BLOCK))
        ]
        rows = sp.csr_array(sp.vstack(blocks, format="csr"))[:count]
        noisy = graph.with_features(_with_rows(features, order[:count], rows))
        assert noisy.features is not None
        return Perturbed(noisy, facts={**facts, "non_zeros": _non_zeros(noisy.features)})


def noisy_rows(random: np.random.Generator, rows: sp.csr_array, *, replace: bool) -> sp.csr_array:
    """The rows after one draw of noise."""
    rows.sort_indices()
    (count, d), filled = rows.shape, np.diff(rows.indptr)
    mean = filled / d
    owner = np.repeat(np.arange(count), filled)
    if replace:
        row, column = subsets(random, random.binomial(d, mean), np.full(count, d))
        return sp.csr_array((np.ones(len(row), dtype=np.float32), (row, column)), shape=rows.shape)
    stays = random.random(len(owner)) >= mean[owner]
    row, place = subsets(random, random.binomial(d - filled, mean), d - filled)
    # Before the i-th non-zero column c_i of a row are c_i - i zeros, so a zero is passed by every non-zero with no more
    # of them.
    before = rows.indices - (np.arange(len(owner)) - rows.indptr[owner])
    passed = np.searchsorted(owner * (d + 1) + before, row * (d + 1) + place, side="right") - rows.indptr[row]
    row, column = np.concatenate([owner[stays], row]), np.concatenate([rows.indices[stays], place + passed])
    values = np.concatenate([rows.data[stays], np.ones(len(place), dtype=np.float32)])
    return sp.csr_array((values, (row, column)), shape=rows.shape)


def subsets(random: np.random.Generator, counts: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For every row r a uniform choice of ``counts[r]`` of the numbers below ``sizes[r]``: rows and numbers, sorted.

    Draws what is missing until nothing is; of a large subset it draws the complement, so that few draws are wasted.
    """
    large = 2 * counts > sizes
    wanted = np.where(large, sizes - counts, counts)
    first = np.cumsum(sizes, dtype=np.int64) - sizes
    codes, missing = np.empty(0, dtype=np.int64), wanted
    while missing.any():
        row = np.repeat(np.arange(len(sizes)), missing)
        codes = np.sort(np.concatenate([codes, first[row] + random.integers(0, sizes[row])]))
        codes = codes[np.diff(codes, prepend=-1) > 0]
        missing = wanted - np.bincount(np.searchsorted(first, codes, side="right") - 1, minlength=len(sizes))
    if large.any():
        row = np.repeat(np.arange(len(sizes)), np.where(large, sizes, 0))
        all_of = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(sizes[large]) - sizes[large], sizes[large])
        codes = np.setxor1d(codes, all_of, assume_unique=True)
    row = np.searchsorted(first, codes, side="right") - 1
    return row, codes - first[row]


def _with_rows(features: sp.csr_array | np.ndarray, nodes: np.ndarray, rows: sp.csr_array) -> sp.csr_array | np.ndarray:
    """The features with other rows for some nodes."""
    if isinstance(features, np.ndarray):
        changed = features.copy()
        changed[nodes] = rows.toarray()
        return changed
    source = np.arange(features.shape[0])
    source[nodes] = features.shape[0] + np.arange(len(nodes))
    return sp.csr_array(sp.vstack([features, rows], format="csr"))[source]


def _non_zeros(features: sp.csr_array | np.ndarray) -> int:
    return int(np.count_nonzero(features)) if isinstance(features, np.ndarray) else int(features.nnz)


FIRST = 65_536
"""Pairs of the first block of draws; every next block is twice as large, so that merging them stays linear."""


class StructureNoise(Perturbation):
    """Structure noise: random edges on top of the graph's own, for training and for testing.

        E' = E + { round(share * |E|) distinct pairs {i, j}, i != j, uniform over the pairs not in E }

    Pairs are drawn one after the other and refused where they are a loop, an edge, or were drawn before; the accepted
    ones are a prefix of one sequence per seed, so that the edges added at a lower share are among those of every higher
    one.

    The paper gives p in {0.1, 0.3} but not the datasets of its figure, and removes no edges.

    Cost: O(E log E) time, O(E) memory; nothing n x n.
    """

    name = "structure-noise"
    summary = "Random edges added between nodes that have none."

    @dataclass(frozen=True)
    class Options(Perturbation.Options):
        share: float = option(0.1, at_least=0)  # edges to add, as a share of the graph's edges; may exceed 1

    options: Options

    def apply(self, graph: Graph, split: ClassSplit, seed: int) -> Perturbed:
        share = self.options.share
        n, edges = graph.num_nodes, graph.num_edges
        free = n * (n - 1) // 2 - edges
        count = round(min(share * edges, free + 1.0))
        if count > free:
            raise OptionError(
                f"structure-noise was to add {share:g} x {edges:,} edges to graph {graph.name!r}, but only {free:,} "
                "pairs of its nodes have none; lower share."
            )
        if not count:
            return Perturbed(graph, facts=_facts(graph, graph))
        row = np.repeat(np.arange(n, dtype=np.int64), np.diff(graph.adjacency.indptr))
        col = graph.adjacency.indices.astype(np.int64)
        present = (row * n + col)[row < col]
        new = free_pairs(n, present, count, seed)
        noisy = with_edges(graph, np.stack([new // n, new % n]))
        return Perturbed(noisy, facts=_facts(graph, noisy))


def free_pairs(n: int, present: np.ndarray, count: int, seed: int, *, first: int = FIRST) -> np.ndarray:
    """``count`` distinct codes i * n + j, i < j, that are not among the sorted ``present``, in the order drawn."""
    found: list[np.ndarray] = []
    taken, missing, block = present, count, 0
    while missing:
        drawn = stream(seed, "change/structure-noise", block).integers(0, n, size=(first << block, 2))
        low, high = drawn.min(axis=1), drawn.max(axis=1)
        codes = (low * n + high)[low < high]
        place = np.searchsorted(taken, codes)
        known = place < len(taken)
        known[known] = taken[place[known]] == codes[known]
        codes = codes[~known]
        codes = codes[np.sort(np.unique(codes, return_index=True)[1])][:missing]
        found.append(codes)
        missing -= len(codes)
        block += 1
        if missing:
            taken = np.sort(np.concatenate([taken, codes]))
    return np.concatenate(found)


def _facts(before: Graph, after: Graph) -> dict[str, float | None]:
    def homophily(graph: Graph) -> float | None:
        value = math.nan if graph.labels is None else graph.homophily()
        return value if math.isfinite(value) else None

    return {
        "edges": after.num_edges, "added": after.num_edges - before.num_edges, "homophily_before": homophily(before),
        "homophily": homophily(after),
    }  # fmt: skip


class SmoothedFeatureNoise(FeatureNoise):
    """The same feature noise, then every row replaced by what ``naq-plus`` starts from: TF-IDF of words, narrowed by a
    truncated SVD, averaged over the walk of ten steps. What a flip adds to one node is divided among its neighbours.

    No label and no clean feature is read. Cost: that of ``naq-plus`` before its nearest neighbours.
    """

    name = "feature-noise-smoothed"
    summary = "Features flipped in some nodes, then smoothed as naq-plus does."

    def apply(self, graph: Graph, split: ClassSplit, seed: int) -> Perturbed:
        noisy = super().apply(graph, split, seed)
        rows = np.asarray(NaqPlus(noisy.graph.without_labels(), seed=seed).smoothed())
        return replace(noisy, graph=noisy.graph.with_features(rows))


class NaqPlusFeatures(Perturbation):
    """Features replaced by the vectors of the closed form, so that a method is trained on top of it.

    Vectors come from structure and features alone: no label is read.

    Cost: that of ``naq-plus``.
    """

    name = "naq-plus-features"
    summary = "Vectors of naq-plus in place of the features."

    def apply(self, graph: Graph, split: ClassSplit, seed: int) -> Perturbed:
        vectors = NaqPlus(graph, seed=seed).embed()
        return Perturbed(
            graph.with_features(vectors), facts={"features": vectors.shape[1], "features_before": graph.num_features}
        )
