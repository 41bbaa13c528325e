"""GLITTER against a dense oracle: whole task graphs, whole attention matrices, the inner loop by autograd."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F

from dense_views import episodes_of
from graphs import islands, random_graph
from naq import Episodes, Graph, diffusion_neighbors, naq_episodes, sample_tasks
from naq.learners.glitter import Glitter, mutual_information
from naq.learners.glitter.task_graphs import LearnedTask, RowOperator, min_max, nearest_entries, reaching
from naq.nn import operator

EXACT = {"dropout": 0.0, "hidden": 8}


class Oracle:
    """One task, every matrix dense and whole; float64."""

    def __init__(self, learner: Glitter, support: np.ndarray, query: list[int]) -> None:
        self.learner, self.support, self.query = learner, support, query
        graph, options = learner.graph, learner.options
        looped = graph.adjacency.toarray() + np.eye(graph.num_nodes)
        rows = looped / looped.sum(axis=1, keepdims=True)
        two_hops = ((looped @ looped) > 0)[np.concatenate([support.ravel(), np.array(query, dtype=int)])].any(axis=0)
        self.nodes = np.flatnonzero(two_hops)
        features = graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
        features = features.astype(np.float64)
        if options["scale"] == "minmax":
            low = features.min(axis=0)
            features = (features - low) / (features.max(axis=0) - low + 1e-9)
        self.edges = torch.tensor(rows[np.ix_(self.nodes, self.nodes)])
        self.features = torch.tensor(features[self.nodes])
        self.s = np.searchsorted(self.nodes, support.ravel())
        self.q = np.searchsorted(self.nodes, np.array(query, dtype=int))
        self.way, self.k = learner.way, learner.k_keep

    def parameters(self) -> list[torch.Tensor]:
        return [p.detach().double().clone().requires_grad_() for p in self.learner.parameters()]

    def weights(self, first: torch.Tensor) -> torch.Tensor:
        kept = torch.zeros_like(self.edges)
        if self.k:
            h = self.learner.hidden
            taken = self.features @ first[:-1] + first[-1]
            p, r = F.normalize(taken[:, h : 2 * h].relu(), dim=1), F.normalize(taken[:, 2 * h :].relu(), dim=1)
            distance = torch.linalg.vector_norm(p[:, None] - r[None], dim=2)
            square = distance.detach() ** 2
            last = square.sort(dim=1).values[:, self.k - 1 : self.k]
            near = square <= last + 1e-6
            near = torch.where(near.sum(dim=1, keepdim=True) > 4 * self.k, square < last - 1e-6, near)
            kept = torch.where(near, torch.exp(-distance), 0.0)
        total = 0.5 * kept + self.edges
        return total / total.sum(dim=1, keepdim=True)

    def vectors(self, theta: list[torch.Tensor], factors: torch.Tensor | float = 1.0) -> torch.Tensor:
        first, second, bias, _, _ = theta
        h, w = self.learner.hidden, self.weights(first)
        hidden = torch.relu(w @ self.features @ first[:-1, :h] + first[-1, :h]) * factors
        return w @ hidden @ second + bias

    def contrast(self, z: torch.Tensor) -> torch.Tensor:
        shots = z[self.s].reshape(self.way, -1, z.shape[1])
        way, shot = shots.shape[:2]
        total = z.new_zeros(())
        for i in range(shot):
            for a in range(way):
                likeness = [F.cosine_similarity(shots[a, i], shots[b, (i + 1) % shot], dim=0) for b in range(way)]
                total = total - torch.log_softmax(torch.stack(likeness) / 0.1, 0)[a]
        return total / (way * shot)

    def received(self, first: torch.Tensor) -> torch.Tensor:
        """Influence of each class on each query."""
        w = self.weights(first)
        rest = np.setdiff1d(np.arange(len(self.nodes)), self.s)
        m, b = w[np.ix_(rest, rest)], w[np.ix_(rest, self.s)]
        everywhere = w[:, rest] @ (b + m @ b)
        assert torch.allclose(everywhere[rest], m @ b + m @ m @ b)
        return everywhere[self.q].unflatten(1, (self.way, -1)).sum(dim=2)

    def mutual(self, first: torch.Tensor) -> torch.Tensor:
        f = self.received(first)
        if not len(f):
            return f.sum()
        p = torch.stack([row / row.sum() if row.sum() > 0 else torch.full_like(row, 1 / self.way) for row in f])
        classes = p.sum(dim=0)
        safe = classes.clamp(min=1e-12).log()
        return (classes * safe).sum() - (p * p.clamp(min=1e-12).log()).sum(dim=1).mean()

    def entropy(self, theta: list[torch.Tensor], z: torch.Tensor, slots: np.ndarray) -> torch.Tensor:
        return F.cross_entropy(z @ theta[3] + theta[4], torch.tensor(slots))

    def adapted(self, dropped: list[torch.Tensor] | None = None) -> list[torch.Tensor]:
        theta, options = self.parameters(), self.learner.options
        slots = np.repeat(np.arange(self.way), len(self.s) // self.way)
        for step in range(self.learner.steps):
            z = self.vectors(theta, 1.0 if dropped is None else dropped[step])
            loss = self.entropy(theta, z[self.s], slots) + 0.2 * self.contrast(z) + 0.2 * self.mutual(theta[0])
            gradients = torch.autograd.grad(loss, theta)
            theta = [(t - options["inner_lr"] * g).detach().requires_grad_() for t, g in zip(theta, gradients)]
        return theta

    def outer(self, slots: np.ndarray, dropped: list[torch.Tensor] | None = None) -> tuple[float, list[torch.Tensor]]:
        """The outer loss and its first-order gradient."""
        theta = self.adapted(dropped)
        z = self.vectors(theta)
        loss = 0.2 * self.contrast(z)
        if len(self.q):
            loss = loss + self.entropy(theta, z[self.q], slots)
        return loss.item(), [
            torch.zeros_like(t) if g is None else g
            for g, t in zip(torch.autograd.grad(loss, theta, allow_unused=True), theta)
        ]

    def answers(self) -> torch.Tensor:
        theta = self.adapted()
        return (self.vectors(theta)[self.q] @ theta[3] + theta[4]).detach()


def check_episodes(learner: Glitter, episodes: Episodes, dropped: list[torch.Tensor] | None = None) -> None:
    """Loss and gradient are the means of the oracle's; what is in place of missing queries is not read."""
    expected, gradients = [], []
    for support, query, mask in zip(episodes.support, episodes.query, episodes.mask):
        one = Oracle(learner, support, query[mask].tolist()).outer(np.nonzero(mask)[0], dropped)
        expected.append(one[0])
        gradients.append(one[1])
    loss = learner.loss(episodes, 7)
    assert loss.item() == pytest.approx(np.mean(expected), rel=1e-4)
    for found, each in zip(torch.autograd.grad(loss, list(learner.parameters())), zip(*gradients)):
        mean = torch.stack(each).mean(0)
        assert torch.allclose(found.double(), mean, atol=2e-4 * max(1e-3, float(mean.abs().max())), rtol=1e-3)
    filled = np.where(episodes.mask, episodes.query, 5)
    assert torch.equal(learner.loss(Episodes(episodes.support, filled, episodes.mask), 7), loss)


