"""BGRL, AFGRL and COLA, whose encoder follows a slower copy of itself, against dense arithmetic and loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from threadpoolctl import threadpool_info

import methods_under_test as suite
from graphs import random_graph
from naq.neighbors.topk import Best
from naq_paper.rivals import afgrl
from naq_paper.rivals.afgrl import AFGRL, clusters, nearest_teachers, positives
from naq_paper.rivals.bgrl import BGRL
from naq_paper.rivals.cola import COLA, most_similar
from naq_paper.rivals.convolutions import draw_view
from naq_paper.rivals.pieces import Piece

GRAPH = suite.community_graph().without_labels()
OF_BGRL = {"hidden": 12, "latent": 6, "epochs": 20}
OF_COLA = {"hidden": 24, "latent": 16}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def unit(values):
    return values / torch.sqrt((values**2).sum(dim=-1, keepdim=True))


def train(model, first: int, end: int, optimizer=None):
    optimizer = optimizer or model.optimizer()
    for update in range(first, end):
        model.step(update, optimizer)
    return optimizer


def batch_norm(values, norm, running=False):
    mean, var = values.mean(dim=0), values.var(dim=0, unbiased=False)
    if running:
        mean, var = norm.running_mean, norm.running_var
    return (values - mean) / torch.sqrt(var + norm.eps) * norm.weight + norm.bias


# BGRL.


def plain_encoder(encoder, matrix, x, running=False):
    """[A X W + b -> batch normalisation over the nodes -> PReLU] twice, written out."""
    for weight, bias, norm, slope in zip(encoder.weights, encoder.biases, encoder.norms, encoder.slopes):
        x = batch_norm(matrix @ x @ weight + bias, norm, running)
        x = torch.where(x > 0, x, slope * x)
    return x


def plain_predictor(predictor, values):
    values = values @ predictor.first.weight.T + predictor.first.bias
    values = torch.where(values > 0, values, predictor.slope * values)
    return values @ predictor.second.weight.T + predictor.second.bias


def test_bgrls_loss_is_two_minus_two_mean_cosines_across_views():
    model, x = BGRL(GRAPH, **OF_BGRL), torch.from_numpy(GRAPH.features.toarray())
    piece, views = model.pieces[0], []
    for number in (1, 2):
        spread, mask = draw_view(model, piece, number, 3)
        assert set(mask.unique().tolist()) == {0.0, 1.0} and 0.2 < float(mask.mean()) < 0.8
        matrix = torch.zeros(len(piece), len(piece))
        matrix[piece.rows, piece.columns] = spread.values
        views.append((matrix, x * mask))
    assert not torch.equal(views[0][0], views[1][0]) and not torch.equal(views[0][1], views[1][1])
    expected = 2.0
    for mine, other in ((0, 1), (1, 0)):
        predicted = plain_predictor(model.predictor, plain_encoder(model.online, *views[mine]))
        answer = plain_encoder(model.target, *views[other])
        for p, a in zip(predicted, answer):
            expected -= (p @ a / (p.norm() * a.norm())).item() / len(piece)
    model.train()
    assert model.loss(piece, 3).item() == pytest.approx(expected, abs=1e-5)
    batched = BGRL(GRAPH, batch=32, **OF_BGRL)
    piece = batched.pieces[1]
    whole = Piece(GRAPH, "cpu", piece.nodes, seeds=len(piece))
    batched.train()
    losses = [batched.loss(one, 0).item() for one in (piece, whole)]
    assert piece.seeds < len(piece) and abs(losses[0] - losses[1]) > 1e-6, "only the nodes of the batch count"


def test_bgrls_embedding_uses_running_statistics_of_the_graph_as_it_is():
    model = BGRL(GRAPH, bn_momentum=0.25, **OF_BGRL)
    train(model, 0, 4)
    x, matrix = (torch.from_numpy(one.toarray()) for one in (GRAPH.features, GRAPH.normalized_adjacency()))
    expected = plain_encoder(model.online, matrix, x, running=True).detach()
    assert torch.allclose(model.encode_all(), expected, atol=1e-4)
    assert model.training, "embedding leaves the training mode as it was"
    assert torch.allclose(model.online.encode_all(model.operator, 17), model.encode_all(), atol=1e-5)
    z = BGRL(GRAPH, scale="minmax", **OF_BGRL).embed()
    assert z.min() == 0 and z.max() == pytest.approx(1)


def test_bgrls_target_starts_fresh_or_as_a_copy_and_is_not_optimised():
    copied, fresh = BGRL(GRAPH, target="copy", **OF_BGRL), BGRL(GRAPH, target="fresh", **OF_BGRL)
    assert all(torch.equal(a, b) for a, b in zip(copied.target.parameters(), copied.online.parameters()))
    assert not torch.equal(fresh.target.weights[0], fresh.online.weights[0])
    trained = {id(p) for group in fresh.optimizer().param_groups for p in group["params"]}
    assert not trained & {id(p) for p in fresh.target.parameters()}


def follows(name, update, updates):
    if name == "cola":
        return 0.9
    return 1 - 0.1 * (1 + math.cos(math.pi * update / updates)) / 2


@pytest.mark.parametrize("batch", [0, 40])
@pytest.mark.parametrize("name", ["afgrl", "bgrl", "cola"])
def test_the_slow_copy_follows_once_per_update(name, batch):
    widths = {"hidden": 12, "latent": 8, "epochs": 3, "lr": 0.01, "batch": batch}
    model = {"afgrl": AFGRL, "bgrl": BGRL, "cola": COLA}[name](GRAPH, **widths)
    slow, fast = (model.teacher, model.student) if name == "afgrl" else (model.target, model.online)
    assert {m.momentum for m in model.modules() if isinstance(m, torch.nn.BatchNorm1d)} == {0.1 if batch else 0.99}
    optimizer = model.optimizer()
    for update in range(model.updates):
        before = [p.clone() for p in slow.parameters()]
        model.step(update, optimizer)
        keep = follows(name, update, model.updates)
        for old, now, new in zip(before, slow.parameters(), fast.parameters()):
            assert now.grad is None and torch.allclose(now, keep * old + (1 - keep) * new, atol=1e-6)


# AFGRL.


def of_afgrl(**options) -> AFGRL:
    small = {"hidden": 12, "latent": 8, "predictor": 16, "clusters": 5, "epochs": 12}
    return AFGRL(random_graph(n=90, edges=200), seed=3, **(small | options))


def dense_nearest(students: np.ndarray, teachers: np.ndarray, k: int) -> np.ndarray:
    """The k largest of every row of all similarities with 10 on the diagonal, ties to the lowest id."""
    similar = students.astype(np.float64) @ teachers.astype(np.float64).T
    similar[np.arange(len(students)), np.arange(len(students))] += 10
    return np.argsort(-similar, axis=1, kind="stable")[:, :k]


def dense_positives(near: np.ndarray, adjacency: np.ndarray, labels: np.ndarray) -> np.ndarray:
    n = len(adjacency)
    knn = np.zeros((n, n), dtype=bool)
    knn[np.arange(len(near))[:, None], near] = True
    reasons = (adjacency + np.eye(n)) > 0
    for run in labels.T:
        reasons |= run[:, None] == run[None, :]
    return knn & reasons


@pytest.mark.parametrize("options", [{}, {"batch": 20, "fanout": 3}, {"runs": 0}, {"layers": 1, "k": 8}])
def test_afgrls_loss_is_the_mean_over_positive_pairs(options):
    model = of_afgrl(**options)
    train(model, 0, 3)
    model.train()
    piece = model.pieces[3]
    loss = model.loss(piece, 3)
    labels = model.held_clusters.numpy()[piece.nodes] if model.options["runs"] else np.empty((len(piece), 0))
    f, g = model.student(piece), model.teacher(piece).detach()
    q = model.predictor(f)
    near = dense_nearest(unit(f.detach())[: piece.seeds].numpy(), unit(g).numpy(), int(model.options["k"]))
    adjacency = model.graph.adjacency.toarray()[np.ix_(piece.nodes, piece.nodes)]
    pairs = np.argwhere(dense_positives(near, adjacency, labels))
    cos = F.cosine_similarity
    terms = [(2 - 2 * cos(q[i], g[j], dim=0)) + (2 - 2 * cos(q[j], g[i], dim=0)) for i, j in pairs.tolist()]
    expected = torch.stack(terms).mean()
    assert len(terms) > piece.seeds and set(pairs[:, 0]) == set(range(piece.seeds))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    trained = list(model.trained())
    found, wanted = (torch.autograd.grad(value, trained) for value in (loss, expected))
    largest = max(float(grad.abs().max()) for grad in wanted)
    for one, two in zip(found, wanted):  # biases before a normalisation have none
        assert torch.allclose(one, two, atol=1e-5 * largest)


@pytest.mark.parametrize(("batch", "due"), [(0, [0, 3, 6]), (30, [0, 9, 18])])
def test_when_afgrl_searches_for_clusters(batch, due, monkeypatch):
    """Of the whole graph, at the start of an epoch; nearest nodes are found at every update."""
    model, seen, now = of_afgrl(epochs=8, refresh=3, batch=batch), [], [0]

    def kept(vectors, *given):
        expected = unit(model.teacher.encode_all(model.operator)) if batch else unit(model.teacher(model.pieces[0]))
        assert torch.allclose(vectors, expected.detach(), atol=1e-5)
        seen.append((now[0], clusters(vectors, *given)))
        return seen[-1][1]

    monkeypatch.setattr(afgrl, "clusters", kept)
    optimizer = model.optimizer()
    for now[0] in range(model.updates):
        model.step(now[0], optimizer)
    assert [update for update, _ in seen] == due and torch.equal(model.held_clusters, seen[-1][1])


@pytest.mark.parametrize("batch", [0, 40])
def test_a_stopped_afgrl_goes_on_with_the_clusters_it_had_found(batch):
    options = {"refresh": 5, "runs": 2, "k": 6, "batch": batch}
    whole = of_afgrl(**options)
    train(whole, 0, whole.updates)
    stop = 7 * whole.updates_per_epoch  # between two searches

    def resumed(forget: bool = False):
        first, second = of_afgrl(**options), of_afgrl(**options)
        optimizer = train(first, 0, stop)
        state = {name: value.clone() for name, value in first.state_dict().items()}
        if forget:
            state["held_clusters"].zero_()
        second.load_state_dict(state)
        fresh = second.optimizer()
        fresh.load_state_dict(optimizer.state_dict())
        train(second, stop, second.updates, fresh)
        return second.state_dict()

    expected, found = whole.state_dict(), resumed()
    assert found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in expected)
    assert not torch.equal(resumed(forget=True)["student.weights.0"], expected["student.weights.0"])


def random_unit(n: int, d: int, seed: int) -> torch.Tensor:
    return F.normalize(torch.randn(n, d, generator=generator(seed)), dim=1)


class BestInTorch(Best):
    """The accelerator's lists."""

    def __init__(self, *args) -> None:
        super().__init__(*args)
        self.on_cpu = False


