"""VNT: sequences and transformer against slow ones, losses against dense ones, its own solution of tasks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.sparse.csgraph import shortest_path
from torch import nn

import methods_under_test as suite
import naq
from graphs import islands, random_graph
from naq.errors import OptionError
from naq.methods import get_method
from naq.nn.rows import mean_present
from naq.testing import check_resume
from naq_paper.rivals import vnt
from naq_paper.rivals.pieces import Piece
from naq_paper.rivals.vnt import VNT
from naq_paper.rivals.vnt.bert import Drops, Frozen, GraphBert, Tuning, absence, attend, class_indices, tune
from naq_paper.rivals.vnt.node_sequences import FAR, hop_codes, role_ids, sequences, wl_colors

HIDDEN = 12
GRAPH = suite.community_graph()


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# Sequences.


def spelled_colors(graph: naq.Graph, iterations: int) -> list[object]:
    """Weisfeiler-Lehman with nested tuples for colours: nothing is hashed."""
    neighbors = [graph.adjacency[[v]].indices for v in range(graph.num_nodes)]
    colors: list[object] = [0] * graph.num_nodes
    for _ in range(iterations):
        colors = [(colors[v], tuple(sorted(repr(colors[u]) for u in around))) for v, around in enumerate(neighbors)]
    return colors


def test_context_is_the_top_of_the_dense_inverse():
    graph, seen = random_graph(60, 130, seed=1), []
    found = sequences(graph, 7, progress=lambda done, total: seen.append((done, total)))
    a = graph.adjacency.toarray().astype(np.float64)
    scale = 1 / np.sqrt(np.maximum(a.sum(axis=1), 1))
    s = 0.15 * np.linalg.inv(np.eye(60) - 0.85 * scale[:, None] * a * scale)
    np.fill_diagonal(s, -1)
    assert np.array_equal(found.nodes[:, 0], np.arange(60)) and found.length == 8 and seen[-1] == (60, 60)
    for v in range(60):
        others = s[v] > 1e-12
        size = min(7, int(others.sum()))
        ids = found.nodes[v, 1:]
        assert (ids[:size] >= 0).all() and (ids[size:] == -1).all() and len(set(ids[:size])) == size
        # The k largest, best first; only equal ones may be in another order.
        assert np.allclose(s[v, ids[:size]], np.sort(s[v][others])[::-1][:size], rtol=1e-6)
    short = sequences(islands(), 3)
    assert short.nodes[1].tolist() == [1, 7, -1, -1] and short.hops[1].tolist() == [0, 1, FAR, FAR]
    tiny = naq.Graph(np.array([[0, 1], [1, 2]]), nodes=7, name="tiny")
    assert sequences(tiny, 6).nodes.shape == (7, 7)
    with pytest.raises(OptionError, match="context"):
        sequences(tiny, 7)


def test_hops_are_shortest_paths_for_any_number_of_threads(threads):
    for graph in (random_graph(80, 110, seed=4), islands()):
        n = graph.num_nodes
        nodes = np.array([[v, *(u for u in range(n) if u != v)] for v in range(n)])
        expected = np.take_along_axis(shortest_path(graph.adjacency, unweighted=True), nodes, axis=1)
        assert (expected[np.isfinite(expected)] > 6).any(), "the graph must have pairs that are too far"
        for count in (2, 1):
            threads(count)
            assert np.array_equal(hop_codes(graph.adjacency, nodes), np.where(expected <= 6, expected, FAR))


@pytest.mark.parametrize("iterations", [1, 2])
def test_colours_separate_what_weisfeiler_lehman_separates(iterations):
    graph = random_graph(120, 160, seed=2)
    found, wanted = wl_colors(graph.adjacency, iterations), spelled_colors(graph, iterations)
    assert len(set(zip(found.tolist(), wanted))) == len(set(found.tolist())) == len(set(wanted)) > 3
    if iterations == 1:
        assert len(set(wanted)) == len(np.unique(graph.degrees)), "the colours of the first iteration are degrees"


def test_the_most_frequent_colours_have_rows_and_renumbering_changes_nothing():
    colors = np.array([50, 50, 50, 7, 7, 9, 9, 3, 4], dtype=np.uint64)
    assert role_ids(colors, 4).tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 3]
    assert role_ids(colors, 100).tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 4] and role_ids(colors, 1).tolist() == [0] * 9
    new_id = np.random.default_rng(5).permutation(GRAPH.num_nodes)
    plain, moved = sequences(GRAPH, 7), sequences(suite.relabelled(GRAPH, new_id), 7)
    assert np.array_equal(plain.roles, moved.roles[new_id]) and len(np.unique(plain.roles)) > 10
    assert np.array_equal(plain.hops, moved.hops[new_id])
    assert np.array_equal(np.where(plain.nodes >= 0, new_id[plain.nodes], -1), moved.nodes[new_id])


# The transformer.


def network(layers: int = 2, heads: int = 3, scale: float = 20.0) -> GraphBert:
    """With weights large enough that every part shows."""
    out = GraphBert(11, HIDDEN, layers, heads, roles=7, generator=generator())
    with torch.no_grad():
        for weight in out.parameters():
            weight.mul_(scale).add_(0.1 * torch.randn(weight.shape, generator=generator(len(weight))))
    return out


def torch_layer(layer: nn.Module) -> nn.TransformerEncoderLayer:
    """The same layer as torch has it, with the same weights."""
    with torch.random.fork_rng():
        out = nn.TransformerEncoderLayer(HIDDEN, layer.heads, HIDDEN, 0.0, "gelu", 1e-12, batch_first=True)
    attention = out.self_attn
    theirs = [attention.in_proj_weight, attention.in_proj_bias, attention.out_proj.weight, attention.out_proj.bias]
    theirs += [w for part in (out.linear1, out.linear2, out.norm1, out.norm2) for w in (part.weight, part.bias)]
    ours = [layer.into, layer.out, layer.up, layer.down, layer.out_norm, layer.down_norm]
    with torch.no_grad():
        for target, source in zip(theirs, [w for part in ours for w in (part.weight, part.bias)]):
            target.copy_(source)
    return out.requires_grad_(False)


def some_tokens() -> tuple[torch.Tensor, torch.Tensor]:
    present = torch.rand(9, 5, generator=generator(2)) < 0.7
    present[:, 0] = True
    return torch.randn(9, 5, HIDDEN, generator=generator(1)), present


def test_attention_is_what_the_formula_says():
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((4, t, 6)) for t in (3, 5, 5))
    present = np.array([[1, 1, 1, 1, 1], [1, 0, 0, 1, 0], [1, 0, 0, 0, 0], [1, 1, 0, 1, 1]], dtype=bool)
    wanted = np.zeros((4, 3, 6))
    for m, i, h in np.ndindex(4, 3, 2):
        part = slice(3 * h, 3 * h + 3)
        share = np.exp(k[m][:, part] @ q[m, i, part] / np.sqrt(3)) * present[m]
        wanted[m, i, part] = share @ v[m][:, part] / share.sum()
    found = attend(*(torch.from_numpy(x).float() for x in (q, k, v)), absence(torch.from_numpy(present)), 2)
    assert np.allclose(found.numpy(), wanted, atol=1e-6)


def test_the_network_is_layers_of_torch_and_the_mean_of_present_tokens():
    net, (tokens, present) = network(), some_tokens()
    wanted = tokens
    for layer in net.layers:
        one = layer(wanted, absence(present))
        wanted = torch_layer(layer)(wanted, src_key_padding_mask=~present)
        assert torch.allclose(one[present], wanted[present], atol=1e-4)
    means = torch.stack([wanted[m][present[m]].mean(dim=0) for m in range(9)])
    assert torch.allclose(net(tokens, present), means, rtol=1e-4, atol=1e-4)
    other = torch.where(present[..., None], tokens, 100.0)
    assert torch.equal(net(tokens, present), net(other, present)), "absent tokens do not matter"
    assert torch.allclose(mean_present(tokens, present)[2], tokens[2][present[2]].mean(dim=0), atol=1e-6)


def test_tokens_are_sums_of_codes_normalised_and_every_weight_has_a_gradient():
    net = network()
    inputs, roles = torch.randn(6, HIDDEN, generator=generator(4)), torch.tensor([0, 3, 3, 6, 1, 2])
    place, hops = torch.tensor([[5, 0], [2, 3]]), torch.tensor([[0, 1], [0, 99]])
    found = net.tokens(net.rows(inputs, roles), place, hops)
    for m, t in np.ndindex(2, 2):
        node, hop = place[m, t], hops[m, t]
        summed = inputs[node] + net.bias + net.role[roles[node]] + net.position[t] + net.hop[hop]
        apart = summed - summed.mean()
        wanted = apart / apart.square().mean().sqrt() * net.norm.weight + net.norm.bias
        assert torch.allclose(found[m, t], wanted, atol=1e-5)
    tokens = net.tokens(net.rows(torch.randn(6, 11) @ net.weight, torch.arange(6)), place, hops)
    F.mse_loss(net(tokens, torch.ones(2, 2, dtype=torch.bool)), torch.randn(2, HIDDEN)).backward()
    assert all(weight.grad.abs().sum() > 0 for weight in net.parameters())


@torch.no_grad()
@pytest.mark.parametrize(("hidden", "attention"), [(0.5, 0.0), (0.0, 0.3)])
def test_dropout_is_drawn_from_its_generator_and_has_the_right_mean(hidden, attention):
    layer, (tokens, present) = network().layers[0], some_tokens()
    one, two, other = (layer(tokens, absence(present), Drops(generator(s), hidden, attention)) for s in (1, 1, 2))
    assert torch.equal(one, two) and not torch.equal(one, other)
    assert not torch.allclose(one, layer(tokens, absence(present)), atol=1e-2)
    zero = torch.zeros(2000, 4, 2)
    mixed = attend(zero[:, :1], zero, zero + 1, zero[..., 0], 1, Drops(generator(), 0.0, 0.3))
    # A quarter each, dropped or scaled up: the number of keys left is binomial.
    left = np.bincount((mixed[:, 0, 0] * 4 * 0.7).round().long(), minlength=5) / 2000
    assert np.allclose(left, [0.0081, 0.0756, 0.2646, 0.4116, 0.2401], atol=0.04)


# Tuning.

TASKS, WAY, SHOT, QUERIES, LENGTH, PROMPTS = 3, 3, 2, 4, 5, 4
SLOTS = torch.arange(WAY).repeat_interleave(SHOT)


def frozen(count: int, seed: int) -> Frozen:
    present = torch.rand(TASKS, count, LENGTH, generator=generator(seed + 1)) < 0.8
    present[..., 0] = True
    return Frozen(torch.randn(TASKS, count, LENGTH, HIDDEN, generator=generator(seed)), present)


def virtual_nodes(deep: bool, layers: int = 2) -> torch.Tensor:
    return torch.randn(layers if deep else 1, PROMPTS, HIDDEN, generator=generator(9))


def slow_prompted(net: GraphBert, tokens, present, virtual, tuning: Tuning) -> torch.Tensor:
    """Vectors of one task's sequences: every layer over the whole sequence, virtual nodes and all."""
    rows, count = [], virtual.shape[1]
    for i in range(len(tokens)):
        sequence = torch.cat([tokens[i], virtual[0]])
        gone = torch.cat([~present[i], torch.zeros(count, dtype=torch.bool)])
        for number, layer in enumerate(net.layers):
            if tuning.deep and number:
                sequence = torch.cat([sequence[:LENGTH], virtual[number]])
            sequence = torch_layer(layer)(sequence[None], src_key_padding_mask=gone[None])[0]
        rows.append(sequence[0] if tuning.read == "target" else sequence[:LENGTH][present[i]].mean(dim=0))
    return torch.stack(rows)


