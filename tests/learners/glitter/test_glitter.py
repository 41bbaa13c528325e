"""GLITTER against a dense oracle: whole task graphs, whole attention matrices, the inner loop by autograd."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F

import methods_under_test as suite
from graphs import islands, random_graph
from label_peeking import check_no_label_peeking
from naq import Episodes, Graph, Tasks, diffusion_neighbors, naq_episodes, sample_tasks, supervised_episodes
from naq.errors import OptionError
from naq.learners import meta_batch
from naq.learners.glitter import Glitter, contrastive, mutual_information, task_graphs
from naq.learners.glitter.task_graphs import LearnedTask, RowOperator, min_max
from naq.methods import get_method, methods
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


def oracle_of(learner: Glitter, episode: Episodes) -> tuple[Oracle, np.ndarray]:
    kept = episode.mask[0]
    return Oracle(learner, episode.support[0], episode.query[0][kept].tolist()), np.nonzero(kept)[0]


def assert_same(learner: Glitter, episode: Episodes, dropped: list[torch.Tensor] | None = None) -> None:
    """Loss and gradient of one episode are the oracle's."""
    oracle, slots = oracle_of(learner, episode)
    expected, gradients = oracle.outer(slots, dropped)
    loss = learner.loss(episode, 7)
    assert loss.item() == pytest.approx(expected, rel=1e-4)
    found = torch.autograd.grad(loss, list(learner.parameters()))
    for one, two in zip(found, gradients):
        assert torch.allclose(one.double(), two, atol=2e-4 * max(1e-3, float(two.abs().max())), rtol=1e-3)


def supervised(count: int = 2, shot: int = 2, queries: int = 4) -> Episodes:
    return supervised_episodes(random_graph().labels, range(3), way=3, shot=shot, queries=queries, count=count)


@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("shot", [1, 2])
def test_the_outer_loss_and_its_gradient_are_the_dense_ones(k: int, shot: int) -> None:
    learner = Glitter(random_graph(), way=3, seed=1, k_keep=k, **EXACT)
    for t in range(2):
        assert_same(learner, supervised(2, shot)[t : t + 1])


@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("scale", ["minmax", "none"])
def test_dense_features(k: int, scale: str) -> None:
    learner = Glitter(random_graph(dense=True), way=3, seed=2, k_keep=k, scale=scale, inner_lr=0.02, **EXACT)
    assert_same(learner, supervised(1, 1))


@pytest.mark.parametrize("k", [0, 3])
def test_a_graph_too_large_to_propagate_first(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "PROPAGATED_ENTRIES", 0)
    for dense in (False, True):
        learner = Glitter(random_graph(dense=dense), way=3, seed=2, k_keep=k, inner_lr=0.02, **EXACT)
        assert_same(learner, supervised(1, 1))
        assert torch.allclose(learner.encode(np.arange(60)), learner.encode_all(), atol=1e-6)


@pytest.mark.parametrize("k", [0, 2])
def test_missing_queries_and_nodes_in_two_roles(k: int) -> None:
    """Small components: queries are missing, shared by classes or supports themselves."""
    learner = Glitter(islands(), way=4, seed=3, k_keep=k, **EXACT)
    episodes = naq_episodes(diffusion_neighbors(islands(), k=6), way=4, queries=6, count=6)
    assert not episodes.mask.all() and episodes.overlap_ratio() > 0
    assert any(np.isin(episodes.query[t][episodes.mask[t]], episodes.support[t]).any() for t in range(6))
    for t in range(6):
        assert_same(learner, episodes[t : t + 1])
        other = np.where(episodes.mask, episodes.query, 5)[t : t + 1]
        same = Episodes(episodes.support[t : t + 1], other, episodes.mask[t : t + 1])
        assert torch.equal(learner.loss(same), learner.loss(episodes[t : t + 1]))


@pytest.mark.parametrize("k", [0, 3])
def test_without_queries_the_contrast_remains(k: int) -> None:
    learner = Glitter(random_graph(), way=3, k_keep=k, **EXACT)
    episode = supervised(1)
    empty = Episodes(episode.support, np.full_like(episode.query, -1), np.zeros_like(episode.mask))
    assert_same(learner, empty)
    loss = learner.loss(empty)
    loss.backward()
    assert torch.isfinite(loss) and all(p.grad is not None and p.grad.isfinite().all() for p in learner.parameters())


