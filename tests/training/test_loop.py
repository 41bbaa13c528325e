"""The training loop on steps that are made to order; resume of real methods is in tests/test_testing.py."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from naq import Episodes
from naq.errors import OptionError, TrainingError
from naq.training import EpisodeTraining, EpochTraining, Schedule, episode_training, fit, loop
from naq.training.checkpoint import load_state, save_state


class Steps:
    """The weight counts the steps."""

    unit = "episodes"

    def __init__(self, updates: int = 10, losses: list[float] | None = None) -> None:
        self.model = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(self.model.weight)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1.0)
        self.updates, self.losses, self.taken = updates, losses, 0

    def done(self, updates: int) -> int:
        return updates

    updates_between = done

    def step(self, update: int) -> torch.Tensor:
        with torch.no_grad():
            self.model.weight += 1
        self.taken += 1
        return torch.tensor(1.0 if self.losses is None else self.losses[update])


def accuracies(*values: float) -> Callable[[], float]:
    return iter(values).__next__


@pytest.mark.parametrize(
    ("updates", "every", "patience", "valid", "evaluated", "best"),
    [
        (10, 2, None, (0.5, 0.7, 0.6, 0.7, 0.2), [2, 4, 6, 8, 10], 4),  # the first best
        (100, 10, 2, (0.5, 0.6, 0.6, 0.6, 0.9), [10, 20, 30, 40], 20),  # stopped after two without a new best
        (5, 2, None, (0.1, 0.2, 0.3), [2, 4, 5], 5),  # the last stretch is shorter
    ],
)
def test_the_first_best_validation_is_kept(
    updates: int, every: int, patience: int | None, valid: tuple[float, ...], evaluated: list[int], best: int
) -> None:
    steps, seen = Steps(updates), []
    trained = fit(steps, accuracies(*valid), Schedule(every, patience), report=seen.append)
    assert trained.history.steps == evaluated and trained.history.valid_accuracy == list(valid[: len(evaluated)])
    assert trained.best_step == best == steps.model.weight.item() and trained.best_valid == max(valid[: len(evaluated)])
    assert trained.stopped_early == (evaluated[-1] < updates)
    facts = json.loads(json.dumps(seen))
    assert facts[0]["valid"] is None and facts[-1]["valid"] == valid[len(evaluated) - 1] and len(facts) == evaluated[-1]


def test_a_loss_that_is_not_finite_names_its_update_and_keeps_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    steps = Steps(10, [1, 1, 1, 1, 1, float("nan"), 1, 1, 1, 1])
    with pytest.raises(TrainingError, match=r"update 5, .*lr \(now 1\)"):
        fit(steps, accuracies(0.1, 0.2, 0.3), Schedule(2), checkpoint=tmp_path / "c")
    assert load_state(tmp_path / "c")[1]["update"] == 4
    with pytest.raises(TrainingError, match="validation"):
        fit(Steps(2), accuracies(np.nan), Schedule(2))


def test_a_finished_training_is_read_and_one_of_another_run_refused(tmp_path: Path) -> None:
    fit(Steps(4), accuracies(0.1, 0.3), Schedule(2), checkpoint=tmp_path / "c", key="a")
    again = Steps(4)
    trained = fit(again, accuracies(), Schedule(2), checkpoint=tmp_path / "c", key="a")
    assert again.taken == 0 and again.model.weight.item() == 4 and trained.best_valid == 0.3
    with pytest.raises(TrainingError, match="settings"):
        fit(Steps(4), accuracies(0.1, 0.3), Schedule(2), checkpoint=tmp_path / "c", key="b")


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: b"\x10\x00\x00\x00\x00\x00\x00\x00garbage",
        lambda whole: whole[:-1],
        lambda whole: whole[:-1] + bytes([whole[-1] ^ 1]),
        {"optimizer/0/exp_avg": torch.zeros(7, 3)},  # torch itself would take it
        {"optimizer/5/step": torch.zeros(())},
        {"model/weight": torch.zeros(7, 3)},
        {"best/weight": torch.zeros(7, 3)},
        {"update": 3},
        {"seconds": "long"},
        {"history": {"steps": [1, 2], "loss": [], "valid_accuracy": [], "seconds": []}},
    ],
)
def test_a_damaged_checkpoint_is_set_aside_and_training_starts_again(damage: object, tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    fit(Steps(2), accuracies(0.1), Schedule(2), checkpoint=path)
    if callable(damage):
        path.write_bytes(damage(path.read_bytes()))
    else:
        tensors, facts = load_state(path)
        parts = [{k: v for k, v in damage.items() if torch.is_tensor(v) == whether} for whether in (True, False)]
        save_state(path, tensors | parts[0], facts | parts[1])
    steps = Steps(2)
    with pytest.warns(UserWarning, match="from the beginning"):
        fit(steps, accuracies(0.1), Schedule(2), checkpoint=path)
    assert steps.taken == steps.model.weight.item() == 2 and len(list((tmp_path / "damaged").iterdir())) == 1


@pytest.mark.parametrize("name", ["evaluate_every", "patience"])
def test_schedules_are_checked(name: str) -> None:
    assert getattr(Schedule(**{name: 1}), name) == 1 and Schedule() == Schedule(160, None)
    with pytest.raises(OptionError, match=name):
        Schedule(**{name: 0})


def test_seconds_count_over_all_parts_and_say_when_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on by a second whenever it is read; a checkpoint is due after twelve, at an evaluation."""
    writes: list[int] = []
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 12.0)
    monkeypatch.setattr(loop, "save_training", lambda path, key, steps, state: writes.append(state.update))
    for before in (0.0, 1000.0):
        writes.clear()
        seen.clear()
        monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=count(100.0).__next__))
        state = loop.TrainingState(seconds=before)
        monkeypatch.setattr(loop, "resume_training", lambda *given, state=state: state)
        trained = fit(
            Steps(12), accuracies(*np.linspace(0, 1, 6)), Schedule(2), checkpoint=tmp_path / "c", report=seen.append
        )
        # A reading for an update, one more for an evaluation, for whether to write and for what was written.
        assert trained.history.seconds == [before + at for at in (3, 7, 11, 16, 20, 24)]
        assert [facts["seconds"] for facts in seen[:4]] == [before + at for at in (1, 3, 5, 7)]
        assert state.seconds == before + 24 and trained.seconds == before + 27
        assert writes == [6, 12, 12]