@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("case", ["one shot", "missing queries"])
def test_the_outer_loss_and_its_gradient_are_the_dense_ones(k: int, case: str) -> None:
    learner = Glitter(random_graph(), way=3, seed=1, k_keep=k, **EXACT)
    episodes = episodes_of(case)
    check_episodes(learner, episodes)
    for t in range(3):
        check_episodes(learner, episodes[t : t + 1])


@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("entries", [0, 200_000_000])
@pytest.mark.parametrize("scale", ["minmax", "none"])
def test_dense_features_and_graphs_too_large_to_propagate_first(
    k: int, entries: int, scale: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator, "PROPAGATED_ENTRIES", entries)
    learner = Glitter(random_graph(dense=True), way=3, seed=2, k_keep=k, scale=scale, inner_lr=0.02, **EXACT)
    check_episodes(learner, episodes_of("one shot")[:1])


@pytest.mark.parametrize("k", [0, 2])
def test_nodes_in_two_roles(k: int) -> None:
    """Small components: queries are missing, shared by classes or supports themselves."""
    learner = Glitter(islands(), way=4, seed=3, k_keep=k, **EXACT)
    episodes = naq_episodes(diffusion_neighbors(islands(), k=6), way=4, queries=6, count=6)
    assert not episodes.mask.all() and episodes.overlap_ratio() > 0
    assert any(np.isin(episodes.query[t][episodes.mask[t]], episodes.support[t]).any() for t in range(6))
    check_episodes(learner, episodes)


def test_dropout_is_drawn_per_node_and_inner_step() -> None:
    learner = Glitter(random_graph(), way=3, seed=1, hidden=8)
    episode = episodes_of("three shots")[:1]
    oracle = Oracle(learner, episode.support[0], episode.query[0].ravel().tolist())
    _, field = learner.space.field(np.unique(episode.support))
    ordered = field[np.argsort(learner.space.rank.numpy()[field])]
    dropped = []
    for step in range(learner.steps):
        factors = torch.ones(len(oracle.nodes), 8, dtype=torch.float64)
        draw = learner._draw("train/7", step)
        assert draw is not None
        factors[np.searchsorted(oracle.nodes, ordered)] = draw(torch.arange(len(field))).double()
        dropped.append(factors)
    check_episodes(learner, episode, dropped)
    one = learner._draw("solve", 0)
    assert one is not None and torch.equal(one(torch.arange(5)), one(torch.arange(9))[:5])
    values = one(torch.arange(4000))
    assert set(values.unique().tolist()) == {0.0, 2.0} and abs(values.mean().item() - 1) < 0.02
    assert learner.loss(episode, 0).item() != learner.loss(episode, 1).item()
    assert learner.loss(episode, 1).item() == learner.loss(episode, 1).item()


