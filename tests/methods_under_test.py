"""``check_method``: what every registered method must do, whoever writes it. A new method is tested before its author writes a test."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import naq
import naq.errors
from naq.methods import Method
from naq.run.config import RunConfig
from naq.run.episodes import draw_episodes
from naq.tasks import ClassSplit, save_task_file
from naq.training import EpisodeTraining, EpochTraining, Schedule, fit
from naq_paper.rivals.naq_plus_sugrl import NaqPlusSugrl
from naq_paper.rivals.sugrl import SUGRL

HEADS_OF_A_RUN = frozenset({"logistic", "prototype", "transductive", "em", "balanced"}) | {
    f"{head}/dirichlet" for head in ("prototype", "transductive", "em", "balanced")
}
SPLIT = ClassSplit((0, 1, 2), (3, 4), (5, 6))
SMALL = {"latent": 16, "dim": 16, "hidden": 16, "predictor": 16, "meta_batch": 2, "epochs": 12, "clusters": 5}
"""Small widths, so that the suite is quick; set where a method has an option of that name."""


def community_graph(seed: int = 0, size: int = 20, classes: int = 7, name: str = "communities") -> naq.Graph:
    """Seven communities with their own words; some noise, one isolated node, two components."""
    random = np.random.default_rng(seed)
    n = size * classes + 1
    labels = np.append(np.repeat(np.arange(classes), size), 0)
    edges = []
    for i in range(n - 1):
        mates = np.flatnonzero(labels[:-1] == labels[i])
        edges += [(i, int(j)) for j in random.choice(mates, 3)]
        if labels[i] < classes - 1 and random.random() < 0.2:
            edges.append((i, int(random.integers(0, (classes - 1) * size))))
    words = 8 * classes
    features = (random.random((n, words)) < 0.05).astype(np.float32)
    for i in range(n):
        features[i, 8 * labels[i] : 8 * labels[i] + 8] += random.random(8) < 0.5
    features[0] = 0.0
    return naq.Graph(np.array(edges).T, sp.csr_array(features), labels, nodes=n, name=name)


def noisy_graph(size: int = 40) -> naq.Graph:
    """Communities with few of their words, many of others' and as many false edges as nodes: an untrained encoder is lost here."""
    graph, random = community_graph(size=size), np.random.default_rng(5)
    x = graph.features.toarray()
    x = x * (random.random(x.shape) < 0.35) + (random.random(x.shape) < 0.1)
    edges = np.concatenate(
        [np.stack(graph.adjacency.nonzero()), random.integers(0, graph.num_nodes, (2, graph.num_nodes))], axis=1
    )
    return naq.Graph(edges, x.astype(np.float32), graph.labels, nodes=graph.num_nodes, name="noisy")


def relabelled(graph: naq.Graph, new_id: np.ndarray) -> naq.Graph:
    """The same graph after node i became ``new_id[i]``."""
    order = np.argsort(new_id)
    coo = sp.coo_array(graph.adjacency)
    edges = np.stack([new_id[coo.row], new_id[coo.col]])
    labels = None if graph.labels is None else graph.labels[order]
    return naq.Graph(edges, graph.features[order], labels, nodes=graph.num_nodes, name=graph.name)


def options_for(method: Method) -> dict[str, object]:
    return {name: value for name, value in SMALL.items() if name in method.defaults}


def model_of(
    method: Method, graph: naq.Graph, *, seed: int = 0, device: str = "cpu", **options: object
) -> torch.nn.Module:
    """The model with its initial weights."""
    options = options_for(method) | options
    if method.learner is None:
        return method.embedder(graph, seed=seed, device=device, **options)
    return method.learner(graph, way=2, seed=seed, device=device, base_labels=base_labels(method, graph), **options)


