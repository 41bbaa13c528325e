"""The exact forms against dense ones."""

import torch
import torch.nn.functional as F

from graphs import random_graph
from naq.embedders.vnt.reconstruction import attribute_error, structure_error

GRAPH = random_graph(50, 90, 23, seed=6)


def leaves(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def same(one: torch.Tensor, two: torch.Tensor, inputs: tuple[torch.Tensor, ...]) -> None:
    assert torch.allclose(one, two, rtol=1e-10)
    for a, b in zip(torch.autograd.grad(one, inputs), torch.autograd.grad(two, inputs)):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-14) and a.abs().max() > 0


def test_attributes():
    vectors, weight, bias = leaves(50, 6), leaves(6, 23, seed=1), leaves(23, seed=2)
    x = torch.from_numpy(GRAPH.features.toarray()).double()
    dense = F.mse_loss(vectors @ weight + bias, x)
    decoder = torch.cat([weight.T, bias[:, None]], dim=1)
    same(attribute_error(vectors, decoder, x @ decoder, float(x.square().sum())), dense, (vectors, weight, bias))


def test_structure_over_all_pairs():
    vectors = leaves(50, 6)
    a_hat = torch.from_numpy(GRAPH.normalized_adjacency().toarray()).double()
    cosine = F.cosine_similarity(vectors[:, None], vectors[None], dim=-1)
    dense = (cosine - a_hat).square().mean()
    units = F.normalize(vectors)
    same(structure_error(units, a_hat @ units, float(a_hat.square().sum())), dense, (vectors,))
