"""Requests become datasets, plans and results: what is asked for, what is at hand, and trainings in rounds."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import methods_under_test as suite
import naq
from naq.data import save_graph, split_for
from naq.errors import DataError, OptionError
from naq.experiments import reproduction
from naq.experiments.base import all_experiments, candidates, get_experiment, setting
from naq.experiments.reproduction import (
    STAND_IN,
    Plan,
    cells_of,
    choose_datasets,
    compute,
    facts_of,
    finder,
    names_of,
    usable,
)
from naq.experiments.request import Request
from naq.grid.datasets import DatasetCache
from naq.grid.runners import Setup, make_runner
from naq.grid.store import Store
from naq.tasks import save_task_file

NOISE = get_experiment("label-noise")


def test_names_are_experiments_or_groups():
    tables, analyses = names_of("tables"), names_of("analyses")
    assert names_of("all") == [*tables, *analyses] == list(all_experiments())
    assert names_of("overlap") == ["overlap"] and "methods" in tables and "times" in analyses


@pytest.mark.parametrize(
    ("name", "words"), [("overlaps", "did you mean overlap"), ("table", "tables"), ("xyz", "expected one of")]
)
def test_an_unknown_name_lists_the_nearest(name, words):
    with pytest.raises(OptionError, match=words):
        names_of(name)
    with pytest.raises(OptionError, match="there is no table or analysis"):
        get_experiment(name)


def touch(folder, *names):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def test_datasets_that_are_given_are_names_or_paths(tmp_path):
    folder = touch(tmp_path / "data", "My Graph.npz", "cora_full_structure.npz")
    choice = choose_datasets(NOISE, ["Debian", str(folder / "My Graph.npz"), str(folder / "cora_full_structure.npz")])
    assert choice.datasets == ("debian", "my-graph", "cora-full")
    assert choice.paths == {
        "my-graph": str(folder / "My Graph.npz"),
        "cora-full": str(folder / "cora_full_structure.npz"),
    }
    assert choose_datasets(NOISE, ["pyg:Planetoid/Cora"]).datasets == ("pyg:Planetoid/Cora",)
    assert choose_datasets(NOISE, ["debian", "debian"]).datasets == ("debian",)


def test_two_files_of_one_name_are_told_apart_or_refused(tmp_path):
    one, two = (touch(tmp_path / name, "g.npz") / "g.npz" for name in ("one", "two"))
    assert choose_datasets(NOISE, [str(one), str(one)]).datasets == ("g",)
    with pytest.raises(OptionError, match="two datasets are called 'g'"):
        choose_datasets(NOISE, [str(one), str(two)])


def test_an_unknown_dataset_lists_the_nearest():
    with pytest.raises(DataError, match=r"no dataset 'debain' \(nearest: debian"):
        choose_datasets(NOISE, ["debain"])


def test_a_folder_gives_the_papers_datasets_that_it_holds(tmp_path):
    names = (
        "cora_full.npz",
        "cora_full_structure.npz",
        "Amazon_electronics-network.npz",
        "other.npz",
        "dblp.tasks.npz",
    )
    folder = touch(tmp_path / "data", *names)
    choice = choose_datasets(NOISE, [], folder)
    assert choice.datasets == NOISE.datasets == ("amazon-electronics", "cora-full")
    assert choice.paths["cora-full"] == str(folder / "cora_full.npz"), "the whole graph, not its structure alone"
    with pytest.raises(DataError, match=r"holds none of the graphs of label-noise .* give one with --dataset"):
        choose_datasets(NOISE, [], touch(tmp_path / "none", "other.npz"))
    with pytest.raises(DataError, match="is no folder"):
        choose_datasets(NOISE, [], folder / "other.npz")


def test_without_the_papers_data_the_bundled_graph_stands_in(monkeypatch):
    rows = [{"name": "debian", "state": "bundled"}, {"name": "cora-full", "state": "to download"}]
    monkeypatch.setattr(reproduction, "listing", lambda: rows)
    choice = choose_datasets(NOISE, [])
    assert choice.datasets == (STAND_IN,) and "stands in" in choice.remarks[0] and "cora-full" in choice.remarks[0]
    rows[1]["state"] = "on disk"
    assert choose_datasets(NOISE, []) == reproduction.Choice(("cora-full",), {})


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Twenty communities, few tasks: 5-way trainings take a moment."""
    folder = tmp_path_factory.mktemp("wide")
    graph = suite.community_graph(size=14, classes=20, name="wide")
    place = save_graph(folder / "wide.npz", graph)
    split = split_for(str(place), graph)
    sets = [
        naq.sample_tasks(graph, way=5, shot=1, queries=4, count=count, classes=split.part(part), part=part)
        for part, count in (("valid", 10), ("test", 20))
    ]
    save_task_file(folder / "wide.tasks.npz", sets, split)
    return str(place)


def test_facts_are_json_and_true(wide):
    facts = facts_of("wide", DatasetCache({"wide": wide}))
    graph, split = naq.load(wide), split_for(wide, naq.load(wide))
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert (facts["nodes"], facts["edges"], facts["classes"]) == (graph.num_nodes, graph.num_edges, 20)
    assert facts["features"] == graph.num_features and facts["homophily"] == graph.homophily()
    assert (facts["base"], facts["valid"], facts["test"]) == tuple(
        len(split.part(p)) for p in ("base", "valid", "test")
    )
    assert facts["most_classes"] == min(facts["valid"], facts["test"]) and facts["tasks"] == "wide.tasks.npz"
    assert facts["hash"] == DatasetCache({"wide": wide}).data_hash("wide")


