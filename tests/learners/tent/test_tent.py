from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import methods_under_test as suite
from dense_views import augmented_episodes, dense_graphs
from gradients import check_steps, move_biases
from graphs import islands, random_graph
from naq import Episodes, Graph, diffusion_neighbors, naq_episodes, supervised_episodes
from naq.errors import OptionError
from naq.learners import LEARNERS
from naq.learners.node_draws import node_codes
from naq.learners.tent import TENT, Layers, ModulatedLayers, query_vectors
from naq.learners.tent.query_graphs import LocalGraph, query_graphs
from naq.nn import OneLayerGCN, operator

# A dense, slow TENT, from the formulas.


def with_loops(adjacency: np.ndarray) -> np.ndarray:
    return adjacency + np.eye(len(adjacency))


def row_normal(adjacency: np.ndarray) -> torch.Tensor:
    looped = with_loops(adjacency)
    return torch.from_numpy(looped / looped.sum(axis=1, keepdims=True)).float()


def symmetric(adjacency: np.ndarray) -> torch.Tensor:
    looped = with_loops(adjacency)
    scale = 1 / np.sqrt(looped.sum(axis=1))
    return torch.from_numpy(scale[:, None] * looped * scale).float()


def dense_vectors(learner: TENT, adjacency: np.ndarray, features: torch.Tensor) -> torch.Tensor:
    weights = dict(learner.encoder.named_parameters())
    if learner.options["encoder"] == "release":
        return row_normal(adjacency) @ (features @ weights["weight"]) + weights["bias"]
    w1, b1, w2, b2 = (
        next(p for k, p in weights.items() if k.endswith(n)) for n in ("weight1", "bias1", "weight2", "bias2")
    )
    operator = symmetric(adjacency)
    out = operator @ torch.relu(operator @ features @ w1 + b1) @ w2 + b2
    return torch.relu(out) if learner.options["encoder"] == "gcn2" else out


def dense_layers(layers: ModulatedLayers, task: torch.Tensor) -> Layers:
    """W (1 + a) + b, each number on its own."""
    h = layers.width
    made = layers.generator_weight.T @ task + layers.generator_bias
    out = []
    for number, (weight, bias) in enumerate(((layers.weight1, layers.bias1), (layers.weight2, layers.bias2))):
        if layers.full:
            part = made[number * 2 * h * (h + 1) : (number + 1) * 2 * h * (h + 1)]
            a_w, b_w = part[: h * h].reshape(h, h), part[h * h : 2 * h * h].reshape(h, h)
            a_b, b_b = part[2 * h * h : 2 * h * h + h], part[2 * h * h + h :]
        else:
            part = made[number * 2 * h : (number + 1) * 2 * h]
            a_w, b_w, a_b, b_b = part[:h].expand(h, h), 0, part[:h], part[h:]
        out += [weight * (1 + a_w) + b_w, bias * (1 + a_b) + b_b]
    return tuple(out)


def two_layers(matrix: torch.Tensor, vectors: torch.Tensor, layers: Layers) -> torch.Tensor:
    w1, b1, w2, b2 = layers
    return matrix @ torch.relu(matrix @ vectors @ w1 + b1) @ w2 + b2


def class_vector(a_r: torch.Tensor, vectors: torch.Tensor, support: np.ndarray, layers: Layers) -> torch.Tensor:
    """Row 0 of the class graph: the closed neighbourhood of the supports and a virtual node with a self-loop only."""
    near = np.flatnonzero((a_r[support] > 0).any(0).numpy())
    matrix = torch.zeros(len(near) + 1, len(near) + 1)
    matrix[0, 0] = 1.0
    matrix[1:, 1:] = a_r[near][:, near]
    return two_layers(matrix, torch.cat([vectors[support].mean(0, keepdim=True), vectors[near]]), layers)[0]


def nodes_around(adjacency: np.ndarray, query: int) -> np.ndarray:
    looped = with_loops(adjacency)
    return np.flatnonzero((looped @ looped)[query])


