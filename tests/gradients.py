"""What tests of gradients share."""

from collections.abc import Sequence

import torch

from naq import Episodes
from naq.learners import Learner


def same_gradients(learner: torch.nn.Module, one: torch.Tensor, two: torch.Tensor, last_bias: str) -> bool:
    """Within a ten-thousandth of the largest of each, but for the last bias: a loss that no shift of all vectors changes has nothing
    but rounding in its gradient."""
    names, parameters = zip(*learner.named_parameters())
    found, expected = (torch.autograd.grad(loss, parameters) for loss in (one, two))
    most = max(float(b.abs().max()) for b in expected)
    for name, a, b in zip(names, found, expected):
        scale = most if name == last_bias else float(b.abs().max())
        assert name == last_bias or scale > 0
        assert torch.allclose(a, b, atol=1e-4 * scale), name
    return True


def move_biases(*biases: torch.Tensor) -> None:
    """Set biases to -0.1, 0.1, -0.1, ...: a pre-activation that is nothing but a bias then has a sign no rounding decides."""
    with torch.no_grad():
        for bias in biases:
            bias.copy_(0.1 * (-1.0) ** torch.arange(1, len(bias) + 1))


def check_steps(
    learner: Learner, twin: Learner, batches: Sequence[Episodes], *optimizers: torch.optim.Optimizer
) -> list[float]:
    """The learner's steps are those of ``optimizers`` over the twin's parameters; the losses.

    The twin is given the learner's gradients: Adam divides by their size, so one that is nothing but rounding would move a twin that
    computes its own by a whole step in another direction.
    """
    mine, losses = learner.optimizer(), []
    for update, batch in enumerate(batches):
        parameters = list(learner.parameters())
        gradients = torch.autograd.grad(learner.loss(batch, update), parameters, allow_unused=True)
        losses.append(float(learner.step(batch, update, mine)))
        for parameter, gradient in zip(twin.parameters(), gradients):
            parameter.grad = gradient
        for optimizer in optimizers:
            optimizer.step()
    for one, two in zip(learner.parameters(), twin.parameters()):
        assert torch.allclose(one, two, atol=1e-6)
    return losses
