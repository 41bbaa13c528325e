"""Several trainings in one process: each is what it would be alone."""

from __future__ import annotations

import signal

import pytest
import torch
from training.test_captured import CUDA, dense_graph, learner, weights

from naq.episodes import naq_episodes
from naq.errors import TrainingError
from naq.neighbors import feature_neighbors
from naq.training import CapturedTraining, Fitting, Schedule, fit, fit_together
from training.test_loop import Steps, accuracies


def test_each_is_what_it_would_be_alone() -> None:
    values = [(0.5, 0.7, 0.6, 0.7, 0.2), (0.1, 0.2, 0.2, 0.2, 0.9), (0.9, 0.1, 0.1, 0.1, 0.1)]
    lengths, patience = [10, 50, 9], [None, 2, 1]
    steps = [Steps(length) for length in lengths]
    given = [
        Fitting(one, accuracies(*found), Schedule(10 if length == 50 else 2, wait))
        for one, found, length, wait in zip(steps, values, lengths, patience)
    ]
    together = fit_together(given)
    for one, found, length, wait, result in zip(steps, values, lengths, patience, together):
        own = Steps(length)
        alone = fit(own, accuracies(*found), Schedule(10 if length == 50 else 2, wait))
        assert not isinstance(result, Exception)
        assert (result.best_step, result.best_valid, result.stopped_early) == (
            alone.best_step,
            alone.best_valid,
            alone.stopped_early,
        )
        assert result.history.steps == alone.history.steps
        assert one.model.weight.item() == own.model.weight.item() == result.best_step
    assert together[1].stopped_early and not together[0].stopped_early  # type: ignore[union-attr]


def test_they_take_turns() -> None:
    order: list[str] = []

    def told(name: str, updates: int) -> Fitting:
        return Fitting(Steps(updates), lambda: 0.5, Schedule(updates), report=lambda facts: order.append(name))

    fit_together([told("a", 2), told("b", 4)])
    assert "".join(order) == "ababbb"


def test_one_that_fails_leaves_the_others_alone() -> None:
    bad = Steps(4, [1, float("nan"), 1, 1])
    first, second, third = fit_together(
        [Fitting(one, accuracies(0.1, 0.2), Schedule(2)) for one in (Steps(4), bad, Steps(4))]
    )
    assert isinstance(second, TrainingError) and "not finite" in str(second)
    assert first.best_step == third.best_step == 4  # type: ignore[union-attr]


def test_interrupted_together_every_one_is_resumed(tmp_path) -> None:
    paths = [tmp_path / f"{number}.safetensors" for number in range(2)]

    def begun(stop: bool) -> list[Fitting]:
        def report(facts: dict) -> None:
            if stop and facts["done"] == 5:
                signal.raise_signal(signal.SIGINT)

        reports = (report, None)  # a second Ctrl-C would interrupt at once
        return [
            Fitting(Steps(10), lambda: 0.5, Schedule(2), checkpoint=path, report=each)
            for path, each in zip(paths, reports)
        ]

    with pytest.raises(KeyboardInterrupt):
        fit_together(begun(stop=True))
    found = fit_together(begun(stop=False))
    assert [one.resumed_from for one in found] == [5, 5]  # type: ignore[union-attr]


@CUDA
def test_recorded_trainings_side_by_side_are_those_alone() -> None:
    graph = dense_graph(400)
    table = feature_neighbors(graph, 6)
    episodes = [naq_episodes(table, way=3, queries=6, count=60, seed=seed) for seed in range(4)]
    alone, beside = ([CapturedTraining(learner(graph, "cuda"), each) for each in episodes] for _ in range(2))
    assert alone[0]._inputs.data_ptr() == beside[-1]._inputs.data_ptr()  # one copy on the device
    for one in alone:
        fit(one, lambda: 0.5, Schedule(60))
    fit_together([Fitting(one, lambda: 0.5, Schedule(60)) for one in beside])
    torch.cuda.synchronize()
    for one, two in zip(alone, beside):
        assert torch.allclose(weights(one), weights(two), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(weights(alone[0]), weights(alone[1]), rtol=1e-4, atol=1e-5)