@pytest.mark.parametrize("k", [0, 3])
def test_several_episodes_are_the_mean_of_single_losses(k: int) -> None:
    learner = Glitter(random_graph(), way=3, k_keep=k, **EXACT)
    episodes = supervised(4)
    mask = episodes.mask.copy()
    mask[0, :, 2:], mask[3] = False, False
    episodes = Episodes(episodes.support, episodes.query, mask)
    singles = torch.stack([learner.loss(episodes[t : t + 1]) for t in range(4)])
    assert torch.allclose(learner.loss(episodes), singles.mean(), rtol=1e-5)
    for one, two in zip(
        torch.autograd.grad(learner.loss(episodes), list(learner.parameters())),
        torch.autograd.grad(singles.mean(), list(learner.parameters())),
    ):
        assert torch.allclose(one, two, atol=1e-6)


def test_dropout_is_drawn_per_node_and_inner_step() -> None:
    learner = Glitter(random_graph(), way=3, seed=1, hidden=8)
    episode = supervised(1)
    oracle, _ = oracle_of(learner, episode)
    _, field = learner.space.field(np.unique(episode.support))
    ordered = field[np.argsort(learner.space.rank.numpy()[field])]
    dropped = []
    for step in range(learner.steps):
        factors = torch.ones(len(oracle.nodes), 8, dtype=torch.float64)
        draw = learner._draw("train/7", step)
        assert draw is not None
        factors[np.searchsorted(oracle.nodes, ordered)] = draw(torch.arange(len(field))).double()
        dropped.append(factors)
    assert_same(learner, episode, dropped)
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


@pytest.mark.parametrize("k", [0, 3])
def test_solving_needs_no_gradient_mode_and_leaves_the_weights(k: int) -> None:
    graph = suite.community_graph()
    learner = Glitter(graph.without_labels(), way=2, k_keep=k)
    before = {name: value.clone() for name, value in learner.state_dict().items()}
    tasks = sample_tasks(graph, way=2, shot=1, queries=4, count=20, seed=0)
    with torch.no_grad():
        found = learner.solve(tasks)
    assert np.array_equal(found, learner.solve(tasks))
    assert all(torch.equal(before[name], value) for name, value in learner.state_dict().items())
    new_id = np.random.default_rng(0).permutation(graph.num_nodes)
    moved = Glitter(suite.relabelled(graph, new_id).without_labels(), way=2, k_keep=k)
    assert (moved.solve(tasks.relabelled(new_id)) == found).mean() > 0.99


def test_neighbourhoods_too_large_for_their_gram_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = Glitter(random_graph(), way=3, seed=1)
    tasks = sample_tasks(random_graph(), way=3, shot=2, queries=3, count=5, seed=0)

    def found() -> list[torch.Tensor]:
        loss = learner.loss(supervised(2), 0)
        gradients = torch.autograd.grad(loss, list(learner.parameters()))
        return [loss.detach(), *gradients, torch.from_numpy(learner.solve(tasks))]

    one = found()
    monkeypatch.setattr(meta_batch, "CHUNK_ENTRIES", 1)
    monkeypatch.setattr(meta_batch, "GRAM_ENTRIES", 1)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(one, found()))


def test_inner_steps_follow_the_release() -> None:
    assert Glitter(random_graph(), way=5).steps == 5
    assert Glitter(random_graph(), way=10).steps == 20
    assert Glitter(random_graph(), way=10, inner_steps=3).steps == 3


def test_contrast_and_influence_by_hand() -> None:
    z = torch.eye(3)[None]
    expected = -torch.log_softmax(torch.tensor([10.0, 0.0, 0.0]), 0)[0]
    assert contrastive(z, 3).item() == pytest.approx(expected.item(), rel=1e-5)
    received = torch.tensor([[0.2, 0.2], [0.0, 0.0], [0.3, 0.0]], requires_grad=True)
    found = mutual_information(received)
    classes = np.array([2.0, 1.0])
    assert found.item() == pytest.approx((classes * np.log(classes)).sum() + 2 / 3 * np.log(2), rel=1e-5)
    assert torch.autograd.grad(found, received)[0].isfinite().all()
    assert mutual_information(torch.zeros(0, 4)).item() == 0


def test_a_query_that_no_support_reaches_counts_as_undecided() -> None:
    """Two far pairs, nothing kept but the node itself: influence is 0 where there is no path."""
    graph = Graph(np.array([[0, 1], [2, 3], [4, 5]]).T, np.eye(6, dtype=np.float32), nodes=6)
    space = RowOperator(graph, "none", torch.device("cpu"))
    task = LearnedTask(space, 0, np.array([[0], [2]]), np.array([1, 5]), torch.zeros(7, 18), k=1)
    first = torch.zeros(1, len(task.nodes), 3 * 6)
    at = torch.arange(len(task.nodes))
    first[0, at, 6 + task.nodes] = first[0, at, 12 + task.nodes] = 1.0
    _, received = task.inner(first, None)
    assert received[0, 0] > 0 and received[0, 1] == 0 and not received[1].any()
    assert mutual_information(received).isfinite()


