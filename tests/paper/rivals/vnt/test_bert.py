"""The transformer against torch's own layers."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from naq.nn.rows import mean_present
from naq_paper.rivals.vnt.bert import Drops, GraphBert, Layer, absence, attend

HIDDEN, HEADS = 12, 3


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def network(scale: float = 20.0) -> GraphBert:
    """With weights large enough that every part shows."""
    out = GraphBert(11, HIDDEN, 2, HEADS, roles=7, generator=generator())
    with torch.no_grad():
        for weight in out.parameters():
            weight.mul_(scale).add_(0.1 * torch.randn(weight.shape, generator=generator(len(weight))))
    return out


def torch_layer(layer: Layer) -> nn.TransformerEncoderLayer:
    """The same layer as torch has it, with the same weights."""
    with torch.random.fork_rng():
        out = nn.TransformerEncoderLayer(
            HIDDEN, HEADS, HIDDEN, dropout=0.0, activation="gelu", layer_norm_eps=1e-12, batch_first=True
        )  # fmt: skip
    pairs = [
        (out.self_attn.in_proj_weight, layer.into.weight), (out.self_attn.in_proj_bias, layer.into.bias),
        (out.self_attn.out_proj.weight, layer.out.weight), (out.self_attn.out_proj.bias, layer.out.bias),
        (out.norm1.weight, layer.out_norm.weight), (out.norm1.bias, layer.out_norm.bias),
        (out.linear1.weight, layer.up.weight), (out.linear1.bias, layer.up.bias),
        (out.linear2.weight, layer.down.weight), (out.linear2.bias, layer.down.bias),
        (out.norm2.weight, layer.down_norm.weight), (out.norm2.bias, layer.down_norm.bias),
    ]  # fmt: skip
    with torch.no_grad():
        for theirs, ours in pairs:
            theirs.copy_(ours)
    return out


def some_tokens() -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randn(9, 5, 12, generator=generator(1))
    present = torch.rand(9, 5, generator=generator(2)) < 0.7
    present[:, 0] = True
    return tokens, present


def test_attention_is_what_the_formula_says():
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((4, t, 6)) for t in (3, 5, 5))
    present = np.array([[1, 1, 1, 1, 1], [1, 0, 0, 1, 0], [1, 0, 0, 0, 0], [1, 1, 0, 1, 1]], dtype=bool)
    wanted = np.zeros((4, 3, 6))
    for m in range(4):
        for i in range(3):
            for h in range(2):
                part = slice(3 * h, 3 * h + 3)
                share = np.exp(k[m][:, part] @ q[m, i, part] / np.sqrt(3)) * present[m]
                wanted[m, i, part] = share @ v[m][:, part] / share.sum()
    tensors = (torch.from_numpy(x).float() for x in (q, k, v))
    found = attend(*tensors, absence(torch.from_numpy(present)), 2)
    assert np.allclose(found.numpy(), wanted, atol=1e-6)


def test_a_layer_equals_that_of_torch():
    layer = network().layers[1]
    tokens, present = some_tokens()
    wanted = torch_layer(layer)(tokens, src_key_padding_mask=~present)
    found = layer(tokens, absence(present))
    assert torch.allclose(found[present], wanted[present], atol=1e-5)


def test_the_network_is_its_layers_and_the_mean_of_present_tokens():
    net = network()
    tokens, present = some_tokens()
    wanted = tokens
    for layer in net.layers:
        wanted = torch_layer(layer)(wanted, src_key_padding_mask=~present)
    found = net(tokens, present)
    means = torch.stack([wanted[m][present[m]].mean(dim=0) for m in range(9)])
    assert torch.allclose(found, means, rtol=1e-4, atol=1e-4)


def test_tokens_are_sums_of_codes_normalised():
    net = network()
    inputs, roles = torch.randn(6, 12, generator=generator(4)), torch.tensor([0, 3, 3, 6, 1, 2])
    place, hops = torch.tensor([[5, 0], [2, 3]]), torch.tensor([[0, 1], [0, 99]])
    found = net.tokens(net.rows(inputs, roles), place, hops)
    for m, (node, hop) in enumerate([((5, 0), (0, 1)), ((2, 3), (0, 99))]):
        for t in range(2):
            summed = inputs[node[t]] + net.bias + net.role[roles[node[t]]] + net.position[t] + net.hop[hop[t]]
            centred = summed - summed.mean()
            wanted = centred / centred.square().mean().sqrt() * net.norm.weight + net.norm.bias
            assert torch.allclose(found[m, t], wanted, atol=1e-5)


def test_what_stands_on_an_absent_place_does_not_matter():
    net = network()
    tokens, present = some_tokens()
    other = torch.where(present[..., None], tokens, 100.0)
    assert torch.equal(net(tokens, present), net(other, present))
    assert torch.allclose(mean_present(tokens, present)[2], tokens[2][present[2]].mean(dim=0), atol=1e-6)


@torch.no_grad()
def test_initial_weights():
    net = GraphBert(300, 40, 2, 2, generator=generator())
    for name, weight in net.named_parameters():
        if name.endswith("bias"):
            assert (weight == 0).all()
        elif "norm" in name:
            assert (weight == 1).all()
        else:
            assert abs(float(weight.std()) - 0.02) < 2e-3 and abs(float(weight.mean())) < 2e-3, name
    before = torch.random.get_rng_state()
    assert torch.equal(GraphBert(300, 40, 2, 2, generator=generator()).role, net.role)
    assert torch.equal(torch.random.get_rng_state(), before), "the generator that all share is left alone"


@pytest.mark.parametrize(("hidden", "attention"), [(0.5, 0.0), (0.0, 0.3)])
def test_dropout_is_drawn_from_its_generator_and_has_the_right_mean(hidden, attention):
    layer = network().layers[0]
    tokens, present = some_tokens()

    def once(seed: int) -> torch.Tensor:
        return layer(tokens, absence(present), Drops(generator(seed), hidden, attention))

    with torch.no_grad():
        assert torch.equal(once(1), once(1)) and not torch.equal(once(1), once(2))
        assert not torch.allclose(once(1), layer(tokens, absence(present)), atol=1e-2)


def test_dropout_of_attention_keeps_the_mean():
    values = torch.ones(2000, 4, 2)
    zero = torch.zeros(2000, 4, 2)
    mixed = attend(zero[:, :1], zero, values, zero[..., 0], 1, Drops(generator(), 0.0, 0.3))
    assert abs(float(mixed.mean()) - 1) < 0.03
    # A quarter each, dropped or scaled up: the number of keys left is binomial.
    left = (mixed[:, 0, 0] * 4 * 0.7).round()
    assert np.allclose(
        np.bincount(left.long(), minlength=5) / 2000, [0.0081, 0.0756, 0.2646, 0.4116, 0.2401], atol=0.04
    )


def test_gradients_reach_every_weight():
    net = network()
    tokens = net.tokens(
        net.rows(torch.randn(6, 11) @ net.weight, torch.arange(6)),
        torch.tensor([[5, 0], [2, 3]]),
        torch.tensor([[0, 1], [0, 99]]),
    )
    F.mse_loss(net(tokens, torch.ones(2, 2, dtype=torch.bool)), torch.randn(2, 12)).backward()
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in net.parameters())
