"""The two-layer and the one-layer GCN against the definition in double precision and against PyG."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.nn import GCNConv

from dense_views import normalised
from graphs import random_graph, without_features
from naq import Graph
from naq.errors import GraphError, OptionError
from naq.nn import GCN, GraphOperator, OneLayerGCN, operator

ROUTES = {
    "sparse, formed": (random_graph(80, 160, 30, density=0.05), 200_000_000),
    "sparse, full rows": (random_graph(80, 400, 30, density=0.3), 200_000_000),
    "sparse, not formed": (random_graph(80, 160, 30, density=0.05), 0),
    "dense, formed": (random_graph(80, 160, 30, dense=True), 200_000_000),
    "dense, not formed": (random_graph(80, 160, 30, dense=True), 0),
}
NODES = np.array([3, 79, 3, 0, 41, 17, 79, 60])
"""With repeats; node 79 is isolated."""


@pytest.fixture(params=ROUTES)
def graph(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Graph:
    graph, entries = ROUTES[request.param]
    monkeypatch.setattr(operator, "PROPAGATED_ENTRIES", entries)
    assert GraphOperator(graph).formed == (entries > 0)
    return graph


def encoder(graph: Graph, latent: int) -> GCN:
    gcn = GCN(GraphOperator(graph), latent, seed=1)
    with torch.no_grad():
        for bias in (gcn.bias1, gcn.bias2):
            bias.copy_(torch.linspace(-0.1, 0.2, len(bias)))
    return gcn


def plain(graph: Graph, gcn: GCN, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The whole graph in dense double precision, and the leaves to differentiate."""
    x = graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
    a = torch.from_numpy(graph.adjacency.toarray()).to(dtype) + torch.eye(graph.num_nodes, dtype=dtype)
    scale = a.sum(1).rsqrt()
    a_hat = scale[:, None] * a * scale
    leaves = [p.detach().to(dtype).requires_grad_() for p in (gcn.weight1, gcn.bias1, gcn.weight2, gcn.bias2)]
    w1, b1, w2, b2 = leaves
    hidden = torch.relu(a_hat @ torch.tensor(x, dtype=dtype) @ w1 + b1)
    return torch.relu(a_hat @ hidden @ w2 + b2), leaves


@pytest.mark.parametrize("latent", [5, 64, 100, 128])
def test_some_nodes_all_nodes_and_the_definition_agree(graph: Graph, latent: int) -> None:
    gcn = encoder(graph, latent)
    expected = plain(graph, gcn)[0].detach().float()
    scale = float(expected.max())
    assert scale > 0.1
    assert torch.allclose(gcn.encode_all(), expected, atol=1e-5 * scale)
    assert torch.allclose(gcn.encode(NODES), expected[NODES], atol=1e-5 * scale)
    assert torch.equal(gcn.encode(NODES)[0], gcn.encode(NODES)[2])
    assert torch.allclose(gcn.encode(np.arange(80)), gcn.encode_all(), atol=1e-5 * scale)
    gcn.operator.block = 7
    assert torch.allclose(gcn.encode_all(), expected, atol=1e-5 * scale)
    assert gcn.encode(np.empty(0, dtype=np.int64)).shape == (0, latent)


def test_agrees_with_pyg(graph: Graph) -> None:
    gcn = encoder(graph, 24)
    data = graph.to_pyg()
    x = data.x if not data.x.is_sparse else data.x.to_dense()
    layers = [GCNConv(30, 48), GCNConv(48, 24)]
    with torch.no_grad():
        for layer, weight, bias in zip(layers, (gcn.weight1, gcn.weight2), (gcn.bias1, gcn.bias2)):
            layer.lin.weight.copy_(weight.T)
            layer.bias.copy_(bias)
            x = torch.relu(layer(x, data.edge_index))
    assert torch.allclose(gcn.encode_all(), x, atol=1e-5 * float(x.max()))
    assert torch.allclose(gcn.encode(NODES), x[NODES], atol=1e-5 * float(x.max()))


