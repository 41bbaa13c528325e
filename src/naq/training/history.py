"""When a training is evaluated, what was found then, and which checkpoint that chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from naq.errors import OptionError


@dataclass(frozen=True)
class Schedule:
    """When to evaluate and when to stop.

    Args:
        evaluate_every: episodes (or epochs) between two evaluations (the paper: 160 of 16,000, so 100 evaluations).
        patience: stop after this many evaluations without a new best; None trains to the end, as the paper does.
    """

    evaluate_every: int = 160
    patience: int | None = None

    def __post_init__(self) -> None:
        if self.evaluate_every < 1:
            raise OptionError(f"evaluate_every is {self.evaluate_every}; expected at least 1.")
        if self.patience is not None and self.patience < 1:
            raise OptionError(f"patience is {self.patience}; expected at least 1 evaluation, or none.")


@dataclass
class History:
    """One entry per evaluation.

    Attributes:
        steps: episodes or epochs trained so far, whichever the model is trained in.
        loss: mean training loss since the evaluation before.
        valid_accuracy: on validation tasks.
        seconds: of training and evaluation so far, over all resumed parts.
        also: accuracies on further sets of validation tasks, by their names.
    """

    steps: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    valid_accuracy: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    also: dict[str, list[float]] = field(default_factory=dict)


def first_best(accuracies: Sequence[float], patience: int | None = None) -> tuple[int, bool]:
    """Index of the first best accuracy that was found before patience ran out, and whether it ran out.

    >>> first_best([0.5, 0.7, 0.6, 0.7]), first_best([0.5, 0.4, 0.4, 0.9], patience=2)
    ((1, False), (0, True))
    """
    best = 0
    for place, accuracy in enumerate(accuracies):
        if accuracy > accuracies[best]:
            best = place
        elif patience is not None and place - best >= patience:
            return best, True
    return best, False


@dataclass(frozen=True)
class Selected:
    """The checkpoint that a further set of validation tasks chose."""

    step: int
    valid: float
    weights: Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Trained:
    """What :func:`~naq.training.loop.fit` returns; the model holds the weights of the first best validation accuracy.

    Attributes:
        best_step: episodes or epochs behind those weights.
        resumed_from: episodes or epochs that a checkpoint had behind it; 0 for a fresh start.
        also: what further sets of validation tasks chose, by their names.
    """

    history: History
    best_step: int
    best_valid: float
    seconds: float
    stopped_early: bool
    resumed_from: int
    also: Mapping[str, Selected] = field(default_factory=dict)
