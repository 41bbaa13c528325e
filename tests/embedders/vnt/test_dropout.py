"""Masks from bits."""

import numpy as np
import pytest
import torch

from naq.embedders.vnt.dropout import LEVELS, Dropout, kept, masked


def dropout(seed: int = 0) -> Dropout:
    return Dropout(torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("share", [0.5, 0.3, 0.05])
def test_share_and_scale(share):
    values = torch.ones(400, 503)
    found = dropout()(values, share)
    assert found.shape == values.shape
    levels = found.unique()
    assert torch.allclose(levels, torch.tensor([0.0, 1 / (1 - share)]), rtol=1e-4)
    assert abs(float((found == 0).float().mean()) - share) < 5 * (share * (1 - share) / values.numel()) ** 0.5


@pytest.mark.parametrize("share", [0.5, 0.3])
def test_neighbouring_entries_are_independent(share):
    gone = (dropout()(torch.ones(1 << 18), share) == 0).double().numpy()
    for lag in (1, 4, 16, 63, 64, 65):
        assert abs(np.corrcoef(gone[:-lag], gone[lag:])[0, 1]) < 0.01


@pytest.mark.parametrize("count", [1, 3, 64, 65, 1000])
@pytest.mark.parametrize("level", [LEVELS // 2, 20_000])
def test_kernels_agree_with_torch(count, level):
    random = np.random.default_rng(count)
    words = torch.from_numpy(random.integers(-(2**63), 2**63 - 1, size=count, dtype=np.int64))
    values = torch.from_numpy(random.standard_normal(count).astype(np.float32))
    wanted = values * kept(words, level, count) * (LEVELS / (LEVELS - level))
    assert torch.allclose(masked(values, words, level), wanted)
    assert torch.allclose(masked(values.double(), words, level), wanted.double())


@pytest.mark.parametrize("share", [0.5, 0.3])
def test_the_gradient_passes_the_same_mask(share):
    values = torch.randn(7, 9, 5, requires_grad=True)
    found = dropout(3)(values, share)
    (grad,) = torch.autograd.grad((2 * found).sum(), values)
    assert torch.allclose(grad * values / 2, found)
    assert (found == 0).any() and (found != 0).any()


def test_no_share_no_draw_and_every_mask_another():
    one = dropout()
    values = torch.ones(1000)
    assert one(values, 0.0) is values
    first, second = one(values, 0.5), one(values, 0.5)
    assert not torch.equal(first, second) and torch.equal(dropout()(values, 0.5), first)
