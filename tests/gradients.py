"""What tests of losses and their gradients share."""

from __future__ import annotations

import torch


def check_loss(learner: torch.nn.Module, loss: torch.Tensor, formula: torch.Tensor, free: str = "") -> None:
    """The loss and its gradients are those of a formula, to a ten-thousandth of the largest entry of each gradient.

    Args:
        free: a parameter, the bias of the last layer, in whose gradient there is nothing but rounding: a loss that
            does not change when all vectors move. Its entries are compared with the largest of all gradients.
    """
    assert torch.allclose(loss.double(), formula.double(), rtol=1e-4, atol=1e-5)
    names, parameters = zip(*learner.named_parameters())
    found, expected = (torch.autograd.grad(one, parameters, allow_unused=True) for one in (loss, formula))
    given = [torch.zeros_like(p) if g is None else g for g, p in zip(expected, parameters)]
    most = max(float(b.abs().max()) for b in given)
    for name, a, b in zip(names, found, given):
        scale = most if name == free else float(b.abs().max())
        a = torch.zeros_like(b) if a is None else a
        assert torch.allclose(a.double(), b.double(), rtol=0, atol=2e-6 + 1e-4 * scale), name


def move_biases(*biases: torch.Tensor) -> None:
    """Set biases to -0.1, 0.1, -0.1, ...: where a pre-activation is a bias alone, no rounding decides its sign."""
    with torch.no_grad():
        for bias in biases:
            bias.copy_(0.1 * (-1.0) ** torch.arange(1, len(bias) + 1))
