"""Checks that every learner, embedder and head must pass, for one's own as for those of the library.

They need no pytest: a check returns None or raises an ``AssertionError`` that says what failed. A method is checked on
small graphs with small widths, in about ten seconds on one core.

>>> from naq.testing import check_head
>>> check_head("prototype")
"""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from safetensors.torch import load, save

from naq.embedders import EMBEDDERS, Embedder
from naq.episodes import Episodes, naq_episodes, supervised_episodes, umtra_episodes
from naq.errors import OptionError
from naq.graph import Graph
from naq.heads import Head, make_head
from naq.io import save_graph
from naq.learners import LEARNERS, Learner
from naq.methods import EPISODE_KINDS, Method
from naq.neighbors import diffusion_neighbors, feature_neighbors
from naq.options import Configurable
from naq.tasks import ClassSplit, Tasks, sample_tasks
from naq.training import EpisodeTraining, EpochTraining, Schedule, Steps, fit

SPLIT = ClassSplit((0, 1, 2), (3, 4), (5, 6))
"""Of the classes of :func:`community_graph`."""
SMALL = {"latent": 16, "dim": 16, "hidden": 16, "predictor": 16, "meta_batch": 2, "epochs": 12, "clusters": 5}
"""Small widths, for options of these names."""


def check_learner(learner: str | type[Learner], *, episodes: str = "", **options: Any) -> None:
    """Check a learner, on every kind of episodes that it can be trained on or on one.

    Args:
        learner: a name in ``LEARNERS`` or a class, registered or not.
        episodes: ``naq-feat``, ``naq-diff``, ``supervised`` or ``g-umtra``.
        options: of the learner.
    """
    kind = LEARNERS.find(learner) if isinstance(learner, str) else learner
    if episodes in kind.unfit:
        raise OptionError(f"{kind.name} cannot be trained on {episodes} episodes: {kind.unfit[episodes]}")
    for name in [episodes] if episodes else [name for name in EPISODE_KINDS if name not in kind.unfit]:
        for check in METHOD_CHECKS:
            check(Method(f"{name}/{kind.name}", kind.summary, kind, name), options)


def check_embedder(embedder: str | type[Embedder], **options: Any) -> None:
    """Check an embedder, given by name or as a class, trained in epochs or not at all."""
    kind = EMBEDDERS.find(embedder) if isinstance(embedder, str) else embedder
    for check in METHOD_CHECKS:
        check(Method(kind.name, kind.summary, kind), options)


def check_head(head: str | type[Head], **options: Any) -> None:
    """Check a head, given by name or as a class."""
    check_options(head if isinstance(head, type) else type(make_head(head)))
    made = make_head(head, **options) if isinstance(head, str) else head(**options)
    for check in HEAD_CHECKS:
        check(made)


# What methods are checked on.


def community_graph(size: int = 20, classes: int = 7, name: str = "communities") -> Graph:
    """Communities with their own words; some noise, one isolated node, two components."""
    random = np.random.default_rng(0)
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
    return Graph(np.array(edges).T, sp.csr_array(features), labels, nodes=n, name=name)


def renumber_nodes(graph: Graph, new_id: np.ndarray) -> Graph:
    """The same graph after node i became ``new_id[i]``."""
    order, coo = np.argsort(new_id), sp.coo_array(graph.adjacency)
    labels = None if graph.labels is None else graph.labels[order]
    edges = np.stack([new_id[coo.row], new_id[coo.col]])
    return Graph(edges, graph.require_features("tests")[order], labels, nodes=graph.num_nodes, name=graph.name)


def renumber_episodes(episodes: Episodes, new_id: np.ndarray) -> Episodes:
    """The same episodes after node i became ``new_id[i]``."""
    query = np.where(episodes.query >= 0, new_id[episodes.query], -1)
    return Episodes(new_id[episodes.support], query, episodes.mask, episodes.info)


