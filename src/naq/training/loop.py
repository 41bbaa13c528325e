"""One loop for everything that is trained in steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from naq.training.history import Schedule, Trained
from naq.training.interrupt import CleanInterrupt
from naq.training.state import MAIN, TrainingState, Validate
from naq.training.trainable import Trainable

Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, eq=False)
class Fitting:
    """A training, and how it is evaluated, stopped and kept.

    Attributes:
        validate: accuracy of the model as it is now, on validation tasks.
        also: further such accuracies by name. Each chooses weights of its own, the same that it would choose in a training of its own:
            the training goes on until the patience of every one of them has run out.
        checkpoint: file of the training state; where it exists, training resumes from it.
        key: identifies the run; a checkpoint with another key is an error.
        report: called after every update with done, total, unit, loss, valid, best and seconds.
    """

    training: Trainable
    validate: Validate
    schedule: Schedule
    also: Mapping[str, Validate] = field(default_factory=dict)
    checkpoint: Path | None = None
    key: str = ""
    report: Report | None = None


def fit(
    training: Trainable,
    validate: Validate,
    schedule: Schedule,
    *,
    also: Mapping[str, Validate] | None = None,
    checkpoint: Path | None = None,
    key: str = "",
    report: Report | None = None,
) -> Trained:
    """Train, evaluate every so many episodes or epochs, and end with the weights of the first best validation accuracy.

    Args:
        training, validate, schedule, also, checkpoint, key, report: see :class:`Fitting`.

    Raises:
        KeyboardInterrupt: after Ctrl-C, once the state is saved.
        TrainingError: on a loss that is not finite; the last checkpoint stays.
    """
    (found,) = fit_together([Fitting(training, validate, schedule, also or {}, checkpoint, key, report)])
    if isinstance(found, Exception):
        raise found
    return found


def fit_together(fittings: Sequence[Fitting]) -> list[Trained | Exception]:
    """What :func:`fit` returns or raises for each of them, trained in this process, an update of each in turn.

    On a GPU each has a stream of its own, so that kernels too small for the whole device run beside those of others. No training depends on another: the
    numbers are those of training it alone.

    Raises:
        KeyboardInterrupt: after Ctrl-C, once the states are saved.
    """
    found: dict[int, Trained | Exception] = {}
    running = {place: _Running(fitting, alone=len(fittings) == 1) for place, fitting in enumerate(fittings)}
    with CleanInterrupt() as interrupt:
        while running:
            for place, one in list(running.items()):
                if (ended := one.advance()) is not None:
                    found[place] = ended
                    del running[place]
            if interrupt.asked and running:
                for one in running.values():
                    one.save()
                raise KeyboardInterrupt
    return [found[place] for place in range(len(fittings))]


class _Running:
    """A training that is under way, on a stream of its own where it shares a GPU with others."""

    def __init__(self, fitting: Fitting, *, alone: bool) -> None:
        self._fitting = fitting
        self._state: TrainingState | None = None
        self._every = fitting.training.updates_between(fitting.schedule.evaluate_every)
        device = next((weight.device for weight in fitting.training.model.parameters()), torch.device("cpu"))
        self._stream = None if alone or device.type != "cuda" else torch.cuda.Stream(device)
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(device))  # the model was made there

    def advance(self) -> Trained | Exception | None:
        """One update; what came of the training once it is over."""
        try:
            with self._on_stream():
                ended = self._advance()
        except Exception as error:
            return error
        if ended is not None and self._stream is not None:
            torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)
        return ended

    def save(self) -> None:
        if self._state is not None:
            with self._on_stream():
                self._state.save()

    def _on_stream(self) -> AbstractContextManager[Any]:
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)

    def _advance(self) -> Trained | None:
        given = self._fitting
        if self._state is None:
            sets = {MAIN: given.validate, **given.also}
            self._state = TrainingState(given.training, sets, given.schedule.patience, given.checkpoint, given.key)
        state, updates = self._state, given.training.updates
        if state.update < updates and not state.out_of_patience():
            state.losses.append(given.training.step(state.update))
            state.update += 1
            if state.update % self._every == 0 or state.update == updates:
                state.evaluate()
                state.save(only_if_due=True)
            if given.report is not None:
                given.report(state.facts())
            return None
        state.settle()
        state.save()
        return state.finish()
