"""Arms: seeds pool on the tasks they share, settings are chosen on validation tasks, and numbers get honest words."""

from __future__ import annotations

import numpy as np
import pytest

from fake_records import finds, nothing, record_for, train_result
from naq.experiments.experiment import candidates, setting, training
from naq.experiments.request import Request
from naq.experiments.seed_groups import gain, number, points, score_of, seed_group
from naq.experiments.tuning import CANDIDATES
from naq.statistics import Difference, compare, score

METHOD = "naq-feat/protonet"
ASK = Request("methods", ("debian",), seeds=3)
TUNED = Request("methods", ("debian",), seeds=3, tune=True)


def made(seed=0, method=METHOD, *, also=(), mean=0.7, tasks="", **given):
    cell = training(ASK, "debian", method, seed=seed, also_shots=list(also), **given)
    return record_for(cell, train_result(cell, mean=mean, tasks=tasks))


def mean_of(record, head="logistic", shot=None):
    result = record.result
    found = result["evaluations"] if shot is None else result["also"][str(shot)]
    return np.mean(found[head]["per_task"])


def knows(valid):
    """A ``find`` for candidates: validation accuracies in order, None is missing, a text failed."""
    known = {}
    for cell, value in zip(candidates(TUNED, "debian", METHOD), valid, strict=True):
        if value is None:
            continue
        record = record_for(cell, train_result(cell)) if not isinstance(value, str) else record_for(cell, None, value)
        if record.done:
            record.result["facts"]["valid_accuracy"] = value
        known[cell] = record
    return known.get


def test_seeds_on_the_same_tasks_are_pooled():
    records = [made(seed) for seed in (0, 1, 2)]
    found = score_of(records)
    means = [mean_of(record) for record in records]
    assert found.seeds == 3 and found.mean == pytest.approx(np.mean(means))
    assert found.spread == pytest.approx(np.std(means, ddof=1)) and found.trained
    assert found.tasks == records[0].result["data"]["tasks"]


def test_seeds_on_other_tasks_are_left_out():
    first, other, third = made(0), made(1, tasks="others"), made(2)
    found = score_of([first, other, third])
    assert found.seeds == 2 and found.mean == pytest.approx((mean_of(first) + mean_of(third)) / 2)
    assert score_of([other, first]).mean == pytest.approx(mean_of(other))


def test_other_shots_are_read_where_the_training_was_tested_on_them():
    record = made(also=(5,))
    found = score_of([record], 5)
    assert found.mean == pytest.approx(mean_of(record, shot=5)) != score_of([record], 1).mean
    assert found.tasks == record.result["data"]["also"]["5"] != score_of([record]).tasks
    assert score_of([record], 3) is None and score_of([], 1) is None
    assert score_of([made()], 5) is None, "without other shots there is no entry for them"


def test_heads_are_the_runs_own_unless_one_is_named():
    record = made()
    assert score_of([record], head="prototype").mean == pytest.approx(mean_of(record, "prototype"))
    assert score_of([record], head="own") is None
    own = made(method="supervised/glitter")
    assert own.result["config"]["head"] == "own"
    assert score_of([own]).mean == pytest.approx(mean_of(own, "own")) and score_of([own], head="logistic") is None


def test_equal_runs_of_an_untrained_method_are_one():
    runs = [made(seed, "smooth", mean=0.5) for seed in (0, 1, 2)]
    found = score_of(runs)
    assert found.seeds == 1 and found.spread is None and not found.trained
    runs[1].result["evaluations"]["logistic"]["per_task"][0] += 0.01
    assert score_of(runs).seeds == 3, "what differs has a spread"


def test_equal_runs_of_a_trained_method_stay_several():
    records = [made(seed) for seed in (0, 1)]
    records[1].result["evaluations"] = records[0].result["evaluations"]
    found = score_of(records)
    assert found.seeds == 2 and found.spread == 0.0 and found.trained


def test_without_tuning_nothing_is_chosen():
    assert setting(ASK, nothing, "debian", METHOD) == {}
    found = seed_group(ASK, nothing, "debian", METHOD)
    assert found.chosen and found.options == {} and not found.tried
    assert [cell.config["seed"] for cell in found.needed] == [0, 1, 2]


@pytest.mark.parametrize(
    ("valid", "place"),
    [
        ((0.5, 0.7, 0.6), 1),
        ((0.7, 0.7, 0.7), 0),
        ((0.6, 0.7, 0.7), 1),
        (("it rains; wait.", 0.4, 0.6), 2),
        ((0.5, "it rains; wait.", 0.4), 0),
        ((0.5, None, 0.4), None),
        ((None, 0.4, 0.5), None),
    ],
)
def test_the_first_best_on_validation_tasks_wins_and_a_missing_one_is_waited_for(valid, place):
    expected = None if place is None else CANDIDATES["protonet"][place]
    assert setting(TUNED, knows(valid), "debian", METHOD) == expected


