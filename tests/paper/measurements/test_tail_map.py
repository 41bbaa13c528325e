"""The map of the smallest classes: its numbers against plain loops, vectors that are odd, and the way from a training
to it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import naq
from naq.errors import DataError
from naq_paper.cells.cell import Cell
from naq_paper.measurements import tail_map, train
from naq_paper.measurements.tail_map import chance_purity, purity, silhouette, smallest_classes, tail_map_cell, tsne

CLASSES = 3
QUICK = {"episodes": 40, "way": 2, "options": {"latent": 8}}


def shown(cell: Cell, **changes: int) -> Cell:
    """The cell with fewer classes or nodes in its map."""
    return Cell(cell.measurement, {**cell.config, **changes})


def slow_purity(vectors: np.ndarray, group: np.ndarray, k: int) -> float:
    shares = []
    for i in range(len(vectors)):
        others = sorted((float(((vectors[i] - vectors[j]) ** 2).sum()), j) for j in range(len(vectors)) if j != i)
        near = [j for _, j in others[:k]]
        shares.append(sum(group[j] == group[i] for j in near) / len(near))
    return float(np.mean(shares))


def slow_silhouette(vectors: np.ndarray, group: np.ndarray) -> float:
    values = []
    for i in range(len(vectors)):
        far = {
            c: [float(np.linalg.norm(vectors[i] - vectors[j])) for j in range(len(group)) if group[j] == c and j != i]
            for c in set(group.tolist())
        }
        own = far.pop(group[i])
        if not own:
            values.append(0.0)
            continue
        a, b = np.mean(own), min(np.mean(d) for d in far.values())
        values.append((b - a) / max(a, b))
    return float(np.mean(values))


@pytest.mark.parametrize("block", [7, 512])
def test_numbers_are_those_of_plain_loops(block):
    group = np.array([0] * 9 + [1] * 7 + [2] * 5 + [3])
    vectors = np.random.default_rng(1).standard_normal((22, 4)) + group[:, None]
    vectors[3] = vectors[12] = 0.0
    assert purity(vectors, group, 5, block=block) == pytest.approx(slow_purity(vectors, group, 5))
    assert purity(vectors, group, 99, block=block) == pytest.approx(slow_purity(vectors, group, 21))
    assert purity(vectors, group, 99) == pytest.approx(chance_purity(group))
    assert silhouette(vectors, group) == pytest.approx(slow_silhouette(vectors, group))
    apart = 20 * np.eye(4)[group] + np.random.default_rng(0).standard_normal((22, 4))
    assert purity(tsne(apart[:16], 5, 0), group[:16], 5) == 1.0, "a map keeps far groups apart"


def test_numbers_that_are_not_defined_are_none():
    one = np.zeros(1, dtype=int)
    assert purity(np.ones((1, 2)), one, 5) is None and chance_purity(one) is None
    assert silhouette(np.eye(3), np.zeros(3, dtype=int)) is None
    assert silhouette(np.eye(3), np.arange(3)) is None


@pytest.mark.parametrize("n", [1, 2, 3, 6, 40])
@pytest.mark.parametrize("d", [1, 5])
def test_a_map_of_any_vectors(n, d):
    random = np.random.default_rng(n)
    for vectors in (
        random.standard_normal((n, d)),
        np.zeros((n, d)),
        np.full((n, d), 0.1),
        1e-30 * random.standard_normal((n, d)),
        np.where(np.arange(n)[:, None] % 2, random.standard_normal((n, d)), 0.0),
    ):
        place = tsne(vectors, 30, 0)
        assert place.shape == (n, 2) and np.isfinite(place).all()
        assert np.array_equal(place, tsne(vectors, 30, 0))


def test_smallest_classes_go_by_size_then_by_id():
    labels = np.array([5, 5, 5, 0, 0, 3, 3, 1, 1, 1, 1, -1])
    graph = naq.Graph([[0], [1]], labels=labels, nodes=12)
    classes, sizes = smallest_classes(graph, 3)
    assert classes.tolist() == [0, 3, 5] and sizes.tolist() == [2, 2, 3]
    assert smallest_classes(graph, 99)[0].tolist() == [0, 3, 5, 1]


@pytest.fixture
def vectors_of(monkeypatch, context):
    """Puts vectors in the place of a training; what the training is asked for is kept."""
    asked = []

    def put(vectors):
        def fake(config, own):
            asked.append(dict(config))
            return SimpleNamespace(embedding=vectors)

        monkeypatch.setattr(tail_map, "train_run", fake)
        return asked

    return put


def test_the_training_is_that_of_a_train_cell(context, compute, vectors_of):
    graph = context.dataset_cache.graph("communities")
    random = np.random.default_rng(0)
    vectors = random.standard_normal((graph.num_nodes, 6)).astype(np.float32)
    vectors[:, 2] = 1.0
    vectors[::9] = 0.0
    asked = vectors_of(vectors)
    cell = shown(tail_map_cell("communities", "naq-feat/protonet", **QUICK), classes=CLASSES, knn=4)
    result = compute(cell)
    assert asked == [dict(train.train_cell("communities", "naq-feat/protonet", **QUICK).config)]
    # Every class of the graph has twenty nodes but class 0, which has one more.
    assert result["classes"] == [1, 2, 3] and result["class_sizes"] == [20, 20, 20] and result["nodes"] == 60
    assert result["class_names"] == ["1", "2", "3"]
    nodes = np.array(result["node"])
    group = np.array(result["group"])
    assert np.array_equal(np.array(result["classes"])[group], graph.labels[nodes])
    assert len(result["x"]) == len(result["y"]) == result["points"] == 60
    there = vectors[nodes].astype(np.float64)
    norms = np.linalg.norm(there, axis=1, keepdims=True)
    unit = there / np.where(norms > 0, norms, 1)
    assert result["purity"] == pytest.approx(slow_purity(there, group, 4))
    assert result["silhouette"] == pytest.approx(slow_silhouette(there, group))
    assert result["unit_purity"] == pytest.approx(slow_purity(unit, group, 4))
    assert result["unit_silhouette"] == pytest.approx(slow_silhouette(unit, group))
    assert result["x"] == [round(v, 3) for v in result["x"]]


def test_classes_that_are_not_in_order_of_their_ids(context, compute, vectors_of):
    graph = context.dataset_cache.graph("islands")
    vectors_of(np.random.default_rng(0).standard_normal((graph.num_nodes, 3)))
    result = compute(tail_map_cell("islands", "smooth"))
    assert sorted(result["class_sizes"]) == result["class_sizes"] and result["classes"] != sorted(result["classes"])
    assert np.array_equal(np.array(result["classes"])[result["group"]], graph.labels[result["node"]])


def test_too_many_nodes_are_thinned_out_by_a_seeded_draw(context, compute, vectors_of):
    graph = context.dataset_cache.graph("communities")
    vectors_of(np.random.default_rng(0).standard_normal((graph.num_nodes, 3)))
    first, again, other = (
        compute(shown(tail_map_cell("communities", "smooth"), classes=CLASSES, points=25, tsne_seed=seed))
        for seed in (0, 0, 1)
    )
    assert first == again and first["node"] != other["node"]
    assert first["points"] == len(set(first["node"])) == 25 and first["nodes"] == 60


def test_vectors_that_cannot_be_shown(context, compute, vectors_of):
    nodes = context.dataset_cache.graph("communities").num_nodes
    vectors_of(np.full((nodes, 3), np.nan))
    with pytest.raises(DataError, match="not finite"):
        compute(tail_map_cell("communities", "smooth"))
    vectors_of(None)
    with pytest.raises(DataError, match="kept no vectors"):
        compute(tail_map_cell("communities", "smooth"))
    vectors_of(np.zeros((nodes, 3)))
    result = compute(shown(tail_map_cell("communities", "smooth"), classes=1))
    assert result["silhouette"] is None and result["purity"] == 1.0 and set(result["x"]) == {0.0}


def test_from_a_real_run(compute):
    result = compute(shown(tail_map_cell("communities", "smooth", way=2), classes=CLASSES))
    assert result["purity"] > result["chance_purity"] + 0.2