def test_an_interrupt_is_saved_after_the_update_and_resumed(tmp_path: Path) -> None:
    def stop(facts: dict[str, Any]) -> None:
        if facts["done"] == 3:
            signal.raise_signal(signal.SIGTERM)

    handlers = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        fit(Steps(6), accuracies(0.1, 0.2, 0.3), Schedule(2), checkpoint=tmp_path / "c", report=stop)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == handlers
    assert load_state(tmp_path / "c")[1]["update"] == 3, "between two evaluations"
    again = Steps(6)
    assert fit(again, accuracies(0.2, 0.3), Schedule(2), checkpoint=tmp_path / "c").best_step == 6
    assert again.taken == 3 and again.model.weight.item() == 6
    thread = Thread(target=lambda: fit(again, accuracies(0.2, 0.3), Schedule(3)))  # which has no signals
    thread.start()
    thread.join()
    assert again.taken == 9


def learner(device: str = "cpu", size: int = 4) -> Any:
    """It counts the queries of the episodes it is given."""
    model = SimpleNamespace(
        name="toy", device=SimpleNamespace(type=device), episodes_per_update=size, optimizer=lambda: "optimizer",
        updates=12, updates_per_epoch=3, keeps_pages=False,
    )  # fmt: skip
    model.step = lambda batch, *given: (batch.query.ravel().tolist(), *given)
    return model


def episodes(count: int) -> Episodes:
    query = np.arange(count).reshape(count, 1, 1)
    return Episodes(query, query, query >= 0)


def test_updates_are_batches_of_episodes_or_parts_of_epochs() -> None:
    steps = EpisodeTraining(learner(), episodes(11))
    assert (steps.updates, steps.done(2), steps.unit) == (2, 8, "episodes")
    assert steps.step(1) == ([4, 5, 6, 7], 1, "optimizer")
    assert [steps.updates_between(count) for count in (1, 4, 9, 160)] == [1, 1, 2, 40]
    assert EpisodeTraining(learner(), episodes(4)).updates == 1
    with pytest.raises(OptionError, match="toy"):
        EpisodeTraining(learner(), episodes(3))
    epochs = EpochTraining(learner())
    assert (epochs.updates, epochs.done(7), epochs.updates_between(5), epochs.unit) == (12, 2, 15, "epochs")


@pytest.mark.parametrize(("device", "wanted", "recorded"), [("cpu", "1", 0), ("cuda", "1", 1), ("cuda", "0", 0)])
def test_steps_are_recorded_on_a_gpu_unless_switched_off(
    device: str, wanted: str, recorded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAQ_CUDA_GRAPHS", wanted)
    for made in ("recorded steps", None):  # None: what cannot be recorded
        monkeypatch.setattr(loop, "imported", lambda path, made=made: lambda *given: made)
        found = episode_training(learner(device), episodes(8))
        assert found == made if recorded and made else isinstance(found, EpisodeTraining)
