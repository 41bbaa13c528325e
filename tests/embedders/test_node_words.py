from __future__ import annotations

import numpy as np
import pytest
import torch

from graphs import random_edges, random_graph, without_features
from methods_under_test import community_graph
from naq import Graph, diffusion_neighbors, run
from naq.embedders.naq_plus import AGREES, NaqPlus
from naq.embedders.node_words import are_components, diffused, edge_agreement, node_words
from naq.embedders.smoothing import centred, smoothed, unit
from slow_closed_form import cosines


def groups(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels of four groups, and eight features that tell them with noise."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 4, n)
    return labels, np.eye(4, 8)[labels] + 0.3 * random.standard_normal((n, 8))


def joined(labels: np.ndarray, *, alike: bool, seed: int = 0) -> np.ndarray:
    """Edges between nodes of the same group, or of different ones."""
    one, two = random_edges(len(labels), 20 * len(labels), seed)
    return np.stack([one, two])[:, (labels[one] == labels[two]) == alike]


def test_agreement_follows_the_formula() -> None:
    graph = random_graph(80, 200, 12, dense=True)
    z = np.asarray(centred(node_words(graph)), dtype=np.float64)
    edges = graph.adjacency.toarray()
    middle = (graph.degrees[:, None] * z).sum(axis=0) / graph.degrees.sum()
    cosine = []
    for i in np.flatnonzero(graph.degrees):
        together = (z[edges[i] > 0] - middle).sum(axis=0)
        cosine.append(z[i] @ together / np.linalg.norm(together))
    assert edge_agreement(graph, node_words(graph)) == pytest.approx(np.mean(cosine), abs=1e-4)


def test_agreement_tells_like_neighbours_from_any_and_from_unlike_ones() -> None:
    labels, features = groups(400)
    kinds = {
        "alike": joined(labels, alike=True),
        "any": random_edges(400, 2000, 1),
        "unlike": joined(labels, alike=False),
    }
    found = {
        name: edge_agreement(Graph(edges, features, nodes=400), features.astype(np.float32))
        for name, edges in kinds.items()
    }
    assert found["alike"] > 0.5 and abs(found["any"]) < 0.05 and found["unlike"] < -0.2
    assert edge_agreement(Graph(np.empty((2, 0), dtype=int), features, nodes=400), features.astype(np.float32)) == 0.0


@pytest.mark.parametrize("alike", [True, False])
def test_edges_are_trusted_where_neighbours_are_alike(alike: bool) -> None:
    labels, features = groups(300)
    graph = Graph(joined(labels, alike=alike), features, nodes=300)
    model = NaqPlus(graph)
    assert model.plan() == ""
    found = model.embed()
    wanted, other = ("trusted", "doubted") if alike else ("doubted", "trusted")
    assert f"edges {wanted}" in model.plan() and f"{AGREES:g} is enough" in model.plan()
    assert np.array_equal(found, NaqPlus(graph, edges=wanted).embed())
    assert not np.array_equal(found, NaqPlus(graph, edges=other).embed())
    forced = NaqPlus(graph, edges=other)
    forced.embed()
    assert "as asked" in forced.plan()


def test_doubted_edges_leave_the_features_in_the_sum() -> None:
    labels, features = groups(200)
    graph = Graph(joined(labels, alike=False), features, nodes=200)
    start = unit(node_words(graph))
    by_hand = centred(centred(smoothed(graph.normalized_adjacency(), start, 10)) + centred(start))
    assert np.allclose(cosines(NaqPlus(graph).smoothed()), cosines(by_hand), atol=1e-4)
    near = np.argsort(-cosines(NaqPlus(graph).embed()) + 9 * np.eye(200), axis=1)[:, :5]
    blind = np.argsort(-cosines(NaqPlus(graph, edges="trusted").embed()) + 9 * np.eye(200), axis=1)[:, :5]
    same = [(labels[one] == labels[:, None]).mean() for one in (near, blind)]
    assert same[0] > same[1] + 0.05, same


def test_components_keep_their_spread_and_mixed_columns_do_not() -> None:
    random = np.random.default_rng(0)
    left, _ = np.linalg.qr(random.standard_normal((500, 40)))
    components = (left * 0.8 ** np.arange(40)).astype(np.float32)
    mixed = components @ np.linalg.qr(random.standard_normal((40, 40)))[0] * 10.0 ** random.integers(-3, 3, 40)
    assert are_components(components) and are_components(components - components.mean(axis=0))
    assert not are_components(mixed) and not are_components(components[:, :20]), (
        "few columns may be uncorrelated by chance"
    )
    assert not are_components(random.standard_normal((500, 40)))
    edges = random_edges(500, 1000)
    assert np.array_equal(node_words(Graph(edges, components, nodes=500)), components)
    assert np.allclose(node_words(Graph(edges, mixed, nodes=500)).std(axis=0), 1, atol=1e-3)


def test_nodes_without_features_are_described_by_diffusion() -> None:
    graph = without_features(community_graph(size=30))
    words, table = diffused(graph).toarray(), diffusion_neighbors(graph, k=50)
    n = graph.num_nodes
    for i in range(n):
        there = table.ids[i] >= 0
        wanted = np.zeros(n)
        wanted[table.ids[i][there]] = np.log1p(n * table.scores[i][there])
        wanted[i] = wanted.max() if there.any() else np.log(2)
        assert np.allclose(words[i], wanted, atol=1e-4)
    assert np.array_equal(node_words(graph).toarray(), words)


def test_a_run_says_what_was_made_of_the_edges() -> None:
    heard = []
    result = run(
        community_graph(),
        "naq-plus",
        way=2,
        shot=1,
        baseline=False,
        listener=lambda phase, facts: heard.append((phase, facts)),
    )
    assert result.facts["embedding"].startswith("edges trusted")
    assert ("plan", {"plan": result.facts["embedding"]}) in heard


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_agreement_on_cuda() -> None:
    labels, features = groups(300)
    graph = Graph(joined(labels, alike=True), features, nodes=300)
    start = features.astype(np.float32)
    assert edge_agreement(graph, torch.from_numpy(start).cuda()) == pytest.approx(
        edge_agreement(graph, start), abs=1e-3
    )