def dense_loss(learner: TENT, episodes: Episodes, update: int = 0) -> torch.Tensor:
    (_, a_r, vectors), *views = (
        (adjacency, row_normal(adjacency), dense_vectors(learner, adjacency, torch.tensor(features)))
        for adjacency, features in dense_graphs(learner, episodes, update)
    )
    losses = []
    for support, query, mask in zip(episodes.support, episodes.query, episodes.mask):
        means = torch.stack([vectors[s].mean(0) for s in support])
        layers = dense_layers(learner.layers, means.mean(0))
        classes = torch.stack([class_vector(a_r, vectors, s, layers) for s in support])
        match, nodes, slots = [], [vectors[support.ravel()]], [j for j, s in enumerate(support) for _ in s]
        for j in range(len(query)):
            for column in np.flatnonzero(mask[j]):
                adjacency, matrix, mine = views[column]
                near = nodes_around(adjacency, int(query[j, column]))
                found = two_layers(matrix[near][:, near], mine[near], layers).mean(0)
                scores = torch.stack([F.cosine_similarity(found, c, dim=0) / 0.5 for c in classes])
                match.append(-torch.log_softmax(scores, 0)[j])
                if learner.options["ce"] == "support+query":
                    nodes.append(mine[query[j, column]][None])
                    slots.append(j)
        loss = torch.stack(match).mean() if match else vectors.sum() * 0
        if learner.options["ce"] != "none" and learner.base_labels is None:
            logits = torch.cat(nodes) @ learner.head_weight + learner.head_bias
            loss = loss + F.cross_entropy(logits, torch.tensor(slots))
        losses.append(loss)
    total = torch.stack(losses).mean()
    if learner.base_labels is not None and learner.options["ce"] != "none":
        labels = learner.base_labels
        for_class = {int(c): k for k, c in enumerate(sorted(set(labels[labels >= 0].tolist())))}
        known = np.flatnonzero(labels >= 0)
        logits = vectors[known] @ learner.head_weight + learner.head_bias
        total = total + F.cross_entropy(logits, torch.tensor([for_class[int(labels[i])] for i in known]))
    return total


def same(learner: TENT, one: torch.Tensor, two: torch.Tensor) -> None:
    """The same loss and the same gradients of all parameters."""
    assert one.item() == pytest.approx(two.item(), rel=1e-4)
    parameters = list(learner.parameters())
    mine = torch.autograd.grad(one, parameters, retain_graph=True)
    other = torch.autograd.grad(two, parameters, retain_graph=True, allow_unused=True)
    for a, b in zip(mine, other):
        b = torch.zeros_like(a) if b is None else b
        assert torch.allclose(a, b, atol=1e-6 + 1e-4 * float(b.abs().max()))


def naq_batch(graph: Graph, count: int, way: int = 3) -> Episodes:
    return naq_episodes(diffusion_neighbors(graph, k=6), way=way, queries=6, count=count)


def labelled(count: int, shot: int) -> tuple[Graph, Episodes]:
    graph = random_graph()
    known = np.where(np.arange(60) % 5 == 0, -1, graph.labels)
    episodes = supervised_episodes(known, range(3), way=3, shot=shot, queries=4, count=count)
    return graph.with_labels(known * 4 + np.where(known < 0, 3, 2)), episodes


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"encoder": "gcn2-linear"},
        {"encoder": "release"},
        {"modulation": "film"},
        {"ce": "support"},
        {"ce": "none"},
        {"max_nodes": 0},
    ],
    ids=lambda options: "/".join(f"{k}={v}" for k, v in options.items()) or "defaults",
)
def test_the_loss_is_the_formula(options: dict[str, object]) -> None:
    graph = random_graph(edges=90).without_labels()
    learner = TENT(graph, way=3, latent=8, seed=1, **options)
    for t in range(2):
        episode = naq_batch(graph, 2)[t : t + 1]
        same(learner, learner.loss(episode), dense_loss(learner, episode))


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("shot", [1, 3])
def test_supervised_adds_all_labelled_nodes(shot: int, dense: bool) -> None:
    graph, episodes = labelled(1, shot)
    if dense:
        graph = random_graph(dense=True).with_labels(graph.labels)
    learner = TENT(graph, way=3, latent=8, base_labels=graph.labels)
    assert learner.base_classes.tolist() == [2, 6, 10] and learner.head_weight.shape == (8, 3)
    assert len(learner.base_nodes) == 48
    same(learner, learner.loss(episodes), dense_loss(learner, episodes))


def test_a_classifier_may_have_outputs_that_are_never_a_target() -> None:
    """As the released one, which has one per class of the dataset."""
    graph, episodes = labelled(1, 1)
    learner = TENT(graph, way=3, latent=8, outputs=11)
    assert learner.head_weight.shape == (8, 11) and learner.head_bias.shape == (11,)
    same(learner, learner.loss(episodes), dense_loss(learner, episodes))
    with pytest.raises(OptionError, match="outputs of tent is 2, but 3 classes are trained on"):
        TENT(graph, way=3, outputs=2)


