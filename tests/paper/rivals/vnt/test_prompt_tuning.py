"""All tasks at once against one task at a time with torch's own layers and Adam."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from naq_paper.rivals.vnt.bert import Frozen, GraphBert, PromptedBert, Tuning, answers, tune

TASKS, WAY, SHOT, QUERIES, LENGTH, HIDDEN, PROMPTS = 3, 3, 2, 4, 5, 12, 4
SLOTS = torch.arange(WAY).repeat_interleave(SHOT)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def network(layers: int = 2) -> GraphBert:
    out = GraphBert(5, HIDDEN, layers, 2, generator=generator())
    with torch.no_grad():
        for weight in out.parameters():
            weight.mul_(15.0).add_(0.1 * torch.randn(weight.shape, generator=generator(len(weight))))
    return out


def sequences(count: int, seed: int) -> Frozen:
    tokens = torch.randn(TASKS, count, LENGTH, HIDDEN, generator=generator(seed))
    present = torch.rand(TASKS, count, LENGTH, generator=generator(seed + 1)) < 0.8
    present[..., 0] = True
    return Frozen(tokens, present)


def virtual_nodes(deep: bool, layers: int = 2) -> torch.Tensor:
    return torch.randn(layers if deep else 1, PROMPTS, HIDDEN, generator=generator(9))


def slow_layer(layer: nn.Module) -> nn.TransformerEncoderLayer:
    with torch.random.fork_rng():
        out = nn.TransformerEncoderLayer(HIDDEN, 2, HIDDEN, 0.0, "gelu", 1e-12, batch_first=True)
    names = ["into", "out", "up", "down"]
    theirs = [
        out.self_attn.in_proj_weight,
        out.self_attn.in_proj_bias,
        out.self_attn.out_proj.weight,
        out.self_attn.out_proj.bias,
    ]
    theirs += [out.linear1.weight, out.linear1.bias, out.linear2.weight, out.linear2.bias]
    theirs += [out.norm1.weight, out.norm1.bias, out.norm2.weight, out.norm2.bias]
    parts = [getattr(layer, name) for name in [*names, "out_norm", "down_norm"]]
    with torch.no_grad():
        for target, source in zip(theirs, [weight for part in parts for weight in (part.weight, part.bias)]):
            target.copy_(source)
    return out.requires_grad_(False)


def slow_vectors(
    net: GraphBert, tokens: torch.Tensor, present: torch.Tensor, virtual: torch.Tensor, tuning: Tuning
) -> torch.Tensor:
    """Vectors of one task's sequences: every layer over the whole sequence, virtual nodes and all."""
    rows, count = [], virtual.shape[1]
    for i in range(len(tokens)):
        sequence = torch.cat([tokens[i], virtual[0]])
        gone = torch.cat([~present[i], torch.zeros(count, dtype=torch.bool)])
        for number, layer in enumerate(net.layers):
            if tuning.deep and number:
                sequence = torch.cat([sequence[:LENGTH], virtual[number]])
            sequence = slow_layer(layer)(sequence[None], src_key_padding_mask=gone[None])[0]
        rows.append(sequence[0] if tuning.read == "target" else sequence[:LENGTH][present[i]].mean(dim=0))
    return torch.stack(rows)


def slow_tune(net: GraphBert, support: Frozen, task: int, start: torch.Tensor, tuning: Tuning) -> list[torch.Tensor]:
    weights = [start.clone(), torch.zeros(HIDDEN, WAY), torch.zeros(1, WAY)]
    leaves = [weight.requires_grad_() for weight in weights]
    adam = torch.optim.Adam(leaves, lr=tuning.lr)
    for _ in range(tuning.steps):
        adam.zero_grad()
        vectors = slow_vectors(net, support.tokens[task], support.present[task], leaves[0], tuning)
        F.cross_entropy(vectors @ leaves[1] + leaves[2], SLOTS).backward()
        adam.step()
    return [leaf.detach() for leaf in leaves]


CASES = {
    "shallow": (Tuning(3, 0.05), 2),
    "deep": (Tuning(3, 0.05, deep=True), 2),
    "target": (Tuning(3, 0.05, read="target"), 2),
    "three layers": (Tuning(3, 0.05), 3),
    "one layer": (Tuning(3, 0.05), 1),
}


@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_tuned_in_a_batch_as_alone(case):
    tuning, layers = CASES[case]
    net, support, query = network(layers), sequences(WAY * SHOT, 1), sequences(WAY * QUERIES, 5)
    start = virtual_nodes(tuning.deep, layers)
    found = tune(net, support, SLOTS, WAY, start, tuning)
    slots = answers(net, query, found, tuning)
    assert slots.shape == (TASKS, WAY * QUERIES)
    assert not torch.allclose(found[0][0], start, atol=1e-2), "virtual nodes must move"
    for task in range(TASKS):
        with torch.enable_grad():
            wanted = slow_tune(net, support, task, start, tuning)
        for one, two in zip(found, wanted):
            assert torch.allclose(
                one[task], two, atol=2e-3
            )  # Adam moves a gradient near 0 by a share of its rate, here 0.05
        vectors = slow_vectors(net, query.tokens[task], query.present[task], wanted[0], tuning)
        assert torch.equal(slots[task], (vectors @ wanted[1] + wanted[2]).argmax(dim=-1))


@torch.no_grad()
def test_without_virtual_nodes_only_the_classifier_is_tuned():
    net, support, tuning = network(), sequences(WAY * SHOT, 1), Tuning(5, 0.05)
    found = tune(net, support, SLOTS, WAY, torch.zeros(1, 0, HIDDEN), tuning)
    vectors = net(support.tokens.flatten(0, 1), support.present.flatten(0, 1)).view(TASKS, -1, HIDDEN)
    assert torch.allclose(PromptedBert(net, support, tuning)(found[0]), vectors, atol=1e-5)
    for task in range(TASKS):
        with torch.enable_grad():
            leaves = [torch.zeros(HIDDEN, WAY, requires_grad=True), torch.zeros(1, WAY, requires_grad=True)]
            adam = torch.optim.Adam(leaves, lr=0.05)
            for _ in range(5):
                adam.zero_grad()
                F.cross_entropy(vectors[task] @ leaves[0] + leaves[1], SLOTS).backward()
                adam.step()
        assert torch.allclose(found[1][task], leaves[0], atol=1e-5) and torch.allclose(
            found[2][task], leaves[1], atol=1e-5
        )


@torch.no_grad()
def test_no_steps_leave_everything_as_it_was_and_the_network_frozen_never_moves():
    net, support, start = network(), sequences(WAY * SHOT, 1), virtual_nodes(False)
    before = {name: weight.clone() for name, weight in net.state_dict().items()}
    found = tune(net, support, SLOTS, WAY, start, Tuning(0, 0.1))
    assert torch.equal(found[0], start.expand(TASKS, *start.shape)) and not found[1].any() and not found[2].any()
    tune(net, support, SLOTS, WAY, start, Tuning(2, 0.1))
    assert all(torch.equal(weight, before[name]) for name, weight in net.state_dict().items())
    assert all(weight.requires_grad and weight.grad is None for weight in net.parameters())
