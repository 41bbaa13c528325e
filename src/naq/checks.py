"""Every fast path next to its slow, obvious form in NumPy and SciPy, on one small case: ``naq doctor --check``.

A check returns the largest difference between both, and the most that rounding may make of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.linalg import fractional_matrix_power
from scipy.spatial.distance import cdist
from sklearn.linear_model import LogisticRegression

from naq.classifier.discriminant import OFFSET, Scatter
from naq.classifier.pool import log_softmax
from naq.classifier.prototypes import ROUNDS, SHARPNESS, class_means, folds
from naq.classifier.views import View
from naq.embedders.closed_form import ClosedForm
from naq.episodes import supervised_episodes
from naq.graph import Graph
from naq.heads import make_head
from naq.learners.maml import MAML
from naq.learners.protonet import ProtoNet
from naq.neighbors import NeighborTable, diffusion_neighbors, feature_neighbors, vector_neighbors
from naq.neighbors.similarity import METRICS
from naq.nn import GCN, GraphOperator, LocalOperator
from naq.plugins import imported
from naq.random import stream
from naq.tasks import Tasks
from naq.training import EpisodeTraining

Difference = tuple[float, float]


def check_all() -> dict[str, dict[str, Any]]:
    """By name of the check ``difference`` and ``allowed``, or the ``error`` it ended with; for CUDA too if there is a device."""
    found: dict[str, dict[str, Any]] = {}
    for device in ("cpu", *(["cuda"] if torch.cuda.is_available() else [])):
        for name, check in (CHECKS if device == "cpu" else ON_CUDA).items():
            try:
                difference, allowed = check(device)
                one: dict[str, Any] = {"difference": float(difference), "allowed": allowed}
            except Exception as error:  # whatever is broken, the others are still checked
                one = {"error": " ".join(f"{type(error).__name__}: {error}".split())[:200]}
            found[name if device == "cpu" else f"{name}, on CUDA"] = one
    return found


def exact_tables(device: str) -> Difference:
    """Of sparse and dense features, and of vectors."""
    pairs = [(dense, metric) for dense in (False, True) for metric in METRICS]
    tables = [feature_neighbors(_graph(dense=d), 8, metric=m, search="exact", device=device) for d, m in pairs]
    tables.append(vector_neighbors(_rows(_graph(dense=True)), 8, exact=True, device=device))
    return max(_off(one, _similarity(d, m)) for one, (d, m) in zip(tables, [*pairs, (True, "cosine")])), 1e-5


def approximate_tables(device: str) -> Difference:
    """As exact ones; of the neighbours 95 % have to be found."""
    pairs = [(dense, metric) for dense in (False, True) for metric in METRICS[:2]]
    tables = [feature_neighbors(_graph(2000, d), 8, metric=m, search="approximate", device=device) for d, m in pairs]
    tables.append(vector_neighbors(_rows(_graph(2000, True)), 8, exact=False, device=device))
    slow = [_similarity(d, m, 2000) for d, m in [*pairs, (True, "cosine")]]
    return max(_off(table, one, 0.95) for table, one in zip(tables, slow)), 1e-5


def solved_diffusion(device: str) -> Difference:
    return _diffusion_off(method="exact", device=device), 1e-7


def pushed_diffusion(device: str) -> Difference:
    """Off by ``tolerance`` times the root of two degrees at most, once in the score and once in the choice."""
    return _diffusion_off(method="push", tolerance=1e-7), 2e-7 * float(_graph().degrees.max() + 1)


def receptive_fields(device: str) -> Difference:
    """Two layers of a GCN: on the nodes that some rows need, on all nodes, and on a sub-graph of each node."""
    graph, nodes = _graph(), np.arange(0, 400, 7)
    encoder = GCN(GraphOperator(graph, device), 6, seed=3, hidden=5)
    with torch.no_grad():
        fast = [encoder.encode(nodes), encoder.encode_all()[torch.from_numpy(nodes)]]
        if device == "cpu":
            fast.append(encoder.encode(nodes, LocalOperator(GraphOperator(graph, self_loops=False))))
        one, two = (weight.cpu().numpy() for weight in (encoder.weight1, encoder.weight2))
    x, edges = _rows(graph), graph.adjacency.toarray().astype(np.float64)

    def slow(adjacency: np.ndarray, some: Any) -> np.ndarray:
        hat = _symmetric(adjacency[some][:, some])
        return np.asarray(np.maximum(hat @ np.maximum(hat @ x[some] @ one, 0) @ two, 0))

    whole = slow(edges + np.eye(len(x)), slice(None))[nodes]
    around = [np.flatnonzero(edges[v] + edges[v] @ edges + (np.arange(len(x)) == v)) for v in nodes]
    alone = np.concatenate([slow(edges, some)[some == v] for v, some in zip(nodes, around)])
    return max(np.abs(a.cpu().numpy() - b).max() for a, b in zip(fast, (whole, whole, alone))), 1e-4


def closed_form(device: str) -> Difference:
    """By cosines of the vectors: two square roots of one matrix differ by a rotation."""
    x = _rows(_graph(dense=True))[:, :12]
    fast, z = ClosedForm(device=device).fit_transform(x).astype(np.float64), _unit(_unit(x) - _unit(x).mean(axis=0))
    near = np.argsort(9 * np.eye(len(z)) - z @ z.T, axis=1, kind="stable")[:, :10]
    within = sum(np.outer(z[i] - z[j], z[i] - z[j]) for i, row in enumerate(near) for j in row) / (2 * near.size)
    z = _unit(z @ fractional_matrix_power(within + 0.5 * np.trace(within) / 12 * np.eye(12), -0.5).real)
    z = _unit(z - z.mean(axis=0))
    slow = _unit(z @ fractional_matrix_power(z.T @ z, 0.375).real)
    return np.abs(fast @ fast.T - slow @ slow.T).max(), 1e-4


def heads(device: str) -> Difference:
    """How much higher the slow form scores its own answer than that of the head."""
    random, way, shot, worst = stream(0, "checks/heads"), 3, 2, 0.0
    z, own = random.standard_normal((120, 10)), np.repeat(np.eye(3), shot, axis=0)
    ids = np.stack([random.permutation(120)[: way * (shot + 4)] for _ in range(8)])
    units, tasks = _unit(z - z.mean(axis=0)), Tasks(ids[:, : way * shot], ids[:, way * shot :], way, shot)
    near = np.argsort(9 * np.eye(120) - units @ units.T, axis=1, kind="stable")[:, :5]
    wide = np.array([u + np.maximum(units[some] @ u, 0) ** 3 @ units[some] for u, some in zip(units, near)])
    for name in ("prototype", "expansion", "transductive", "logistic"):
        more = {"expansion": {"k": 5}, "transductive": {"rounds": 3}, "logistic": {"C": 1.0, "tol": 1e-9, "ftol": 0.0}}
        fast = make_head(name, **more.get(name, {})).predict(z, tasks)
        for support, query, answer in zip(tasks.support, tasks.query, fast):
            sums = own.T @ (wide if name == "expansion" else units)[support]
            scores = units[query] @ _unit(sums).T
            for _ in range(3 if name == "transductive" else 0):
                scores = units[query] @ _unit(sums + np.exp(log_softmax(15 * scores)).T @ units[query]).T
            if name == "logistic":
                solved = LogisticRegression(C=1.0, tol=1e-9, max_iter=10_000).fit(z[support], own.argmax(axis=1))
                scores = solved.decision_function(z[query])
            worst = max(worst, float((scores.max(axis=1) - scores[np.arange(len(query)), answer]).max()))
    return worst, 1e-4


def left_out_discriminant(device: str) -> Difference:
    """The distances of every label in closed form, and with the discriminant solved again without it."""
    random, own, worst = stream(0, "checks/discriminant"), np.arange(20) % 3, 0.0
    for width in (6, 40):
        rows = _unit(random.standard_normal((20, width)) + 2 * random.standard_normal((3, width))[own])
        fast, (_, all_of_them) = Scatter(rows, own, 3).leave_one_out(1.0, np.arange(20)), _pooled(rows, own)
        noise = OFFSET * np.trace(np.linalg.solve(all_of_them + np.eye(width), all_of_them)) / 17
        for i, rest in enumerate(~np.eye(20, dtype=bool)):
            middle, scatter = _pooled(rows[rest], own[rest])
            slow = np.diag((rows[i] - middle) @ np.linalg.solve(scatter + np.eye(width), (rows[i] - middle).T))
            worst = max(worst, float(np.abs(fast[i] - slow + noise / np.bincount(own[rest])).max()))
    return worst, 1e-6


def left_out_class_means(device: str) -> Difference:
    """Log-probabilities of every label, class means found again without its fold; both but for one temperature."""
    z, own, nodes = (
        _unit(stream(0, "checks/class means").standard_normal((60, 6))),
        np.arange(12) % 3,
        5 * np.arange(12),
    )
    given = View("naq-plus", z.astype(np.float32), True, True), nodes, own, np.full(3, 1 / 3), np.ones(12, dtype=bool)
    fast, slow, helpers = class_means(*given).left_out, np.empty((12, 3)), np.delete(z, nodes, axis=0)
    for i, kept in enumerate(folds(own)[:, None] != folds(own)):
        sums = np.array([z[nodes[kept & (own == c)]].sum(axis=0) for c in range(3)])
        means = _unit(sums)
        for _ in range(ROUNDS):
            means = _unit(sums + _unit(np.exp(log_softmax(helpers @ means.T / SHARPNESS)).T @ helpers))
        slow[i] = z[nodes[i]] @ means.T
    one, two = (_unit(logs - logs.mean(axis=1, keepdims=True)) for logs in (fast, slow))
    return np.abs(one - two).max(), 1e-3


def recorded_steps(device: str) -> Difference:
    """Losses and weights: steps as a GPU replays them (unrecorded on the CPU) and plain ones on the CPU."""
    graph, worst = _graph(dense=True), 0.0
    episodes = supervised_episodes(np.arange(400) % 3, range(3), way=3, shot=2, queries=4, count=24, seed=0)
    cases: list[tuple[Any, int, dict[str, Any]]] = [(ProtoNet, 24, {}), (MAML, 6, {"meta_batch": 4, "inner_lr": 0.1})]
    for kind, updates, more in cases:
        plain, fast = (kind(graph, way=3, latent=8, seed=2, device=where, **more) for where in ("cpu", device))
        both = EpisodeTraining(plain, episodes), imported("naq_scale.cuda_graphs:recorded_training")(fast, episodes)
        for one in both:  # Adam's first steps are signs of gradients, which rounding may turn
            one.optimizer = torch.optim.SGD(one.model.parameters(), lr=0.05)
        losses = [[float(one.step(update)) for update in range(updates)] for one in both]
        weights = [torch.cat([w.detach().flatten().cpu() for w in one.model.parameters()]) for one in both]
        worst = max(worst, float(np.abs(np.subtract(*losses)).max()), float((weights[0] - weights[1]).abs().max()))
    return worst, 1e-3


ON_CUDA: dict[str, Callable[[str], Difference]] = {
    "exact tables by features": exact_tables,
    "exact tables by diffusion": solved_diffusion,
    "receptive fields": receptive_fields,
    "closed form": closed_form,
    "recorded steps": recorded_steps,
}
CHECKS = ON_CUDA | {
    "approximate tables by features": approximate_tables,
    "tables by pushed diffusion": pushed_diffusion,
    "heads": heads,
    "discriminant without a label": left_out_discriminant,
    "class means without labels": left_out_class_means,
}


def _graph(n: int = 400, dense: bool = False) -> Graph:
    """Random edges and a path apart; words in 30 topics, or numbers around 30 centres."""
    random, topic, path = stream(0, "checks/graph"), np.arange(n) % 30, np.arange(7 * n // 8, n)
    edges = np.concatenate([random.integers(0, path[0], (2, 3 * n)), np.stack([path[:-1], path[1:]])], axis=1)
    words = random.poisson(np.where(random.random((30, 60)) < 0.15, 0.8, 0.02)[topic]).astype(np.float32)
    numbers = (random.standard_normal((30, 20))[topic] + random.standard_normal((n, 20))).astype(np.float32)
    return Graph(edges, numbers if dense else sp.csr_array(words), nodes=n, name="checks")


def _rows(graph: Graph) -> np.ndarray:
    features = graph.require_features("a check")
    return np.array(features if isinstance(features, np.ndarray) else features.toarray(), dtype=np.float64)


def _unit(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1))


def _symmetric(adjacency: np.ndarray) -> np.ndarray:
    scale = np.maximum(adjacency.sum(axis=1), 1) ** -0.5
    return np.asarray(scale[:, None] * adjacency * scale)


def _similarity(dense: bool, metric: str, n: int = 400) -> np.ndarray:
    """(n, n), minus infinity for pairs that are no neighbours."""
    x = _rows(_graph(n, dense))
    if metric == "euclidean":
        return np.asarray(np.where(np.eye(n), -np.inf, -cdist(x, x)))
    there = x.any(axis=1)
    found = 1 - cdist(_unit(x) if metric == "cosine" else x != 0, _unit(x) if metric == "cosine" else x != 0, metric)
    return np.where(np.eye(n) + (found == 0) + ~(there[:, None] & there), -np.inf, found)


def _diffusion_off(**how: Any) -> float:
    graph, worst = _graph(), 0.0
    own = np.eye(graph.num_nodes)
    for loops in (True, False):
        hat = _symmetric(graph.adjacency.toarray() + loops * own)
        table = diffusion_neighbors(graph, 8, alpha=0.1, self_loops=loops, **how)
        apart = (graph.components[:, None] != graph.components) + own
        worst = max(worst, _off(table, np.where(apart, -np.inf, 0.1 * np.linalg.inv(own - 0.9 * hat))))
    return worst


def _off(table: NeighborTable, slow: np.ndarray, recall: float = 1.0) -> float:
    """How far scores are from those of the pairs and the neighbours from the nearest, or how much of ``recall`` is missing."""
    best, have = -np.sort(-slow, axis=1)[:, : table.k], table.ids >= 0
    if not np.array_equal(have, np.isfinite(best)) or any(len({*row} - {-1}) < sum(row >= 0) for row in table.ids):
        return np.inf
    true = np.take_along_axis(slow, np.maximum(table.ids, 0), axis=1)[have]
    last = np.repeat(np.where(have, best, np.inf).min(axis=1), have.sum(axis=1))
    missing = recall - (true >= last - 1e-5).mean() if recall < 1 else np.abs(best[have] - true).max()
    return float(max(np.abs(table.scores[have] - true).max(), missing))


def _pooled(rows: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Class means and the scatter around them."""
    middle = np.stack([rows[own == c].mean(axis=0) for c in range(3)])
    return middle, (rows - middle[own]).T @ (rows - middle[own])
