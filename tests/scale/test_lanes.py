"""Sums of rows in registers, against one addition after the other."""

import numpy as np
import pytest

from naq_scale.lanes import LANES, WIDE, add_rows, line_aligned


@pytest.mark.parametrize("width", [1, LANES - 1, LANES, LANES + 3, WIDE, WIDE + 1, 2 * WIDE + 2 * LANES + 5])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_rows_are_added_one_after_the_other(width, kind):
    random = np.random.default_rng(width)
    rows = line_aligned((40, width))
    rows[:] = random.standard_normal((40, width)) * 10.0 ** random.integers(-3, 4, (40, 1))
    indices = random.integers(0, 40, 100).astype(kind)
    total = random.standard_normal(width + 7).astype(np.float32)
    expected = total.copy()
    for index in indices[20:95]:
        expected[3 : 3 + width] += rows[index]
    add_rows(rows.reshape(-1), width, indices, 20, 95, total, 3)
    assert np.array_equal(total, expected)
    add_rows(rows.reshape(-1), width, indices, 50, 50, total, 3)
    assert np.array_equal(total, expected)


@pytest.mark.parametrize("shape", [(1, 1), (7, 64), (100_000, 16), (0, 5), (5, 0)])
def test_aligned_rows_begin_with_a_line(shape):
    rows = line_aligned(shape)
    assert rows.shape == shape and rows.dtype == np.float32 and rows.flags.c_contiguous and rows.flags.writeable
    assert rows.size == 0 or rows.ctypes.data % (4 * LANES) == 0
