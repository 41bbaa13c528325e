"""Peers: what each of them computes, against slow and plain forms, and that they are called alike."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import methods_under_test as suite
from naq.errors import GraphError, MissingDependency, OptionError
from naq.graph import Graph
from naq_paper.peers import PEERS, columns, gnn, normalized_rows, weighted
from naq_paper.peers.gnn import Training, attempts
from naq_paper.peers.propagation import ALPHA, LAYERS, LEAST, solved

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


@pytest.fixture(autouse=True)
def short_trainings(monkeypatch):
    monkeypatch.setattr(gnn, "EPOCHS", 60)


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
def test_every_peer_says_what_it_is(name):
    peer = PEERS[name]
    assert peer.title and peer.settings and peer.reads in ("features", "edges", "features, edges")
    assert len({one.title for one in PEERS.values()}) == len(PEERS)


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
    assert weighted(both).shape == both.features.shape
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
    np.testing.assert_allclose(solved(matrix, right, 1e-10), np.linalg.solve(matrix, right), atol=1e-6)


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
    weights = [torch.randn_like(part) for part in peer._weights(2, CLASSES, residual)]
    found = peer._scores(weights, None, residual)
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
    peer = PEERS["gcn"](BARE, 0)
    few, many = few_labels(1), few_labels(4)
    batch = [
        Training(*few, CLASSES, (0.0, 5e-4, 1.0), epochs=7),
        Training(many[0], many[1] % 3, 3, (0.0, 5e-2, 0.0), epochs=12),
    ]
    whole = peer._weights(2, CLASSES, None)
    cuts = [CLASSES, 3]

    def run(chosen):
        widest = max(cuts[b] for b in chosen)

        def given(size, count, residual):
            parts = [part.detach()[:, chosen].clone() for part in whole]
            return [
                part[..., :count].requires_grad_() if part.shape[2] == CLASSES else part.requires_grad_()
                for part in parts
            ]

        monkeypatch.setattr(peer, "_weights", given)
        answers, _ = peer._train([batch[b] for b in chosen])
        assert [answer.shape[1] for answer in answers] == [cuts[b] for b in chosen] and widest
        return answers

    together = run([0, 1])
    for b in range(2):
        np.testing.assert_allclose(together[b], run([b])[0], atol=1e-4)
    assert len({round(float(answer.max()), 3) for answer in together}) == 2


def test_dropout_is_each_networks_own():
    peer, residual = PEERS["gcn"](BARE, 0), torch.ones(2)
    torch.manual_seed(0)
    weights = [torch.randn_like(part) for part in peer._weights(2, CLASSES, residual)]
    plain = peer._scores(weights, None, residual)
    drawn = torch.stack([peer._scores(weights, torch.tensor([0.0, 0.8]), residual) for _ in range(300)])
    np.testing.assert_allclose(drawn[0, :, 0], plain[:, 0], atol=1e-5)
    apart = drawn.mean(dim=0)[:, 1] - plain[:, 1]
    assert (drawn[0, :, 1] - plain[:, 1]).abs().mean() > 5 * apart.abs().mean(), "right on average alone"


def test_a_product_with_a_sparse_matrix_has_the_slope_of_a_dense_one():
    matrix = PEERS["sage"](BARE, 0).matrices
    rows = torch.randn(GRAPH.num_nodes, 2, 3, requires_grad=True)
    (gnn.Spread.apply(matrix, rows) ** 2).sum().backward()
    other = rows.detach().clone().requires_grad_()
    (torch.einsum("mn,nbc->mbc", matrix[0].to_dense(), other) ** 2).sum().backward()
    np.testing.assert_allclose(rows.grad, other.grad, rtol=1e-3, atol=1e-4)


def test_settings_are_judged_by_the_other_half_of_the_labels():
    nodes, slots = few_labels(4)
    nodes, slots = np.append(nodes[4:], nodes[0]), np.append(slots[4:], slots[0])
    some = attempts(nodes, slots, CLASSES, gnn.GCN.grid, 0)
    assert [one.setting for one in some] == [setting for setting in gnn.GCN.grid for _ in range(gnn.FOLDS)]
    for one in some:
        assert not set(one.nodes) & set(one.judges[0]) and sorted([*one.nodes, *one.judges[0]]) == sorted(nodes)
        assert nodes[-1] in one.nodes, "the only label of a class is always learned"
        assert set(one.slots) == set(range(CLASSES))
    judged = [set(one.judges[0]) for one in some[: gnn.FOLDS]]
    assert set.union(*judged) == set(nodes[:-1]) and not set.intersection(*judged)
    assert attempts(*few_labels(1), CLASSES, gnn.GCN.grid, 0) == []


def test_the_setting_and_the_epochs_with_the_least_loss_train_the_last_network(monkeypatch):
    peer, seen = PEERS["sage"](BARE, 0), []

    def train(batch):
        seen.append(list(batch))
        losses = np.ones((len(batch), gnn.EPOCHS // gnn.EVERY))
        for place, one in enumerate(batch):
            losses[place, 3] -= 0.5 * (one.setting == gnn.SAGE.grid[2])
            losses[place, 1] -= 0.9 * (one.setting == gnn.SAGE.grid[1] and place % 2)  # in one of the two folds only
        return [np.zeros((GRAPH.num_nodes, one.count)) for one in batch], losses

    monkeypatch.setattr(peer, "_train", train)
    list(peer.answers([(*few_labels(4), CLASSES), (*few_labels(1), CLASSES)]))
    assert [(one.setting, one.epochs) for one in seen[-1]] == [
        (gnn.SAGE.grid[2], 4 * gnn.EVERY),
        (gnn.SAGE.grid[0], gnn.UNTUNED),
    ]
    assert not len(seen[-1][0].judges[0]) and len(seen[-1][0].nodes) == 4 * CLASSES


@pytest.mark.parametrize(("name", "library"), [("pagerank", "sknetwork"), ("cleora", "pycleora")])
def test_without_a_library_one_sentence_says_how_to_get_it(monkeypatch, name, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingDependency, match=r'pip install "naq\[practice\]"'):
        PEERS[name](BARE, 0)


def test_scores_become_probabilities():
    np.testing.assert_array_equal(normalized_rows(np.array([[1.0, 3.0], [0.0, 0.0]])), [[0.25, 0.75], [0.0, 0.0]])
    with pytest.raises(OptionError, match="below 0"):
        normalized_rows(np.array([[-1.0, 2.0]]))
