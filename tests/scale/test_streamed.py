"""Rows of A_hat that are made when they are read, and hubs by a sample of their neighbours."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import naq
from graphs import random_graph
from naq.episodes import umtra_episodes
from naq.errors import OptionError
from naq.learners import LEARNERS
from naq.nn import GCN, GraphOperator
from naq.nn.operator import operator_for
from naq_scale import streamed
from naq_scale.mapped import open_graph, save_mapped
from naq_scale.streamed import StreamedOperator


def mapped_pair(tmp_path, dense):
    graph = random_graph(90, 400, 14, dense=dense)
    return graph, open_graph(save_mapped(tmp_path / "g", graph))


def dense_of(rows, around, n):
    out = np.zeros((rows.shape[0], n))
    for r in range(rows.shape[0]):
        for e in range(rows.indptr[r], rows.indptr[r + 1]):
            out[r, around[rows.indices[e]]] += rows.data[e]
    return out


@pytest.mark.parametrize("dense", [False, True])
def test_the_same_numbers_as_with_a_hat_formed(tmp_path, dense, monkeypatch):
    graph, mapped = mapped_pair(tmp_path, dense)
    plain, read = GraphOperator(graph), operator_for(mapped)
    assert isinstance(read, StreamedOperator) and type(operator_for(graph)) is GraphOperator
    nodes = np.array([3, 80, 3, 0, 89])
    assert np.allclose(dense_of(*read.field(nodes), 90), graph.normalized_adjacency().toarray()[nodes], atol=1e-6)
    monkeypatch.setattr(streamed, "ENTRIES_AT_ONCE", 40)
    one, other = GCN(plain, 8, seed=1), GCN(read, 8, seed=1)
    assert torch.allclose(one.encode(nodes), other.encode(nodes), atol=1e-5)
    assert torch.allclose(one.encode_all(), other.encode_all(), atol=1e-5)
    assert torch.allclose(plain.dense_rows(nodes), read.dense_rows(nodes), atol=1e-5)
    for model in (one, other):
        model.encode(nodes).square().sum().backward()
    assert torch.allclose(one.weight1.grad, other.weight1.grad, atol=1e-4)


def test_a_capped_row_has_the_right_mean_and_size(tmp_path):
    graph, _ = mapped_pair(tmp_path, True)
    read, n = StreamedOperator(graph), graph.num_nodes
    hub, cap, draws = int(graph.degrees.argmax()), 4, 4000
    assert graph.degrees[hub] > 2 * cap
    nodes = np.array([hub, 89])  # the last node has no neighbours
    total, pairs = np.zeros((2, n)), 0
    for index in range(draws):
        rows = dense_of(*read.capped(cap, 0, index).field(nodes), n)
        drawn = np.flatnonzero(rows[0])
        assert len(drawn) == cap + 1 and hub in drawn
        pairs += int(set(graph.adjacency.indices[graph.adjacency.indptr[hub] :][:2]) <= set(drawn))
        total += rows
    expected = graph.normalized_adjacency().toarray()[nodes]
    degree = int(graph.degrees[hub])
    # Standard deviation of one entry over draws: value * sqrt(degree / cap - 1).
    spread = expected[0] * np.sqrt((degree / cap - 1) / draws)
    assert (np.abs(total[0] / draws - expected[0]) < 5 * spread + 1e-6).all()
    assert np.allclose(total[1] / draws, expected[1], atol=1e-6)
    both = cap * (cap - 1) / (degree * (degree - 1))  # without replacement
    assert abs(pairs / draws - both) < 5 * np.sqrt(both / draws)
    again = read.capped(cap, 0, 7).field(nodes)
    assert np.array_equal(dense_of(*again, n), dense_of(*read.capped(cap, 0, 7).field(nodes), n))
    assert (graph.degrees[nodes] <= 1000).all() and np.array_equal(
        dense_of(*read.capped(1000, 0, 1).field(nodes), n), dense_of(*read.field(nodes), n)
    )


def test_protonet_trains_on_a_mapped_graph_and_with_capped_hubs(tmp_path):
    graph, mapped = mapped_pair(tmp_path, True)
    table = naq.diffusion_neighbors(graph, k=5)
    episodes = naq.naq_episodes(table, way=3, queries=5, count=6, seed=0)
    losses = {}
    capped = {"hub_cap": 2}
    for name, kind, read, options in (
        ("plain", "protonet", graph, {}),
        ("mapped", "protonet", mapped, {}),
        ("capped", "protonet-capped", mapped, capped),
        ("in memory", "protonet-capped", graph, capped),
        ("no hub", "protonet-capped", graph, {"hub_cap": 90}),
    ):
        model = LEARNERS[kind](read, way=3, latent=8, **options)
        optimizer = model.optimizer()
        losses[name] = [float(model.step(episodes[e : e + 1], e, optimizer)) for e in range(6)]
        losses[name].append(float(model.encode(np.arange(9)).detach().sum()))
    assert np.allclose(losses["plain"], losses["mapped"], rtol=1e-3)
    assert np.isfinite(losses["capped"]).all() and not np.allclose(losses["capped"], losses["plain"], rtol=1e-3)
    assert np.allclose(losses["in memory"], losses["capped"], rtol=1e-3)
    assert np.allclose(losses["no hub"], losses["plain"], rtol=1e-3)
    with pytest.raises(OptionError, match="hub_cap"):
        LEARNERS["protonet-capped"](graph, way=3, hub_cap=0)
    views = LEARNERS["protonet-capped"](graph, way=3, latent=8, hub_cap=2)
    drawn = umtra_episodes(90, way=3, views=1, count=1, seed=0, drop_edge=0.3, drop_feature=0.3)
    assert torch.isfinite(views.loss(drawn, 0))


def test_the_protocol_runs_on_a_mapped_graph(tmp_path):
    from generate import generate

    folder = generate(tmp_path / "planted", 600, 4000, classes=8, features=12, noise=1.0)
    mapped = naq.load(folder)
    held = naq.Graph(mapped.adjacency, np.array(mapped.features), np.array(mapped.labels), name="planted")
    assert held.hash == mapped.hash
    settings = {"way": 2, "method": "naq-diff/protonet", "episodes": 160, "options": {"latent": 8}, "cache": None}
    one, other = naq.run(mapped, **settings), naq.run(held, **settings)
    assert abs(one.accuracy - other.accuracy) < 0.02 and one.accuracy > 0.6
    assert naq.run(mapped, "naq-plus", way=2, cache=None).accuracy > 0.6
