"""Sparse torch tensors, made without the warnings torch gives about its own checks."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def csr_tensor(indptr: Any, indices: Any, data: Any, shape: tuple[int, ...], device: Any, dtype: Any) -> torch.Tensor:
    """A CSR tensor on ``device`` from NumPy arrays that are known to be sound."""
    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")
        return torch.sparse_csr_tensor(
            torch.tensor(indptr, dtype=torch.int64, device=device),
            torch.tensor(indices, dtype=torch.int64, device=device),
            torch.tensor(data, dtype=dtype, device=device),
            size=shape,
            check_invariants=False,
        )
