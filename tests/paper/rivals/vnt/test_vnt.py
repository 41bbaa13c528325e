"""VNT: its losses against dense ones, its batches, its own solution of tasks."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import methods_under_test as suite
import naq
from graphs import random_graph, without_features
from naq.errors import GraphError, OptionError
from naq.methods import get_method
from naq_paper.rivals import vnt
from naq_paper.rivals.pieces import Piece
from naq_paper.rivals.vnt import VNT

STILL: Mapping[str, object] = {"latent": 16, **VNT.still}
GRAPH = suite.community_graph()


def model(graph: naq.Graph = GRAPH, **options: object) -> VNT:
    return VNT(graph, **{**STILL, **options})


def trained(graph: naq.Graph = GRAPH, updates: int | None = None, **options: object) -> VNT:
    out = model(graph, **options)
    optimizer = out.optimizer()
    for update in range(out.updates if updates is None else updates):
        out.step(update, optimizer)
    return out


def some_tasks(way: int = 2, count: int = 5) -> naq.Tasks:
    return naq.sample_tasks(GRAPH, way=way, shot=2, queries=3, count=count, seed=0, classes=range(7))


def slow_vectors(net: VNT) -> torch.Tensor:
    """Node after node, from dense features, present tokens only."""
    x = torch.from_numpy(net.graph.features.toarray())
    parts, out = net.network, []
    for v in range(net.graph.num_nodes):
        nodes = net.sequences.nodes[v]
        size = int((nodes >= 0).sum())
        tokens = x[nodes[:size]] @ parts.weight + parts.bias + parts.role[net.sequences.roles[nodes[:size]]]
        tokens = parts.norm(tokens + parts.position[:size] + parts.hop[net.sequences.hops[v, :size].astype(int)])[None]
        for layer in parts.layers:
            tokens = layer(tokens, torch.zeros(1, size))
        out.append(tokens[0].mean(dim=0))
    return torch.stack(out)


def test_vectors_of_a_trained_network():
    net = trained(updates=8, lr=0.02)
    with torch.no_grad():
        wanted = slow_vectors(net)
    assert wanted.std() > 0.1 and (net.sequences.nodes < 0).any()
    assert torch.allclose(net.encode_all(), wanted, atol=1e-4)
    nodes = np.array([140, 3, 3, 77])
    assert torch.allclose(net.vectors(nodes), wanted[nodes], atol=1e-4)


def dense_losses(net: VNT, vectors: torch.Tensor, nodes: np.ndarray) -> dict[str, torch.Tensor]:
    x = torch.from_numpy(net.graph.features.toarray())[nodes]
    a_hat = torch.from_numpy(net.graph.normalized_adjacency().toarray())[nodes][:, nodes]
    attributes = F.mse_loss(vectors @ net.decoder[:, :-1].T + net.decoder[:, -1], x)
    structure = (F.cosine_similarity(vectors[:, None], vectors[None], dim=-1) - a_hat).square().mean()
    return {"attributes": attributes, "structure": structure, "joint": attributes + 0.3 * structure}


@pytest.mark.parametrize("objective", ["attributes", "structure", "joint"])
@pytest.mark.parametrize("whole", [True, False])
def test_losses_are_the_dense_ones(objective, whole):
    net = trained(updates=4, lr=0.02, objective=objective, structure_weight=0.3)
    nodes = np.arange(141) if whole else np.random.default_rng(0).permutation(141)[:60]
    piece = Piece(net.graph, "cpu", None if whole else nodes)
    found = net.loss(piece, 0)
    wanted = dense_losses(net, slow_vectors(net)[nodes], nodes)[objective]
    assert torch.allclose(found, wanted, rtol=1e-4)
    weight = net.network.weight
    one, two = (torch.autograd.grad(loss, weight)[0] for loss in (found, wanted))
    assert torch.allclose(one, two, atol=1e-3 * float(two.abs().max()))


def test_both_objectives_in_turn():
    net = model(objective="both", epochs=6)
    assert [net.objective(update) for update in range(6)] == ["attributes"] * 3 + ["structure"] * 3
    assert {model(objective=name, epochs=6).objective(5) for name in ("joint", "attributes")} == {"joint", "attributes"}


def test_dropout_follows_the_update():
    net = model(dropout=0.5, attention_dropout=0.3)
    piece = net.pieces[0]
    one, again, two = (float(net.loss(piece, update).detach()) for update in (0, 0, 1))
    assert one == again != two


@pytest.mark.parametrize("objective", ["both", "structure"])
def test_resume_where_a_part_has_no_gradient(objective, monkeypatch, tmp_path):
    monkeypatch.setattr(VNT, "defaults", {**VNT.defaults, "objective": objective})
    suite.check_resume(get_method("vnt"), tmp_path)


def test_batches_hold_their_nodes_alone():
    graph = random_graph(300, 700, 12, seed=1)
    assert model(graph).batch == 0
    net = model(graph, batch=128, epochs=3)
    assert net.updates == 9 and [len(net.pieces[update].nodes) for update in range(3)] == [100, 100, 100]
    short = model(graph, memory=0.004)
    assert 64 <= short.batch < 300 and "may be taken" in short.plan()
    net.step(0, net.optimizer())
    assert np.isfinite(net.embed()).all()


def test_training_helps():
    graph = suite.noisy_graph()
    tasks = naq.sample_tasks(graph, way=5, shot=1, queries=8, count=60, seed=1)
    options = {"prompts": 0, "objective": "attributes", "epochs": 80}
    plain, better = model(graph, **options), trained(graph, **options)
    one, two = (float((net.solve(tasks) == tasks.query_slots).mean()) for net in (plain, better))
    assert two > one + 0.1


@pytest.mark.parametrize("options", [{}, {"deep": True}, {"prompts": 0}, {"read": "target"}, {"steps": 0}])
def test_tasks_do_not_meet(options, monkeypatch):
    net, tasks = trained(updates=5, **{"steps": 10, **options}), some_tasks()
    found = net.solve(tasks)
    assert found.shape == (5, 6) and found.dtype == np.int64
    monkeypatch.setattr(vnt, "TUNED_TOGETHER", 2)
    assert np.array_equal(net.solve(tasks), found)
    one = naq.Tasks(tasks.support[3:4], tasks.query[3:4], way=2, shot=2)
    assert np.array_equal(net.solve(one), found[3:4])
    if options != {"steps": 0}:
        assert (found == tasks.query_slots).mean() > 0.6
    else:
        assert not found.any(), "a classifier of zeros answers the first slot"


def test_the_order_of_classes_does_not_matter():
    net, tasks = trained(updates=5, steps=10), some_tasks(way=3)
    found = net.solve(tasks)
    turned = naq.Tasks(np.roll(tasks.support, 2, axis=1), np.roll(tasks.query, 3, axis=1), way=3, shot=2)
    assert len(np.unique(found)) == 3
    assert np.array_equal(np.roll((found + 1) % 3, 3, axis=1), net.solve(turned))


def test_virtual_nodes_change_what_the_network_says():
    """Large weights, so that attention is not uniform, and a classifier that cannot do it alone in one step."""
    net = model(prompts=5, steps=20, tune_lr=0.5)
    with torch.no_grad():
        for weight in net.network.layers.parameters():
            weight.mul_(20.0)
    tasks = some_tasks(count=20)
    with_nodes = net.solve(tasks)
    net.options = replace(net.options, prompts=0)
    assert (net.solve(tasks) != with_nodes).any()


def test_solving_leaves_the_model_as_it_was():
    net = trained(updates=2, steps=2)
    before = {name: weight.clone() for name, weight in net.state_dict().items()}
    net.solve(some_tasks())
    assert all(torch.equal(weight, before[name]) for name, weight in net.state_dict().items())
    assert all(weight.requires_grad for weight in net.parameters())


def test_dense_features():
    graph = random_graph(60, 120, 9, dense=True)
    net = trained(graph, updates=3)
    assert torch.allclose(net.encode(np.arange(60)), net.encode_all(), atol=1e-5)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"context": 100}, "option context of vnt is 100; expected at most 99"),
        ({"latent": 15}, "15, which 2 heads cannot share"),
        ({"batch": 142}, "batch of vnt is 142, but graph 'communities' has 141 nodes"),
        ({"objective": "structur"}, "did you mean structure"),
        ({"fanout": 5}, "vnt has no option 'fanout'"),
        ({"read": "first"}, "option read of vnt"),
        ({"dropout": 1.0}, "expected at least 0 and below 1"),
        ({"prompts": -1}, "option prompts of vnt is -1; expected at least 0"),
        ({"layers": 0}, "option layers of vnt is 0; expected more than 0"),
    ],
)
def test_bad_options(options, sentence):
    with pytest.raises(OptionError, match=sentence):
        model(**options)


def test_bad_graphs_and_tasks():
    with pytest.raises(GraphError, match="has no features, which vnt needs"):
        VNT(without_features(GRAPH))
    with pytest.raises(OptionError, match=r"context is 7, but graph 'tiny' has 7 nodes.*lower context"):
        model(naq.Graph(np.array([[0, 1], [1, 2]]), np.ones((7, 5)), nodes=7, name="tiny"))
    far = naq.Tasks(np.array([[1, 2]]), np.array([[3, 500]]), way=2, shot=1)
    with pytest.raises(OptionError, match=r"the graph has nodes 0\.\.140"):
        model().solve(far)