def small_options(method: Method, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Small widths where the method has such options, then ``options``."""
    return {name: value for name, value in SMALL.items() if name in method.defaults} | dict(options or {})


def build_model(
    method: Method, graph: Graph, options: Mapping[str, Any], *, seen: Graph | None = None, **given: Any
) -> Any:
    """The learner for two classes, or the embedder, of small width and with its initial weights.

    A supervised learner gets the labels that ``seen``, or else ``graph``, has of base classes.
    """
    given = small_options(method, options) | given
    if method.learner is None:
        return method.model(graph, **given)
    labels = (seen or graph).labels
    if labels is not None:
        labels = np.where(np.isin(labels, SPLIT.base), labels, -1) if method.reads_base_labels else None
    return method.learner(graph, way=2, base_labels=labels, **given)


def draw_small_episodes(method: Method, graph: Graph, count: int, seed: int = 0, **given: Any) -> Episodes:
    """2-way episodes of the method's kind."""
    drawn: dict[str, Any] = {"way": 2, "count": count, "seed": seed} | given
    if method.reads_base_labels:
        return supervised_episodes(graph.require_labels("supervised episodes"), SPLIT.base, queries=3, **drawn)
    if method.episodes == "g-umtra":
        return umtra_episodes(graph.num_nodes, views=2, **drawn)
    near = feature_neighbors if method.episodes == "naq-feat" else diffusion_neighbors
    return naq_episodes(near(graph.without_labels(), 3), queries=3, **drawn)


def steps_of(model: Any, episodes: Episodes | None) -> Steps:
    """The updates of a learner on episodes, or of an embedder in epochs."""
    return EpochTraining(model) if episodes is None else EpisodeTraining(model, episodes)


def vectors_after(
    method: Method, graph: Graph, options: Mapping[str, Any], *, seed: int = 0, updates: int = 6, device: str = "cpu",
    episodes: Episodes | None = None,
) -> np.ndarray:  # fmt: skip
    """(n, d) float32 vectors of all nodes after some updates."""
    model = build_model(method, graph, options, seed=seed, device=device)
    if not method.trains:
        return np.asarray(model.embed())
    if method.learner is not None and episodes is None:
        episodes = draw_small_episodes(method, graph, max(1, updates) * model.episodes_per_update, seed)
    steps = steps_of(model, episodes)
    for update in range(updates):
        steps.step(update)
    return np.asarray(model.encode_all().detach().cpu() if method.learner is not None else model.embed())


# Checks of a method: of a learner with its kind of episodes, or of an embedder.


def check_options(kind: type[Configurable]) -> None:
    """Unknown options, and values outside the limits and choices of ``Options``, raise an ``OptionError``."""
    wrong: list[tuple[str, Any]] = [("no_such_option", 1)]
    for one in dataclasses.fields(kind.Options):
        if one.metadata.get("choices"):
            wrong.append((one.name, "no such choice"))
        for words, _, limit in one.metadata.get("limits", ()):
            step = {"more than": 0, "below": 0, "at least": -1, "at most": 1}[words]
            wrong.append((one.name, limit + step if isinstance(one.default, float) else int(limit + step)))
    for name, value in wrong:
        try:
            kind.configure(object.__new__(kind), {name: value})
        except OptionError as error:
            assert name in str(error), f"the error for {name}={value!r} of {kind.name} does not name the option"
        else:
            raise AssertionError(f"{kind.name} takes {name}={value!r}")


def check_method_options(method: Method, options: Mapping[str, Any]) -> None:
    """:func:`check_options` of the method's class."""
    check_options(method.model)


def check_seed(method: Method, options: Mapping[str, Any]) -> None:
    """One float32 row per node, equal for the same seed and, of a trained method, different for another."""
    graph = community_graph()
    one, two, other = (vectors_after(method, graph, options, seed=seed) for seed in (0, 0, 1))
    assert one.dtype == np.float32, f"vectors of {method.name} have type {one.dtype}; expected float32"
    assert one.ndim == 2 and len(one) == graph.num_nodes, f"{method.name} gives vectors of shape {one.shape}"
    assert np.isfinite(one).all(), f"vectors of {method.name} are not finite"
    assert np.array_equal(one, two), f"{method.name} gives other vectors for the same seed"
    assert not method.trains or not np.array_equal(one, other), f"the seed changes nothing in {method.name}"


def check_renumbering(method: Method, options: Mapping[str, Any]) -> None:
    """Renumbered nodes get the same vectors, up to a rotation.

    What a method draws by the id of a node has to be switched off: it names such options and values in
    ``deterministic_options``.
    """
    graph = community_graph()
    new_id = np.random.default_rng(3).permutation(graph.num_nodes)
    fixed = getattr(method.model, "deterministic_options", {})
    updates = 6 if method.learner is not None or fixed else 0
    drawn: list[Episodes | None] = [None, None]
    if method.learner is not None:
        # Which edges an augmentation drops follows from the ids of their ends; columns keep their numbers.
        given: dict[str, Any] = {"drop_edge": 0.0} if method.episodes == "g-umtra" else {}
        size = small_options(method, options).get("meta_batch", 1)
        episodes = draw_small_episodes(method, graph, updates * size, **given)
        drawn = [episodes, renumber_episodes(episodes, new_id)]
    one, two = (
        vectors_after(method, seen, {**options, **fixed}, updates=updates, episodes=episodes)
        for seen, episodes in zip((graph, renumber_nodes(graph, new_id)), drawn)
    )
    one, two = one @ one.T, two[new_id] @ two[new_id].T
    # Sums run in another order, and Adam turns a gradient of 1e-9 into a step of its learning rate.
    assert np.abs(one - two).max() < 5e-3 * np.abs(one).max(), f"renumbering nodes changes what {method.name} learns"


def check_small_graphs(method: Method, options: Mapping[str, Any]) -> None:
    """Thirty nodes with dense features, on a ring or without any edge."""
    features, ring = np.eye(30, 12, dtype=np.float32) + 1, np.arange(30)
    for edges in (np.stack([ring, (ring + 1) % 30]), np.empty((2, 0), dtype=int)):
        graph = Graph(edges, features, np.repeat(np.arange(3), 10), nodes=30)
        found = vectors_after(method, graph, options, updates=2)
        assert len(found) == 30 and np.isfinite(found).all(), f"{method.name} fails with {graph.num_edges} edges"


def check_weights(method: Method, options: Mapping[str, Any]) -> None:
    """Weights through safetensors give the same vectors."""
    if not method.trains:
        return
    model, other = (build_model(method, community_graph(), options, seed=seed) for seed in (4, 5))
    other.load_state_dict(load(save({name: value.contiguous() for name, value in model.state_dict().items()})))
    same = torch.equal(model.encode_all(), other.encode_all())
    assert same, f"{method.name} has a state that is not in its weights"


def check_encode(method: Method, options: Mapping[str, Any]) -> None:
    """Some nodes are encoded as all of them are."""
    if not method.trains:
        return
    model, nodes = build_model(method, community_graph(), options), np.array([5, 3, 140, 5])
    one, two = model.encode(nodes), model.encode_all()[nodes]
    assert one.shape == two.shape and torch.allclose(one, two, atol=1e-6), f"encode of {method.name} is not encode_all"


def check_missing_queries(method: Method, options: Mapping[str, Any]) -> None:
    """What is in place of a missing query does not matter; without any query, loss and gradient are finite."""
    if method.learner is None:
        return
    graph = community_graph()
    model = build_model(method, graph, options)
    episodes = draw_small_episodes(method, graph, model.episodes_per_update)
    mask = episodes.mask & (np.random.default_rng(0).random(episodes.mask.shape) < 0.6)
    losses = [
        model.loss(Episodes(episodes.support, np.where(mask, episodes.query, other), mask, episodes.info), 1)
        for other in (-1, 5)
    ]
    assert torch.equal(*losses), f"the loss of {method.name} reads queries that are missing"
    nothing = Episodes(episodes.support, np.full_like(episodes.query, -1), np.zeros_like(mask), episodes.info)
    loss = model.loss(nothing)
    loss.backward()
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    finite = all(bool(value.isfinite().all()) for value in [loss, *gradients])
    assert finite, f"without queries {method.name} has a loss or a gradient that is not finite"


def check_solve(method: Method, options: Mapping[str, Any]) -> None:
    """A model that solves tasks itself answers each task alone as among others, whatever the order of its queries."""
    graph = community_graph()
    if not method.trains:
        return
    model = build_model(method, graph, options)
    if not model.solves_tasks and not model.also_solves:
        return
    tasks = sample_tasks(graph, way=2, shot=2, queries=3, count=7, seed=0, classes=SPLIT.test)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = model.solve(tasks)
    same = all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert same, f"{method.name} changes its weights when it solves tasks"
    assert found.shape == (7, 6) and found.dtype == np.int64, f"answers of {method.name}: {found.shape}, {found.dtype}"
    assert set(np.unique(found)) <= {0, 1}, f"{method.name} answers with something else than slots"
    one = Tasks(tasks.support[2:3], tasks.query[2:3], way=2, shot=2)
    assert np.array_equal(model.solve(one), found[2:3]), f"{method.name} solves a task in another way among others"
    order = np.random.default_rng(0).permutation(6)
    mixed = model.solve(Tasks(tasks.support, tasks.query[:, order], way=2, shot=2))
    assert np.array_equal(mixed, found[:, order]), f"the answers of {method.name} follow the order of queries"
    wider = sample_tasks(graph, way=3, shot=1, queries=3, count=2, seed=0, classes=(0, 1, 2))
    try:
        answers = model.solve(wider)
    except OptionError as error:
        fits_all = method.learner is None or not method.solves_tasks
        assert not fits_all and "way" in str(error), f"{method.name} refuses tasks of three classes: {error}"
    else:
        assert answers.shape == (2, 9), f"answers of {method.name} to two 3-way tasks: {answers.shape}"


def check_resume(method: Method, options: Mapping[str, Any]) -> None:
    """Stopped after any update and resumed, training ends with the same weights, to the bit."""
    if not method.trains:
        return
    graph = community_graph()

    def trained(checkpoint: Path | None, stop_after: int = 0) -> dict[str, torch.Tensor] | None:
        model = build_model(method, graph, options)
        drawn = None if method.learner is None else draw_small_episodes(method, graph, 12 * model.episodes_per_update)
        steps, seen = steps_of(model, drawn), []

        def report(facts: dict[str, Any]) -> None:
            seen.append(facts)
            if len(seen) == stop_after:
                signal.raise_signal(signal.SIGINT)

        @torch.no_grad()
        def validate() -> float:
            return float(torch.sigmoid(model.encode(np.arange(20)).sum()))

        try:
            fit(steps, validate, Schedule(steps.done(4)), checkpoint=checkpoint, report=report)
        except KeyboardInterrupt:
            return None
        return dict(model.state_dict())

    whole = trained(None)
    with TemporaryDirectory() as folder:
        for stop in (3, 4, 9):
            path = Path(folder, f"{stop}.safetensors")
            assert trained(path, stop) is None and path.exists(), f"{method.name} left no checkpoint at Ctrl-C"
            resumed = trained(path)
            same = whole and resumed and all(torch.equal(whole[name], resumed[name]) for name in whole)
            assert same, f"{method.name}, stopped after update {stop} and resumed, ends with other weights"


def check_devices(method: Method, options: Mapping[str, Any]) -> None:
    """CPU and CUDA agree within tolerance; nothing is checked without a CUDA device."""
    if not torch.cuda.is_available():
        return
    fixed = getattr(method.model, "deterministic_options", {})
    for updates, more, tolerance in ((0, {}, 1e-4), (6, fixed, 5e-3)):
        given = {**options, **more}
        one, two = (
            vectors_after(method, community_graph(), given, updates=updates, device=device)
            for device in ("cpu", "cuda")
        )
        apart = np.abs(one - two).max()
        assert apart < tolerance * max(1.0, np.abs(one).max()), f"{method.name}: CPU and CUDA differ by {apart:g}"


class _StickyGraph(Graph):
    """A graph that keeps its labels, whoever takes them away, and says where more of them are: the file it is from."""

    @classmethod
    def of(cls, graph: Graph, features: Any, labels: np.ndarray, source: str | None) -> _StickyGraph:
        titles = [f"class of {np.count_nonzero(labels == c)} nodes" for c in range(labels.max() + 1)]
        return cls(graph.adjacency, features, labels, class_names=titles, name=graph.name, source=source)

    def _with(self, **changed: Any) -> Graph:
        other = object.__new__(_StickyGraph)
        sticky = ("labels", "class_names", "source")
        vars(other).update(vars(self) | {name: value for name, value in changed.items() if name not in sticky})
        return other

    def with_features(self, features: Any, blocks: Any = None) -> Graph:
        return _StickyGraph.of(self, features, self.require_labels("tests"), self.source)


def check_labels(method: Method, options: Mapping[str, Any]) -> None:
    """Labels that the method may not read do not change its losses, weights, vectors and answers by a bit.

    Those are labels of validation and test classes and of unlabelled nodes, and all labels for a method that is not
    supervised. Nothing strips the graphs that the method is called with, nor the files that they are from.
    """
    plain = community_graph()
    labels = np.where(np.arange(plain.num_nodes) % 10 == 3, -1, plain.require_labels("tests"))
    allowed = np.isin(labels, SPLIT.base) & method.reads_base_labels
    random = np.random.default_rng(1)
    shuffled, drawn = labels.copy(), labels.copy()
    shuffled[~allowed] = random.permutation(labels[~allowed])
    drawn[~allowed] = random.integers(-1, 9, int((~allowed).sum()))
    seen = plain.with_labels(np.where(allowed, labels, -1)) if method.reads_base_labels else plain.without_labels()
    with TemporaryDirectory() as folder:
        traces = []
        for number, given in enumerate((labels, shuffled, drawn)):
            path = Path(folder, f"{number}.npz")
            graph = _StickyGraph.of(plain, plain.features, given, str(path))
            save_graph(path, graph)
            traces.append(_trace(method, graph, seen, options))
    for other in traces[1:]:
        for name, value in traces[0].items():
            assert np.array_equal(value, other[name]), f"{name} of {method.name} depend on labels that it may not read"


def _trace(method: Method, graph: Graph, seen: Graph, options: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """What two updates give on ``graph``; ``seen`` has the labels that the method may read."""
    model = build_model(method, graph, options, seen=seen)
    if not method.trains:
        return {"vectors": model.embed()}
    episodes = None
    if method.learner is not None:
        episodes = draw_small_episodes(method, seen, 2 * model.episodes_per_update)
    steps = steps_of(model, episodes)
    out = {"losses": np.array([float(steps.step(update)) for update in range(2)])}
    with torch.no_grad():
        out["vectors"] = model.encode_all().numpy()
        out["vectors of some nodes"] = model.encode(np.arange(0, graph.num_nodes, 7)).numpy()
    if model.solves_tasks or model.also_solves:
        tasks = sample_tasks(community_graph(), way=2, shot=1, queries=3, count=2, classes=SPLIT.test)
        out["answers"] = model.solve(tasks)
    return out | {f"weights {name}": value.numpy() for name, value in model.state_dict().items()}


METHOD_CHECKS = (
    check_method_options, check_seed, check_renumbering, check_labels, check_small_graphs, check_weights,
    check_encode, check_missing_queries, check_solve, check_resume, check_devices,
)  # fmt: skip
"""All checks of a method; each is called with a :class:`~naq.methods.Method` and options of its class."""


# Checks of a head.


def clustered_vectors() -> np.ndarray:
    """(400, 24) clusters that overlap, off the origin; node i has class i modulo 10."""
    random = np.random.default_rng(1)
    centres = np.tile(random.normal(size=(10, 24)), (40, 1))
    return np.asarray(centres + 1.2 * random.normal(size=(400, 24)) + 0.5)


def clustered_tasks(count: int, way: int, shot: int, queries: int = 4) -> Tasks:
    """Tasks over the nodes of :func:`clustered_vectors`."""
    graph = Graph([[], []], labels=np.arange(400) % 10, nodes=400)
    return sample_tasks(graph, way=way, shot=shot, queries=queries, count=count)


def check_answers(head: Head) -> None:
    """One int64 slot per query, right more often than by chance; vectors are left as they are, ties go to slot 0."""
    vectors = clustered_vectors()
    for way, shot in ((2, 1), (2, 3), (5, 1), (5, 3)):
        tasks, before = clustered_tasks(20, way, shot), vectors.copy()
        slots = head.predict(vectors, tasks)
        assert slots.shape == tasks.query.shape and slots.dtype == np.int64, f"{head}: {slots.shape}, {slots.dtype}"
        assert slots.min() >= 0 and slots.max() < way, f"{head} answers {way}-way tasks with other slots"
        assert (slots == tasks.query_slots).mean() > 1.4 / way, f"{head} is no better than chance"
        assert np.array_equal(vectors, before), f"{head} changes the vectors it is given"
    tasks = clustered_tasks(6, 5, 2)
    for given in (np.zeros((400, 3)), np.full((400, 3), 0.1), np.full((400, 1), 1e-30)):
        assert not head.predict(given, tasks).any(), f"{head} breaks ties by another slot than the lowest"
    centred = vectors - vectors.mean(axis=0)
    centred[[tasks.support[0, 2], tasks.query[0, 1], tasks.query[3, 7]]] = 0.0
    slots = head.predict(centred, tasks)
    assert slots.min() >= 0 and slots.max() < 5, f"{head} fails on rows that are zero"


def check_order(head: Head) -> None:
    """Neither the order of slots, of tasks and of queries, nor the numbers of nodes change an answer."""
    vectors, tasks, order = clustered_vectors(), clustered_tasks(20, 5, 2), np.array([3, 0, 4, 1, 2])
    slots = head.predict(vectors, tasks)
    support, query, answers = (
        ids.reshape(20, 5, -1)[:, order].reshape(20, -1) for ids in (tasks.support, tasks.query, slots)
    )
    turned = head.predict(vectors, Tasks(support, query, 5, 2))
    assert np.array_equal(order[turned], answers), f"the order of slots changes answers of {head}"
    some = np.array([7, 3, 11])
    alone = head.predict(vectors, Tasks(tasks.support[some], tasks.query[some], 5, 2))
    assert np.array_equal(alone, slots[some]), f"{head} answers a task in another way among others"
    new_id = np.random.default_rng(0).permutation(400)
    moved = np.empty_like(vectors)
    moved[new_id] = vectors
    assert np.array_equal(head.predict(moved, tasks.relabelled(new_id)), slots), f"{head} reads the numbers of nodes"


def check_queries(head: Head) -> None:
    """``transductive`` is true; queries may be unbalanced and in any order, and each keeps its answer."""
    vectors, random, tasks = clustered_vectors(), np.random.default_rng(3), clustered_tasks(20, 5, 2, queries=6)
    together = head.predict(vectors, tasks)
    first = np.arange(5) * 6
    alone = head.predict(vectors, Tasks(tasks.support, tasks.query[:, first], 5, 2))
    assert np.array_equal(alone, together[:, first]) != head.transductive, f"transductive of {head} is wrong"
    some = np.stack([random.permutation(30)[:13] for _ in range(20)])
    query = np.take_along_axis(tasks.query, some, axis=1)
    slots = np.take_along_axis(np.broadcast_to(tasks.query_slots, tasks.query.shape), some, axis=1)
    found = head.predict(vectors, Tasks(tasks.support, query, 5, 2, slots=slots))
    assert found.shape == (20, 13) and (found == slots).mean() > 0.4, f"{head} fails on unbalanced queries"
    order = random.permutation(13)
    turned = head.predict(vectors, Tasks(tasks.support, query[:, order], 5, 2, slots=slots[:, order]))
    assert np.array_equal(turned, found[:, order]), f"the order of queries changes answers of {head}"


HEAD_CHECKS = (check_answers, check_order, check_queries)
"""All checks of a head; each is called with a head."""