def test_supervised_without_the_first_term() -> None:
    graph, episodes = labelled(1, 1)
    learner = TENT(graph, way=3, latent=8, ce="none", base_labels=graph.labels)
    assert not hasattr(learner, "head_weight")
    same(learner, learner.loss(episodes), dense_loss(learner, episodes))


@pytest.mark.parametrize("kind", ["naq", "supervised"])
def test_several_episodes_are_the_mean(kind: str) -> None:
    graph, episodes = labelled(3, 2)
    if kind == "naq":
        episodes = naq_batch(graph, 3)
    learner = TENT(graph, way=3, latent=8, base_labels=graph.labels if kind == "supervised" else None)
    together = learner.loss(episodes)
    same(learner, together, dense_loss(learner, episodes))
    same(learner, together, torch.stack([learner.loss(episodes[t : t + 1]) for t in range(3)]).mean())


def test_islands_and_masked_queries() -> None:
    graph = islands()
    learner = TENT(graph, way=4, latent=8)
    episodes = naq_batch(graph, 6, way=4)
    assert not episodes.mask.all() and (episodes.support == 3).any()
    for t in range(6):
        episode = episodes[t : t + 1]
        loss = learner.loss(episode)
        same(learner, loss, dense_loss(learner, episode))
        other = Episodes(episode.support, np.where(episode.mask, episode.query, 5), episode.mask)
        assert torch.equal(learner.loss(other), loss)


@pytest.mark.parametrize("ce", ["support+query", "none"])
def test_an_episode_without_queries_has_a_gradient(ce: str) -> None:
    graph = islands()
    episodes = naq_batch(graph, 2)
    nothing = Episodes(episodes.support, episodes.query, np.zeros_like(episodes.mask))
    learner = TENT(graph, way=3, latent=8, ce=ce)
    loss = learner.loss(nothing)
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in learner.parameters())
    same(learner, learner.loss(nothing), dense_loss(learner, nothing))


@pytest.mark.parametrize("shot", [1, 2])
@pytest.mark.parametrize("options", [{}, {"encoder": "release"}, {"encoder": "gcn2-linear"}])
def test_under_g_umtra_queries_are_read_on_their_own_view(options: dict[str, object], shot: int) -> None:
    graph = random_graph(edges=150).without_labels()
    episodes = augmented_episodes(60, shot=shot)
    learner = TENT(graph, way=3, latent=8, **options)
    if options.get("encoder") != "release":
        move_biases(learner.encoder.bias1, learner.encoder.bias2)
    first = learner.loss(episodes, update=5)
    same(learner, first, dense_loss(learner, episodes, update=5))
    assert torch.equal(first, learner.loss(episodes, update=5)) and first != learner.loss(episodes, update=6)


def test_the_mean_runs_through_the_second_layer() -> None:
    graph = random_graph()
    vectors, a_r = torch.randn(60, 8), row_normal(graph.adjacency.toarray())
    layers = tuple(torch.randn(shape) for shape in ((8, 8), (8,), (8, 8), (8,)))
    graphs = query_graphs(LocalGraph.whole(graph), np.arange(60))
    found = query_vectors(graphs, vectors[graphs.nodes], layers)
    for q in range(60):
        near = nodes_around(graph.adjacency.toarray(), q)
        assert torch.allclose(found[q], two_layers(a_r[near][:, near], vectors[near], layers).mean(0), atol=1e-4)


def test_a_cap_takes_the_drawn_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(edges=150).without_labels()
    episode = naq_batch(graph, 1)
    capped, free = (TENT(graph, way=3, latent=8, max_nodes=limit, seed=3) for limit in (7, 0))
    assert not torch.equal(capped.loss(episode), free.loss(episode))
    assert torch.equal(TENT(graph, way=3, latent=8, max_nodes=59, seed=3).loss(episode), free.loss(episode))

    def drawn(adjacency: np.ndarray, query: int) -> np.ndarray:
        graphs = query_graphs(LocalGraph.whole(graph), np.array([query]), limit=7, codes=node_codes(graph), seed=3)
        assert query in graphs.nodes and len(graphs.nodes) <= 7
        return graphs.nodes

    monkeypatch.setitem(globals(), "nodes_around", drawn)
    same(capped, capped.loss(episode), dense_loss(capped, episode))


