"""Vectors of length one."""

import numpy as np

from naq.unit_rows import unit_rows


def test_short_vectors_become_zero_and_long_ones_do_not_overflow() -> None:
    x = np.array([[3, 4], [0, 0], [1e-20, 0], [1e18, 1e18]], dtype=np.float32)
    found = unit_rows(x, 1e-12)
    assert found.dtype == np.float32
    assert np.allclose(found, [[0.6, 0.8], [0, 0], [0, 0], [0.5**0.5, 0.5**0.5]])


def test_any_leading_shape_and_a_floor_of_its_own_for_each() -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    floor = np.where(np.arange(4) == 2, 1e9, 0.0)[:, None]
    found = unit_rows(x, floor)
    lengths = np.linalg.norm(found, axis=-1)
    assert not found[:, 2].any() and np.allclose(lengths[:, [0, 1, 3]], 1.0)
