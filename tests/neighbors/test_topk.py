from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import torch
from hypothesis import given, settings

from naq.neighbors.topk import Best, heap_offer, heap_sort, offer_rows, sort_heaps, stable_topk

few_values = st.lists(st.integers(-3, 3), min_size=1, max_size=40)


def dense_topk(scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The slow, obvious version for one block (rows, n): a full stable sort."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(scores, order, axis=1)


@settings(max_examples=200, deadline=None)
@given(few_values, st.integers(1, 12), st.randoms(use_true_random=False))
def test_the_heap_keeps_the_best_with_ties_to_the_lowest_id(values: list[int], k: int, random: object) -> None:
    scores, ids = np.zeros(k, dtype=np.float32), np.full(k, -1, dtype=np.int32)
    order = list(range(len(values)))
    random.shuffle(order)  # type: ignore[attr-defined]
    size = 0
    for node in order:
        size = heap_offer(scores, ids, size, np.float32(values[node]), node)
    heap_sort(scores, ids, size)
    expected = sorted(range(len(values)), key=lambda node: (-values[node], node))[:k]
    assert size == len(expected)
    assert ids[:size].tolist() == expected
    assert scores[:size].tolist() == [values[node] for node in expected]
    assert (ids[size:] == -1).all()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(-3, 3) | st.just(-np.inf), min_size=8, max_size=8), min_size=1), st.integers(1, 8))
def test_stable_topk_of_torch_is_a_stable_sort(rows: list[list[float]], k: int) -> None:
    values = np.array(rows, dtype=np.float32)
    chosen, found = stable_topk(torch.from_numpy(values), k)
    order, scores = dense_topk(values, k)
    assert np.array_equal(found.numpy(), scores)
    finite = np.isfinite(scores)
    assert np.array_equal(chosen.numpy()[finite], order[finite])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 30), st.integers(1, 6), st.integers(0, 10**6))
def test_blocks_offered_in_any_order_are_a_sort_without_the_node_itself(n: int, blocks: int, k: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(-3, 4, (n, n)).astype(np.float32)
    scores, ids = np.full((n, k), -np.inf, dtype=np.float32), np.full((n, k), -1, dtype=np.int64)
    sizes = np.zeros(n, dtype=np.int64)
    owners = random.permutation(n).astype(np.int64)[: random.integers(1, n + 1)]
    for candidates in np.array_split(random.permutation(n), blocks):
        candidates = np.sort(candidates).astype(np.int64)
        offer_rows(np.ascontiguousarray(values[np.ix_(owners, candidates)]), owners, candidates, scores, ids, sizes)
    sort_heaps(scores, ids, sizes)
    for node in range(n):
        others = [other for other in range(n) if other != node] if node in owners else []
        expected = sorted(others, key=lambda other: (-values[node, other], other))[:k]
        assert sizes[node] == len(expected) and ids[node, : len(expected)].tolist() == expected
        assert scores[node, : len(expected)].tolist() == [values[node, other] for other in expected]
        assert (ids[node, len(expected) :] == -1).all() and (scores[node, len(expected) :] == -np.inf).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 6), st.integers(0, 10**6))
def test_the_best_by_torch_are_those_by_compiled_code(n: int, k: int, seed: int) -> None:
    values = torch.from_numpy(np.random.default_rng(seed).integers(-3, 4, (n, n)).astype(np.float32))
    found = []
    for on_cpu in (True, False):
        best = Best(n, k, torch.device("cpu"))
        best.on_cpu = on_cpu
        for candidates in torch.arange(n).split(3):
            best.offer(values[:, candidates].clone(), torch.arange(n), candidates)
        found.append(best.arrays())
    (ids, scores), (other_ids, other_scores) = found
    assert np.array_equal(ids, other_ids) and np.array_equal(scores, other_scores)
    assert ((ids == -1).sum(axis=1) == max(k - n + 1, 0)).all() and (scores[ids == -1] == 0).all()