def test_a_cap_does_not_depend_on_node_ids() -> None:
    graph = random_graph(edges=150).without_labels()
    new_id = np.random.default_rng(3).permutation(60)
    episodes = naq_batch(graph, 2)
    moved = Episodes(new_id[episodes.support], np.where(episodes.mask, new_id[episodes.query], -1), episodes.mask)
    one = TENT(graph, way=3, latent=8, max_nodes=7).loss(episodes)
    two = TENT(suite.relabelled(graph, new_id), way=3, latent=8, max_nodes=7).loss(moved)
    assert one.item() == pytest.approx(two.item(), rel=1e-5)


@pytest.mark.parametrize("options", [{}, {"encoder": "release"}, {"encoder": "gcn2-linear"}])
def test_vectors_for_heads(options: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph()
    learner = TENT(graph, way=3, latent=8, **options)
    monkeypatch.setattr(OneLayerGCN, "BLOCK", 13)
    monkeypatch.setattr(operator, "BLOCK", 13)
    expected = dense_vectors(learner, graph.adjacency.toarray(), torch.from_numpy(graph.features.toarray()))
    assert torch.allclose(learner.encode_all(), expected, atol=1e-5)
    nodes = np.array([5, 59, 3, 5])
    assert torch.allclose(learner.encode(nodes), expected[nodes], atol=1e-5)
    with pytest.raises(OptionError, match=r"nodes hold -1 to 5, but the graph has nodes 0..59"):
        learner.encode(np.array([5, -1]))


def test_steps_lower_the_loss_and_are_seeded() -> None:
    runs = []
    for _ in range(2):
        graph, episode = labelled(1, 2)
        learner = TENT(graph, way=3, latent=16, lr=1e-2, seed=1, base_labels=graph.labels)
        optimizer = learner.optimizer()
        runs.append([float(learner.step(episode, update, optimizer)) for update in range(40)])
    assert runs[0] == runs[1]
    assert runs[0][-1] < 0.7 * runs[0][0]


def test_a_step_is_adam_with_weight_decay() -> None:
    graph = random_graph().without_labels()
    learner, twin = (TENT(graph, way=3, latent=8, weight_decay=0.1) for _ in range(2))
    batches = [naq_batch(graph, 3)[update : update + 1] for update in range(3)]
    check_steps(learner, twin, batches, torch.optim.Adam(twin.parameters(), lr=1e-3, weight_decay=0.1))


def test_modulation_follows_the_width() -> None:
    graph = random_graph()
    wide = TENT(graph, way=3, latent=256)
    assert not wide.layers.full and wide.layers.generator_weight.shape == (256, 4 * 256)
    narrow = TENT(graph, way=3, latent=64)
    assert narrow.layers.full and narrow.layers.generator_weight.numel() == 4 * 65 * 64 * 64
    assert not TENT(graph, way=3, modulation="film").layers.full


def test_options_are_checked() -> None:
    graph = random_graph()
    assert LEARNERS["tent"] is TENT
    for options, message in (
        ({"latnt": 3}, "tent has no option 'latnt'; did you mean latent"),
        ({"encoder": "gcn"}, "option encoder of tent is 'gcn'; did you mean gcn2"),
        ({"modulation": "half"}, "option modulation of tent is 'half'; expected one of auto, film, full"),
        ({"ce": "query"}, "option ce of tent is 'query'"),
        ({"weight_decay": -1.0}, "option weight_decay of tent is -1.0; expected at least 0"),
        ({"outputs": -1}, "option outputs of tent is -1; expected at least 0"),
        ({"max_nodes": -3}, "option max_nodes of tent is -3; expected at least 0"),
        ({"lr": 0.0}, "option lr of tent is 0.0; expected more than 0"),
        ({"modulation": "full", "latent": 512}, "537,919,488 parameters at latent=512; lower latent to 256"),
    ):
        with pytest.raises(OptionError, match=message):
            TENT(graph, way=3, **options)


def test_episodes_of_another_way_need_another_classifier() -> None:
    graph = islands()
    learner = TENT(graph, way=3, latent=8)
    with pytest.raises(OptionError, match=r"an episode has 4 classes, .* trained for 3"):
        learner.loss(naq_batch(graph, 1, way=4))
