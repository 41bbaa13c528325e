import json

import numpy as np
import pytest
import torch
from torch import nn

from naq.errors import OptionError, TrainingError
from naq.training import Schedule, fit
from naq.training.checkpoint import load_state, save_state


class Steps:
    """A trainable whose weight counts its steps, with losses made to order."""

    unit = "episodes"

    def __init__(self, updates=10, losses=None):
        self.model = nn.Linear(1, 1, bias=False)
        with torch.no_grad():
            self.model.weight.zero_()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1.0)
        self.updates = updates
        self.losses = losses

    def done(self, updates):
        return updates

    def updates_between(self, count):
        return count

    def part(self, update):
        return f"episodes {update} to {update}"

    def step(self, update):
        with torch.no_grad():
            self.model.weight += 1
        return torch.tensor(1.0 if self.losses is None else self.losses[update])


def accuracies(*values):
    left = list(values)
    return lambda: left.pop(0)


def test_the_first_best_validation_is_selected():
    steps = Steps(10)
    trained = fit(steps, accuracies(0.5, 0.7, 0.6, 0.7, 0.2), Schedule(2))
    assert trained.best_step == 4 and trained.best_valid == 0.7
    assert steps.model.weight.item() == 4
    assert trained.history.steps == [2, 4, 6, 8, 10] and not trained.stopped_early


def test_patience_stops_after_so_many_evaluations_without_a_new_best():
    trained = fit(Steps(100), accuracies(0.5, 0.6, 0.6, 0.6, 0.9), Schedule(10, patience=2))
    assert trained.stopped_early and trained.history.steps[-1] == 40


def test_an_incomplete_last_stretch_is_evaluated():
    trained = fit(Steps(5), accuracies(0.1, 0.2, 0.3), Schedule(2))
    assert trained.history.steps == [2, 4, 5]


def test_a_loss_that_is_not_finite_names_its_update_and_keeps_the_checkpoint(tmp_path):
    path = tmp_path / "c.safetensors"
    steps = Steps(10, [1, 1, 1, 1, 1, float("nan"), 1, 1, 1, 1])
    import naq.training.loop as loop

    loop_seconds, loop.CHECKPOINT_SECONDS = loop.CHECKPOINT_SECONDS, 0.0
    try:
        with pytest.raises(TrainingError, match=r"update 5 \(episodes 5 to 5\) is not finite; lower lr \(now 1\)"):
            fit(steps, accuracies(0.1, 0.2, 0.3), Schedule(2), checkpoint=path)
    finally:
        loop.CHECKPOINT_SECONDS = loop_seconds
    assert load_state(path)[1]["update"] == 4


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "c.safetensors"
    fit(Steps(2), accuracies(0.1), Schedule(2), checkpoint=path, key="a")
    with pytest.raises(TrainingError, match="other settings"):
        fit(Steps(2), accuracies(0.1), Schedule(2), checkpoint=path, key="b")


def test_a_damaged_checkpoint_is_set_aside_and_training_starts_again(tmp_path):
    path = tmp_path / "c.safetensors"
    fit(Steps(2), accuracies(0.1), Schedule(2), checkpoint=path)
    whole = path.read_bytes()
    for number, damage in enumerate(
        (b"\x10\x00\x00\x00\x00\x00\x00\x00garbage", whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1]))
    ):
        path.write_bytes(damage)
        with pytest.warns(UserWarning, match="training starts from the beginning"):
            trained = fit(Steps(2), accuracies(0.1), Schedule(2), checkpoint=path)
        assert trained.resumed_from == 0 and len(list((tmp_path / "damaged").iterdir())) == number + 1


def test_optimiser_state_of_another_shape_never_reaches_torch(tmp_path):
    path = tmp_path / "c.safetensors"
    fit(Steps(2), accuracies(0.1), Schedule(2), checkpoint=path)
    tensors, facts = load_state(path)
    first = next(name for name in tensors if name.startswith("model/"))
    save_state(path, tensors | {"optimizer/0/exp_avg": torch.zeros(7, 3)}, facts)
    with pytest.warns(UserWarning, match="does not fit the model"):
        assert fit(Steps(2), accuracies(0.1), Schedule(2), checkpoint=path).resumed_from == 0
    save_state(path, tensors | {first: torch.zeros(7, 3)}, facts)
    with pytest.warns(UserWarning, match="does not fit the model"):
        assert fit(Steps(2), accuracies(0.1), Schedule(2), checkpoint=path).resumed_from == 0


def test_resuming_a_finished_training_trains_no_more(tmp_path):
    path = tmp_path / "c.safetensors"
    fit(Steps(4), accuracies(0.1, 0.3), Schedule(2), checkpoint=path)
    again = Steps(4)
    trained = fit(again, accuracies(), Schedule(2), checkpoint=path)
    assert trained.resumed_from == 4 and again.model.weight.item() == 4 and trained.best_valid == 0.3


def test_facts_are_plain_json(tmp_path):
    seen = []
    fit(Steps(2), accuracies(0.25), Schedule(2), report=seen.append)
    assert json.loads(json.dumps(seen))[-1]["valid"] == 0.25
    assert seen[0]["valid"] is None


@pytest.mark.parametrize(
    ("given", "words"), [({"evaluate_every": 0}, "evaluate_every is 0"), ({"patience": 0}, "patience is 0")]
)
def test_schedules_are_checked(given, words):
    with pytest.raises(OptionError, match=words):
        Schedule(**given)


def test_a_nan_accuracy_is_an_error():
    with pytest.raises(TrainingError, match="validation accuracy"):
        fit(Steps(2), accuracies(np.nan), Schedule(2))
