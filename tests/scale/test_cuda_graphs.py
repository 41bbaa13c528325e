from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pytest
import torch

from gradients import move_biases
from graphs import random_graph
from naq import Episodes, Graph, feature_neighbors, naq_episodes, supervised_episodes
from naq.errors import TrainingError
from naq.learners import meta_batch
from naq.learners.maml import MAML, InnerSteps
from naq.learners.protonet import ProtoNet
from naq.nn.operator import GraphOperator
from naq.training import EpisodeTraining, Schedule, episode_training, fit
from naq_scale.cuda_graphs import (
    RecordedSteps,
    RecordedTraining,
    field_sizes,
    padded_fields,
    padded_sizes,
    recorded_training,
)

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


def dense_graph(n: int = 90) -> Graph:
    """On the CPU A_hat X is held dense only where features are."""
    return random_graph(n=n, edges=3 * n, d=11, dense=True)


def drawn(graph: Graph, count: int, shot: int = 1) -> Episodes:
    """Episodes with missing queries: the graph is small, so some neighbours are supports themselves."""
    return naq_episodes(feature_neighbors(graph, 6), way=3, shot=shot, queries=6, count=count).without_overlap()


def learner(graph: Graph, device: str = "cpu", **options: object) -> ProtoNet:
    return ProtoNet(graph.without_labels(), way=3, latent=8, lr=1e-2, seed=3, device=device, **options)


def weights(training: EpisodeTraining) -> torch.Tensor:
    return torch.cat([weight.detach().flatten().cpu() for weight in training.model.parameters()])


