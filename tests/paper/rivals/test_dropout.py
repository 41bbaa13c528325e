"""Dropout from the caller's generator."""

import pytest
import torch

from naq_paper.rivals.dropout import dropped


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("share", [0.5, 0.3])
def test_dropout(share: float) -> None:
    values = torch.ones(400, 503)
    found = dropped(values, share, generator())
    assert torch.allclose(found.unique(), torch.tensor([0.0, 1 / (1 - share)]))
    assert abs(float((found == 0).float().mean()) - share) < 5 * (share * (1 - share) / values.numel()) ** 0.5
    assert torch.equal(dropped(values, share, generator()), found)
    assert not torch.equal(dropped(values, share, generator(1)), found)
    assert dropped(values, 0.0, generator()) is values and dropped(values, share, None) is values


def test_the_gradient_passes_the_same_mask() -> None:
    values = torch.randn(7, 9, 5, generator=generator(), requires_grad=True)
    found = dropped(values, 0.3, generator(3))
    (grad,) = torch.autograd.grad((2 * found).sum(), values)
    assert torch.allclose(grad * values / 2, found)
    assert (found == 0).any() and (found != 0).any()
