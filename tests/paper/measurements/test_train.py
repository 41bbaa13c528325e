"""``train``: equal trainings are equal cells, and a cell is the run that it describes."""

from __future__ import annotations

import signal

import numpy as np
import pytest

import methods_under_test as suite
import naq
from fake_records import train_result
from naq.io import save_graph, split_for
from naq_paper.cells.datasets import DatasetCache
from naq_paper.measurements import Context, perform
from naq_paper.measurements.train import train_cell, train_run
from naq_paper.perturbations import apply_perturbation

SMALL = {"way": 2, "episodes": 12, "evaluate_every": 4, "options": {"latent": 8, "lr": 1e-3}, "episode": {"queries": 3}}


@pytest.fixture(scope="module")
def graph():
    return suite.community_graph(size=24)


@pytest.fixture(scope="module")
def tasks(graph, tmp_path_factory):
    return suite.community_task_file(graph, tmp_path_factory.mktemp("tasks"))


@pytest.fixture(scope="module")
def place(graph, tasks):
    """The graph's file, its tasks beside it."""
    return save_graph(tasks.with_name("communities.npz"), graph)


@pytest.fixture
def context(place):
    return Context(DatasetCache({"communities": str(place)}), cache=None)


def cell(method="naq-feat/protonet", **given):
    return train_cell("communities", method, **SMALL | given)


SAME = [
    *({"way": 5}, {"options": {"lr": 1e-4}}, {"episode": {"queries": 10}}, {"episode": {"way": 0, "shot": 1}}),
    *({"patience": 0}, {"evaluate_every": 160}, {"head": "logistic"}, {"seed": np.int64(0)}, {"epochs": 7}),
]
OTHER = [
    *({"way": 10}, {"shot": 5}, {"seed": 1}, {"head": "prototype"}, {"features": "auto"}, {"episodes": 160}),
    *({"patience": 4}, {"options": {"lr": 3e-4}}, {"episode": {"way": 20}}, {"select": "clusters"}),
    *({"device": "cuda"}, {"perturbation": {"name": "structure-noise"}}, {"measurement": "tail-map"}),
]


@pytest.mark.parametrize(("given", "same"), [(one, one in SAME) for one in (*SAME, *OTHER)])
def test_defaults_make_no_other_cell_and_what_matters_does(given, same):
    one, plain = train_cell("debian", "naq-feat/protonet", **given), train_cell("debian", "naq-feat/protonet")
    assert (one == plain) == same


def test_ways_and_shots_of_episodes_that_are_the_tasks_own():
    def episode(method, **given):
        return train_cell("debian", method, **given).config["episode"]

    assert episode("supervised/protonet", shot=5, episode={"way": 5, "shot": 5}) == episode("supervised/protonet")
    assert episode("supervised/protonet", shot=5, episode={"shot": 1})["shot"] == 1
    # NaQ trains with one shot whatever tasks have: five shots are five shots.
    assert episode("naq-feat/protonet", shot=5, episode={"shot": 5})["shot"] == 5
    assert episode("naq-feat/protonet", way=20, episode={"way": 20})["way"] == 0


@pytest.mark.parametrize("method", ["naq-diff/protonet", "supervised/protonet", "sugrl", "smooth"])
def test_a_cell_is_the_run_it_describes(place, context, method):
    given = dict(SMALL) if "/" in method else {"way": 2, "options": {"dim": 8} if method == "smooth" else {"latent": 8}}
    if method == "sugrl":
        given |= {"epochs": 3, "evaluate_every": 1}
    given |= {"seed": 3, "head": "prototype"}
    result = train_run(train_cell("communities", method, **given).config, context)
    told = naq.run(str(place), method, **given, cache=None, baseline=False)
    assert result.config == told.config and result.data == told.data and result.facts == told.facts
    found, known = result.evaluations, told.evaluations
    assert list(found) == list(known)
    assert all(np.array_equal(found[head].per_task, known[head].per_task) for head in known)
    assert np.array_equal(result.embedding, told.embedding) and not result.baseline


@pytest.mark.parametrize("perturbation", [
    {"name": "structure-noise", "share": 0.5, "seed": 2},
    {"name": "label-scarcity", "classes": 0.6, "labels": 0.5, "least": 2, "seed": 1},
    {"name": "imbalance", "kind": "pareto", "seed": 0},
], ids=lambda perturbation: perturbation["name"])  # fmt: skip
def test_a_change_gives_the_run_its_graph_its_labels_and_its_tasks(graph, place, tasks, context, perturbation):
    method = "supervised/protonet"
    asked = cell(method, perturbation=perturbation)
    result = train_run(asked.config, context)
    changed = apply_perturbation(graph, split_for(str(place), graph), perturbation)
    told = naq.run(
        changed.graph, method, tasks=None if changed.redraw else tasks, split=changed.split,
        base_labels=changed.base_labels, cache=None, baseline=False, **SMALL,
    )  # fmt: skip
    assert np.array_equal(result.per_task, told.per_task) and np.array_equal(result.embedding, told.embedding)
    plain = train_run(cell(method).config, context)
    assert not np.array_equal(result.embedding, plain.embedding)
    assert (result.data["tasks"] == plain.data["tasks"]) == (perturbation["name"] != "imbalance")


@pytest.mark.parametrize("method", ["naq-feat/protonet", "smooth"])
def test_made_up_results_have_the_fields_of_real_ones(context, method):
    """Other tests read made-up results; they must not know fields that a run does not have."""
    given = SMALL if "/" in method else {"way": 2, "options": {"dim": 8}}
    asked = train_cell("communities", method, **given)
    real, made_up = perform(asked, context), train_result(asked)
    assert set(made_up) == set(real) and made_up["config"] == real["config"]
    assert set(made_up["data"]) == set(real["data"])
    assert set(made_up["facts"]) == set(real["facts"])
    assert (made_up["history"] and set(made_up["history"])) == (real["history"] and set(real["history"]))
    assert list(made_up["evaluations"]) == list(real["evaluations"])
    assert set(made_up["evaluations"]["logistic"]) == set(real["evaluations"]["logistic"])


def test_a_stopped_training_goes_on_from_its_scratch_folder(context, tmp_path):
    asked, told = cell(episodes=24), []

    def stop(phase, facts):
        told.append(phase)
        if told.count("train") == 3:
            signal.raise_signal(signal.SIGINT)

    scratch = tmp_path / "running"
    with pytest.raises(KeyboardInterrupt):
        train_run(asked.config, Context(context.dataset_cache, scratch, None, stop))
    assert sorted(file.name for file in scratch.iterdir()) == ["checkpoint.arithmetic.json", "checkpoint.safetensors"]
    updates = []
    again = train_run(
        asked.config,
        Context(
            context.dataset_cache,
            scratch,
            None,
            lambda phase, facts: updates.append(phase) if phase == "train" else None,
        ),
    )
    whole = train_run(asked.config, context)
    assert np.array_equal(again.per_task, whole.per_task) and np.array_equal(again.embedding, whole.embedding)
    assert 0 < len(updates) < 24
