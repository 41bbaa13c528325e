"""The first screen: the best method, its margin, its significance, and what to run; our settings and the paper's."""

from __future__ import annotations

import shlex
from dataclasses import replace

import numpy as np
import pytest

from fake_records import record_for, train_result
from naq.cli.running import sorted_settings
from naq.options import read_pairs
from naq.run import RunConfig
from naq_paper.experiments.experiment import expand
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import training
from naq_paper.report.answers import LABELS, NAMED, advice, key_figures
from naq_paper.report.commands import PLACE, run_command_of

METHODS = ("supervised/protonet", "supervised/tent", "naq-feat/protonet", "bgrl", "sugrl", "afgrl", "vnt", "cola")
REQUEST = Request("methods", ("toy",), methods=METHODS, seeds=3, shots=(1,), facts={"toy": {"most_classes": 6}})
HARD = np.random.default_rng(0).normal(0, 0.1, 200)


def found(means, seconds=None):
    """Records of the methods that are named, with that mean; every seed differs a little."""

    def find(cell):
        method, seed = cell.config["method"], cell.config["seed"]
        if method not in means:
            return None
        noise = np.random.default_rng(seed).normal(0, 0.01, 200)
        noise += np.random.default_rng([seed, len(method), ord(method[0])]).normal(0, 0.0005, 200)
        result = train_result(cell, mean=means[method])
        for evaluation in result["evaluations"].values():
            evaluation["per_task"] = (means[method] + HARD + noise).tolist()
        return replace(record_for(cell, result), seconds=(seconds or {}).get(method, 10.0))

    return find


def figures(means, request=REQUEST):
    return key_figures(expand(request, found(means)))


def test_a_clear_winner():
    best, margin, significance, note = figures({"naq-feat/protonet": 0.6, "bgrl": 0.5, "smooth": 0.45})
    assert best.short == "ProtoNet (NaQ-Feat)" and "best of 3 methods" in best.text
    assert margin.short == "10.0 points" and margin.text.startswith("Ahead of TLP-BGRL")
    assert "above by 15.0" in margin.text and significance.short == "yes" and "toy, 5-way 1-shot" in note


def test_what_is_not_significant_is_named_and_the_rest_counted():
    _, margin, significance, _ = figures({"naq-feat/protonet": 0.6, "bgrl": 0.6, "smooth": 0.4, "cola": 0.4})
    assert margin.short == "0.0 points" and significance.short == "not against 1 other"
    assert "TLP-BGRL" in significance.text and "2 of the others significantly worse" in significance.text
    _, _, significance, _ = figures({"naq-feat/protonet": 0.6, "bgrl": 0.6})
    assert "worse" not in significance.text
    _, _, significance, _ = figures({**dict.fromkeys(METHODS, 0.6), "smooth": 0.6})
    assert significance.short == "not against 8 others" and f"and {8 - NAMED} more" in significance.text


def test_one_seed_and_one_method_claim_nothing():
    *_, significance, _ = figures({"naq-feat/protonet": 0.6, "bgrl": 0.5}, replace(REQUEST, seeds=1))
    assert significance.short == "not known"
    every = found({"naq-feat/protonet": 0.6, "bgrl": 0.5, "smooth": 0.4})
    studies = expand(REQUEST, lambda c: None if c.config["method"] == "bgrl" and c.config["seed"] else every(c))
    assert key_figures(studies)[2].short == "yes, 1 not compared"
    assert "Not compared, because of one seed: TLP-BGRL." in advice(studies)[0].text
    best, margin, significance, note = figures({"bgrl": 0.5})
    assert best.short == "TLP-BGRL" and margin.short == significance.short == "nothing to compare" and "toy" in note
    assert {one.short for one in figures({})[:3]} == {"nothing yet"}
    assert figures({}, Request("times", ("toy",)))[3] == ""