@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("shot", [1, 2])
def test_tasks_are_solved_as_by_the_oracle(k: int, shot: int) -> None:
    graph = random_graph()
    learner = Glitter(graph.without_labels(), way=3, seed=4, k_keep=k, **EXACT)
    tasks = sample_tasks(graph, way=3, shot=shot, queries=3, count=5, seed=0)
    found = learner.solve(tasks)
    for t in range(5):
        logits = Oracle(learner, tasks.support[t].reshape(3, shot), tasks.query[t].tolist()).answers()
        best = logits.sort(dim=1, descending=True).values
        sure = (best[:, 0] - best[:, 1] > 1e-4).numpy()
        assert sure.any() and np.array_equal(found[t][sure], logits.argmax(dim=1).numpy()[sure])


def test_inner_steps_follow_the_release() -> None:
    assert Glitter(random_graph(), way=5).steps == 5
    assert Glitter(random_graph(), way=10).steps == 20
    assert Glitter(random_graph(), way=10, inner_steps=3).steps == 3


def test_a_query_that_no_support_reaches_counts_as_undecided() -> None:
    """Two far pairs, nothing kept but the node itself: influence is 0 without a path, and its gradient finite."""
    graph = Graph(np.array([[0, 1], [2, 3], [4, 5]]).T, np.eye(6, dtype=np.float32), nodes=6)
    space = RowOperator(graph, "none", torch.device("cpu"))
    task = LearnedTask(space, 0, np.array([[0], [2]]), np.array([1, 5]), torch.zeros(7, 18), k=1)
    first = torch.zeros(1, len(task.nodes), 3 * 6)
    at = torch.arange(len(task.nodes))
    first[0, at, 6 + task.nodes] = first[0, at, 12 + task.nodes] = 1.0
    _, received = task.inner(first, None)
    assert received[0, 0] > 0 and received[0, 1] == 0 and not received[1].any()
    received.requires_grad_()
    (gradient,) = torch.autograd.grad(mutual_information(received), received)
    assert gradient.isfinite().all() and mutual_information(torch.zeros(0, 4)).item() == 0


def test_nearest_pairs_keep_ties_and_drop_ties_without_end() -> None:
    generator = torch.Generator().manual_seed(0)
    p, r = (F.normalize(torch.rand(m, 6, generator=generator), dim=1) for m in (40, 700))
    r[5:9] = r[4]
    r[100:200] = 0.0
    p[3] = 0.0
    for k in (1, 3, 10, 700):
        square = torch.cdist(p.double(), r.double(), compute_mode="donot_use_mm_for_euclid_dist") ** 2
        last = square.sort(dim=1).values[:, k - 1 : k]
        kept = square <= last + 1e-6
        kept = torch.where(kept.sum(dim=1, keepdim=True) <= 4 * k, kept, square < last - 1e-6)
        expected = kept.nonzero().numpy()
        for block in (1 << 22, 7 * 700):
            pairs = torch.stack(nearest_entries(p, r, k, block), dim=1).tolist()
            assert sorted(pairs) == expected.tolist()
        targets = torch.tensor([4, 333, 650])
        must = kept[:, targets].any(dim=1).nonzero()[:, 0]
        may = reaching(p, r, targets, k)
        assert torch.isin(must, may).all() and (k > 10 or len(may) <= len(must) + 2)
    assert 3 not in nearest_entries(p, r, 3)[0]


def test_min_max() -> None:
    random = np.random.default_rng(0)
    dense = random.random((30, 5)).astype(np.float32) * (random.random((30, 5)) < 0.4) * 7
    dense[:, 1] = random.random(30) + 2
    dense[:, 2] = 0
    plain = (dense - dense.min(axis=0)) / (dense.max(axis=0) - dense.min(axis=0) + 1e-9)
    assert np.allclose(min_max(dense), plain, atol=1e-6)
    sparse = min_max(sp.csr_array(dense))
    assert sp.issparse(sparse) and np.allclose(sparse.toarray(), plain, atol=1e-6)
    dense[3, 0] = -14.0
    mixed = min_max(sp.csr_array(dense))
    assert np.allclose(mixed.toarray()[:, 0], dense[:, 0] / 14) and np.allclose(
        mixed.toarray()[:, 1:], plain[:, 1:], atol=1e-6
    )
