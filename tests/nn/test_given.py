"""An encoder of the user's: the numbers of the GCN here where it is the same network, every check, every mistake."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv, SAGEConv

from encoders_under_test import GAT, PygGCN
from methods_under_test import community_graph
from naq import naq_episodes, testing
from naq.errors import OptionError
from naq.graph import Graph
from naq.learners import LEARNERS
from naq.learners.maml import MAML
from naq.learners.protonet import ProtoNet
from naq.methods import Method
from naq.nn.given import GivenEncoder, describe_encoder
from naq.nn.operator import GraphOperator


@pytest.fixture(scope="module")
def graph():
    return community_graph()


def same_weights(own, given):
    """``given`` with the weights of ``own``; pairs of parameters that are the same, up to transposition."""
    conv, other = given.encoder.module, own.encoder
    pairs = [(conv.first.bias, other.bias1), (conv.last.bias, other.bias2)]
    pairs += [(conv.first.lin.weight.T, other.weight1), (conv.last.lin.weight.T, other.weight2)]
    pairs += [(getattr(given, name), getattr(own, name)) for name in ("head_weight", "head_bias") if hasattr(own, name)]
    with torch.no_grad():
        for one, two in pairs:
            one.copy_(two)
    return pairs


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("kind", ["naq-feat", "g-umtra"])
@pytest.mark.parametrize(("learner", "options"), [
    (ProtoNet, {}), (MAML, {"order": "first"}), (MAML, {"order": "second"}),
], ids=["protonet", "maml-first", "maml-second"])  # fmt: skip
def test_the_same_network_by_pyg_has_the_same_loss_and_gradients(graph, learner, options, kind, dense):
    if dense:
        graph = graph.with_features(graph.features.toarray())
    if learner is MAML:
        options = {**options, "inner_lr": 0.1, "inner_steps": 3, "meta_batch": 2}
    own = learner(graph, way=2, latent=8, **options)
    given = learner(graph, way=2, make_encoder=PygGCN, **options)
    pairs = same_weights(own, given)
    method = Method(f"{kind}/{own.name}", "", learner, kind)
    episodes = testing.draw_small_episodes(method, graph, own.episodes_per_update)
    losses = [model.loss(episodes, 3) for model in (own, given)]
    assert losses[1].item() == pytest.approx(losses[0].item(), rel=1e-5)
    for loss in losses:
        loss.backward()
    for one, two in pairs:
        found = one.grad if one.grad_fn is None else one._base.grad.T
        assert found.any() and torch.allclose(found, two.grad, atol=2e-6)
    assert given.encoder._sparse != dense
    assert torch.allclose(given.encode_all(), own.encode_all(), atol=1e-6)


@pytest.mark.parametrize("name", [name for name, found in LEARNERS.items() if not found.own_encoder])
def test_every_learner_that_takes_one_passes_the_checks_with_it(name):
    few = {"inner_steps": 2} if name == "maml" else {}
    testing.check_learner(name, episodes="naq-feat", make_encoder=partial(GAT, dropout=0.0), **few)


@pytest.mark.parametrize("name", [name for name, found in LEARNERS.items() if found.own_encoder])
def test_the_others_say_why_not(graph, name):
    with pytest.raises(OptionError, match=f"encoder was given, but {name} keeps its own"):
        LEARNERS[name](graph, way=2, make_encoder=GAT)


def test_what_a_module_draws_follows_from_seed_and_update_and_leaves_other_draws_alone(graph):
    episodes = naq_episodes(testing.feature_neighbors(graph.without_labels(), 3), way=2, queries=3, count=2)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    one, two, other = (ProtoNet(graph, way=2, seed=seed, make_encoder=GAT) for seed in (0, 0, 1))
    losses = [one.loss(episodes, update).item() for update in (0, 1, 0)]
    assert losses[0] == losses[2] == two.loss(episodes, 0).item() and losses[0] != losses[1]
    assert not torch.equal(one.encode_all(), other.encode_all())
    assert torch.equal(torch.rand(1), expected)


def test_a_module_that_takes_no_sparse_features_gets_dense_ones(graph):
    made = GivenEncoder(GraphOperator(graph), lambda width: PygGCN(width, kind=SAGEConv))
    edges = torch.from_numpy(np.stack(graph.adjacency.nonzero()).astype(np.int64))
    with torch.no_grad():
        plain = made.module(torch.from_numpy(graph.features.toarray()), edges)
    assert not made._sparse and torch.allclose(made.encode_all(), plain, atol=1e-6)


def test_batch_statistics_are_those_of_updates_alone(graph):
    made = GivenEncoder(GraphOperator(graph), lambda width: PygGCN(width, kind=lambda a, b: Normed(a, b)))
    norm = made.module.first.norm
    assert norm.num_batches_tracked == 0
    made.encode(np.arange(3))
    assert norm.num_batches_tracked == 0
    made.in_training(0)(np.arange(3))
    assert norm.num_batches_tracked == 1


class Normed(nn.Module):
    def __init__(self, width, latent):
        super().__init__()
        self.conv, self.norm = GCNConv(-1, latent), nn.BatchNorm1d(latent)

    def forward(self, x, edge_index):
        return self.norm(self.conv(x, edge_index))


class Wrong(nn.Module):
    """A linear encoder with one thing changed."""

    def __init__(self, width, change, device="cpu"):
        super().__init__()
        self.layer, self.change = nn.Linear(width, 4, device=device), change

    def forward(self, x, edge_index):
        return self.change(self.layer(x))


MISTAKES = {
    "is made already": Wrong(8, lambda z: z), "expected a class": 7, "could not be made": lambda: None,
    "made a str": lambda width: "GCN", "shape (70, 4)": lambda width: Wrong(width, lambda z: z[:70]),
    "shape (141,)": lambda width: Wrong(width, lambda z: z[:, 0]),
    "gives tuple": lambda width: Wrong(width, lambda z: (z, z)),
    "type torch.int64": lambda width: Wrong(width, lambda z: z.long()),
    "vectors on meta": lambda width: Wrong(width, lambda z: z.to("meta")),
    "fails on 141 nodes": lambda width: Wrong(width, lambda z: z, device="meta"),
    "takes 2 positional arguments|forward": lambda width: nn.Linear(width, 4),
    "two different answers": lambda width: Wrong(width, lambda z: nn.functional.dropout(z, 0.5, training=True)),
    "no parameters": lambda width: Wrong(width, lambda z: z.detach()),
    "nothing to train": lambda width: Wrong(width, lambda z: z).requires_grad_(False),
}  # fmt: skip


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_are_one_sentence_that_names_the_encoder(graph, words):
    with pytest.raises(OptionError) as caught:
        ProtoNet(graph, way=2, make_encoder=MISTAKES[words])
    assert str(caught.value).startswith("encoder ") and any(word in str(caught.value) for word in words.split("|"))


def test_an_encoder_is_described_by_class_layers_and_initial_weights():
    one, again, other = (describe_encoder(PygGCN, 12, seed) for seed in (0, 0, 1))
    assert one == again and one["weights"] != other["weights"]
    assert one["class"] == "PygGCN" and "GCNConv(12, 16)" in one["layers"]
    assert describe_encoder(lambda width: GCNConv(-1, 3), 12, 0)["class"] == "GCNConv"  # weights come with a first pass


def test_features_that_do_not_fit_as_dense_ones_are_refused(graph, monkeypatch):
    monkeypatch.setattr("naq.device.SMALL", 0)
    monkeypatch.setattr("naq.device.room", lambda: 100.0)
    with pytest.raises(OptionError, match="encoder PygGCN with dense features"):
        GivenEncoder(GraphOperator(graph), lambda width: PygGCN(width, kind=SAGEConv))
    wide = Graph(np.zeros((2, 0), dtype=int), graph.features, nodes=graph.num_nodes)
    assert GivenEncoder(GraphOperator(wide), PygGCN)._sparse
