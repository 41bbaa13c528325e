"""Sums in fixed order against PyTorch's own."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from naq_paper.rivals.fixed_order import NUMBERS, BatchNorm, dropped, prelu, softmax, total


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def close(found: torch.Tensor | None, wanted: torch.Tensor | None) -> None:
    assert found is not None and wanted is not None
    assert (found - wanted).abs().max() < 2e-6 * (1 + wanted.abs().max())


@pytest.mark.parametrize("rows", [40, 511, 1300])
@pytest.mark.parametrize("momentum", [0.1, 0.99])
def test_batch_normalisation_is_that_of_torch(rows: int, momentum: float) -> None:
    mine, theirs = BatchNorm(37, momentum=momentum), nn.BatchNorm1d(37, momentum=momentum).double()
    with torch.no_grad():
        mine.weight.copy_(torch.linspace(0.5, 2, 37))
        mine.bias.copy_(torch.linspace(-1, 1, 37))
    theirs.load_state_dict(mine.state_dict())
    for step in range(2):
        x = (3 + 2 * torch.randn(rows, 37, generator=generator(step))).requires_grad_()
        y = x.detach().double().requires_grad_()
        pull = torch.randn(37, rows, generator=generator(9)).T  # gradients need not be contiguous
        found, wanted = mine(x), theirs(y)
        close(found, wanted)
        found.backward(pull)
        wanted.backward(pull.double())
        close(x.grad, y.grad)
    for one, two in zip(mine.parameters(), theirs.parameters(), strict=True):
        close(one.grad, two.grad)
    states = mine.state_dict(), theirs.state_dict()
    assert states[0].keys() == states[1].keys() and int(mine.num_batches_tracked) == 2
    for name in ("running_mean", "running_var"):
        close(states[0][name], states[1][name])
    close(mine.eval()(x), theirs.eval()(y))


def test_one_row_has_no_variance() -> None:
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        BatchNorm(3)(torch.ones(1, 3))


def test_prelu() -> None:
    x, pull = (torch.randn(50, 7, generator=generator(seed)) for seed in (0, 1))
    one, two = (torch.tensor([0.25], requires_grad=True) for _ in range(2))
    found, wanted = prelu(x, one), F.prelu(x, two)
    assert torch.equal(found, wanted)
    found.backward(pull)
    wanted.backward(pull)
    close(one.grad, two.grad)


def test_softmax() -> None:
    x, pull = (torch.randn(9, 5, 18, generator=generator(seed)) for seed in (0, 1))
    x[..., 3] = -torch.inf
    one, two = x.clone().requires_grad_(), x.double().requires_grad_()
    found, wanted = softmax(one), two.softmax(dim=-1)
    close(found, wanted)
    found.backward(pull)
    wanted.backward(pull.double())
    close(one.grad, two.grad)


@pytest.mark.parametrize("count", [1, NUMBERS, 2 * NUMBERS + 3])
def test_total(count: int) -> None:
    values = torch.rand(count, generator=generator(), requires_grad=True)
    found = total(values)
    assert found.shape == () and torch.allclose(found, values.double().sum().float())
    found.backward()
    assert values.grad is not None and (values.grad == 1).all()


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