@pytest.mark.parametrize("lists", [Best, BestInTorch])
@pytest.mark.parametrize(("m", "k"), [(230, 4), (230, 1), (71, 8)])
def test_nearest_teachers_are_the_top_of_all_similarities(lists, m, k, monkeypatch):
    monkeypatch.setattr(afgrl, "Best", lists)
    teachers = random_unit(230, 6, 1)
    students = F.normalize(teachers + 0.3 * random_unit(230, 6, 2), dim=1)[:m]
    students[3] = -teachers[3]  # the least similar of all, and yet its own first
    found = nearest_teachers(students, teachers, k, rows=32, columns=50)
    assert np.array_equal(found.numpy(), dense_nearest(students.numpy(), teachers.numpy(), k))
    assert np.array_equal(found[:, 0].numpy(), np.arange(m))
    drawn = np.random.default_rng(0).integers(-1, 2, size=(2, 120, 4)).astype(np.float32)  # exact products, many equal
    one, two = (torch.from_numpy(part) for part in drawn)
    expected = one @ two.T
    expected[torch.arange(120), torch.arange(120)] = 100.0
    expected = torch.sort(expected, dim=1, descending=True, stable=True).indices[:, :5]
    assert torch.equal(nearest_teachers(one, two, 5, rows=32, columns=50), expected)
    few = random_unit(3, 4, 0)
    assert np.array_equal(np.sort(nearest_teachers(few, few, 8).numpy(), axis=1), [[0, 1, 2]] * 3)
    nan = nearest_teachers(torch.full((7, 4), torch.nan), torch.full((7, 4), torch.nan), 3)
    assert nan.min() >= 0 and nan.max() < 7