def vectors_of(
    method: Method,
    graph: naq.Graph,
    *,
    seed: int = 0,
    updates: int = 6,
    device: str = "cpu",
    new_id: np.ndarray | None = None,
    episode: dict[str, object] | None = None,
    options: dict[str, object] | None = None,
) -> np.ndarray:
    """Train a few updates (or just embed) and return all vectors. ``new_id`` renumbers the nodes of the episodes."""
    model = model_of(method, graph, seed=seed, device=device, **(options or {}))
    if not method.trains:
        return model.embed()
    optimizer = model.optimizer()
    if method.learner is None:
        for update in range(updates):
            model.step(update, optimizer)
        return model.embed()
    plain = graph if new_id is None else relabelled(graph, np.argsort(new_id))
    episodes = draw(method, plain, seed, max(1, updates), episode)
    if new_id is not None:
        episodes = naq.Episodes(
            new_id[episodes.support],
            np.where(episodes.query >= 0, new_id[episodes.query], -1),
            episodes.mask,
            episodes.info,
        )
    learner = model
    size = learner.episodes_per_update
    for update in range(updates):
        learner.step(episodes[update * size : (update + 1) * size], update, optimizer)
    return learner.encode_all().detach().cpu().numpy()


def draw(
    method: Method, graph: naq.Graph, seed: int, updates: int, episode: dict[str, object] | None = None
) -> naq.Episodes:
    assert method.learner is not None
    given = ({"views": 2} if method.episodes == "g-umtra" else {"queries": 3}) | (episode or {})
    count = updates * int(options_for(method).get("meta_batch", 1))
    config = RunConfig.resolve(method, way=2, episodes=count, seed=seed, episode=given)
    return draw_episodes(config, graph, SPLIT, cache=None)


def base_labels(method: Method, graph: naq.Graph) -> np.ndarray | None:
    """What the method may read of the labels."""
    if not method.reads_base_labels or graph.labels is None:
        return None
    return np.where(np.isin(graph.labels, SPLIT.base), graph.labels, -1)


def check_shape_and_seed(method: Method) -> None:
    graph = community_graph()
    one, two, other = (vectors_of(method, graph, seed=seed) for seed in (0, 0, 1))
    assert one.dtype == np.float32 and one.shape[0] == graph.num_nodes and np.isfinite(one).all()
    assert np.array_equal(one, two), "the same seed must give the same vectors"
    if method.trains:
        assert not np.array_equal(one, other), "another seed must give other weights"


def check_relabelling(method: Method) -> None:
    graph = community_graph()
    new_id = np.random.default_rng(3).permutation(graph.num_nodes)
    # Which edges an augmentation drops follows from the ids of their ends; columns keep their numbers.
    episode = {"drop_edge": 0.0} if method.episodes == "g-umtra" else {}
    still = getattr(method.model, "still", {})
    updates = 6 if method.learner is not None or still else 0
    plain = vectors_of(method, graph, episode=episode, updates=updates, options=still)
    moved = vectors_of(
        method, relabelled(graph, new_id), new_id=new_id, episode=episode, updates=updates, options=still
    )
    # Sums run in another order, and Adam turns a gradient of 1e-9 into a step of its learning rate.
    one, two = plain @ plain.T, moved[new_id] @ moved[new_id].T
    assert np.abs(one - two).max() < 5e-3 * np.abs(one).max(), "renumbering nodes must not matter"


def check_small_graphs(method: Method) -> None:
    features = np.eye(30, 12, dtype=np.float32) + 1
    ring = np.stack([np.arange(30), (np.arange(30) + 1) % 30])
    labels = np.repeat(np.arange(3), 10)
    for edges in (ring, np.empty((2, 0), dtype=int)):
        found = vectors_of(method, naq.Graph(edges, features, labels, nodes=30), updates=2)
        assert found.shape[0] == 30 and np.isfinite(found).all()


def check_save_and_load(method: Method, folder: Path) -> None:
    """Weights through safetensors give the same vectors."""
    if not method.trains:
        return
    from safetensors.torch import load_file, save_file

    graph = community_graph()
    learner, other = model_of(method, graph, seed=4), model_of(method, graph, seed=5)
    save_file({k: v.contiguous() for k, v in learner.state_dict().items()}, folder / "w.safetensors")
    other.load_state_dict(load_file(folder / "w.safetensors"))
    assert torch.equal(learner.encode_all(), other.encode_all())


def check_encode(method: Method) -> None:
    """Some nodes or all: the same numbers. Of naq-plus/sugrl some nodes are SUGRL's alone, which validation tasks choose by."""
    if not method.trains:
        return
    graph = community_graph()
    learner = model_of(method, graph)
    nodes = np.array([5, 3, 140, 5])
    all_nodes = SUGRL.encode_all(learner) if isinstance(learner, NaqPlusSugrl) else learner.encode_all()
    assert torch.allclose(learner.encode(nodes), all_nodes[nodes], atol=1e-6)


