from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import chisquare

from naq.episodes.draws import BLOCK, blocks, distinct


@pytest.mark.parametrize(("n", "size"), [(4, 4), (7, 3), (60, 3), (1000, 5), (100_000, 20)])
def test_rows_are_distinct_and_in_range(n: int, size: int) -> None:
    drawn = distinct(np.random.default_rng(0), 2000, n, size)
    assert drawn.shape == (2000, size) and drawn.min() >= 0 and drawn.max() < n
    assert all(len(set(row)) == size for row in drawn.tolist())


@pytest.mark.parametrize(("n", "size"), [(4, 2), (5, 3), (16, 2)])
def test_uniform_over_ordered_choices(n: int, size: int) -> None:
    """(16, 2) takes the rejecting route, the others the sorting one."""
    drawn = distinct(np.random.default_rng(1), 60_000, n, size)
    index = {choice: i for i, choice in enumerate(permutations(range(n), size))}
    counts = np.bincount([index[tuple(row)] for row in drawn.tolist()], minlength=len(index))
    assert chisquare(counts).pvalue > 1e-3


def test_blocks_cover_the_count_with_a_stream_each() -> None:
    found = list(blocks(2 * BLOCK + 5, 0, "test"))
    assert [(part.start, part.stop) for part, _ in found] == [
        (0, BLOCK),
        (BLOCK, 2 * BLOCK),
        (2 * BLOCK, 2 * BLOCK + 5),
    ]
    assert len({random.random() for _, random in found}) == 3