def slow_tune(net: GraphBert, support: Frozen, task: int, start, tuning: Tuning) -> list[torch.Tensor]:
    leaves = [one.requires_grad_() for one in (start.clone(), torch.zeros(HIDDEN, WAY), torch.zeros(1, WAY))]
    adam = torch.optim.Adam(leaves, lr=tuning.lr)
    for _ in range(tuning.steps):
        adam.zero_grad()
        vectors = slow_prompted(net, support.tokens[task], support.present[task], leaves[0], tuning)
        F.cross_entropy(vectors @ leaves[1] + leaves[2], SLOTS).backward()
        adam.step()
    return [leaf.detach() for leaf in leaves]


CASES = {
    "shallow": (Tuning(3, 0.05), 2, PROMPTS), "deep": (Tuning(3, 0.05, deep=True), 2, PROMPTS),
    "target": (Tuning(3, 0.05, read="target"), 2, PROMPTS), "three layers": (Tuning(3, 0.05), 3, PROMPTS),
    "one layer": (Tuning(3, 0.05), 1, PROMPTS), "no virtual nodes": (Tuning(3, 0.05), 2, 0),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_tuned_in_a_batch_as_alone(case):
    tuning, layers, prompts = CASES[case]
    net, support, query = network(layers, 2, 15.0), frozen(WAY * SHOT, 1), frozen(WAY * QUERIES, 5)
    start = virtual_nodes(tuning.deep, layers)[:, :prompts]
    found = tune(net, support, SLOTS, WAY, start, tuning)
    slots = class_indices(net, query, found, tuning)
    assert slots.shape == (TASKS, WAY * QUERIES)
    assert not prompts or not torch.allclose(found[0][0], start, atol=1e-2), "virtual nodes must move"
    for task in range(TASKS):
        with torch.enable_grad():
            wanted = slow_tune(net, support, task, start, tuning)
        for one, two in zip(found, wanted):  # Adam moves a gradient near 0 by a share of its rate, here 0.05
            assert torch.allclose(one[task], two, atol=2e-3)
        vectors = slow_prompted(net, query.tokens[task], query.present[task], wanted[0], tuning)
        assert torch.equal(slots[task], (vectors @ wanted[1] + wanted[2]).argmax(dim=-1))


# The method.


def model(graph: naq.Graph = GRAPH, **options: object) -> VNT:
    return VNT(graph, **{"latent": 16, **VNT.deterministic_options, **options})


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
    x, parts, out = torch.from_numpy(net.graph.features.toarray()), net.network, []
    for v in range(net.graph.num_nodes):
        nodes = net.sequences.nodes[v]
        size = int((nodes >= 0).sum())
        tokens = x[nodes[:size]] @ parts.weight + parts.bias + parts.role[net.sequences.roles[nodes[:size]]]
        tokens = parts.norm(tokens + parts.position[:size] + parts.hop[net.sequences.hops[v, :size].astype(int)])[None]
        for layer in parts.layers:
            tokens = layer(tokens, torch.zeros(1, size))
        out.append(tokens[0].mean(dim=0))
    return torch.stack(out)


@pytest.mark.parametrize("objective", ["attributes", "structure", "joint"])
@pytest.mark.parametrize("whole", [True, False])
def test_vectors_and_losses_are_the_dense_ones(objective, whole):
    net = trained(updates=4, lr=0.02, objective=objective, structure_weight=0.3)
    nodes = np.arange(141) if whole else np.random.default_rng(0).permutation(141)[:60]
    vectors = slow_vectors(net)
    assert torch.allclose(net.encode_all(), vectors.detach(), atol=1e-4) and (net.sequences.nodes < 0).any()
    assert torch.allclose(net.vectors(np.array([140, 3, 3])), vectors[[140, 3, 3]], atol=1e-4)
    vectors, x = vectors[nodes], torch.from_numpy(net.graph.features.toarray())[nodes]
    a_hat = torch.from_numpy(net.graph.normalized_adjacency().toarray())[nodes][:, nodes]
    attributes = F.mse_loss(vectors @ net.decoder[:, :-1].T + net.decoder[:, -1], x)
    structure = (F.cosine_similarity(vectors[:, None], vectors[None], dim=-1) - a_hat).square().mean()
    wanted = {"attributes": attributes, "structure": structure, "joint": attributes + 0.3 * structure}[objective]
    found = net.loss(Piece(net.graph, "cpu", None if whole else nodes), 0)
    assert torch.allclose(found, wanted, rtol=1e-4)
    one, two = (torch.autograd.grad(loss, net.network.weight)[0] for loss in (found, wanted))
    assert torch.allclose(one, two, atol=1e-3 * float(two.abs().max()))


def test_objectives_in_turn_and_dropout_by_update():
    net = model(objective="both", epochs=6)
    assert [net.objective(update) for update in range(6)] == ["attributes"] * 3 + ["structure"] * 3
    assert [model(objective=name, epochs=6).objective(5) for name in ("joint", "attributes")] == ["joint", "attributes"]
    net = model(dropout=0.5, attention_dropout=0.3)
    one, again, two = (float(net.loss(net.pieces[0], update).detach()) for update in (0, 0, 1))
    assert one == again != two
    dense = trained(random_graph(60, 120, 9, dense=True), updates=3)
    assert torch.allclose(dense.encode(np.arange(60)), dense.encode_all(), atol=1e-5)


@pytest.mark.parametrize("objective", ["both", "structure"])
def test_resume_if_a_part_has_no_gradient(objective):
    check_resume(get_method("vnt"), {"objective": objective})


def test_training_helps():
    graph = suite.noisy_graph()
    tasks = naq.sample_tasks(graph, way=5, shot=1, queries=8, count=60, seed=1)
    options = {"prompts": 0, "objective": "attributes", "epochs": 80}
    plain, better = model(graph, **options), trained(graph, **options)
    one, two = (float((net.solve(tasks) == tasks.query_slots).mean()) for net in (plain, better))
    assert two > one + 0.1


@pytest.mark.parametrize("options", [{}, {"deep": True}, {"prompts": 0}, {"read": "target"}, {"steps": 0}])
def test_tasks_do_not_meet_and_solving_changes_nothing(options, monkeypatch):
    net, tasks = trained(updates=5, **{"steps": 10, **options}), some_tasks()
    before = {name: weight.clone() for name, weight in net.state_dict().items()}
    found = net.solve(tasks)
    assert all(torch.equal(weight, before[name]) for name, weight in net.state_dict().items())
    assert found.shape == (5, 6) and found.dtype == np.int64
    monkeypatch.setattr(vnt, "TUNED_TOGETHER", 2)
    assert np.array_equal(net.solve(tasks), found)
    one = naq.Tasks(tasks.support[3:4], tasks.query[3:4], way=2, shot=2)
    assert np.array_equal(net.solve(one), found[3:4])
    right = (found == tasks.query_slots).mean()
    assert not found.any() if options == {"steps": 0} else right > 0.6, "a classifier of zeros answers the first slot"
