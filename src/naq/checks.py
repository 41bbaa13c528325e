"""Every fast path next to its slow, obvious form in NumPy and SciPy, on one small case: ``naq doctor --check``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.linalg import fractional_matrix_power
from scipy.spatial.distance import cdist
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from naq.classifier.experts import OFFSET, Scatter, log_softmax
from naq.embedders.closed_form import ClosedForm
from naq.episodes import supervised_episodes
from naq.graph import Graph
from naq.heads import make_head
from naq.learners.maml import MAML
from naq.learners.protonet import ProtoNet
from naq.neighbors import NeighborTable, diffusion_neighbors, feature_neighbors, vector_neighbors
from naq.nn import GCN, GraphOperator, LocalOperator
from naq.options import imported
from naq.random import stream
from naq.tasks import Tasks
from naq.training import EpisodeTraining


def check_all() -> dict[str, str]:
    """By name of the check what it found, in words: ok, differs, or fails; for CUDA too if there is a device."""
    found = {}
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        for name, (check, allowed) in (CHECKS if device == "cpu" else ON_CUDA).items():
            try:
                off = check(device)
                words = "ok" if off <= allowed else f"differs by {off:.2g}, of which rounding explains {allowed:g}"
            except Exception as error:  # whatever is broken, the others are still checked
                words = " ".join(f"fails: {type(error).__name__}: {error}".split())[:200]
            found[name if device == "cpu" else f"{name}, on CUDA"] = words
    return found


def feature_tables(device: str, n: int = 400, recall: float = 1.0) -> float:
    """Of words, of numbers, and of the same numbers as vectors; ``recall`` below 1 asks for approximate ones."""
    search, off = "exact" if recall == 1 else "approximate", []
    for dense in (False, True):
        graph, x = _graph(n, dense)
        for metric in ("cosine", "euclidean") if dense else ("cosine", "euclidean", "jaccard"):
            fast = feature_neighbors(graph, 8, metric=metric, search=search, device=device)
            off.append(_off(fast, _similarity(x, metric), recall))
    off.append(_off(vector_neighbors(x, 8, exact=recall == 1, device=device), _similarity(x, "cosine"), recall))
    return float(np.max(off))


def diffusion_tables(device: str, **how: Any) -> float:
    graph, own = _graph()[0], np.eye(400)
    slow = 0.1 * np.linalg.inv(own - 0.9 * _symmetric(graph.adjacency + own))
    apart = (graph.components[:, None] != graph.components) + own
    return _off(diffusion_neighbors(graph, 8, alpha=0.1, device=device, **how), np.where(apart, -np.inf, slow))


def receptive_fields(device: str) -> float:
    """Two layers of a GCN: on the nodes that some rows need, on all nodes, and on a sub-graph of each node."""
    (graph, x), nodes = _graph(), np.arange(0, 400, 7)
    encoder = GCN(GraphOperator(graph, device), 6, seed=3, hidden=5)
    with torch.no_grad():
        fast = [encoder.encode(nodes), encoder.encode_all()[torch.from_numpy(nodes)]]
        if device == "cpu":
            fast.append(encoder.encode(nodes, LocalOperator(GraphOperator(graph, self_loops=False))))
        one, two = (weight.cpu().numpy() for weight in (encoder.weight1, encoder.weight2))
    edges = graph.adjacency.toarray().astype(np.float64)

    def slow(adjacency: np.ndarray, some: Any) -> np.ndarray:
        hat = _symmetric(adjacency[some][:, some])
        return np.asarray(np.maximum(hat @ np.maximum(hat @ x[some] @ one, 0) @ two, 0))

    whole = slow(edges + np.eye(400), slice(None))[nodes]
    around = [np.flatnonzero(edges[v] + edges[v] @ edges + np.eye(400)[v]) for v in nodes]
    alone = np.concatenate([slow(edges, some)[some == v] for v, some in zip(nodes, around)])
    return float(np.max([np.abs(a.cpu().numpy() - b).max() for a, b in zip(fast, (whole, whole, alone))]))


def closed_form(device: str) -> float:
    """By cosines of the vectors: two square roots of one matrix differ by a rotation."""
    x = normalize(_graph(dense=True)[1][:, :12])
    fast, z = ClosedForm(device=device).fit_transform(x), normalize(x - x.mean(axis=0))
    near = np.argsort(9 * np.eye(400) - z @ z.T, axis=1, kind="stable")[:, :10]
    within = sum(np.outer(z[i] - z[j], z[i] - z[j]) for i, row in enumerate(near) for j in row) / 8000
    z = normalize(z @ fractional_matrix_power(within + 0.5 * np.trace(within) / 12 * np.eye(12), -0.5).real)
    z = normalize(z - z.mean(axis=0))
    slow = normalize(z @ fractional_matrix_power(z.T @ z, 0.375).real)
    return float(np.abs(fast @ fast.T - slow @ slow.T).max())


def heads(device: str) -> float:
    """How much higher the slow form scores its own answer than that of the head."""
    random, own, off = stream(0, "checks/heads"), np.repeat(np.eye(3), 2, axis=0), []
    z, ids = random.standard_normal((120, 10)), np.stack([random.permutation(120)[:18] for _ in range(8)])
    units = normalize(z - z.mean(axis=0))
    rounds, exactly = {"rounds": 3, "temperature": 0.1}, {"C": 1.0, "tol": 1e-9, "ftol": 0.0}
    for name, options in (("prototype", {}), ("transductive", rounds), ("logistic", exactly)):
        fast = make_head(name, **options).predict(z, Tasks(ids[:, :6], ids[:, 6:], 3, 2))
        for support, query, answer in zip(ids[:, :6], ids[:, 6:], fast):
            sums = own.T @ units[support]
            scores = units[query] @ normalize(sums).T
            for _ in range(3 if options is rounds else 0):
                scores = units[query] @ normalize(sums + np.exp(log_softmax(10 * scores)).T @ units[query]).T
            if options is exactly:
                solved = LogisticRegression(C=1.0, tol=1e-9, max_iter=10_000).fit(z[support], own.argmax(axis=1))
                scores = solved.decision_function(z[query])
            off.append(scores.max(axis=1) - scores[np.arange(12), answer])
    return float(np.max(off))


def discriminant(device: str) -> float:
    """Distances of every label in closed form, and solved again without it."""
    random, own, off = stream(0, "checks/discriminant"), np.arange(20) % 3, []

    def moments(rows: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        middle = np.stack([rows[own == c].mean(axis=0) for c in range(3)])
        return middle, (rows - middle[own]).T @ (rows - middle[own]) + np.eye(rows.shape[1])

    for width in (6, 40):
        rows = normalize(random.standard_normal((20, width)) + 2 * random.standard_normal((3, width))[own])
        fast, noise = Scatter(rows, own, 3).leave_one_out(1.0, np.arange(20)), OFFSET / 17
        noise *= width - np.trace(np.linalg.inv(moments(rows, own)[1]))
        for i, rest in enumerate(~np.eye(20, dtype=bool)):
            middle, scatter = moments(rows[rest], own[rest])
            slow = np.diag((rows[i] - middle) @ np.linalg.solve(scatter, (rows[i] - middle).T))
            off.append(np.abs(fast[i] - slow + noise / np.bincount(own[rest])).max())
    return float(np.max(off))


def recorded_steps(device: str) -> float:
    """Losses and weights: steps as a GPU replays them (unrecorded on the CPU) and plain ones on the CPU."""
    graph, found, record = _graph(dense=True)[0], [], imported("naq_scale.cuda_graphs:recorded_training")
    episodes = supervised_episodes(np.arange(400) % 3, range(3), way=3, shot=2, queries=4, count=24, seed=0)
    learners: list[tuple[Any, dict[str, Any]]] = [(ProtoNet, {}), (MAML, {"meta_batch": 4, "inner_lr": 0.1})]
    for kind, more in learners:
        plain, fast = (kind(graph, way=3, latent=8, device=d, **more) for d in ("cpu", device))
        for one in (EpisodeTraining(plain, episodes), record(fast, episodes)):
            one.optimizer = torch.optim.SGD(one.model.parameters(), lr=0.05)  # Adam turns rounding into signs
            losses = [torch.tensor([float(one.step(update)) for update in range(6)])]
            found.append(torch.cat(losses + [w.detach().flatten().cpu() for w in one.model.parameters()]))
    return float(torch.cat([found[0] - found[1], found[2] - found[3]]).abs().max())


ON_CUDA: dict[str, tuple[Callable[[str], float], float]] = {  # with the difference that rounding may make
    "exact tables by features": (feature_tables, 1e-5),
    "exact tables by diffusion": (lambda device: diffusion_tables(device, method="exact"), 1e-7),
    "receptive fields": (receptive_fields, 1e-4),
    "closed form": (closed_form, 1e-4),
    "recorded steps": (recorded_steps, 1e-4),
}
CHECKS = ON_CUDA | {
    "approximate tables by features": (lambda device: feature_tables(device, 2000, 0.95), 1e-5),
    # Twice the tolerance times the root of two degrees: once in the score, once in the choice.
    "tables by pushed diffusion": (lambda device: diffusion_tables(device, method="push", tolerance=1e-7), 1e-5),
    "heads": (heads, 1e-4),
    "discriminant without a label": (discriminant, 1e-6),
}


def _graph(n: int = 400, dense: bool = False) -> tuple[Graph, np.ndarray]:
    """Random edges and a path apart; words in 30 topics, or numbers around 30 centres, also as they are."""
    random, topic, path = stream(0, "checks/graph"), np.arange(n) % 30, np.arange(7 * n // 8, n)
    edges = np.concatenate([random.integers(0, path[0], (2, 3 * n)), np.stack([path[:-1], path[1:]])], axis=1)
    words = random.poisson(np.where(random.random((30, 60)) < 0.15, 0.8, 0.02)[topic]).astype(np.float64)
    numbers = random.standard_normal((30, 20))[topic] + random.standard_normal((n, 20))
    rows = numbers.astype(np.float32).astype(np.float64) if dense else words
    return Graph(edges, rows if dense else sp.csr_array(rows), nodes=n, name="checks"), rows


def _symmetric(adjacency: np.ndarray) -> np.ndarray:
    scale = np.maximum(adjacency.sum(axis=1), 1) ** -0.5
    return np.asarray(scale[:, None] * adjacency * scale)


def _similarity(x: np.ndarray, metric: str) -> np.ndarray:
    """(n, n), minus infinity for pairs that are no neighbours."""
    if metric == "euclidean":
        return np.asarray(np.where(np.eye(len(x)), -np.inf, -cdist(x, x)))
    common = (x != 0).astype(float) @ (x != 0).T > 0  # else nothing, and 0 / 0 of empty rows
    found = normalize(x) @ normalize(x).T if metric == "cosine" else 1 - cdist(x != 0, x != 0, "jaccard")
    return np.where(common & ~np.eye(len(x), dtype=bool), found, -np.inf)


def _off(table: NeighborTable, slow: np.ndarray, recall: float = 1.0) -> float:
    """How far scores are from those of the pairs, and neighbours from the nearest; or what ``recall`` is missing."""
    best, have = -np.sort(-slow, axis=1)[:, : table.k], table.ids >= 0
    if not np.array_equal(have, np.isfinite(best)) or any(len({*row} - {-1}) < sum(row >= 0) for row in table.ids):
        return np.inf  # one is missing, there twice or too many
    true = np.take_along_axis(slow, np.maximum(table.ids, 0), axis=1)
    last = np.where(have, best, np.inf).min(axis=1, keepdims=True)
    missing = recall - (true >= last - 1e-5)[have].mean() if recall < 1 else np.abs(best[have] - true[have]).max()
    return float(np.max([np.abs(table.scores[have] - true[have]).max(), missing]))