def plain_lloyd(vectors: torch.Tensor, start: torch.Tensor, iterations: int = 20) -> list[int]:
    """Distance by distance, mean by mean."""
    points, centers = vectors.double().numpy(), vectors[start].double().numpy()
    for _ in range(iterations):
        labels = ((points[:, None, :] - centers[None]) ** 2).sum(axis=2).argmin(axis=1)
        centers = np.stack([points[labels == c].mean(axis=0) for c in range(len(centers))])
    return ((points[:, None, :] - centers[None]) ** 2).sum(axis=2).argmin(axis=1).tolist()


def test_clusters_are_those_of_twenty_plain_iterations():
    line = torch.linspace(0, 1, 1001).square()[:, None]  # borders between clusters creep
    for vectors in (random_unit(400, 5, 3), line):
        found, drawn = clusters(vectors, 7, 3, generator(5)), generator(5)
        for run in range(3):
            start = torch.randperm(len(vectors), generator=drawn)[:7]
            assert found[:, run].tolist() == plain_lloyd(vectors, start)
        assert not torch.equal(found[:, 0], found[:, 1])
    start = torch.randperm(1001, generator=generator(5))[:7]
    assert found[:, 0].tolist() != plain_lloyd(line, start, 19), "it must not have settled before"


def test_neither_threads_nor_odd_vectors_change_clusters(threads):
    vectors = random_unit(3000, 16, 4)
    pools = {(pool["filepath"], pool["num_threads"]) for pool in threadpool_info()}
    found = clusters(vectors, 20, 3, generator())
    assert pools <= {(pool["filepath"], pool["num_threads"]) for pool in threadpool_info()}, "limits are taken back"
    threads(1)
    assert torch.equal(found, clusters(vectors, 20, 3, generator()))
    assert not torch.equal(found, clusters(vectors, 20, 3, generator(1)))
    same = torch.ones(30, 4) / 2
    assert len(set(clusters(same, 10, 2, generator())[:, 0].tolist())) <= 10
    assert clusters(same, 10, 0, generator()).shape == (30, 0)
    assert sorted(clusters(random_unit(6, 3, 0), 100, 2, generator())[:, 0].tolist()) == [0, 1, 2, 3, 4, 5]
    vectors[3, 2] = torch.nan
    assert not clusters(vectors, 5, 2, generator()).any()


