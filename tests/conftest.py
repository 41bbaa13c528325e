"""Tests compute as the command line does; numba's number of threads is put back after each test that changes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from naq.threads import prepare_process

prepare_process()  # before torch is loaded

import numba  # noqa: E402
import pytest  # noqa: E402


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = numba.get_num_threads()
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("needs two cores")
    yield numba.set_num_threads
    numba.set_num_threads(before)
