"""Peers: what each of them computes, against slow and plain forms, and that they are called alike."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import methods_under_test as suite
import naq
from naq.errors import MissingDependency, OptionError
from naq.graph import Graph
from naq_paper.peers import PEERS, normalized_rows, words_of
from naq_paper.peers.gnn import leading_to
from naq_paper.peers.propagation import ALPHA, LAYERS

GRAPH = suite.community_graph()
BARE = GRAPH.without_labels()
CLASSES = 7


def few_labels(shot: int = 3) -> tuple[np.ndarray, np.ndarray]:
    nodes = np.concatenate([np.flatnonzero(GRAPH.labels == c)[1 : shot + 1] for c in range(CLASSES)])
    return nodes, GRAPH.labels[nodes]


def dense_adjacency(graph: Graph) -> np.ndarray:
    return graph.adjacency.toarray().astype(np.float64)


def symmetric(a: np.ndarray) -> np.ndarray:
    """D^-1/2 A D^-1/2, 0 beside nodes without edges."""
    degree = a.sum(axis=1)
    scale = np.where(degree > 0, 1 / np.sqrt(np.maximum(degree, 1)), 0.0)
    return scale[:, None] * a * scale


@pytest.mark.parametrize("name", sorted(PEERS))
def test_every_peer_gives_probabilities_that_its_seed_fixes(name):
    nodes, slots = few_labels()
    first, again = (PEERS[name](BARE, 3).classify(nodes, slots, CLASSES) for _ in range(2))
    assert first.shape == (GRAPH.num_nodes, CLASSES) and np.isfinite(first).all()
    total = first.sum(axis=1)
    assert ((np.abs(total - 1) < 1e-4) | (total == 0)).all() and first.min() >= 0
    np.testing.assert_array_equal(first, again)
    asked = np.delete(np.arange(GRAPH.num_nodes), nodes)
    accuracy = (first[asked].argmax(axis=1) == GRAPH.labels[asked]).mean()
    assert accuracy > 0.45, "chance is one in seven, and words and edges tell the classes apart"


@pytest.mark.parametrize("name", sorted(PEERS))
def test_every_peer_says_what_it_is(name):
    peer = PEERS[name]
    assert peer.title and peer.settings and peer.reads in ("features", "edges", "features, edges")
    assert len({one.title for one in PEERS.values()}) == len(PEERS)


@pytest.mark.parametrize("name", sorted(PEERS))
def test_a_prepared_peer_answers_other_labels_as_a_new_one_does(name):
    few, more = few_labels(1), few_labels(4)
    peer = PEERS[name](BARE, 0)
    peer.classify(*few, CLASSES)
    np.testing.assert_allclose(peer.classify(*more, CLASSES), PEERS[name](BARE, 0).classify(*more, CLASSES), atol=1e-6)


def test_label_propagation_is_its_formula():
    nodes, slots = few_labels()
    s, y = symmetric(dense_adjacency(GRAPH)), np.zeros((GRAPH.num_nodes, CLASSES))
    y[nodes, slots] = 1.0
    z = y
    for _ in range(LAYERS):
        z = np.clip(ALPHA * s @ z + (1 - ALPHA) * y, 0, 1)
    expected = z / np.maximum(z.sum(axis=1, keepdims=True), 1e-300)
    found = PEERS["label-propagation"](BARE, 0).classify(nodes, slots, CLASSES)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert not found[-1].any(), "no label reaches the node without edges"


def test_correct_and_smooth_is_its_formula():
    nodes, slots = few_labels()
    peer = PEERS["correct-and-smooth"](BARE, 0)
    base = PEERS["tfidf-logistic"](BARE, 0).classify(nodes, slots, CLASSES)
    s, y = symmetric(dense_adjacency(GRAPH)), np.eye(CLASSES)[slots]
    error = np.zeros_like(base, dtype=np.float64)
    error[nodes] = y - base[nodes]
    spread = error
    for _ in range(LAYERS):
        spread = np.clip(0.8 * s @ spread + 0.2 * error, -1, 1)
    size = np.abs(error[nodes]).sum() / len(nodes)
    scale = size / np.maximum(np.abs(spread).sum(axis=1, keepdims=True), 1e-300)
    corrected = base + np.where(scale > 1000, 1.0, scale) * spread
    corrected[nodes] = y
    z = corrected
    for _ in range(LAYERS):
        z = np.clip(0.8 * s @ z + 0.2 * corrected, 0, 1)
    expected = z / z.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(peer.classify(nodes, slots, CLASSES), expected, atol=1e-3)


def test_sgc_answers_as_the_layer_of_pyg_and_learns_its_labels():
    from torch_geometric.nn import SGConv

    random = np.random.default_rng(0)
    weight = random.normal(size=(CLASSES, GRAPH.num_features)).astype(np.float32)
    bias = random.normal(size=CLASSES).astype(np.float32)
    layer = SGConv(GRAPH.num_features, CLASSES, K=2)
    layer.lin.weight.data, layer.lin.bias.data = torch.from_numpy(weight), torch.from_numpy(bias)
    ends = torch.from_numpy(np.stack(GRAPH.adjacency.nonzero()).astype(np.int64))
    with torch.no_grad():
        expected = layer(torch.from_numpy(GRAPH.features.toarray()), ends).softmax(dim=1).numpy()
    peer = PEERS["sgc"](BARE, 0)
    np.testing.assert_allclose(peer.answer(weight, bias), expected, atol=1e-5)
    nodes, slots = few_labels()
    assert (peer.classify(nodes, slots, CLASSES)[nodes].argmax(axis=1) == slots).all()


def test_sgc_is_trained_on_the_averaged_rows(monkeypatch):
    """The rows of its labels are those of the whole of S S X."""
    seen = []
    loss = F.cross_entropy
    monkeypatch.setattr(
        torch.nn.Linear, "forward", lambda self, x: seen.append(x) or F.linear(x, self.weight, self.bias)
    )
    nodes, slots = few_labels()
    PEERS["sgc"](BARE, 0).classify(nodes, slots, CLASSES)
    assert F.cross_entropy is loss
    s = symmetric(dense_adjacency(GRAPH) + np.eye(GRAPH.num_nodes))
    np.testing.assert_allclose(seen[0].numpy(), (s @ s @ GRAPH.features.toarray())[nodes], atol=1e-5)


@pytest.mark.parametrize("name", ["gcn", "gat"])
def test_sparse_features_and_fewer_edges_change_no_number_of_a_network(name):
    from torch_geometric.nn import GATConv, GCNConv

    from naq.nn.rows import take_rows

    peer = PEERS[name](BARE, 0)
    torch.manual_seed(0)
    model, _ = peer.network(CLASSES)
    for part in model.parameters():
        torch.nn.init.normal_(part, std=0.3)
    model.eval()
    ends = torch.from_numpy(np.stack(GRAPH.adjacency.nonzero()).astype(np.int64))
    if name == "gcn":
        first, second, activation = GCNConv(GRAPH.num_features, 64), GCNConv(64, CLASSES), F.relu
    else:
        first, second = GATConv(GRAPH.num_features, 8, heads=8), GATConv(64, CLASSES, heads=1, concat=False)
        activation = F.elu
    first.load_state_dict({**model.first.state_dict(), "lin.weight": model.weight.T})
    second.load_state_dict(model.second.state_dict())
    words = GRAPH.features.toarray()
    with torch.no_grad():
        whole = second(activation(first(torch.from_numpy(words), ends)), ends)
        every = take_rows(peer.words, np.arange(GRAPH.num_nodes))
        np.testing.assert_allclose(model(every, peer.edges, peer.edges), whole, rtol=1e-4, atol=1e-3)
        nodes, _ = few_labels(1)
        after, near = leading_to(peer.edges, nodes)
        before, field = leading_to(peer.edges, near)
        assert len(after[0][0]) < len(before[0][0]) < len(peer.edges[0][0]) and set(nodes) <= set(near) <= set(field)
        np.testing.assert_allclose(model(every, before, after)[nodes], whole[nodes], rtol=1e-4, atol=1e-3)


def test_dropout_of_a_network_takes_features_away_while_it_is_trained():
    from naq.nn.rows import take_rows

    peer = PEERS["gcn"](BARE, 0)
    model, _ = peer.network(CLASSES)
    words = take_rows(peer.words, np.arange(GRAPH.num_nodes))
    torch.manual_seed(0)
    fewer = model.train()._fewer(words)
    gone = fewer.data == 0
    assert 0.4 < gone.mean() < 0.6
    np.testing.assert_allclose(fewer.data[~gone], 2 * words.data[~gone], rtol=1e-6)
    assert model.eval()._fewer(words) is words


def test_without_scikit_network_one_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sknetwork", None)
    with pytest.raises(MissingDependency, match=r'needs scikit-network, .* pip install "naq\[practice\]"'):
        PEERS["pagerank"](BARE, 0)


def test_features_below_zero_are_no_words():
    graph = naq.Graph(GRAPH.adjacency, -np.ones((GRAPH.num_nodes, 2)), name="negative")
    with pytest.raises(OptionError, match="'negative' has features below 0; TF-IDF needs counts"):
        PEERS["tfidf-logistic"](graph, 0)
    assert words_of(graph).shape == (GRAPH.num_nodes, 2)


def test_scores_become_probabilities():
    np.testing.assert_array_equal(normalized_rows(np.array([[1.0, 3.0], [0.0, 0.0]])), [[0.25, 0.75], [0.0, 0.0]])
    with pytest.raises(OptionError, match="below 0"):
        normalized_rows(np.array([[-1.0, 2.0]]))
