"""``smooth`` and ``naq-plus`` in blocks give what they give in memory."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import naq
from generate import generate
from graphs import random_graph, without_features
from naq.embedders import EMBEDDERS
from naq.embedders.smoothing import node_words
from naq.errors import OptionError
from naq.graph import Graph
from naq.text import SentenceVectors
from naq_scale.blocks import closed_form, words
from naq_scale.blocks.smoothing import _measure_agreement, smooth_tile
from naq_scale.mapped import open_graph, save_mapped
from naq_scale.tiles import multiply_tile


def planted(tmp_path, **options):
    return open_graph(generate(tmp_path / "g", 700, 3500, classes=5, noise=1.0, **options))


def in_memory(graph: Graph) -> Graph:
    return Graph(
        sp.csr_array(graph.adjacency),
        np.array(graph.features) if isinstance(graph.features, np.ndarray) else sp.csr_array(graph.features),
        name="same",
    )


def cosines(vectors: np.ndarray) -> np.ndarray:
    """Free of the signs and rotations that an SVD leaves open."""
    return vectors @ vectors.T


@pytest.mark.parametrize(("sparse", "features"), [(False, 24), (False, 80), (True, 300)])
@pytest.mark.parametrize("method", ["smooth", "naq-plus"])
def test_blocks_agree_with_memory(tmp_path, method, sparse, features):
    mapped = planted(tmp_path, sparse=sparse, features=features)
    assert mapped.mapped
    expected = EMBEDDERS[method](in_memory(mapped), dim=48).embed()
    for block, tile in ((64, 7), (1 << 16, None)):
        found = EMBEDDERS[method](mapped, dim=48).embed_to(tmp_path / "z.npy", block=block, tile=tile)
        assert isinstance(found, np.memmap) and found.shape == expected.shape
        # Two of the words may be equally frequent: the cut of the SVD is where the two may differ, and by little.
        assert np.abs(cosines(found) - cosines(expected)).max() < 2e-3
        assert np.abs(cosines(found) - cosines(expected)).mean() < 1e-4


def test_edges_that_lead_anywhere_are_doubted_in_blocks_too(tmp_path):
    random = random_graph(300, 900, 40, dense=True)
    graph = open_graph(save_mapped(tmp_path / "g", random))
    plain, blocked = EMBEDDERS["naq-plus"](random), EMBEDDERS["naq-plus"](graph)
    expected, found = plain.embed(), blocked.embed_to(tmp_path / "z.npy", block=50, tile=9)
    assert not plain.trusts_edges and not blocked.trusts_edges
    assert blocked.agreement == pytest.approx(plain.agreement, abs=1e-5)
    assert np.allclose(cosines(found), cosines(expected), atol=2e-3)


def test_a_graph_without_features_and_one_without_edges(tmp_path):
    bare = without_features(random_graph(120, 400))
    found = naq.embed(open_graph(save_mapped(tmp_path / "bare", bare)), dim=16)
    assert np.allclose(cosines(found), cosines(naq.embed(bare, dim=16)), atol=5e-3)
    lonely = Graph(np.empty((2, 0), dtype=np.int64), np.random.default_rng(0).standard_normal((50, 8)), nodes=50)
    found = naq.embed(open_graph(save_mapped(tmp_path / "lonely", lonely)))
    assert np.allclose(cosines(found), cosines(naq.embed(lonely)), atol=1e-3)


@pytest.mark.parametrize("kind", ["counts", "signed", "dense", "same"])
def test_words_in_blocks_are_the_words(tmp_path, kind):
    random = np.random.default_rng(0)
    dense = random.integers(0, 3, (90, 12)) * (random.random((90, 12)) < 0.4)
    features = {
        "counts": sp.csr_array(dense.astype(np.float32)),
        "signed": sp.csr_array((dense * random.choice([-1, 1], dense.shape)).astype(np.float32)),
        "dense": random.standard_normal((90, 12)) * np.arange(12) + 3,
        "same": np.tile(random.standard_normal(12), (90, 1)),
    }[kind]
    graph = Graph(random.integers(0, 90, (2, 200)), features, nodes=90)
    reading, near = words.read_words(open_graph(save_mapped(tmp_path / "g", graph)), "words", 90, 0)
    parts = [graph.features[start : start + 32] if near is None else near[start : start + 32] for start in (0, 32, 64)]
    expected = node_words(graph)
    found = np.concatenate([reading.rows([part]) for part in parts])
    assert np.allclose(found, expected if isinstance(expected, np.ndarray) else expected.toarray(), atol=1e-5)


def of_several_kinds(nodes: int = 500) -> Graph:
    random = np.random.default_rng(0)
    words = random.integers(0, 3, (nodes, 40)) * (random.random((nodes, 40)) < 0.2)
    parts = [words, random.lognormal(2, 1, (nodes, 5)), random.standard_normal((nodes, 400))]
    parts[2][::7] = 0
    kinds = [("words", 40), ("numbers", 5), ("vectors", 400)]
    return Graph(random.integers(0, nodes, (2, 1500)), sp.csr_array(np.hstack(parts)), nodes=nodes, blocks=kinds)


@pytest.mark.parametrize("text", [False, True])
def test_kinds_of_features_count_in_blocks_too(tmp_path, text):
    graph = of_several_kinds()
    if text:
        vectors = np.random.default_rng(1).standard_normal((500, 20)).astype(np.float16)
        vectors[::5] = 0
        graph = graph.with_text(SentenceVectors(vectors, "a model"))
    expected = EMBEDDERS["naq-plus"](graph, dim=100).embed()
    found = naq.embed(open_graph(save_mapped(tmp_path / "g", graph)), dim=100)
    assert np.abs(cosines(found) - cosines(expected)).max() < 1e-3


def test_a_sample_is_enough_to_read_features(tmp_path, monkeypatch):
    mapped = planted(tmp_path, features=80)
    expected = EMBEDDERS["naq-plus"](mapped, dim=64).embed()
    monkeypatch.setattr(words, "SAMPLE", 400)
    found = EMBEDDERS["naq-plus"](mapped, dim=64).embed()
    assert 0 < np.abs(cosines(found) - cosines(expected)).mean() < 0.1


def smooth(graph, start, steps, smoothing="ppr"):
    return smooth_tile(graph, (start, np.full_like(start, np.nan), np.full_like(start, np.nan)), steps, smoothing)


def test_smoothing_of_a_tile_is_that_of_the_matrix():
    graph = random_graph(80, 200)
    start = np.random.default_rng(1).standard_normal((80, 5)).astype(np.float32)
    expected, dense = start.astype(np.float64), graph.normalized_adjacency().toarray().astype(np.float64)
    for _ in range(4):
        expected = 0.85 * dense @ expected + 0.15 * start
    assert np.allclose(smooth(graph, start, 4), expected, atol=1e-5)
    assert np.allclose(smooth(graph, start, 2, "hops"), dense @ dense @ start, atol=1e-5)
    assert np.array_equal(smooth(graph, start, 0), start)


def test_columns_do_not_depend_on_the_tile_they_are_in():
    graph = random_graph(200, 3000)
    start = np.random.default_rng(1).standard_normal((200, 150)).astype(np.float32)
    whole = smooth(graph, start, 3)
    for tile in (1, 9, 16, 40, 64, 100):
        parts = [smooth(graph, start[:, low : low + tile], 3) for low in range(0, 150, tile)]
        assert np.array_equal(np.concatenate(parts, axis=1), whole)


def test_a_sample_of_nodes_estimates_the_scatter(tmp_path, monkeypatch):
    mapped = open_graph(generate(tmp_path / "g", 4000, 30_000, classes=5, features=16, noise=2.0))
    expected = EMBEDDERS["naq-plus"](mapped).embed()
    monkeypatch.setattr(closed_form, "SEARCHED", 2000)
    found = EMBEDDERS["naq-plus"](mapped).embed()
    assert np.abs(cosines(found[:500]) - cosines(expected[:500])).mean() < 0.02
    with pytest.raises(OptionError, match="mutual"):
        EMBEDDERS["naq-plus"](mapped, pairs="mutual").embed()


def test_a_method_that_needs_memory_says_so(tmp_path):
    mapped = planted(tmp_path, features=8)
    with pytest.raises(OptionError, match="does not work in blocks"):
        naq.embed(mapped, "untrained", out=tmp_path / "z.npy")


def test_agreement_is_that_of_the_definition():
    graph = random_graph(90, 500)
    start = np.random.default_rng(2).standard_normal((90, 20)).astype(np.float32)
    mean, scale = start.mean(axis=0), np.random.default_rng(3).random(90, dtype=np.float32)
    z = (start.astype(np.float64) - mean) * scale[:, None]
    middle = graph.degrees @ z / graph.degrees.sum()
    sums = graph.adjacency @ z - graph.degrees[:, None] * middle
    dots, squares = _measure_agreement(graph, start, mean, scale, np.empty_like(start))
    assert np.allclose(dots, (z * sums).sum(axis=1), atol=1e-4)
    assert np.allclose(squares, (sums * sums).sum(axis=1), atol=1e-4)


@pytest.mark.parametrize("width", [1, 16, 21, 64, 150])
def test_a_product_is_that_of_the_matrix(width):
    graph = random_graph(120, 900)
    held = np.random.default_rng(0).standard_normal((120, width)).astype(np.float32)
    kept, dense = held.copy(), graph.normalized_adjacency().toarray().astype(np.float64)
    assert np.allclose(multiply_tile(graph, held), dense @ held, atol=1e-5) and np.array_equal(held, kept)
    turned = np.asfortranarray(held)
    assert np.array_equal(multiply_tile(graph, turned), multiply_tile(graph, held))