@pytest.mark.parametrize("runs", [0, 1, 3])
@pytest.mark.parametrize("m", [90, 40])
def test_positives_are_those_of_dense_masks(runs, m):
    vectors, drawn = random_unit(90, 3, 0), np.triu(np.random.default_rng(0).random((90, 90)) < 0.05, 1)
    adjacency, labels = (drawn | drawn.T).astype(float), np.random.default_rng(1).integers(0, 9, size=(90, runs))
    near = nearest_teachers(vectors[:m], vectors, 12)
    entries = (torch.from_numpy(part) for part in np.nonzero(adjacency + np.eye(90)))
    found = positives(near, *entries, torch.from_numpy(labels))
    expected = dense_positives(near.numpy(), adjacency, labels)
    assert isinstance(found, sp.csr_array) and found.has_canonical_format
    assert np.array_equal(found.toarray(), expected.astype(np.float32))
    assert expected.sum() > m and np.array_equal(found.diagonal(), np.arange(90) < m)


# COLA.


def of_cola(**options) -> COLA:
    """A model on 43 nodes whose slow copy has other weights than its encoder."""
    given = {"way": 3, "shot": 2, "tasks": 4, "temperature": 0.5, **OF_COLA, **options}
    model, drawn = COLA(suite.community_graph(size=6), seed=3, **given), generator()
    for parameter in model.target.parameters():
        parameter.add_(0.1 * torch.randn(parameter.shape, generator=drawn))
    for bias in (*model.online.biases, *model.target.biases):
        torch.nn.init.normal_(bias, std=0.1, generator=drawn)
    return model


def encoded(e: COLA, who: str, view: int, piece: Piece, update: int, weights) -> torch.Tensor:
    """[convolution, batch normalisation, ReLU, dropout], convolution: dense, on a view drawn as the model draws it."""
    w = {name.removeprefix(f"{who}."): value for name, value in weights.items() if name.startswith(f"{who}.")}
    spread = piece.spread(e.options[f"drop_edge{view}"], e.generator(f"edges{view}", update))
    hat = torch.zeros(len(piece), len(piece), dtype=torch.float64)
    hat[piece.rows, piece.columns] = spread.values.double()
    columns = torch.rand(e.graph.num_features, generator=e.generator(f"columns{view}", update))
    x = torch.from_numpy(piece.features.toarray()).double() * (columns >= e.options[f"drop_feature{view}"])
    values = hat @ (x @ w["weights.0"]) + w["biases.0"]
    apart = values - values.mean(dim=0)
    values = apart / torch.sqrt((apart**2).mean(dim=0) + 1e-5) * w["norms.0.weight"] + w["norms.0.bias"]
    values, drop = torch.clamp(values, min=0), e.options["dropout"]
    keep = torch.rand(values.shape, generator=e.generator(f"dropout{view}", update)) >= drop
    return hat @ (values * keep / (1 - drop) @ w["weights.1"]) + w["biases.1"]