def test_facts_of_poor_graphs(tmp_path):
    bare = naq.Graph(np.array([[0], [1]]), nodes=3)
    lonely = naq.Graph(np.empty((2, 0), dtype=int), np.eye(4, dtype=np.float32), [0, 0, 1, 1], nodes=4)
    dataset_cache = DatasetCache(
        {name: str(save_graph(tmp_path / f"{name}.npz", g)) for name, g in (("bare", bare), ("lonely", lonely))}
    )
    facts = facts_of("bare", dataset_cache)
    assert facts["classes"] == facts["features"] == 0 and facts["tasks"] is None and "most_classes" not in facts
    facts = facts_of("lonely", dataset_cache)
    json.dumps(facts, allow_nan=False)
    assert facts["homophily"] is None and "most_classes" not in facts, "too few classes for a split"


def test_an_experiment_says_what_a_dataset_lacks():
    whole = suite.community_graph(size=13)
    bare = naq.Graph(whole.adjacency)
    assert usable(NOISE, "g", whole) == "" and usable(get_experiment("overlap"), "g", bare) == ""
    assert usable(NOISE, "g", bare) == "label-noise needs labels, which g does not have: it is left out."
    assert "needs features" in usable(NOISE, "g", naq.Graph(whole.adjacency, labels=whole.labels))


ONE, TWO = Request("overlap", ("a",)), Request("times", ("a",), facts={"a": {"nodes": 1}})


def test_a_plan_keeps_each_request_once():
    plan = Plan()
    plan.add([ONE, TWO], {"a": "a.npz"})
    newer = replace(TWO, facts={"a": {"nodes": 2}})
    plan.add([newer, Request("overlap", ("b",))], {"b": "b.npz"})
    assert plan.requests == [ONE, newer, Request("overlap", ("b",))] and plan.paths == {"a": "a.npz", "b": "b.npz"}
    double = Plan([TWO, ONE, TWO])
    double.add([newer], {})
    assert double.requests == [newer, ONE]


def test_a_plan_comes_back_from_its_folder(tmp_path):
    assert Plan.load(tmp_path) == Plan()
    plan = Plan([ONE, TWO], {"a": "a.npz"})
    plan.save(tmp_path)
    assert Plan.load(tmp_path) == plan


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not readable JSON"),
        ("[]", "is no plan of experiments"),
        ("{}", "is no plan of experiments"),
        ('{"format": 2}', "format 2; expected 1"),
        ('{"format": 1, "requests": 3, "paths": {}}', "is no plan of experiments"),
        ('{"format": 1, "requests": [], "paths": "ab"}', "is no plan of experiments"),
        ('{"format": 1, "requests": [{}], "paths": {}}', "no request for an experiment"),
    ],
)
def test_a_damaged_plan_is_one_sentence(tmp_path, text, words):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(DataError, match=words):
        Plan.load(tmp_path)


def test_settings_are_chosen_in_one_round_and_trained_with_in_the_next(wide, tmp_path):
    request = Request("label-noise", ("wide",), "quick", episodes=4, tune=True, options={"protonet": {"latent": 8}})
    store, setup = Store(tmp_path / "results"), Setup({"wide": wide}, None)
    rounds = []

    def listener(phase, facts):
        if phase == "plan":
            rounds.append(facts["todo"])

    with make_runner("local") as runner:
        first = compute([request], store, runner, setup, listener)
        assert first.complete and not first.skipped
        find = finder(store, runner.dataset_cache(setup))
        for kind in ("supervised", "naq-feat", "naq-diff"):
            tried = candidates(request, "wide", f"{kind}/protonet", way=5, shot=1)
            assert all(cell in first.done for cell in tried) and len(tried) == 3
            valid = [find(cell).result["facts"]["valid_accuracy"] for cell in tried]
            chosen = tried[valid.index(max(valid))].config["options"]
            assert chosen["lr"] == setting(request, find, "wide", f"{kind}/protonet")["lr"] and chosen["latent"] == 8
            noisy = [
                cell for cell in first.done if cell.config["perturbation"] and cell.config["method"].startswith(kind)
            ]
            assert all(cell.config["options"] == chosen for cell in noisy) and bool(noisy) == (kind == "supervised")
        assert len(rounds) == 2 and rounds[0] == 3 * 3 + 1 and sum(rounds) == len(first.done) == len(set(first.done))
        assert set(cells_of([request], find)) == set(first.done)
        again = compute([request], store, runner, setup, listener)
    assert again.complete and not again.done and set(again.skipped) == set(first.done) and rounds[2:] == [0]


def test_what_failed_does_not_hold_up_the_rest(wide, tmp_path):
    request = Request("overlap-drop", ("wide",), "quick", episodes=4, ways=(5, 9), learner="protonet")
    store, setup = Store(tmp_path / "results"), Setup({"wide": wide}, None)
    with make_runner("local") as runner:
        outcome = compute([request], store, runner, setup)
        assert {failure.cell.config["way"] for failure in outcome.failed} == {9}
        assert {cell.config["way"] for cell in outcome.done} == {5} and not outcome.complete
        assert all("9-way" in failure.sentence for failure in outcome.failed)
        again = compute([request], store, runner, setup)
    assert len(again.left) == len(outcome.failed) and not again.done and not again.failed
