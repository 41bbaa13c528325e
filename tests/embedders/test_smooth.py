from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

from graphs import random_counts, random_graph
from naq import Graph, load
from naq.embedders.smooth import Smooth
from naq.embedders.smoothing import truncated_svd
from naq.graph import tfidf
from shared_data import shared


def embed(graph, seed=0, **options):
    return Smooth(graph, seed=seed, **options).embed()


def unit(x):
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return np.divide(x, norms, out=np.zeros_like(x), where=norms > 1e-12)


@pytest.mark.parametrize("smoothing", ["hops", "ppr"])
@pytest.mark.parametrize("tfidf_too", [True, False])
@pytest.mark.parametrize("unit_first", [True, False])
def test_few_features_follow_the_formula(smoothing, tfidf_too, unit_first):
    """20 features are fewer than 256 dimensions, so nothing is reduced and every step can be written down."""
    graph = random_graph()
    words = TfidfTransformer(sublinear_tf=True).fit_transform(graph.features) if tfidf_too else graph.features
    z = start = words.toarray()
    if unit_first:
        z = start = unit(start)
    a_hat = graph.normalized_adjacency().toarray()
    for _ in range(3):
        z = a_hat @ z if smoothing == "hops" else 0.85 * (a_hat @ z) + 0.15 * start
    z = unit(z)
    plain = embed(graph, smoothing=smoothing, steps=3, tfidf=tfidf_too, unit_first=unit_first, center=False)
    assert np.allclose(plain, z, atol=1e-5)
    centred = embed(graph, smoothing=smoothing, steps=3, tfidf=tfidf_too, unit_first=unit_first)
    assert np.allclose(centred, unit(z - z.mean(0)), atol=1e-5)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("dim", [8, 20, 256])
def test_rows_have_unit_length_and_a_small_mean(dense, dim):
    z = embed(random_graph(400, 900, 40, dense=dense), dim=dim)
    assert z.shape == (400, min(dim, 40)) and z.dtype == np.float32
    assert np.allclose(np.linalg.norm(z, axis=1), 1, atol=1e-5)
    assert np.linalg.norm(z.mean(0)) < 0.15
    uncentred = embed(random_graph(400, 900, 40), dim=dim, center=False)
    assert np.linalg.norm(uncentred.mean(0)) > 0.3


def test_a_tiny_graph_and_empty_rows():
    z = embed(Graph([[], []], [[1.0, 2.0]], nodes=1), center=False)
    assert np.allclose(z, unit(np.array([[1.0, 2.0]])), atol=1e-6)
    assert np.array_equal(embed(Graph([[], []], [[1.0, 2.0]], nodes=1)), np.zeros((1, 2)))
    z = embed(Graph([[], []], np.array([[1.0, 2], [0, 0], [3, 1]]), nodes=3), center=False)
    assert (z[1] == 0).all() and np.isfinite(z).all()


def test_negative_features_are_not_weighted_by_rarity():
    random = np.random.default_rng(0)
    x = sp.csr_array(random.standard_normal((60, 20)) * (random.random((60, 20)) < 0.05))
    graph = Graph(random_graph().adjacency, x)
    assert graph.sparse_features
    assert np.array_equal(embed(graph), embed(graph, tfidf=False))


def test_tfidf_is_that_of_scikit_learn():
    counts = random_counts(100, 30, heavy=2)
    assert np.allclose(
        tfidf(counts).toarray(), TfidfTransformer(sublinear_tf=True).fit_transform(counts).toarray(), atol=1e-6
    )


@pytest.mark.parametrize("sparse", [True, False])
def test_singular_values_are_those_of_numpy(sparse):
    random = np.random.default_rng(0)
    u, _ = np.linalg.qr(random.standard_normal((120, 50)))
    v, _ = np.linalg.qr(random.standard_normal((50, 50)))
    values = 10 * 0.8 ** np.arange(50)
    x = (u * values @ v.T).astype(np.float32)
    found = truncated_svd(sp.csr_array(x) if sparse else x, 10, 0)
    assert found.shape == (120, 10) and found.dtype == np.float32
    assert np.allclose(np.linalg.norm(found, axis=0), values[:10], rtol=1e-3)
    gram = found.T.astype(float) @ found
    assert np.abs(gram - np.diag(np.diag(gram))).max() < 1e-3
    assert np.allclose(found @ found.T, (u[:, :10] * values[:10] ** 2) @ u[:, :10].T, atol=0.02)


@pytest.mark.parametrize("width", [50, 400])
def test_equal_features_give_zero_vectors_and_not_rounding(width):
    x = np.zeros((200, width))
    x[:, :3] = [1, 2, 3]
    graph = Graph(np.random.default_rng(0).integers(0, 200, (2, 500)), sp.csr_array(x), nodes=200)
    assert (embed(graph) == 0).all()


def test_a_real_graph_comes_out_in_classes():
    graph = load(shared("cora.npz"))
    z = embed(graph)
    assert z.shape == (2708, 256)
    near = np.argsort(-(z @ z.T) + 9 * np.eye(2708), axis=1)[:, :5]
    assert (graph.labels[near] == graph.labels[:, None]).mean() > 0.8