@pytest.mark.parametrize("latent", [5, 64])
def test_gradients_are_those_of_the_definition(graph: Graph, latent: int) -> None:
    gcn = encoder(graph, latent)
    seen = torch.randn(len(NODES), latent, generator=torch.Generator().manual_seed(0))
    (gcn.encode(NODES) * seen).sum().backward()
    z, leaves = plain(graph, gcn)
    (z[NODES] * seen).sum().backward()
    for parameter, leaf in zip((gcn.weight1, gcn.bias1, gcn.weight2, gcn.bias2), leaves):
        scale = float(leaf.grad.abs().max())
        assert scale > 0
        assert torch.allclose(parameter.grad, leaf.grad.float(), atol=1e-5 * scale)


def test_weights_are_seeded_xavier_and_biases_zero() -> None:
    op = GraphOperator(random_graph())
    one, two, other = (GCN(op, 16, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one.weight1, two.weight1) and not torch.equal(one.weight1, other.weight1)
    torch.manual_seed(5)
    assert torch.equal(GCN(op, 16, seed=0).weight2, one.weight2)
    assert [tuple(p.shape) for p in one.parameters()] == [(20, 32), (32, 16), (32,), (16,)]
    limit = (6 / (20 + 32)) ** 0.5
    assert 0.9 * limit < one.weight1.abs().max().item() <= limit
    assert not one.bias1.any() and not one.bias2.any()
    assert repr(one) == "GCN(20 -> 32 -> 16)"


def test_what_cannot_be_encoded() -> None:
    with pytest.raises(GraphError, match="features"):
        GraphOperator(without_features(random_graph()))
    with pytest.raises(OptionError, match="latent"):
        GCN(GraphOperator(random_graph()), 0)
    for bad in ([-1], [0, 60], [3, -5]):
        with pytest.raises(OptionError, match=r"0\.\.59"):
            GCN(GraphOperator(random_graph()), 8).encode(np.array(bad))


@pytest.mark.parametrize("mean", [False, True])
def test_one_layer(graph: Graph, mean: bool) -> None:
    """A_hat X W + b, or the mean over a node and its neighbours."""
    weight, bias = torch.randn(30, 8, generator=torch.Generator().manual_seed(0)), torch.linspace(-1, 1, 8)
    layer = OneLayerGCN(GraphOperator(graph), weight, bias, mean=mean)
    layer.BLOCK = 7
    looped = graph.adjacency.toarray() + np.eye(80)
    smooth = looped / looped.sum(1, keepdims=True) if mean else normalised(graph.adjacency.toarray())
    x = torch.tensor(graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray())
    expected = torch.from_numpy(smooth).float() @ x @ weight + bias
    for found in (layer.encode_all(), layer.encode(np.arange(80), inputs=lambda nodes: x[nodes] @ layer.weight)):
        assert torch.allclose(found, expected, atol=1e-5 * float(expected.abs().max()))
    assert torch.allclose(layer.encode(NODES), expected[NODES], atol=1e-5 * float(expected.abs().max()))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("dense", [False, True])
def test_on_a_gpu_many_vectors_are_rows_of_all(dense: bool) -> None:
    graph = random_graph(n=300, edges=900, dense=dense)
    here, there = (GCN(GraphOperator(graph, device), 8, seed=1) for device in ("cpu", "cuda"))
    nodes = np.arange(0, 300, 3)
    with torch.no_grad():
        many = there.encode(nodes).cpu()
        assert torch.allclose(many, here.encode(nodes), atol=1e-5)
        assert torch.allclose(there.encode_all().cpu(), here.encode_all(), atol=1e-5)
    assert torch.allclose(there.encode(nodes).detach().cpu(), many, atol=1e-5)
    assert there.encode(nodes).requires_grad