def test_where_every_candidate_failed_defaults_are_used():
    assert setting(TUNED, knows(("no.", "no.", "no.")), "debian", METHOD) == {}


def test_an_arm_waits_for_its_setting_then_trains_with_it():
    waiting = seed_group(TUNED, nothing, "debian", METHOD)
    assert not waiting.chosen and waiting.needed == candidates(TUNED, "debian", METHOD, way=5, shot=1)
    assert waiting.score(finds()) is None, "candidates are no result of the seed_group"
    assert waiting.why_not(nothing).reason == "not run"
    chosen = seed_group(TUNED, knows((0.5, 0.6, 0.7)), "debian", METHOD)
    assert chosen.chosen and chosen.options == CANDIDATES["protonet"][2]
    assert all(cell.config["options"]["lr"] == 3e-4 for cell in chosen.cells)
    assert chosen.cells[0] == chosen.tried[2] and len(set(chosen.needed)) == 5


def test_a_method_with_one_candidate_is_not_waited_for():
    assert setting(TUNED, nothing, "debian", "vnt") == {} and setting(TUNED, nothing, "debian", "smooth") == {}


def test_changes_are_drawn_anew_for_every_seed_unless_they_name_one():
    noise = {"name": "structure-noise", "share": 0.1}
    seeds = [
        cell.config["perturbation"]["seed"]
        for cell in seed_group(ASK, nothing, "debian", METHOD, perturbation=noise).cells
    ]
    fixed = seed_group(ASK, nothing, "debian", METHOD, perturbation={**noise, "seed": 4}).cells
    assert seeds == [0, 1, 2] and [cell.config["perturbation"]["seed"] for cell in fixed] == [4, 4, 4]


def test_the_requests_own_options_reach_the_training():
    request = Request("methods", ("debian",), options={"protonet": {"lr": 0.5}, "bgrl": {"epochs": 7}})
    assert training(request, "debian", METHOD).config["options"]["lr"] == 0.5
    assert training(request, "debian", "bgrl").config["options"]["epochs"] == 7, "not the budget's epochs"
    assert training(ASK, "debian", "bgrl").config["options"]["epochs"] == ASK.plan.epochs["bgrl"]


def test_what_is_missing_says_why():
    found = seed_group(ASK, nothing, "debian", METHOD)
    assert found.why_not(nothing).reason == "not run"
    third = finds(skip=lambda cell: cell.config["seed"] < 2, fail=lambda cell: True)
    assert found.score(third) is None and found.why_not(third).reason == "failed: it rains; wait."
    some = finds(fail=lambda cell: cell.config["seed"] == 1)
    assert found.score(some).seeds == 2 and len(found.records(some)) == 2


def test_a_number_is_in_percent():
    a, b = score([[0.5, 0.7], [0.6, 0.8]], "t"), score([[0.1, 0.2], [0.1, 0.2]], "t")
    standing = compare({"a": a, "b": b})
    found = number(a, standing["a"], paper="OOM", paper_ci=None, keys=["k"])
    assert found.value == pytest.approx(65) and found.ci == pytest.approx(100 * a.ci95)
    assert found.spread == pytest.approx(100 * a.spread) and found.seeds == 2
    assert found.rank == 1 and found.mark == standing["a"].mark and found.paper == "OOM" and found.keys == ("k",)
    alone = number(score([[0.5, 0.7]]))
    assert alone.spread is None and alone.rank == 0 and alone.mark == ""
    third = compare({"a": a, "b": b, "c": score([[0.0, 0.1], [0.0, 0.1]], "t")})["c"]
    assert number(b, third).rank == 0, "only the best two are marked"


def test_points_are_words():
    assert points(Difference(0.031, 0.008, 0.01, True, True)) == "3.1 ± 0.8 points (real)"
    assert points(Difference(-0.031, 0.04, 0.5, True, True)) == "3.1 ± 4.0 points (not told apart from chance)"
    assert points(Difference(0.0, 0.0, 1.0, True, True)).endswith("(not told apart from chance)")
    assert "one seed each" in points(Difference(0.031, 0.008, 0.01, True, False))


def test_gains_have_a_direction():
    high, low = score([[0.9, 0.8, 0.7], [0.9, 0.8, 0.7]], "t"), score([[0.5, 0.4, 0.3], [0.5, 0.4, 0.3]], "t")
    assert gain(high, low).startswith("above by 40.0") and gain(low, high).startswith("below by 40.0")
