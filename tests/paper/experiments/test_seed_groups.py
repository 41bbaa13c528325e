"""Seed groups: seeds pool on the tasks they share, settings are chosen on validation tasks, trainings follow the choice."""

from __future__ import annotations

import numpy as np
import pytest

from fake_records import finds, nothing, record_for, train_result
from naq_paper.experiments.profiles import CANDIDATES
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import SeedGroup, score_of, seed_group, training
from naq_paper.measurements.tail_map import tail_map_cell
from naq_paper.statistics import difference

METHOD = "naq-feat/protonet"
REQUEST = Request("methods", ("debian",), seeds=3)
TUNED = Request("methods", ("debian",), seeds=3, tune=True)


def made(seed=0, method=METHOD, *, shot=1, mean=0.7, tasks=""):
    cell = training(REQUEST, "debian", method, seed=seed, shot=shot, options={})
    return record_for(cell, train_result(cell, mean=mean, tasks=tasks))


def mean_of(record, head="logistic"):
    return np.mean(record.result["evaluations"][head]["per_task"])


def tried(group):
    """The cells that try the candidates."""
    return [cell for _, cell in group.candidates]


def knows(valid):
    """A ``find`` for candidates: validation accuracies in order, None is missing, a text failed."""
    known = {}
    for cell, value in zip(tried(seed_group(TUNED, "debian", METHOD)), valid, strict=True):
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


def drawn(seed, method=METHOD, *, tasks="", kind="pareto", mean=0.7):
    """A training on its own draw of a sub-graph."""
    perturbation = {"name": "imbalance", "kind": kind, "seed": seed}
    cell = training(REQUEST, "debian", method, seed=seed, perturbation=perturbation, options={})
    return record_for(cell, train_result(cell, mean=mean, tasks=tasks))


def test_draws_of_a_sub_graph_keep_their_own_tasks_and_all_count():
    records = [drawn(seed) for seed in (0, 1, 2)]
    assert len({record.result["data"]["tasks"] for record in records}) == 3
    found = score_of(records)
    means = [mean_of(record) for record in records]
    assert found.seeds == 3 and found.trained and found.mean == pytest.approx(np.mean(means))
    assert found.spread == pytest.approx(np.std(means, ddof=1))
    assert np.array_equal(found.runs, [r.result["evaluations"]["logistic"]["per_task"] for r in records])


def test_methods_are_compared_within_the_same_draws():
    """Tasks of one draw are as hard for both: paired, the difference is far better known than from two groups of tasks."""
    ours, theirs = ([drawn(seed, method) for seed in (0, 1, 2)] for method in (METHOD, "supervised/protonet"))
    paired = difference(score_of(ours), score_of(theirs))
    assert paired.paired
    other = difference(score_of(ours), score_of(theirs[:2]))
    assert not other.paired, "another set of draws is another set of tasks"
    assert not difference(score_of(ours), score_of([drawn(seed, kind="extreme") for seed in (0, 1, 2)])).paired
    assert score_of(ours[::-1]).tasks != score_of(ours).tasks


def test_an_untrained_method_has_the_variance_of_the_draws():
    found = score_of([drawn(seed, "smooth") for seed in (0, 1, 2)])
    assert found.seeds == 3 and found.spread > 0 and found.trained


def test_one_draw_that_failed_leaves_the_others():
    assert score_of([drawn(seed) for seed in (0, 2)]).seeds == 2
    assert score_of([drawn(0), drawn(0, tasks="others")]).seeds == 1, "the same draw on other tasks is no other draw"


def test_a_record_answers_for_its_own_shot():
    record = made(shot=5)
    assert score_of([record], 5).mean == score_of([record]).mean == pytest.approx(mean_of(record))
    assert score_of([record], 1) is None and score_of([], 1) is None


def test_heads_are_the_runs_own_unless_one_is_named():
    record = made()
    assert score_of([record], head="prototype").mean == pytest.approx(mean_of(record, "prototype"))
    assert score_of([record], head="own") is None
    own = made(method="supervised/glitter")
    assert own.result["config"]["head"] == "own"
    assert score_of([own]).mean == pytest.approx(mean_of(own, "own")) and score_of([own], head="logistic") is None


def test_other_queries_are_other_tasks():
    """A score on Dirichlet(2) queries is not paired with one on the balanced tasks."""
    record = made()
    plain, other = (score_of([record], head=head) for head in ("prototype", "prototype/dirichlet"))
    assert plain.tasks != other.tasks == score_of([record], head="em/dirichlet").tasks


def test_equal_runs_of_an_untrained_method_are_one():
    runs = [made(seed, "smooth", mean=0.5) for seed in (0, 1, 2)]
    found = score_of(runs)
    assert found.seeds == 1 and found.spread is None and not found.trained
    runs[1].result["evaluations"]["logistic"]["per_task"][0] += 0.01
    found = score_of(runs)
    assert found.seeds == 3 and not found.trained, "the seed of an SVD is no training"