def trained(training: EpisodeTraining, updates: Iterable[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses and weights under plain gradient descent: Adam's first steps are the signs of gradients, which rounding
    may turn."""
    training.optimizer = torch.optim.SGD(training.model.parameters(), lr=0.05)
    losses = torch.stack([training.step(update).cpu().clone() for update in updates])
    return losses, weights(training)


def check_same(one: tuple[torch.Tensor, torch.Tensor], two: tuple[torch.Tensor, torch.Tensor]) -> None:
    for a, b in zip(one, two):
        assert torch.allclose(a, b, rtol=1e-3, atol=1e-4), float((a - b).abs().max())


def test_fields_filled_up_are_the_fields() -> None:
    operator = GraphOperator(random_graph())
    nodes = np.array([[0, 5, 5, 59], [7, -1, 3, -1], [-1, -1, -1, -1]])
    sizes = field_sizes(operator.adjacency, nodes)
    around, place, value = padded_fields(operator.adjacency, nodes, 30)
    pool = np.zeros((3, 4, 30), dtype=np.float32)
    pool.reshape(-1)[place] = value
    rows = operator.adjacency.toarray()
    for c, own in enumerate(nodes):
        assert sizes[c] == len(np.unique(np.nonzero(rows[own[own >= 0]])[1]))
        whole = np.zeros((4, len(rows)), dtype=np.float32)
        np.add.at(whole.T, around[c], pool[c].T)
        assert np.array_equal(whole, np.where((own >= 0)[:, None], rows[own], 0))
        assert not pool[c][:, sizes[c] :].any()


def test_sizes_are_few_and_little_is_unused() -> None:
    fields = np.arange(1, 5000)
    sizes = padded_sizes(fields)
    assert (sizes >= fields).all() and len(np.unique(sizes)) < 30
    assert (sizes[100:] <= 1.26 * fields[100:]).all()


@pytest.mark.parametrize("shot", [1, 2])
def test_steps_of_fixed_shape_are_the_plain_steps(shot: int) -> None:
    graph = dense_graph()
    if shot == 1:
        episodes = drawn(graph, 30)
        assert not episodes.mask.all() and episodes.mask.any()
    else:
        episodes = supervised_episodes(graph.labels, range(3), way=3, shot=shot, queries=5, count=30)
    plain, captured = EpisodeTraining(learner(graph), episodes), RecordedTraining(learner(graph), episodes, block=7)
    before = weights(plain)
    one = trained(plain, range(30))
    check_same(trained(captured, range(30)), one)
    assert float((one[1] - before).abs().max()) > 0.02


def test_an_episode_without_queries_counts_as_zero() -> None:
    graph = dense_graph()
    episodes = drawn(graph, 3)
    none = Episodes(episodes.support, episodes.query, np.zeros_like(episodes.mask), episodes.info)
    training = RecordedTraining(learner(graph), none)
    before = weights(training)
    assert training.step(0).item() == 0 and torch.equal(weights(training), before)


def test_steps_may_begin_anywhere() -> None:
    graph = dense_graph()
    episodes = drawn(graph, 30)
    plain, captured = EpisodeTraining(learner(graph), episodes), RecordedTraining(learner(graph), episodes, block=8)
    order = [5, 6, 20, 21, 3]
    check_same(trained(captured, order), trained(plain, order))


def test_out_of_memory_halves_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = dense_graph()
    episodes = drawn(graph, 20)
    whole = trained(RecordedTraining(learner(graph), episodes), range(20))
    allocate, free = RecordedTraining._allocate, 6

    def short_of_memory(self: RecordedTraining) -> None:
        if self.block > free:
            raise torch.OutOfMemoryError("no room")
        allocate(self)

    monkeypatch.setattr(RecordedTraining, "_allocate", short_of_memory)
    training = RecordedTraining(learner(graph), episodes)
    check_same(trained(training, range(20)), whole)
    assert training.block == 5
    free = 0
    with pytest.raises(TrainingError, match="NAQ_CUDA_GRAPHS=0"):
        RecordedTraining(learner(graph), episodes).step(0)


def test_the_cpu_trains_by_plain_steps() -> None:
    graph = dense_graph()
    assert type(episode_training(learner(graph), drawn(graph, 3))) is EpisodeTraining


def test_what_is_recorded() -> None:
    graph = dense_graph()
    episodes = drawn(graph, 4)
    assert type(recorded_training(learner(graph), episodes)) is RecordedTraining
    umtra = Episodes(episodes.support, episodes.query, episodes.mask, {"kind": "g-umtra"})
    assert recorded_training(learner(graph), umtra) is None
    sparse = random_graph()  # of which A_hat X is not dense on the CPU
    assert recorded_training(learner(sparse), drawn(sparse, 3)) is None

    class OtherLoss(ProtoNet):
        """May compute anything."""

    assert recorded_training(OtherLoss(graph.without_labels(), way=3, latent=8), episodes) is None
    for order, kind in (("first", RecordedSteps), ("second", InnerSteps)):
        maml = MAML(graph, way=3, latent=8, meta_batch=2, order=order)
        found = recorded_training(maml, episodes)
        assert (found is None) == (order == "second") and type(maml.adaptation) is kind


def test_a_training_of_maml_is_the_plain_one() -> None:
    graph = dense_graph()
    episodes = drawn(graph, 12)
    models = [MAML(graph, way=3, latent=8, meta_batch=4, inner_lr=0.3, seed=2) for _ in range(2)]
    recorded = recorded_training(models[1], episodes)
    assert recorded is not None
    before = weights(recorded)
    found = trained(recorded, range(3))
    check_same(found, trained(EpisodeTraining(models[0], episodes), range(3)))
    assert float((found[1] - before).abs().max()) > 1e-3


def chunks_of(learner: MAML, episodes: Episodes, steps: InnerSteps) -> Iterator[meta_batch.TaskChunk]:
    given = learner.operator, [learner.operator], learner.encoder.weight1
    return meta_batch.chunk_episodes(episodes, *given, width=steps.width)


def maml() -> tuple[MAML, RecordedSteps, Episodes]:
    """A learner, its steps as a GPU records them, and episodes of two shots."""
    graph = random_graph()
    found = MAML(graph, way=3, latent=8, inner_steps=4, inner_lr=0.3, seed=2)
    move_biases(found.encoder.bias1, found.encoder.bias2)
    episodes = supervised_episodes(graph.labels, range(3), way=3, shot=2, queries=4, count=5)
    return found, RecordedSteps(found.adaptation.parameters, 4, 0.3), episodes


@pytest.mark.parametrize("few_widths", [False, True])
def test_inner_steps_in_closed_form(few_widths: bool) -> None:
    """As autograd takes them; a GPU records and replays them, at few widths."""
    learner, steps, episodes = maml()
    plain = learner.adaptation
    for chunk in chunks_of(learner, episodes, steps if few_widths else plain):
        weights, shift = plain(chunk.support)
        found, moved = steps(chunk.support)
        assert float(shift.abs().max()) > 1e-3 and torch.allclose(moved, shift, rtol=1e-3, atol=1e-5)
        assert list(found) == list(weights)
        for name, start in plain.parameters.items():
            assert float((weights[name] - start).detach().abs().max()) > 1e-3
            assert torch.allclose(found[name], weights[name], rtol=1e-3, atol=1e-5)
            (one,) = torch.autograd.grad(found[name].sum(), start)
            assert torch.equal(one, torch.full_like(start, len(chunk)))


def test_inner_steps_that_do_not_fit_recorded_run_unrecorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no memory for another recording, the earlier ones make room, and nothing changes in the
    numbers."""
    learner, steps, episodes = maml()
    support = next(chunks_of(learner, episodes, steps)).support
    weights, shift = steps(support)

    def no_room(given: object) -> None:
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(steps, "_recording", no_room)
    monkeypatch.setattr(RecordedSteps, "_found", RecordedSteps._replayed)  # as on a GPU
    steps._graphs[(1,)] = None  # of another shape
    found, moved = steps(support)
    assert torch.equal(moved, shift) and all(torch.equal(found[name], weights[name]) for name in weights)
    assert steps._graphs == {}


@CUDA
def test_a_gpu_gives_the_same_loss_of_maml() -> None:
    graph = random_graph()
    learners = [MAML(graph, way=3, latent=8, seed=2, device=device) for device in ("cpu", "cuda")]
    kept = [supervised_episodes(graph.labels, range(3), way=3, shot=2, queries=4, count=32, seed=s) for s in (0, 5)]
    assert episode_training(learners[1], kept[0]) is not None
    assert type(learners[1].adaptation) is RecordedSteps and type(learners[0].adaptation) is InnerSteps
    losses = [learner.loss(kept[0][:16]) for learner in learners]
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-4)
    for one, two in zip(*(torch.autograd.grad(loss, list(m.parameters())) for m, loss in zip(learners, losses))):
        assert float((one - two.cpu()).norm()) <= 1e-3 * float(one.norm())
    again = [learner.loss(kept[1][:16]).item() for learner in learners]  # of the same shape: replayed
    assert again[0] == pytest.approx(again[1], rel=1e-4) and again[0] != pytest.approx(losses[0].item(), rel=1e-4)


@CUDA
def test_recorded_steps_are_the_plain_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for graph in (dense_graph(400), random_graph(n=400, edges=900)):
        episodes = drawn(graph, 60)
        training = episode_training(learner(graph, "cuda"), episodes)
        assert isinstance(training, RecordedTraining)
        training.block = 16
        check_same(trained(training, range(60)), trained(EpisodeTraining(learner(graph), episodes), range(60)))
        adam = [EpisodeTraining(learner(graph), episodes), episode_training(learner(graph, "cuda"), episodes)]
        before = weights(adam[0])
        for training in adam:
            training.optimizer.param_groups[0]["eps"] = 1e-2  # else rounding turns the signs that Adam begins with
            for update in range(60):
                training.step(update)
        plain, recorded = (weights(training) - before for training in adam)
        assert float((plain - recorded).norm()) < 0.01 * float(plain.norm())
        monkeypatch.setenv("NAQ_CUDA_GRAPHS", "0")
        assert type(episode_training(learner(graph, "cuda"), episodes)) is EpisodeTraining
        monkeypatch.delenv("NAQ_CUDA_GRAPHS")


@CUDA
def test_a_recorded_training_is_resumed(tmp_path) -> None:
    graph = dense_graph(300)
    episodes = drawn(graph, 40)
    whole = RecordedTraining(learner(graph, "cuda"), episodes)
    fit(whole, lambda: 0.5, Schedule(40))
    halves = [RecordedTraining(learner(graph, "cuda"), episodes) for _ in range(2)]
    halves[0].updates = 20
    path = tmp_path / "checkpoint"
    fit(halves[0], lambda: 0.5, Schedule(20), checkpoint=path)
    halves[1].model.load_state_dict({k: torch.randn_like(v) for k, v in halves[1].model.state_dict().items()})
    found = fit(halves[1], lambda: len(path.name) / 10, Schedule(20), checkpoint=path)
    assert len(found.history.steps) == 2 and torch.allclose(weights(halves[1]), weights(whole), rtol=1e-4, atol=1e-5)


@CUDA
def test_out_of_memory_on_the_device_halves_the_block() -> None:
    """A limit of the allocator that the estimate does not know of."""
    graph = dense_graph(3000)
    episodes = drawn(graph, 16_000)
    training = RecordedTraining(learner(graph, "cuda"), episodes, block=16_000)
    assert training.block == 16_000
    check = trained(EpisodeTraining(learner(graph), episodes), range(20))
    room = torch.cuda.memory_reserved() + (200 << 20)  # 236 MB would be needed
    torch.cuda.set_per_process_memory_fraction(room / torch.cuda.get_device_properties(0).total_memory)
    try:
        check_same(trained(training, range(20)), check)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()
    assert 1 < training.block < 16_000
