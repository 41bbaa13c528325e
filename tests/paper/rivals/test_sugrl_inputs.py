"""Rows of unit norm, dense and sparse."""

import numpy as np
import pytest
import scipy.sparse as sp

from naq_paper.rivals.sugrl import unit_norm


@pytest.mark.parametrize("order", [1, 2])
def test_dense_and_sparse_rows_have_unit_norm(order: int) -> None:
    random = np.random.default_rng(0)
    x = (random.standard_normal((50, 9)) * (random.random((50, 9)) < 0.4)).astype(np.float32)
    x[7] = 0.0
    norms = np.linalg.norm(x.astype(np.float64), ord=order, axis=1)
    wanted = x / np.where(norms > 0, norms, 1.0)[:, None]
    dense, sparse = unit_norm(x, order), unit_norm(sp.csr_array(x), order)
    assert isinstance(sparse, sp.csr_array) and dense.dtype == sparse.dtype == np.float32
    assert np.allclose(dense, wanted, atol=1e-6) and np.allclose(sparse.toarray(), wanted, atol=1e-6)
    assert not dense[7].any()


def test_very_short_rows_become_zero_and_very_long_ones_do_not_overflow() -> None:
    x = np.array([[3, 4], [0, 0], [1e-20, 0], [1e18, 1e18]], dtype=np.float32)
    assert np.allclose(unit_norm(x, 2), [[0.6, 0.8], [0, 0], [0, 0], [0.5**0.5, 0.5**0.5]])
    assert np.allclose(unit_norm(sp.csr_array(x), 2).toarray(), unit_norm(x, 2))