def test_nearest_keeps_ties_and_drops_ties_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
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
            monkeypatch.setattr(task_graphs, "BLOCK", block)
            pairs = torch.stack(task_graphs.nearest(p, r, k), dim=1).tolist()
            assert sorted(pairs) == expected.tolist()
        targets = torch.tensor([4, 333, 650])
        must = kept[:, targets].any(dim=1).nonzero()[:, 0]
        may = task_graphs.reaching(p, r, targets, k)
        assert torch.isin(must, may).all() and (k > 10 or len(may) <= len(must) + 2)
    assert 3 not in task_graphs.nearest(p, r, 3)[0]


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


def test_rows_of_dropout_do_not_follow_ids() -> None:
    graph = suite.community_graph()
    new_id = np.random.default_rng(1).permutation(graph.num_nodes)
    one, two = (RowOperator(g, "minmax", torch.device("cpu")) for g in (graph, suite.relabelled(graph, new_id)))
    assert torch.equal(one.rank, two.rank[new_id])


def test_steps_lower_the_loss() -> None:
    for k in (0, 3):
        learner = Glitter(random_graph(), way=3, seed=1, k_keep=k, dropout=0.0)
        optimizer = learner.optimizer()
        losses = [float(learner.step(supervised(1), update, optimizer)) for update in range(40)]
        assert losses[-1] < 0.85 * losses[0]


def test_options() -> None:
    for given, words in (
        ({"k_keep": -1}, "k_keep of glitter is -1"),
        ({"dropout": 1.0}, "dropout of glitter is 1.0"),
        ({"dropout": -0.1}, "dropout of glitter is -0.1"),
        ({"inner_steps": -2}, "inner_steps of glitter is -2"),
        ({"inner_lr": 0.0}, "inner_lr of glitter"),
        ({"hidden": 0}, "hidden of glitter"),
        ({"scale": "minmaxx"}, "did you mean minmax"),
    ):
        with pytest.raises(OptionError, match=words):
            Glitter(random_graph(), way=3, **given)
    learner = Glitter(random_graph(), way=3)
    assert "weight_decay" in learner.optimizer().defaults and learner.optimizer().defaults["weight_decay"] == 5e-4
    with pytest.raises(OptionError, match="trained for 3"):
        learner.loss(supervised_episodes(random_graph().labels, range(3), way=2, shot=1, queries=2, count=1))
    with pytest.raises(OptionError, match=r"nodes 0\.\.59"):
        learner.solve(Tasks(np.array([[0, 1, 99]]), np.array([[3, 4, 5]]), way=3, shot=1))


def test_registered_for_all_episodes_but_one() -> None:
    assert {"naq-feat/glitter", "naq-diff/glitter", "supervised/glitter"} <= set(methods())
    with pytest.raises(OptionError, match="the same node"):
        get_method("g-umtra/glitter")


KINDS = ("naq-feat/glitter", "supervised/glitter")


@pytest.fixture(params=[3], ids=["learned"])
def edges(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The generic suite again with learned edges."""
    monkeypatch.setattr(Glitter, "defaults", {**Glitter.defaults, "k_keep": request.param})
    return request.param


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    "check",
    [
        suite.check_shape_and_seed,
        suite.check_relabelling,
        suite.check_small_graphs,
        suite.check_encode,
        suite.check_solves,
    ],
)
def test_generic_suite(name: str, check, edges: int) -> None:
    check(get_method(name))


@pytest.mark.parametrize("name", KINDS)
def test_files_and_resumed_runs(name: str, edges: int, tmp_path) -> None:
    suite.check_save_and_load(get_method(name), tmp_path)
    suite.check_resume(get_method(name), tmp_path)


@pytest.mark.parametrize("name", KINDS)
def test_no_access_to_labels(name: str, edges: int, tmp_path) -> None:
    check_no_label_peeking(get_method(name), tmp_path)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_cpu_and_cuda_agree(edges: int) -> None:
    suite.check_devices(get_method("naq-feat/glitter"))
    graph = suite.community_graph()
    tasks = sample_tasks(graph, way=2, shot=2, queries=4, count=20, seed=0)
    one, two = (
        Glitter(graph.without_labels(), way=2, k_keep=edges, device=device).solve(tasks) for device in ("cpu", "cuda")
    )
    assert (one == two).mean() > 0.98
