"""Numba's number of threads, put back after each test that changes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numba
import pytest

import naq  # noqa: F401  # before torch: it sets how idle threads wait


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = numba.get_num_threads()
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("needs two cores")
    yield numba.set_num_threads
    numba.set_num_threads(before)