@pytest.mark.parametrize(
    ("options", "update"),
    [({}, 5), ({"dropout": 0.0, "temperature": 1.0, "shot": 4}, 5), ({"batch": 12, "fanout": 2}, 6)],
)
def test_colas_loss_and_gradients_are_those_of_loops_over_tasks_queries_and_support(options, update):
    """Queries are nodes of the batch, similar nodes those of the piece."""
    e = of_cola(**options)
    piece = e.pieces[update]
    e.train()
    loss = e.loss(piece, update)
    loss.backward()
    weights = {k: v.detach().double().requires_grad_() for k, v in e.named_parameters()}
    z1 = unit(encoded(e, "online", 1, piece, update, weights) @ weights["head.weight"].T + weights["head.bias"])
    z = {view: unit(encoded(e, "target", view, piece, update, weights)).detach() for view in (2, 3)}
    tau, shot, terms = e.options["temperature"], int(e.options["shot"]), []
    for one, other in ((2, 3), (3, 2)):
        for task in e.queries(piece.seeds, update).tolist():
            near = {q: torch.argsort(-(z[other] @ z[one][q]))[:shot] for q in task}
            for q in task:
                scores = [torch.exp(z1[q] @ z[other][s] / tau) for same in task for s in near[same]]
                terms.append(torch.log(sum(scores)) - z1[q] @ z[other][near[q]].mean(dim=0) / tau)
    wanted = torch.stack(terms).mean()
    wanted.backward()
    assert loss.item() == pytest.approx(wanted.item(), rel=1e-5)
    for name, parameter in e.named_parameters():
        if name.startswith("target."):
            assert parameter.grad is None and not parameter.requires_grad
        else:
            error = (parameter.grad - weights[name].grad).abs().max()
            assert error < 2e-4 * weights[name].grad.abs().max() + 1e-6, name


def test_colas_queries_and_similar_nodes():
    e = of_cola(tasks=14, epochs=8, lr=0.02)
    found, few = e.queries(43, 0), e.queries(7, 0)
    assert found.shape == (14, 3) and len(set(found.ravel().tolist())) == 42  # all but one of 43 nodes
    assert few.shape == (14, 3) and few.max() < 7 and all(len(set(task)) == 3 for task in few.tolist())
    assert not torch.equal(found, e.queries(43, 1)) and torch.equal(found, e.queries(43, 0))
    assert [e.rate(u) for u in (0, 2, 4, 8)] == pytest.approx([0.02, 0.01 * (1 + math.sqrt(0.5)), 0.01, 0.0], abs=1e-12)
    queries, keys = torch.randn(11, 6, generator=generator()), torch.randn(40, 6, generator=generator(1))
    expected = np.argsort(-(queries @ keys.T).numpy(), axis=1)[:, :7].tolist()
    assert all(most_similar(queries, keys, 7, held=held).tolist() == expected for held in (1, 100, 10_000))


def test_colas_vectors_are_the_encoders_own():
    """With running statistics, without dropout, before the head, whole or in blocks; the slow copy plays no part."""
    e = COLA(GRAPH, seed=1, epochs=4, **OF_COLA)
    assert all(torch.equal(a, b) for a, b in zip(e.target.parameters(), e.online.parameters()))
    train(e, 0, e.updates)
    w = {k: v.detach().double() for k, v in e.state_dict().items()}
    hat, x = (torch.from_numpy(one.toarray()).double() for one in (GRAPH.normalized_adjacency(), GRAPH.features))
    h = hat @ x @ w["online.weights.0"] + w["online.biases.0"]
    h = (h - w["online.norms.0.running_mean"]) / torch.sqrt(w["online.norms.0.running_var"] + 1e-5)
    h = torch.clamp(h * w["online.norms.0.weight"] + w["online.norms.0.bias"], min=0)
    wanted = hat @ h @ w["online.weights.1"] + w["online.biases.1"]
    assert torch.allclose(e.encode_all().double(), wanted, atol=1e-4)
    batched = COLA(GRAPH, seed=1, batch=50, **OF_COLA)
    batched.load_state_dict(e.state_dict())
    assert torch.allclose(batched.encode_all(), e.encode_all(), atol=1e-5)
