"""One run, described once: equal requests have equal configurations, whoever asks."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace
from importlib import import_module

import numpy as np
import pytest

import naq
from naq.errors import OptionError
from naq.heads import LogisticHead
from naq.methods import get_method, methods
from naq.run import RunConfig

every = pytest.mark.parametrize("method", sorted(methods()))
DEFAULT = RunConfig.resolve("naq-feat/protonet", dataset="debian")


def text(config: RunConfig) -> str:
    return json.dumps(config.to_json())


@every
def test_every_configuration_goes_through_json(method):
    config = RunConfig.resolve(method, dataset="debian", seed=3, device="cuda", select="clusters")
    again = RunConfig.from_json(json.loads(text(config)))
    assert again == config and text(again) == text(config)
    assert again.spec == config.spec == get_method(method)


@every
def test_what_applies_is_written_out_and_nothing_else(method):
    known, found = get_method(method), RunConfig.resolve(method).to_json()
    assert found["options"] == known.defaults and None not in found.values()
    assert ("episodes" in found) == ("episode" in found) == (known.learner is not None)
    assert {name in found for name in ("evaluate_every", "patience", "select")} == {known.trains}
    assert ("head_options" in found) == (found["head"] != "own") == (not known.solves_tasks)
    assert ("features" in found) == (method not in ("smooth", "naq-plus"))


@pytest.mark.parametrize(
    "given",
    [
        {"way": np.int64(5), "seed": np.int64(0)},
        {"options": {"lr": "1e-4"}},
        {"episode": {"way": 5}},
        {"episode": {"way": "5"}},
        {"episode": {"way": 0, "shot": 1}},
        {"patience": 0, "evaluate_every": 160, "episodes": 16_000},
        {"head": LogisticHead()},
        {"method": get_method("naq-feat/protonet")},
    ],
)
def test_equal_requests_are_equal(given):
    found = RunConfig.resolve(**{"method": "naq-feat/protonet", "dataset": "debian"} | given)
    assert found == DEFAULT and text(found) == text(DEFAULT)


@pytest.mark.parametrize(
    "given",
    [
        {"way": 10},
        {"shot": 5},
        {"seed": 1},
        {"head": "prototype"},
        {"head": LogisticHead(C=1.0)},
        {"features": "auto"},
        {"options": {"lr": 3e-4}},
        {"episode": {"way": 20}},
        {"episode": {"shot": 5}, "shot": 5},
        {"episodes": 160},
        {"evaluate_every": 16},
        {"patience": 4},
        {"select": "clusters"},
        {"device": "cuda"},
        {"dataset": "cora"},
        {"method": "naq-diff/protonet"},
    ],
)
def test_other_requests_are_not(given):
    found = RunConfig.resolve(**{"method": "naq-feat/protonet", "dataset": "debian"} | given)
    assert found != DEFAULT and text(found) != text(DEFAULT)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"method": "naq-feat/protonets"}, "there is no method 'naq-feat/protonets'; did you mean"),
        ({"options": {"lrr": 1.0}}, "naq-feat/protonet has no option 'lrr'; did you mean lr"),
        ({"options": {"lr": "fast"}}, "expected float"),
        ({"episode": {"metrics": "cosine"}}, "naq-feat episodes has no option 'metrics'; did you mean metric"),
        ({"episode": {"way": "wide"}}, "option way of naq-feat episodes is 'wide'; expected int"),
        ({"method": "smooth", "episode": {"queries": 3}}, "smooth uses no episodes"),
        ({"head": "logistics"}, "there is no head 'logistics'"),
        ({"head": "own"}, "there is no head 'own'"),
        ({"features": "tf-idf"}, "features is 'tf-idf'; expected auto or one of raw"),
        ({"select": "test"}, "select is 'test'"),
        ({"evaluate_every": 0}, "evaluate_every is 0"),
        ({"patience": -1}, "patience is -1"),
        ({"epochs": 3}, "epochs is 3, but naq-feat/protonet is trained on episodes: give episodes"),
        ({"method": "smooth", "epochs": 3}, "epochs is 3, but smooth is not trained: leave it out"),
    ],
)
def test_a_mistake_is_one_sentence_before_any_data_is_read(given, words):
    given = {"method": "naq-feat/protonet"} | given
    with pytest.raises(OptionError, match=words):
        RunConfig.resolve(**given)
    if "epochs" not in given:
        with pytest.raises(OptionError, match=words):
            RunConfig.from_json(given)
    with pytest.raises(OptionError, match=words):
        naq.run("no/such/graph.npz", **given)


def test_a_file_with_an_unknown_field_is_refused():
    with pytest.raises(OptionError, match="has no field 'episodess'; did you mean episodes"):
        RunConfig.from_json({**DEFAULT.to_json(), "episodess": 3})


def test_epochs_are_an_option():
    assert RunConfig.resolve("bgrl", epochs=7) == RunConfig.resolve("bgrl", options={"epochs": 7})


def test_a_switch_of_episodes_that_has_its_default_is_not_written():
    auto = RunConfig.resolve("naq-feat/protonet", dataset="debian", episode={"search": "auto"})
    near = RunConfig.resolve("naq-feat/protonet", dataset="debian", episode={"search": "approximate"})
    assert auto == DEFAULT and "search" not in auto.episode
    assert near.episode["search"] == "approximate" and RunConfig.from_json(json.loads(text(near))) == near


def test_a_head_of_an_own_solver_does_not_matter():
    assert (
        RunConfig.resolve("vnt", head="prototype") == RunConfig.resolve("vnt", head="own") == RunConfig.resolve("vnt")
    )


def test_it_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        DEFAULT.seed = 1  # type: ignore[misc]
    assert replace(DEFAULT, dataset="cora") == RunConfig.resolve("naq-feat/protonet", dataset="cora")


@pytest.mark.parametrize("method", ["naq-feat/protonet", "supervised/maml", "bgrl", "vnt", "smooth"])
def test_a_cell_and_a_call_are_the_same_run(graph, tasks, method, monkeypatch):
    from naq_paper.measurements.train import train_cell

    made = []
    monkeypatch.setattr(import_module("naq.run.run"), "run_config", lambda config, *_, **__: made.append(config))
    trains = get_method(method).learner is not None
    given = {"way": 2, "shot": 3, "seed": 4, "head": "prototype", "features": "raw", "patience": 0, "select": "clusters"}  # fmt: skip
    given |= {"episodes": 32, "episode": {"way": 2, "queries": 3}} if trains else {}
    given |= {"epochs": 2} if get_method(method).in_epochs else {}
    naq.run(graph, method, tasks=tasks, **given)
    cell = train_cell(graph.name, method, **given)
    config = {name: value for name, value in cell.config.items() if name != "perturbation"}
    assert made == [RunConfig.from_json(config)] and made[0].to_json() == config


@pytest.mark.parametrize("method", ["naq-feat/protonet", "smooth"])
def test_a_run_looks_its_method_up_once(graph, tasks, method, monkeypatch):
    asked = []

    def counted(name):
        asked.append(name)
        return get_method(name)

    monkeypatch.setattr("naq.run.config.get_method", counted)
    given = {"episodes": 2, "episode": {"queries": 3}, "options": {"latent": 8}} if "/" in method else {}
    naq.run(graph, method, way=2, tasks=tasks, cache=None, **given)
    assert asked == [method]
