from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import binomtest, chisquare, ks_2samp

import naq
from naq.random import stream
from naq.tasks import ClassSplit
from naq_paper.perturbations import features as module
from naq_paper.perturbations.features import FeatureNoise, subsets

readings = pytest.mark.parametrize("reading", ["xor", "replace"])


def dense_noise(rows: np.ndarray, reading: str, random: np.random.Generator) -> np.ndarray:
    """The definition, number by number."""
    out = rows.copy()
    for i, row in enumerate(rows):
        mean = np.mean(row != 0)
        for j, value in enumerate(row):
            b = random.random() < mean
            out[i, j] = float(b) if reading == "replace" else ((0.0 if value else 1.0) if b else value)
    return out


def touched(before: naq.Graph, after: naq.Graph) -> set[int]:
    return set(np.flatnonzero((before.features.toarray() != after.features.toarray()).any(axis=1)).tolist())


@pytest.mark.parametrize("share", [0.1, 0.3, 1.0])
def test_flips_of_zeros_and_of_counts(share: float, graph: naq.Graph, split: ClassSplit) -> None:
    """Counts of 2 and more here, so that a 1 is a zero that flipped."""
    doubled = graph.with_features(graph.features * 2)
    found = FeatureNoise(share=share).apply(doubled, split, 0)
    before, after = doubled.features.toarray(), found.graph.features.toarray()
    assert found.facts["nodes"] == round(share * 200)
    assert found.facts["non_zeros"] == np.count_nonzero(after)
    assert found.facts["non_zeros_before"] == np.count_nonzero(before)
    assert found.graph.features.has_canonical_format
    changed = before != after
    assert 0 < changed.any(axis=1).sum() <= round(share * 200)
    assert (after[changed & (before == 0)] == 1).all() and (after[changed & (before != 0)] == 0).all()
    assert not changed[(before != 0).sum(axis=1) == 0].any(), "an empty row has mean 0"
    assert (found.graph.adjacency != graph.adjacency).nnz == 0 and np.array_equal(found.graph.vocab, graph.vocab)
    assert found.base_labels is None and found.split is None and not found.redraw


@readings
@pytest.mark.parametrize("filled", [1, 4, 9, 12])
def test_draws_are_those_of_the_dense_definition(reading: str, filled: int) -> None:
    """4,000 copies of a row: every dimension flips as often as its mean says, and so many together as independent draws."""
    row = np.zeros(12)
    row[np.random.default_rng(filled).permutation(12)[:filled]] = 3
    rows = np.tile(row, (4000, 1))
    graph = naq.Graph(sp.csr_array((4000, 4000)), sp.csr_array(rows))
    after = FeatureNoise(share=1.0, reading=reading).apply(graph, ClassSplit((), (), ()), 0).graph.features.toarray()
    assert set(np.unique(after)) <= {0, 1, 3}
    assert reading == "xor" or not (after == 3).any()
    for column in range(12):
        flipped = (after[:, column] != row[column]).sum() if reading == "xor" else (after[:, column] == 1).sum()
        assert binomtest(int(flipped), 4000, filled / 12).pvalue > 1e-4
    slow = dense_noise(rows, reading, np.random.default_rng(1))
    ones, slow_ones = ((a == 1).sum(axis=1) for a in (after, slow))
    assert ks_2samp(ones, slow_ones).pvalue > 1e-3
    threes, slow_threes = ((a == 3).sum(axis=1) for a in (after, slow))
    assert ks_2samp(threes, slow_threes).pvalue > 1e-3
    pair = [np.mean((a[:, 0] != row[0]) & (a[:, 1] != row[1])) for a in (after, slow)]
    assert pair[0] == pytest.approx(pair[1], abs=0.045)


@readings
def test_dense_and_sparse_features_get_the_same_noise(reading: str) -> None:
    values = np.random.default_rng(0).standard_normal((50, 8)) * (np.random.default_rng(1).random((50, 8)) < 0.6)
    dense, sparse = (naq.Graph(sp.csr_array((50, 50)), f) for f in (values, sp.csr_array(values)))
    assert not dense.sparse_features and sparse.sparse_features
    one, two = (
        FeatureNoise(share=0.5, reading=reading).apply(g, ClassSplit((), (), ()), 4).graph for g in (dense, sparse)
    )
    assert not one.sparse_features and two.sparse_features
    assert np.array_equal(one.features, two.features.toarray())
    assert 0 < (one.features != dense.features).any(axis=1).sum() <= 25


def test_rows_without_zeros_turn_over() -> None:
    graph = naq.Graph(sp.csr_array((10, 10)), np.random.default_rng(0).standard_normal((10, 4)))
    for reading, value in (("xor", 0), ("replace", 1)):
        after = FeatureNoise(share=0.5, reading=reading).apply(graph, ClassSplit((), (), ()), 0).graph.features
        assert ((after == value).all(axis=1)).sum() == 5
        assert ((after == graph.features).all(axis=1)).sum() == 5


@readings
def test_noise_is_nested(reading: str, graph: naq.Graph, split: ClassSplit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 16)
    levels = [FeatureNoise(share=s, reading=reading).apply(graph, split, 0).graph for s in (0.0, 0.1, 0.3, 0.95)]
    for low, high in pairwise(levels):
        noisy = sorted(touched(graph, low))
        assert set(noisy) < touched(graph, high)
        assert np.array_equal(low.features.toarray()[noisy], high.features.toarray()[noisy])


def test_subsets_have_their_size_and_are_uniform() -> None:
    random = np.random.default_rng(0)
    sizes = np.tile([5, 0, 7, 4, 6, 3], 700)
    counts = np.tile([2, 0, 0, 4, 4, 1], 700)
    row, number = subsets(random, counts, sizes)
    assert np.array_equal(np.bincount(row, minlength=len(sizes)), counts)
    assert (number >= 0).all() and (number < sizes[row]).all()
    assert len(set(zip(row.tolist(), number.tolist()))) == len(row)
    for place, (size, count) in enumerate(((5, 2), (0, 0), (7, 0), (4, 4), (6, 4), (3, 1))):
        if 0 < count < size:
            chosen = number[row % 6 == place].reshape(-1, count)
            found = [int((chosen == subset).all(axis=1).sum()) for subset in combinations(range(size), count)]
            assert sum(found) == 700 and chisquare(found).pvalue > 1e-3


def test_counts_on_debian(debian: tuple[naq.Graph, ClassSplit]) -> None:
    """A node with f non-zeros of d flips d * f / d dimensions on average: as many as it has non-zeros."""
    graph, split = debian
    found = FeatureNoise(share=0.3).apply(graph, split, 0)
    nodes = stream(0, "change/feature-noise/nodes").permutation(graph.num_nodes)[: found.facts["nodes"]]
    assert found.facts["nodes"] == round(0.3 * 34_169)
    flips = np.diff(sp.csr_array(found.graph.features != graph.features).indptr)
    assert set(np.flatnonzero(flips)) <= set(nodes)
    filled = np.diff(graph.features.indptr)[nodes]
    assert flips.sum() == pytest.approx(filled.sum(), abs=5 * filled.sum() ** 0.5)
