"""BLAS with one thread: the oracles make thousands of tiny products, which its threads slow down by far."""

from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="package")
def one_blas_thread() -> Iterator[None]:
    with threadpool_limits(1, user_api="blas"):
        yield
