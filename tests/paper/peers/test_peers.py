"""Peers: what each of them computes, against slow and plain forms, and that they are called alike."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import methods_under_test as suite
from naq.errors import GraphError, OptionError
from naq.graph import Graph
from naq_paper.peers import PEERS, columns, gnn, normalize_rows, wide_columns
from naq_paper.peers.gnn import judging_labels
from naq_paper.peers.propagation import ALPHA, LAYERS, LEAST, solve_system

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


def available(name: str) -> str:
    if name == "cleora":
        pytest.importorskip("pycleora")
    return name


@pytest.mark.parametrize("name", sorted(PEERS))
def test_every_peer_gives_probabilities_that_its_seed_fixes(name):
    nodes, slots = few_labels()
    first, again = (PEERS[available(name)](BARE, 3).classify(nodes, slots, CLASSES) for _ in range(2))
    assert first.shape == (GRAPH.num_nodes, CLASSES) and np.isfinite(first).all()
    total = first.sum(axis=1)
    assert ((np.abs(total - 1) < 1e-4) | (total == 0)).all() and first.min() >= 0
    np.testing.assert_array_equal(first, again)
    asked = np.delete(np.arange(GRAPH.num_nodes), nodes)
    accuracy = (first[asked].argmax(axis=1) == GRAPH.labels[asked]).mean()
    assert accuracy > 0.45, "chance is one in seven, and words and edges tell the classes apart"


@pytest.mark.parametrize("name", sorted(PEERS))
def test_a_prepared_peer_answers_other_labels_as_a_new_one_does(name):
    few, more = few_labels(1), few_labels(4)
    peer = PEERS[available(name)](BARE, 0)
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


def test_columns_of_the_linear_peers_are_their_formulas():
    x, a = columns(BARE).astype(np.float64), dense_adjacency(BARE)
    s = symmetric(a + np.eye(len(a)))
    walk = a / np.maximum(a.sum(axis=1, keepdims=True), 1)

    def centred(rows):
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        rows = rows - rows.mean(axis=0)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)

    smooth, power, total = x, x, np.zeros_like(x)
    for _ in range(10):
        smooth = 0.85 * s @ smooth + 0.15 * x
    for _ in range(16):
        power = s @ power
        total += power
    two = walk @ walk
    np.fill_diagonal(two, 0)
    expected = {
        "smooth-logistic": centred(smooth),
        "sgc": centred(s @ s @ x),
        "ssgc": centred(0.95 * total / 16 + 0.05 * x),
        "hops-logistic": np.concatenate([x, centred(walk @ x), centred(two @ x)], axis=1),
    }
    for name, rows in expected.items():
        np.testing.assert_allclose(PEERS[name](BARE, 0).columns, rows, atol=2e-4, err_msg=name)


def test_all_peers_read_the_blocks_of_features_weighted_alike():
    counts, numbers = GRAPH.features, sp.csr_array(np.linspace(0, 900, GRAPH.num_nodes)[:, None])
    both = Graph(GRAPH.adjacency, sp.hstack([counts, numbers]), blocks=[("words", counts.shape[1]), ("numbers", 1)])
    rows, words = columns(both), columns(BARE)
    np.testing.assert_allclose(rows[:, : words.shape[1]], words / np.sqrt(2), atol=1e-6)
    assert (rows[:, -1] ** 2).mean() == pytest.approx(0.5, rel=1e-4), "numbers weigh as much as words"
    assert wide_columns(both).shape == both.features.shape
    with pytest.raises(GraphError, match="features"):
        columns(Graph(GRAPH.adjacency))


def test_graphany_is_the_mean_of_five_least_squares():
    nodes, slots = few_labels()
    x, a = columns(BARE).astype(np.float64), dense_adjacency(BARE)
    walk = a / np.maximum(a.sum(axis=1, keepdims=True), 1)
    own = np.eye(len(a))
    total = 0
    for channel in (own, walk, walk @ walk, own - walk, (own - walk) @ (own - walk)):
        rows = channel @ x
        total = total + rows @ np.linalg.lstsq(rows[nodes], np.eye(CLASSES)[slots], rcond=1e-6)[0]
    expected = np.exp(total) / np.exp(total).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(PEERS["graphany"](BARE, 0).classify(nodes, slots, CLASSES), expected, atol=1e-3)


def test_poisson_learning_solves_its_equation():
    nodes, slots = few_labels()
    a = dense_adjacency(GRAPH)
    source = np.zeros((len(a), CLASSES))
    source[nodes] = np.eye(CLASSES)[slots] - np.eye(CLASSES)[slots].mean(axis=0)
    degree = np.maximum(a.sum(axis=1), 1e-300)
    linked = degree > 1e-200
    system = np.diag(degree * (1 + LEAST)) - a
    exact = np.linalg.solve(system[np.ix_(linked, linked)], source[linked])
    found = np.log(PEERS["poisson"](BARE, 0).classify(nodes, slots, CLASSES)[linked])
    exact /= np.abs(exact).max()
    np.testing.assert_allclose(
        found - found.mean(axis=1, keepdims=True), exact - exact.mean(axis=1, keepdims=True), atol=5e-3
    )
    random = np.random.default_rng(0)
    half = random.normal(size=(30, 30))
    matrix, right = half @ half.T + np.eye(30), random.normal(size=(30, 4))
    np.testing.assert_allclose(solve_system(matrix, right, 1e-10), np.linalg.solve(matrix, right), atol=1e-6)


def test_neighbours_of_poisson_learning_weigh_as_in_its_paper():
    peer = PEERS["poisson-neighbors"](BARE, 0)
    rows = PEERS["smooth-logistic"](BARE, 0).columns.astype(np.float64)
    found = peer.weights(BARE).toarray()
    np.testing.assert_allclose(found, found.T)
    far = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    np.fill_diagonal(far, np.inf)
    tenth = np.sort(far, axis=1)[:, 9]
    one_way = np.where(far <= tenth[:, None] * (1 + 1e-6), np.exp(-4 * far / tenth[:, None]), 0)
    expected = np.maximum(one_way, one_way.T)
    some = np.linalg.norm(rows, axis=1) > 0
    np.testing.assert_allclose(found[np.ix_(some, some)], expected[np.ix_(some, some)], atol=1e-4)


@pytest.mark.parametrize("name", ["gcn", "sage", "appnp"])
def test_a_batch_of_networks_has_the_layers_of_pyg(name):
    from torch_geometric.nn import APPNP, GCNConv, SAGEConv

    peer, d = PEERS[name](BARE, 0), columns(BARE).shape[1]
    residual = torch.tensor([0.0, 1.0] if name == "gcn" else [1.0, 1.0])
    torch.manual_seed(0)
    weights = [torch.randn_like(part) for part in peer.weights(2, CLASSES)]
    asked = np.array([30, 2, 139, 140])
    found = peer.scores(weights, peer.field(np.arange(GRAPH.num_nodes)), None, residual)
    few = peer.field(asked)
    np.testing.assert_allclose(peer.scores(weights, few, None, residual), found[asked], rtol=1e-4, atol=1e-3)
    assert (len(few.inputs) < 40) == (name != "appnp"), "the nodes that scores depend on alone are looked at"
    x, ends = torch.from_numpy(columns(BARE)), torch.from_numpy(np.stack(GRAPH.adjacency.nonzero()).astype(np.int64))
    for b in range(2):
        first, bias, second, last = (part[:, b] for part in weights)
        if name == "appnp":
            own = torch.relu(x @ first + bias) @ second[gnn.HIDDEN :]
            expected = APPNP(10, 0.1)(own, ends) + last
        else:
            layers = []
            for rows, shift, cut in ((first, bias, d), (second, last, gnn.HIDDEN)):
                layer = (GCNConv if name == "gcn" else SAGEConv)(cut, rows.shape[1])
                (layer.lin if name == "gcn" else layer.lin_l).weight.data = rows[:cut].T
                (layer.bias if name == "gcn" else layer.lin_l.bias).data = shift[0]
                if name == "sage":
                    layer.lin_r.weight.data = rows[cut:].T
                beside = residual[b] * rows[cut:] if name == "gcn" else 0 * rows[cut:]
                layers.append((layer, beside))
            (one, left), (two, right) = layers
            hidden = torch.relu(one(x, ends) + x @ left)
            expected = two(hidden, ends) + hidden @ right
        np.testing.assert_allclose(found[:, b].numpy(), expected.detach().numpy(), rtol=1e-3, atol=1e-2)


def test_networks_of_a_batch_do_not_know_of_each_other(monkeypatch):
    """Without dropout and from given weights, a network of a batch is the network that is trained alone."""
    peer, given = PEERS["gcn"](BARE, 0), few_labels(3)
    settings = [(0.0, 5e-4, 1.0), (0.0, 5e-2, 0.0)]
    start = [part.detach() for part in peer.weights(2, CLASSES)]

    def run(chosen):
        own = [part[:, chosen].clone().requires_grad_() for part in start]
        monkeypatch.setattr(peer, "weights", lambda size, count: own)
        return peer.train(given, CLASSES, [settings[b] for b in chosen], 2 * gnn.EVERY, few_labels(5))

    (together, losses), alone = run([0, 1]), [run([b]) for b in range(2)]
    assert losses.shape == (2, 2) and (losses[:, -1] < losses[:, 0]).all(), "they learn"
    for b in range(2):
        np.testing.assert_allclose(losses[b], alone[b][1][0], rtol=1e-3)
        for part, other in zip(together, alone[b][0]):
            np.testing.assert_allclose(part[:, b].detach(), other[:, 0].detach(), atol=1e-3)
    assert np.abs(losses[0] - losses[1]).min() > 1e-2


def test_a_product_with_a_sparse_matrix_has_the_slope_of_a_dense_one():
    matrix = PEERS["sage"](BARE, 0).field(few_labels()[0]).matrices
    rows = torch.randn(matrix[0].shape[1], 2, 3, requires_grad=True)
    (gnn.ConstantProduct.apply(matrix, rows) ** 2).sum().backward()
    other = rows.detach().clone().requires_grad_()
    (torch.einsum("mn,nbc->mbc", matrix[0].to_dense(), other) ** 2).sum().backward()
    np.testing.assert_allclose(rows.grad, other.grad, rtol=1e-3, atol=1e-4)


def test_every_second_label_of_a_class_judges_in_turn():
    slots = np.array([0] * 5 + [1] * 2 + [2])
    found = judging_labels(slots, 3, 0)
    assert len(found) == gnn.FOLDS and not np.logical_and(*found).any()
    assert np.logical_or(*found).tolist() == [True] * 7 + [False], "the only label of a class is always learned"
    assert all(set(slots[~judge]) == {0, 1, 2} and judge[slots == 1].sum() == 1 for judge in found)
    assert judging_labels(np.arange(4), 4, 0) == []


def test_the_setting_and_the_epochs_with_the_least_loss_train_the_last_network(monkeypatch):
    peer, seen = PEERS["sage"](BARE, 0), []

    def train(given, count, settings, epochs, judges=None):
        seen.append((settings, epochs, sorted(given[0]), judges))
        losses = np.full((len(settings), gnn.EPOCHS // gnn.EVERY), 10.0)
        losses[1 % len(settings), 1] -= 9 * (len(seen) == 1)  # in one of the two folds only
        losses[2 % len(settings), 3] -= 5
        return peer.weights(len(settings), count), losses

    monkeypatch.setattr(peer, "train", train)
    nodes, slots = few_labels(4)
    peer.classify(nodes, slots, CLASSES)
    assert [len(settings) for settings, *_ in seen] == [len(gnn.SAGE.grid)] * gnn.FOLDS + [1]
    assert all(sorted([*learned, *judges[0]]) == sorted(nodes) for _, _, learned, judges in seen[:2])
    assert seen[-1] == ([gnn.SAGE.grid[2]], 4 * gnn.EVERY, sorted(nodes), None)
    peer.classify(*few_labels(1), CLASSES)
    assert seen[-1][:2] == ([gnn.SAGE.grid[0]], gnn.EPOCHS), "no label can be left out"


def test_scores_become_probabilities():
    np.testing.assert_array_equal(normalize_rows(np.array([[1.0, 3.0], [0.0, 0.0]])), [[0.25, 0.75], [0.0, 0.0]])
    with pytest.raises(OptionError, match="below 0"):
        normalize_rows(np.array([[-1.0, 2.0]]))