def test_a_table_comes_before_an_analysis_which_answers_if_no_table_does():
    request = Request("label-noise", ("toy",), seeds=3)
    means = {"supervised/protonet": 0.5, "naq-feat/protonet": 0.6, "bgrl": 0.7, "smooth": 0.4}
    best, *_, note = key_figures([*expand(request, found(means)), *expand(REQUEST, found(means))])
    assert best.short == "TLP-BGRL" and "Every method" in note
    best, *_, note = key_figures([*expand(request, found(means)), *expand(REQUEST, found({}))])
    assert best.short == "ProtoNet (NaQ-Feat)" and "Label noise" in note


def advised(means, seconds=None, request=REQUEST):
    return advice(expand(request, found(means, seconds)))


@pytest.mark.parametrize(
    ("means", "seconds", "cheapest", "labels"),
    [
        ({"naq-feat/protonet": 0.7, "bgrl": 0.5, "smooth": 0.4}, {}, "", 1),
        ({"naq-feat/protonet": 0.6002, "bgrl": 0.6001, "smooth": 0.6}, {"smooth": 900.0}, "smooth (no training)", 0),
        ({"bgrl": 0.6, "naq-feat/protonet": 0.601, "smooth": 0.3}, {"bgrl": 2.0}, "TLP-BGRL", 1),
        ({"bgrl": 0.6, "naq-feat/protonet": 0.601, "smooth": 0.3}, {"bgrl": 60.0}, "", 1),
        ({"smooth": 0.6, "bgrl": 0.59, "naq-feat/protonet": 0.3}, {}, "", 0),
    ],
)
def test_the_highest_mean_is_named_everywhere_and_the_cheapest_without_a_significant_difference_beside_it(
    means, seconds, cheapest, labels
):
    [one] = advised(means, seconds)
    best = figures(means)[0].short
    assert (one.where, one.method) == ("toy, 5-way 1-shot", best) and LABELS[labels] in one.text
    assert (f"the cheapest of them is {cheapest} with " in one.text) if cheapest else "cheapest" not in one.text
    if best.startswith("smooth"):
        assert one.command == "naq run toy --method smooth" and "No method compared here" in one.text


def test_advice_is_for_every_setting_of_our_profile():
    assert advised({"bgrl": 0.7}) == [] and advised({}) == []
    [one] = advised({"bgrl": 0.7, "smooth": 0.4}, request=replace(REQUEST, seeds=1))
    assert one.method == "TLP-BGRL" and "significantly" not in one.text
    facts = {name: {"most_classes": 6} for name in ("toy", "other")}
    both, every = (
        replace(REQUEST, datasets=("toy", "other"), shots=(1, 5), facts=facts),
        found({"bgrl": 0.7, "smooth": 0.4}),
    )
    studies = [*expand(both, every), *expand(replace(both, profile="paper"), every)]
    places = [f"{name}, 5-way {shot}-shot" for name in ("toy", "other") for shot in (1, 5)]
    assert [one.where for one in advice(studies)] == places
    assert advice(expand(replace(both, profile="paper"), every))[0].where == "toy, 5-way 1-shot, paper profile"


@pytest.mark.parametrize(
    "method", ["supervised/tent", "naq-diff/protonet", "bgrl", "vnt", "smooth", "naq-feat/glitter"]
)
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"profile": "paper", "budget": "paper"},
        {"head": "prototype", "features": "tfidf", "select": "clusters", "episode": {"queries": 3}},
    ],
)
def test_the_command_runs_the_same_configuration(method, more):
    request = Request("methods", ("debian",), **more)
    config = training(request, "debian", method, seed=0, options={}, way=3, shot=2).config
    words = shlex.split(run_command_of(config, (3, 2)))
    assert words[:3] == ["naq", "run", "debian"]
    given, settings = {}, []
    for flag, value in zip(words[3::2], words[4::2]):
        if flag == "--set":
            settings.append(value)
        else:
            given[flag.removeprefix("--")] = int(value) if value.isdigit() else value
    more, options, episode = sorted_settings(read_pairs(settings, ""))
    run = RunConfig.resolve(**given, **more, dataset="debian", options=options, episode=episode).to_json()
    wanted = {name: value for name, value in config.items() if name != "perturbation"}
    for one in (run, wanted):
        one["options"] = {n: v for n, v in one["options"].items() if n not in PLACE}
    assert run == wanted
