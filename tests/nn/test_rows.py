"""Rows of sparse matrices and their products against dense ones in double precision."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from naq.nn.rows import (
    SCATTER_BYTES,
    SparseRows,
    mixed_product,
    multiply,
    row_entries,
    sparse_product,
    take_field,
    take_rows,
)


def matrix(rows: int, columns: int, density: float, seed: int = 0) -> sp.csr_array:
    random = np.random.default_rng(seed)
    dense = random.standard_normal((rows, columns)) * (random.random((rows, columns)) < density)
    dense[rows // 2] = 0
    return sp.csr_array(dense.astype(np.float32))


def dense(rows: SparseRows) -> np.ndarray:
    return sp.csr_array((rows.data, rows.indices, rows.indptr), shape=rows.shape).toarray()


NODES = np.array([5, 0, 5, 19, 10, 10])


def test_rows_are_taken_in_order_with_repeats() -> None:
    whole = matrix(20, 30, 0.3)
    assert np.array_equal(dense(take_rows(whole, NODES)), whole.toarray()[NODES])
    assert row_entries(whole, NODES) == np.count_nonzero(whole.toarray()[NODES])


def test_a_field_is_the_same_rows_on_the_columns_in_use() -> None:
    whole = matrix(20, 20, 0.2)
    place = np.full(20, -1, dtype=np.int32)
    rows, field = take_field(whole, NODES, place)
    full = np.zeros((6, 20), dtype=np.float32)
    full[:, field] = dense(rows)
    assert np.array_equal(full, whole.toarray()[NODES])
    assert len(set(field)) == len(field) == np.count_nonzero(whole.toarray()[NODES].any(axis=0))
    assert (place == -1).all()


@pytest.mark.parametrize("count", [0, 7, SCATTER_BYTES // (4 * 256) + 1])
def test_crowded_columns_apart(count: int) -> None:
    """Few rows go by columns, many by rows; products and gradients are those of the whole matrix."""
    whole = matrix(40, 30, 0.4).toarray()
    nodes = np.random.default_rng(1).integers(0, 40, count)
    columns, rest = np.array([2, 9, 11]), whole.copy()
    rest[:, columns] = 0
    weight = torch.randn(30, 512, generator=torch.Generator().manual_seed(0), requires_grad=True)
    full = torch.from_numpy(whole[nodes][:, columns])
    out = mixed_product(take_rows(sp.csr_array(rest), nodes), full, torch.from_numpy(columns), weight)
    exact = whole[nodes].astype(np.float64)
    assert np.allclose(out.detach().numpy(), exact @ weight.detach().double().numpy(), atol=1e-4)
    seen = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    (out * seen).sum().backward()
    assert weight.grad is not None
    assert np.allclose(weight.grad.numpy(), exact.T @ seen.double().numpy(), atol=1e-3)


@pytest.mark.parametrize("width", [1, 3, 64, 100, 128, 129, 200, 256, 384])
@pytest.mark.parametrize("density", [0.0, 0.02, 0.5])
def test_products_and_their_gradients(width: int, density: float) -> None:
    """128 and its multiples go by tiles where rows are full enough; everything else in one piece."""
    whole = matrix(50, 40, density)
    rows = take_rows(whole, np.arange(50))
    right = torch.randn(40, width, generator=torch.Generator().manual_seed(0), requires_grad=True)
    out = sparse_product(rows, right)
    reference = whole.toarray().astype(np.float64) @ right.detach().double().numpy()
    assert np.allclose(out.detach().numpy(), reference, atol=1e-5)
    seen = torch.randn(50, width, generator=torch.Generator().manual_seed(1))
    (out * seen).sum().backward()
    assert np.allclose(right.grad.numpy(), whole.toarray().T.astype(np.float64) @ seen.double().numpy(), atol=1e-5)


def test_strided_and_empty_operands() -> None:
    whole = matrix(50, 40, 0.3)
    rows = take_rows(whole, np.arange(50))
    for right in (torch.randn(256, 40).T, torch.randn(40, 512)[:, ::2], torch.ones(1, 1).expand(40, 128)):
        assert np.allclose(multiply(rows, right).numpy(), whole.toarray() @ right.numpy(), atol=1e-5)
    none = take_rows(whole, np.empty(0, dtype=np.int64))
    assert multiply(none, torch.randn(40, 128)).shape == (0, 128)
    assert (multiply(take_rows(sp.csr_array((3, 40), dtype=np.float32), np.arange(3)), torch.randn(40, 7)) == 0).all()


def test_gradcheck_in_double_precision() -> None:
    rows = take_rows(matrix(8, 6, 0.4), np.arange(8))
    right = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: sparse_product(rows, x), (right,))


def test_threads_do_not_change_a_bit(threads: Callable[[int], None]) -> None:
    rows = take_rows(matrix(300, 200, 0.2), np.arange(300))
    for width in (100, 512):
        right = torch.randn(200, width)
        outs = []
        for number in (1, 2):
            threads(number)
            outs.append(multiply(rows, right))
        assert torch.equal(*outs)
