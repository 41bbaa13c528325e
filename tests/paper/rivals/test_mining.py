from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from threadpoolctl import threadpool_info

from naq.neighbors.topk import Best
from naq_paper.rivals import afgrl
from naq_paper.rivals.afgrl import clusters, lloyd, nearest, positives


def unit(n: int, d: int, seed: int) -> torch.Tensor:
    drawn = torch.randn(n, d, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(drawn, dim=1)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def dense_nearest(students: np.ndarray, teachers: np.ndarray, k: int) -> np.ndarray:
    """The k largest of every row of all similarities with 10 on the diagonal, ties to the lowest id."""
    similar = students.astype(np.float64) @ teachers.astype(np.float64).T
    similar[np.arange(len(students)), np.arange(len(students))] += 10
    return np.argsort(-similar, axis=1, kind="stable")[:, :k]


def dense_positives(near: np.ndarray, adjacency: np.ndarray, labels: np.ndarray) -> np.ndarray:
    n = len(adjacency)
    knn = np.zeros((n, n), dtype=bool)
    knn[np.arange(len(near))[:, None], near] = True
    local = knn & ((adjacency + np.eye(n)) > 0)
    shared = np.zeros((n, n), dtype=bool)
    for run in labels.T:
        shared |= run[:, None] == run[None, :]
    return local | (knn & shared)


def entries(adjacency: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    rows, columns = np.nonzero(adjacency + np.eye(len(adjacency)))
    return torch.from_numpy(rows), torch.from_numpy(columns)


def random_adjacency(n: int, seed: int = 0, density: float = 0.05) -> np.ndarray:
    drawn = np.triu(np.random.default_rng(seed).random((n, n)) < density, 1)
    return (drawn | drawn.T).astype(float)


class BestInTorch(Best):
    """The accelerator's lists."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.on_cpu = False


@pytest.fixture(params=["tiles", "blocks"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to search, over several tiles or blocks; the second is the accelerator's."""
    monkeypatch.setattr(afgrl, "ROWS", 32)
    monkeypatch.setattr(afgrl, "COLUMNS", 50)
    monkeypatch.setattr(afgrl, "BLOCK_ENTRIES", 32 * 230)
    if request.param == "blocks":
        monkeypatch.setattr(afgrl, "Best", BestInTorch)
    return str(request.param)


@pytest.mark.parametrize(("m", "k"), [(230, 4), (230, 1), (71, 8)])
def test_nearest_is_the_top_of_all_similarities(way: str, m: int, k: int) -> None:
    teachers = unit(230, 6, 1)
    students = torch.nn.functional.normalize(teachers + 0.3 * unit(230, 6, 2), dim=1)[:m]
    students[3] = -teachers[3]  # the least alike of all, and yet its own first
    found = nearest(students, teachers, k)
    assert found.dtype == torch.int64
    assert np.array_equal(found.numpy(), dense_nearest(students.numpy(), teachers.numpy(), k))
    assert np.array_equal(found[:, 0].numpy(), np.arange(m))


def test_of_equally_similar_nodes_the_lowest_is_taken(way: str) -> None:
    drawn = np.random.default_rng(0).integers(-1, 2, size=(2, 120, 4)).astype(np.float32)  # exact products, many equal
    students, teachers = torch.from_numpy(drawn[0]), torch.from_numpy(drawn[1])
    expected = students @ teachers.T
    expected[torch.arange(120), torch.arange(120)] = 100.0
    expected = torch.sort(expected, dim=1, descending=True, stable=True).indices[:, :5]
    assert torch.equal(nearest(students, teachers, 5), expected)


def test_there_are_no_more_nearest_than_nodes(way: str) -> None:
    vectors = unit(3, 4, 0)
    assert np.array_equal(np.sort(nearest(vectors, vectors, 8).numpy(), axis=1), [[0, 1, 2]] * 3)


def test_vectors_that_are_no_numbers_do_not_stop_the_search() -> None:
    vectors = torch.full((7, 4), torch.nan)
    found = nearest(vectors, vectors, 3)
    assert found.min() >= 0 and found.max() < 7


def plain_lloyd(vectors: torch.Tensor, start: torch.Tensor, iterations: int = 20) -> list[int]:
    """Distance by distance, mean by mean."""
    points, centers = vectors.double().numpy(), vectors[start].double().numpy()
    for _ in range(iterations):
        labels = ((points[:, None, :] - centers[None]) ** 2).sum(axis=2).argmin(axis=1)
        centers = np.stack([points[labels == c].mean(axis=0) for c in range(len(centers))])
    return ((points[:, None, :] - centers[None]) ** 2).sum(axis=2).argmin(axis=1).tolist()


def starts(n: int, count: int, runs: int, seed: int) -> list[torch.Tensor]:
    drawn = generator(seed)
    return [torch.randperm(n, generator=drawn)[:count] for _ in range(runs)]


def slow_to_settle() -> torch.Tensor:
    """Points on a line: borders between clusters creep."""
    return torch.linspace(0, 1, 1001).square()[:, None]


def test_clusters_are_those_of_twenty_plain_iterations() -> None:
    for vectors in (unit(400, 5, 3), slow_to_settle()):
        found = clusters(vectors, 7, 3, generator(5))
        assert found.shape == (len(vectors), 3) and not torch.equal(found[:, 0], found[:, 1])
        for run, start in enumerate(starts(len(vectors), 7, 3, 5)):
            assert found[:, run].tolist() == plain_lloyd(vectors, start)
            assert torch.equal(lloyd(vectors, vectors[start]), found[:, run])
    assert found[:, 0].tolist() != plain_lloyd(vectors, starts(1001, 7, 1, 5)[0], 19), "it must not have settled before"


def test_lloyd_sums_over_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, start = unit(400, 5, 3), starts(400, 7, 1, 2)[0]
    monkeypatch.setattr(afgrl, "BLOCK_ENTRIES", 7 * 90)
    assert lloyd(vectors, vectors[start]).tolist() == plain_lloyd(vectors, start)


def test_lloyd_leaves_an_empty_cluster_where_it_was() -> None:
    vectors = torch.tensor([[0.0], [0.1], [1.0], [1.1]])
    assert lloyd(vectors, torch.tensor([[0.0], [50.0], [1.0]])).tolist() == [0, 0, 2, 2]


def test_neither_the_number_of_threads_nor_another_run_changes_clusters() -> None:
    vectors = unit(3000, 16, 4)
    before = torch.get_num_threads(), [(pool["filepath"], pool["num_threads"]) for pool in threadpool_info()]
    found = clusters(vectors, 20, 3, generator())
    assert torch.equal(found, clusters(vectors, 20, 3, generator()))
    pools = {(pool["filepath"], pool["num_threads"]) for pool in threadpool_info()}
    assert set(before[1]) <= pools, "limits on threads must be taken back"
    torch.set_num_threads(1)
    try:
        assert torch.equal(found, clusters(vectors, 20, 3, generator()))
    finally:
        torch.set_num_threads(before[0])
    assert not torch.equal(found, clusters(vectors, 20, 3, generator(1)))


def test_equal_vectors_and_more_clusters_than_nodes_are_no_error() -> None:
    same = torch.ones(30, 4) / 2
    assert len(set(clusters(same, 10, 2, generator())[:, 0].tolist())) <= 10
    few = clusters(unit(6, 3, 0), 100, 2, generator())
    assert sorted(few[:, 0].tolist()) == [0, 1, 2, 3, 4, 5]
    assert clusters(same, 10, 0, generator()).shape == (30, 0)


def test_vectors_that_are_no_numbers_are_not_clustered() -> None:
    vectors = unit(30, 4, 0)
    vectors[3, 2] = torch.nan
    assert torch.equal(clusters(vectors, 5, 2, generator()), torch.zeros(30, 2, dtype=torch.int64))


@pytest.mark.parametrize("runs", [0, 1, 3])
@pytest.mark.parametrize("m", [90, 40])
def test_positives_are_those_of_dense_masks(runs: int, m: int) -> None:
    vectors, adjacency = unit(90, 3, 0), random_adjacency(90)
    labels = np.random.default_rng(1).integers(0, 9, size=(90, runs))
    near = nearest(vectors[:m], vectors, 12)
    found = positives(near, *entries(adjacency), torch.from_numpy(labels))
    expected = dense_positives(near.numpy(), adjacency, labels)
    assert isinstance(found, sp.csr_array) and found.has_canonical_format
    assert np.array_equal(found.toarray(), expected.astype(np.float32))
    assert expected.sum() > m, "the case must hold more than the nodes themselves"
    assert np.array_equal(found.diagonal(), np.arange(90) < m)


def test_reasons_for_a_positive() -> None:
    adjacency = np.zeros((5, 5))
    for a, b in ((0, 1), (0, 4)):
        adjacency[a, b] = adjacency[b, a] = 1
    near = torch.tensor([[0, 1, 2, 3]])
    labels = torch.tensor([[0, 0, 0], [0, 0, 1], [5, 0, 2], [6, 7, 3], [0, 0, 0]])
    found = positives(near, *entries(adjacency), labels).toarray()
    # 1: edge and two clusters, once; 2: one cluster of three; 3: near, nothing else; 4: an edge and all clusters, but not near.
    assert found[0].tolist() == [1, 1, 1, 0, 0] and found[1:].sum() == 0
    without = positives(near, *entries(adjacency), labels[:, :0]).toarray()
    assert without[0].tolist() == [1, 1, 0, 0, 0]