def check_solves(method: Method) -> None:
    """A model that needs no head answers every query, whatever the batch; one that cannot refuses a way it was not trained for."""
    if not method.trains:
        return
    graph = community_graph()
    learner = model_of(method, graph)
    if not learner.solves_tasks and not learner.also_solves:
        return
    tasks = naq.sample_tasks(graph, way=2, shot=2, queries=3, count=7, seed=0, classes=SPLIT.test)
    found = learner.solve(tasks)
    assert found.shape == (7, 6) and found.dtype == np.int64 and set(np.unique(found)) <= {0, 1}
    one = naq.Tasks(tasks.support[2:3], tasks.query[2:3], way=2, shot=2)
    assert np.array_equal(learner.solve(one), found[2:3]), "a task must be solved the same alone and among others"
    order = np.random.default_rng(0).permutation(6)
    mixed = naq.Tasks(tasks.support, tasks.query[:, order], way=2, shot=2)
    assert np.array_equal(learner.solve(mixed), found[:, order]), (
        "the order of queries, class by class, must not matter"
    )
    wider = naq.sample_tasks(graph, way=3, shot=1, queries=3, count=2, seed=0, classes=(0, 1, 2))
    if method.learner is not None and method.solves_tasks:
        with pytest.raises(naq.errors.OptionError, match="trained for 2"):
            learner.solve(wider)
    else:
        assert learner.solve(wider).shape == (2, 9)


def check_resume(method: Method, folder: Path) -> None:
    """Stopped after any update and resumed, training ends with the same weights, to the bit."""
    if not method.trains:
        return
    graph = community_graph()
    episodes = draw(method, graph, 0, 12) if method.learner is not None else None

    def train(checkpoint: Path | None, stop_after: int | None) -> dict[str, torch.Tensor] | None:
        learner = model_of(method, graph)
        training = EpochTraining(learner) if episodes is None else EpisodeTraining(learner, episodes)
        count = 0

        def report(facts: dict[str, object]) -> None:
            nonlocal count
            count += 1
            if count == stop_after:
                import signal

                signal.raise_signal(signal.SIGINT)

        @torch.no_grad()
        def validate() -> float:
            return float(torch.sigmoid(learner.encode(np.arange(20)).sum()))

        try:
            fit(
                training,
                validate,
                Schedule(4 if episodes is None else 4 * learner.episodes_per_update),
                checkpoint=checkpoint,
                key="k",
                report=report,
            )
        except KeyboardInterrupt:
            return None
        return learner.state_dict()

    whole = train(None, None)
    assert whole is not None
    for stop in (3, 4, 9):
        path = folder / f"{stop}.safetensors"
        assert train(path, stop) is None and path.exists()
        resumed = train(path, None)
        assert resumed is not None and all(torch.equal(whole[k], resumed[k]) for k in whole)


def check_devices(method: Method) -> None:
    """CPU and CUDA agree within tolerance."""
    graph = community_graph()
    one, two = (vectors_of(method, graph, updates=0, device=device) for device in ("cpu", "cuda"))
    assert np.allclose(one, two, atol=1e-5, rtol=1e-4)
    # A few updates later: Adam turns a gradient of 1e-9 into a step of its learning rate. What is found by another algorithm on
    # another device (AFGRL's clusters) is switched off together with what is drawn per node.
    still = getattr(method.model, "still", {})
    one, two = (vectors_of(method, graph, device=device, options=still) for device in ("cpu", "cuda"))
    assert np.abs(one - two).max() < 5e-3 * max(1.0, float(np.abs(one).max()))


def community_task_file(graph, folder):
    """Tasks of two shots on a community graph, as the file that stands beside it."""
    sets = [
        naq.sample_tasks(graph, way=2, shot=shot, queries=4, count=count, classes=SPLIT.part(part), part=part)
        for shot in (1, 3)
        for part, count in (("valid", 20), ("test", 40))
    ]
    return save_task_file(folder / "communities.tasks.npz", sets, SPLIT)
