from __future__ import annotations

import numpy as np
import pytest
import torch

from naq.errors import OptionError
from naq.neighbors.feature_exact import block_topk
from naq_scale import screened
from naq_scale.screened import euclidean_topk

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")),
]


def whole_numbers(n: int, d: int) -> np.ndarray:
    """Many rows at equal distances, and every row twice: float64 sums of these are exact."""
    rows = np.random.default_rng(0).integers(0, 4, size=((n + 1) // 2, d)).astype(np.float32)
    return np.repeat(rows, 2, axis=0)[:n]


def far_out(n: int, d: int) -> np.ndarray:
    """Far from the origin, and one row far from all: the bound on rounding is useless, so rows are done again."""
    rows = np.random.default_rng(1).integers(0, 50, size=(n, d)).astype(np.float32)
    rows[7] = 3e6
    return rows + 1000


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("group", [1, 8])
@pytest.mark.parametrize("make", [whole_numbers, far_out])
def test_it_is_the_table_of_all_distances(make, group: int, device: str) -> None:
    features = make(1301, 9)
    ids, scores = euclidean_topk(features, 7, device, group=group, rows=100)
    true_ids, true_scores = block_topk(features, 7, "euclidean", "cpu", None)
    assert np.array_equal(scores, true_scores)
    assert np.array_equal(ids, true_ids)


@pytest.mark.parametrize("device", DEVICES)
def test_random_rows(device: str) -> None:
    features = np.random.default_rng(2).standard_normal((12_000, 20)).astype(np.float32)
    assert screened._Search(features, 12, torch.device(device)).group == screened.GROUP
    ids, scores = euclidean_topk(features, 12, device, seeds=(4000, 4600))
    true_ids, true_scores = block_topk(features, 12, "euclidean", "cpu", None, seeds=(4000, 4600))
    assert np.allclose(scores, true_scores, rtol=1e-6) and (ids == true_ids).mean() > 0.9999


def test_few_rows_and_all_of_them() -> None:
    features = np.random.default_rng(3).standard_normal((9, 3)).astype(np.float32)
    ids, _ = euclidean_topk(features, 8, "cpu")
    assert np.array_equal(ids, block_topk(features, 8, "euclidean", "cpu", None)[0])


def test_out_of_memory_halves_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    features = whole_numbers(300, 5)
    once, tried = screened._Search.screened, []

    def short_of_memory(self: screened._Search, start: int, stop: int):
        tried.append(stop - start)
        if stop - start > limit:
            raise torch.OutOfMemoryError("no room")
        return once(self, start, stop)

    monkeypatch.setattr(screened._Search, "screened", short_of_memory)
    with pytest.raises(OptionError, match="one row"):
        limit = 0
        euclidean_topk(features, 4, "cpu")
    limit = 80
    tried.clear()
    ids, _ = euclidean_topk(features, 4, "cpu")
    assert tried[:3] == [300, 150, 75]
    assert np.array_equal(ids, block_topk(features, 4, "euclidean", "cpu", None)[0])


def test_rows_are_decided_by_screening_where_that_is_sure() -> None:
    features = np.random.default_rng(4).standard_normal((12_000, 20)).astype(np.float32)
    sure = screened._Search(features, 12, torch.device("cpu")).screened(0, 200)[2]
    assert bool(sure.all())
