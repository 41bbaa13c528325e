"""Seed groups and the long table: seeds pool on the tasks they share, settings are chosen on validation tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from checked_experiments import study_of
from fake_records import finds, nothing, record_for, train_result
from naq_paper.experiments.captions import CUT_SHORT, training_end
from naq_paper.experiments.experiment import EXPERIMENTS, Study
from naq_paper.experiments.long_table import COLUMNS, head_rows, score_of
from naq_paper.experiments.profiles import PROFILES
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import SeedGroup, seed_group, training
from naq_paper.experiments.views import Label, Missing
from naq_paper.measurements.tail_map import tail_map_cell
from naq_paper.statistics import difference

METHOD = "naq-feat/protonet"
REQUEST = Request("methods", ("debian",), seeds=3)
TUNED = replace(REQUEST, tune=True)
CANDIDATES = PROFILES["default"].candidates["protonet"]


def made(seed=0, method=METHOD, *, shot=1, mean=0.7, tasks="", draw=""):
    """A training; ``draw`` is a kind of imbalance, which gives every seed its own graph and tasks."""
    perturbation = {"name": "imbalance", "kind": draw, "seed": seed} if draw else None
    cell = training(REQUEST, "debian", method, seed=seed, shot=shot, perturbation=perturbation, options={})
    return record_for(cell, train_result(cell, mean=mean, tasks=tasks))


def pooled(records, head=None):
    """The score of some trainings; None if none has the head."""
    rows = [
        row
        for record in records
        for row in head_rows(record)
        if (row["chosen"] if head is None else row["head"] == head)
    ]
    return score_of(pd.DataFrame(rows)) if rows else None


def mean_of(record, head="logistic"):
    return np.mean(record.result["evaluations"][head]["per_task"])


def test_seeds_on_the_same_tasks_are_pooled_and_others_left_out():
    records = [made(seed) for seed in (0, 1, 2)]
    found = pooled(records)
    means = [mean_of(record) for record in records]
    assert found.seeds == 3 and found.mean == pytest.approx(np.mean(means)) and found.trained
    assert found.spread == pytest.approx(np.std(means, ddof=1)) and found.tasks == records[0].result["data"]["tasks"]
    other = made(1, tasks="others")
    assert pooled([records[0], other, records[2]]).seeds == 2
    assert pooled([other, records[0]]).mean == pytest.approx(mean_of(other))


def test_draws_of_a_sub_graph_keep_their_own_tasks_and_all_count():
    records = [made(seed, draw="pareto") for seed in (0, 1, 2)]
    found = pooled(records)
    assert found.seeds == 3 and found.trained and len({r.result["data"]["tasks"] for r in records}) == 3
    assert np.array_equal(found.runs, [r.result["evaluations"]["logistic"]["per_task"] for r in records])
    theirs = [made(seed, "supervised/protonet", draw="pareto") for seed in (0, 1, 2)]
    assert difference(found, pooled(theirs)).paired, "tasks of one draw are as hard for both"
    assert not difference(found, pooled(theirs[:2])).paired and pooled(records[::-1]).tasks != found.tasks
    extreme = [made(seed, draw="extreme") for seed in (0, 1, 2)]
    assert not difference(found, pooled(extreme)).paired
    untrained = pooled([made(seed, "smooth", draw="pareto") for seed in (0, 1, 2)])
    assert untrained.seeds == 3 and untrained.spread > 0 and untrained.trained, "draws are chance like a training"
    assert pooled([records[0], records[2]]).seeds == 2
    again = [made(0, draw="pareto"), made(0, draw="pareto", tasks="others")]
    assert pooled(again).seeds == 1, "the same draw on other tasks is not another draw"


def test_equal_runs_count_once_only_without_training():
    runs = [made(seed, "smooth", mean=0.5) for seed in (0, 1, 2)]
    found = pooled(runs)
    assert found.seeds == 1 and found.spread is None and not found.trained
    runs[1].result["evaluations"]["logistic"]["per_task"][0] += 0.01
    assert pooled(runs).seeds == 3 and not pooled(runs).trained, "the seed of an SVD is not a training"
    records = [made(seed) for seed in (0, 1)]
    records[1].result["evaluations"] = records[0].result["evaluations"]
    assert pooled(records).seeds == 2 and pooled(records).spread == 0.0


def test_heads_and_queries():
    record = made()
    assert pooled([record], "prototype").mean == pytest.approx(mean_of(record, "prototype"))
    assert pooled([record], "own") is None
    own = made(method="supervised/glitter")
    assert pooled([own]).mean == pytest.approx(mean_of(own, "own")) and pooled([own], "logistic") is None
    plain, other = (pooled([record], head) for head in ("prototype", "prototype/dirichlet"))
    assert plain.tasks != other.tasks == pooled([record], "em/dirichlet").tasks, "other queries are other tasks"


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_the_long_table_holds_every_record(name):
    study = study_of(name, finds(), budget="quick")
    assert set(study.table.frame.key) == {record.key for key in study.groups for record in study.records(key)}


def test_the_rows_of_trainings():
    study = study_of("label-noise", finds())
    frame = study.table.frame
    assert tuple(frame.columns) == COLUMNS and set(frame.dataset) == {"debian"} and set(frame["head"]) > {"logistic"}
    assert set(frame.key) == {record.key for key in study.groups for record in study.records(key)}
    assert set(study.scores()) == set(study.groups) and set(frame.row) == {row for row, _ in study.groups}
    one = frame[(frame.row == "ProtoNet (Supervised)") & (frame.column == 0.3) & frame.chosen.astype(bool)]
    assert sorted(one.seed) == [0, 1, 2] and one.level.str.contains('"share":0.3').all()
    assert study_of("label-noise").table.frame.empty and study_of("label-noise").scores() == {}


def test_what_is_missing_says_why():
    third = finds(skip=lambda cell: cell.config["seed"] < 2, fail=lambda cell: True)
    group = {"x": seed_group(REQUEST, "debian", METHOD)}

    def missing(find, request=REQUEST, groups=group):
        return Study(request, "debian", EXPERIMENTS["methods"], groups, find).missing("x", "OOM", 0.5)

    assert missing(nothing) == Missing("not run", "OOM", 0.5)
    assert missing(third).reason == "failed: it rains; wait."
    assert missing(nothing, TUNED, {"x": seed_group(TUNED, "debian", METHOD)}).reason == "not run"


def knows(valid):
    """A ``find`` for candidates: validation accuracies in order, None is missing, a text failed."""
    known = {}
    for (_, cell), value in zip(seed_group(TUNED, "debian", METHOD).candidates, valid, strict=True):
        if isinstance(value, str):
            known[cell] = record_for(cell, None, value)
        elif value is not None:
            known[cell] = record_for(cell, train_result(cell))
            known[cell].result["facts"]["valid_accuracy"] = value
    return known.get


@pytest.mark.parametrize(
    ("valid", "place"),
    [
        ((0.5, 0.6, 0.4), 1),
        ((0.6, 0.6, 0.4), 0),
        (("no.", 0.4, 0.6), 2),
        ((0.5, "no.", 0.4), 0),
        ((0.5, None, 0.4), None),
        (("no.", "no.", "no."), -1),
    ],
)
def test_the_first_best_on_validation_tasks_wins_and_a_missing_one_is_waited_for(valid, place):
    expected = {None: None, -1: {}}.get(place, CANDIDATES[place or 0])
    assert seed_group(TUNED, "debian", METHOD).setting(knows(valid)) == expected


def test_a_group_waits_for_its_setting_then_trains_with_it():
    group = seed_group(TUNED, "debian", METHOD)
    assert group.setting(nothing) is None and not group.cells(nothing) and len(group.tried) == 3
    assert {(cell.config["way"], cell.config["shot"], cell.config["seed"]) for cell in group.tried} == {(5, 1, 0)}
    assert not group.records(finds(skip=lambda cell: cell != group.tried[0])), "candidates are not the group's results"
    found = group.cells(knows((0.5, 0.6, 0.7)))
    assert len(found) == 3 and all(cell.config["options"]["lr"] == 3e-4 for cell in found)
    assert found[0] == group.tried[2] and len({*group.tried, *found}) == 5
    other = seed_group(TUNED, "debian", METHOD, way=10, shot=5, chosen_for={"way": 5})
    assert {(cell.config["way"], cell.config["shot"]) for cell in other.tried} == {(5, 5)}
    assert {(cell.config["way"], cell.config["shot"]) for cell in other.cells(finds())} == {(10, 5)}
    alone = seed_group(TUNED, "debian", "smooth", make=tail_map_cell)
    assert alone.setting(nothing) == {} and not alone.tried
    assert {cell.measurement for cell in alone.cells(nothing)} == {"tail-map"}


def test_without_tuning_nothing_is_chosen_and_trainings_are_made_once():
    group, calls = seed_group(REQUEST, "debian", METHOD), []
    found = group.cells(nothing)
    assert group.setting(nothing) == {} and [cell.config["seed"] for cell in found] == [0, 1, 2] and not group.tried
    group = SeedGroup(lambda setting: calls.append(dict(setting)) or found)
    assert group.cells(nothing) is group.cells(finds()) is found and calls == [{}]


def test_what_a_training_takes_from_its_request():
    def seeds(perturbation):
        group = seed_group(REQUEST, "debian", METHOD, perturbation=perturbation)
        return [cell.config["perturbation"]["seed"] for cell in group.cells(nothing)]

    noise = {"name": "structure-noise", "share": 0.1}
    assert seeds(noise) == [0, 1, 2] and seeds({**noise, "seed": 4}) == [4, 4, 4]
    request = replace(REQUEST, options={"protonet": {"lr": 0.5}, "bgrl": {"epochs": 7}}, ways=(3, 7), shots=(5,))
    assert training(request, "debian", METHOD, options={}).config["options"]["lr"] == 0.5
    assert training(request, "debian", "bgrl", options={}).config["options"]["epochs"] == 7, "not the budget's epochs"
    epochs = training(REQUEST, "debian", "bgrl", options={}).config["options"]["epochs"]
    assert epochs == REQUEST.limits.epochs["bgrl"]
    cell = seed_group(request, "debian", METHOD).cells(nothing)[0]
    assert (cell.config["way"], cell.config["shot"]) == (3, 5)


def trained(method, seed, *, best, last=100, early=False, budget="standard"):
    cell = training(Request("methods", ("debian",), budget), "debian", method, seed=seed, options={})
    result = train_result(cell)
    if result["history"] is not None:
        result["facts"] |= {"best_step": best, "steps_trained": last, "stopped_early": early}
        result["history"]["steps"] = [last - 20, last]
    return record_for(cell, result)


@pytest.mark.parametrize(
    ("given", "remark", "words"),
    [
        ([("bgrl", 0, 60), ("bgrl", 1, 60)], "cut at 100 epochs", "at the limit, 100 (paper 10,000)"),
        ([("bgrl", 0, 100), ("bgrl", 1, 80), ("bgrl", 2, 40, 100, True)],
         "2 of 3 cut at 100 epochs, 1 of 3 still improving",
         "2 of 3 at the limit, 100 (paper 10,000); 1 of 3 still improving"),
        ([("bgrl", 0, 60, 100, True)], "", "by itself, limit 100"),
        ([("vnt", 0, 380, 400, False, "paper")], "", "at the limit, 400 (paper 400)"),
        ([("vnt", 0, 400, 400, False, "paper")], "cut at 400 epochs, still improving",
         "at the limit, 400 (paper 400); 1 of 1 still improving"),
        ([(METHOD, 0, 800, 800)] * 2, "cut at 800 episodes, still improving",
         "at the limit, 800 (paper 16,000); 1 of 1 still improving"),
        ([("smooth", 0, 0)], "", ""),
        ([], "", ""),
    ],
)  # fmt: skip
def test_trainings_that_reached_their_limit_are_marked(given, remark, words):
    names = ("best", "last", "early", "budget")
    records = [trained(method, seed, **dict(zip(names, more))) for method, seed, *more in given]
    assert training_end(records) == (remark, words)


def test_the_row_and_the_costs_say_that_a_training_was_cut():
    def find(cell):
        result = train_result(cell)
        if result["history"] is not None:
            result["facts"]["stopped_early"] = False
        return record_for(cell, result)

    views = {view.name: view for view in study_of("methods", find, methods=("bgrl", METHOD)).figures()[1:]}
    accuracy, costs = views["methods-debian"], views["methods-cost-debian"]
    marks = {row[0].text: row[0].remark for row in accuracy.rows if isinstance(row[0], Label)}
    assert marks == {"TLP-BGRL": "cut at 100 epochs", "ProtoNet": "cut at 800 episodes"} and CUT_SHORT in accuracy.note
    stopped = {row[0]: row[costs.columns.index("stopped")] for row in costs.rows}
    assert stopped["TLP-BGRL"] == "at the limit, 100 (paper 10,000)" and stopped["smooth (no training)"] == "–"
