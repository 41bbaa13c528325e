"""One run, described once: equal requests have equal configurations, whoever asks."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import naq
from naq.errors import OptionError
from naq.heads import LogisticHead
from naq.methods import get_method, methods
from naq.run import RunConfig
from naq_paper.measurements.train import train_cell

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
        {"way": 10}, {"shot": 5}, {"seed": 1}, {"head": "prototype"}, {"head": LogisticHead(C=1.0)},
        {"features": "auto"},
        {"options": {"lr": 3e-4}}, {"episode": {"way": 20}}, {"episode": {"shot": 5}, "shot": 5}, {"episodes": 160},
        {"evaluate_every": 16}, {"patience": 4}, {"select": "clusters"}, {"device": "cuda"}, {"dataset": "cora"},
        {"method": "naq-diff/protonet"}, {"refine": True},
    ],
)  # fmt: skip
def test_other_requests_are_not(given):
    found = RunConfig.resolve(**{"method": "naq-feat/protonet", "dataset": "debian"} | given)
    assert found != DEFAULT and text(found) != text(DEFAULT)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"method": "naq-feat/protonets"}, "method"),
        ({"options": {"lrr": 1.0}}, "lrr"),
        ({"options": {"lr": "fast"}}, "lr"),
        ({"episode": {"metrics": "cosine"}}, "metrics"),
        ({"episode": {"way": "wide"}}, "way"),
        ({"method": "smooth", "episode": {"queries": 3}}, "queries"),
        ({"head": "logistics"}, "head"),
        ({"head": "own"}, "head"),
        ({"features": "tf-idf"}, "features"),
        ({"select": "test"}, "select"),
        ({"evaluate_every": 0}, "evaluate_every"),
        ({"patience": -1}, "patience"),
        ({"epochs": 3}, "epochs"),
        ({"method": "smooth", "epochs": 3}, "epochs"),
        ({"episodess": 3}, "episodess"),
    ],
)
def test_a_mistake_is_named_before_any_data_is_read(given, named):
    given = {"method": "naq-feat/protonet"} | given
    for use in (RunConfig.from_json, lambda given: naq.run("no/such/graph.npz", **given)):
        with pytest.raises(OptionError, match=named):
            use(given)


def test_what_is_written_of_options_and_heads():
    assert RunConfig.resolve("bgrl", epochs=7) == RunConfig.resolve("bgrl", options={"epochs": 7})
    auto, near = (RunConfig.resolve("naq-feat/protonet", dataset="debian", episode={"search": search})
                  for search in ("auto", "approximate"))  # fmt: skip
    assert auto == DEFAULT and "search" not in auto.episode
    assert near.episode["search"] == "approximate" and RunConfig.from_json(json.loads(text(near))) == near
    own = RunConfig.resolve("vnt")
    assert own == RunConfig.resolve("vnt", head="prototype") == RunConfig.resolve("vnt", head="own")
    assert replace(DEFAULT, dataset="cora") == RunConfig.resolve("naq-feat/protonet", dataset="cora") != DEFAULT


@pytest.mark.parametrize("method", ["naq-feat/protonet", "supervised/maml", "bgrl", "vnt", "smooth"])
def test_a_cell_and_a_call_are_the_same_run(method):
    known = get_method(method)
    given = {
        "way": 2,
        "shot": 3,
        "seed": 4,
        "head": "prototype",
        "features": "raw",
        "patience": 0,
        "select": "clusters",
    }
    given |= {"episodes": 32, "episode": {"way": 2, "queries": 3}} if known.learner else {}
    given |= {"epochs": 2} if known.in_epochs else {}
    cell = train_cell("mine", method, **given)
    config = {name: value for name, value in cell.config.items() if name != "perturbation"}
    made = RunConfig.resolve(method, dataset="mine", **given)
    assert made == RunConfig.from_json(config) and made.to_json() == config