def test_an_untrained_method_on_perturbed_data_has_seeds():
    """Every seed draws its own perturbation, which is chance like that of a training."""
    runs = [made(seed, "smooth", mean=0.5) for seed in (0, 1)]
    for seed, run in enumerate(runs):
        run.cell.config["perturbation"] = {"name": "feature-noise", "seed": seed}
    assert score_of(runs).trained


def test_equal_runs_of_a_trained_method_stay_several():
    records = [made(seed) for seed in (0, 1)]
    records[1].result["evaluations"] = records[0].result["evaluations"]
    found = score_of(records)
    assert found.seeds == 2 and found.spread == 0.0 and found.trained


def test_without_tuning_nothing_is_chosen():
    found = seed_group(REQUEST, "debian", METHOD)
    assert found.setting(nothing) == {} and not found.candidates
    assert [cell.config["seed"] for cell in found.cells(nothing)] == [0, 1, 2] and not found.tried


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
    assert seed_group(TUNED, "debian", METHOD).setting(knows(valid)) == expected


def test_where_every_candidate_failed_defaults_are_used():
    assert seed_group(TUNED, "debian", METHOD).setting(knows(("no.", "no.", "no."))) == {}


def test_a_group_waits_for_its_setting_then_trains_with_it():
    group = seed_group(TUNED, "debian", METHOD)
    assert group.setting(nothing) is None and group.tried == tried(group) and not group.cells(nothing)
    assert {(cell.config["way"], cell.config["shot"], cell.config["seed"]) for cell in tried(group)} == {(5, 1, 0)}
    alone = finds(skip=lambda cell: cell != tried(group)[0])
    assert not group.records(alone) and not group.cells(alone), "candidates are no result of the group"
    find = knows((0.5, 0.6, 0.7))
    assert group.setting(find) == CANDIDATES["protonet"][2]
    cells = group.cells(find)
    assert len(cells) == 3 and all(cell.config["options"]["lr"] == 3e-4 for cell in cells)
    assert cells[0] == tried(group)[2] and len({*group.tried, *cells}) == 5


def test_a_setting_may_be_chosen_for_other_tasks_than_those_of_the_trainings():
    group = seed_group(TUNED, "debian", METHOD, way=10, shot=5, chosen_for={"way": 5})
    assert {(cell.config["way"], cell.config["shot"]) for cell in tried(group)} == {(5, 5)}
    assert {(cell.config["way"], cell.config["shot"]) for cell in group.cells(knows_all)} == {(10, 5)}


def knows_all(cell):
    return record_for(cell, train_result(cell))


def test_a_method_with_one_candidate_is_not_waited_for_and_the_candidate_not_computed():
    for method in ("untrained", "smooth"):
        group = seed_group(TUNED, "debian", method, make=tail_map_cell)
        assert group.setting(nothing) == {} and len(group.candidates) == 1
        assert not group.tried and {cell.measurement for cell in group.cells(nothing)} == {"tail-map"}


def test_trainings_are_made_once_for_a_setting():
    calls = []
    cells = seed_group(REQUEST, "debian", METHOD).cells(nothing)
    group = SeedGroup(lambda setting: calls.append(dict(setting)) or cells)
    assert group.cells(nothing) is group.cells(finds()) is cells
    assert calls == [{}]


def test_perturbations_are_drawn_anew_for_every_seed_unless_they_name_one():
    noise = {"name": "structure-noise", "share": 0.1}

    def seeds(perturbation):
        cells = seed_group(REQUEST, "debian", METHOD, perturbation=perturbation).cells(nothing)
        return [cell.config["perturbation"]["seed"] for cell in cells]

    assert seeds(noise) == [0, 1, 2] and seeds({**noise, "seed": 4}) == [4, 4, 4]


def test_the_requests_own_options_reach_the_training():
    request = Request("methods", ("debian",), options={"protonet": {"lr": 0.5}, "bgrl": {"epochs": 7}})
    assert training(request, "debian", METHOD, options={}).config["options"]["lr"] == 0.5
    assert training(request, "debian", "bgrl", options={}).config["options"]["epochs"] == 7, "not the budget's epochs"
    epochs = training(REQUEST, "debian", "bgrl", options={}).config["options"]["epochs"]
    assert epochs == REQUEST.limits.epochs["bgrl"]


def test_the_requests_way_and_shot_are_those_of_the_trainings():
    request = Request("label-noise", ("debian",), ways=(3, 7), shots=(5,))
    (cell, *_) = seed_group(request, "debian", METHOD).cells(nothing)
    assert (cell.config["way"], cell.config["shot"]) == (request.way, request.shot) == (3, 5)


def test_what_failed_is_no_record_and_does_not_hold_up_the_others():
    found = seed_group(REQUEST, "debian", METHOD)
    assert not found.records(nothing) and not found.records(nothing, done=False)
    third = finds(skip=lambda cell: cell.config["seed"] < 2, fail=lambda cell: True)
    assert score_of(found.records(third)) is None
    assert [record.error for record in found.records(third, done=False)] == ["it rains; wait."]
    some = finds(fail=lambda cell: cell.config["seed"] == 1)
    assert score_of(found.records(some)).seeds == 2 and len(found.records(some)) == 2
