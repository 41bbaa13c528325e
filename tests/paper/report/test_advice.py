"""What the first screen tells a reader to use: by the rule of the statistics, with a command that runs it."""

from __future__ import annotations

import shlex
from dataclasses import replace

import numpy as np
import pytest

from fake_records import record_for, train_result
from naq.cli.running import pairs
from naq.run import RunConfig
from naq_paper.experiments.experiment import expand
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import training
from naq_paper.report.answers import LABELS, RULE, advice, headline
from naq_paper.report.commands import PLACE, run_command
from naq_paper.statistics import compare, score

METHODS = ("supervised/protonet", "naq-feat/protonet", "bgrl")
REQUEST = Request("methods", ("toy",), methods=METHODS, seeds=5, shots=(1,), facts={"toy": {"most_classes": 6}})


def found(seconds=None, **means):
    """Records with that mean; names have ``_`` for signs."""

    def find(cell):
        method = cell.config["method"]
        mean = means.get(method.replace("/", "_").replace("-", "_"))
        if mean is None:
            return None
        return replace(record_for(cell, train_result(cell, mean=mean)), seconds=(seconds or {}).get(method, 10.0))

    return find


def advised(find, request=REQUEST):
    return advice(expand(request, find))


def test_the_only_best_method_is_advised():
    [one] = advised(found(naq_feat_protonet=0.7, bgrl=0.5, smooth=0.4))
    assert (one.where, one.method) == ("toy, 5-way 1-shot", "ProtoNet (NaQ-Feat)")
    assert "significantly better than every other method compared here." in one.text
    assert (
        "Against smooth, which trains nothing: above by " in one.text
        and "significantly better, p < 0.05, Holm" in one.text
    )
    assert LABELS[1] in one.text and "10 s here" in one.text


def test_of_methods_without_a_significant_difference_the_one_with_fewest_labels_is_advised():
    [one] = advised(found({"bgrl": 500.0, "smooth": 900.0}, supervised_protonet=0.602, bgrl=0.601, smooth=0.6))
    assert one.method == "smooth (no training)" and one.command == "naq run toy --method smooth"
    assert "no significant difference from the best, ProtoNet (Supervised) with " in one.text
    assert "and cheaper. No significant difference either from TLP-BGRL, which cost more." in one.text
    assert "No method compared here is significantly better than smooth." in one.text and LABELS[0] in one.text


def test_with_equal_labels_the_quicker_one_is_advised():
    means = {"bgrl": 0.6, "naq_feat_protonet": 0.601, "smooth": 0.3}
    for quick, slow, name in (
        ("bgrl", "naq-feat/protonet", "TLP-BGRL"),
        ("naq-feat/protonet", "bgrl", "ProtoNet (NaQ-Feat)"),
    ):
        [one] = advised(found({quick: 2.0, slow: 60.0}, **means))
        assert one.method == name and "2.0 s here" in one.text


def test_one_seed_claims_nothing():
    [one] = advised(found(bgrl=0.7, smooth=0.4), replace(REQUEST, seeds=1))
    assert one.method == "TLP-BGRL" and "another training may change the order" in one.text
    assert "significantly" not in one.text and "no significance is claimed" in one.text


def test_one_method_is_no_advice():
    assert advised(found(bgrl=0.7)) == [] and advised(found()) == []


def test_every_dataset_and_setting_has_its_own_and_another_profile_is_left_to_its_section():
    both = replace(
        REQUEST, datasets=("toy", "other"), shots=(1, 5), facts={name: {"most_classes": 6} for name in ("toy", "other")}
    )
    every = found(bgrl=0.7, smooth=0.4)
    studies = [*expand(both, every), *expand(replace(both, profile="paper"), every)]
    assert [one.where for one in advice(studies)] == [
        f"{name}, 5-way {shot}-shot" for name in ("toy", "other") for shot in (1, 5)
    ]
    papers = expand(replace(both, profile="paper"), every)
    assert advice(papers)[0].where == "toy, 5-way 1-shot, paper profile"
    assert "toy, 5-way 1-shot, paper profile" in headline(papers)[-1]


@pytest.mark.parametrize(
    "method", ["supervised/tent", "naq-diff/protonet", "bgrl", "vnt", "smooth", "naq-feat/glitter"]
)
@pytest.mark.parametrize("more", [{}, {"profile": "paper", "budget": "paper"}, {"head": "prototype", "features": "tfidf", "select": "clusters", "episode": {"queries": 3}}])  # fmt: skip
def test_the_command_runs_the_same_configuration(method, more):
    request = Request("methods", ("debian",), **more)
    config = training(request, "debian", method, seed=0, options={}, way=3, shot=2).config
    words = shlex.split(run_command(config, (3, 2)))
    assert words[:3] == ["naq", "run", "debian"]
    given, repeated = {}, {"--set": [], "--episode": []}
    for flag, value in zip(words[3::2], words[4::2]):
        if flag in repeated:
            repeated[flag].append(value)
        else:
            given[flag.removeprefix("--").replace("-", "_")] = value
    for name in ("way", "shot", "episodes", "epochs", "evaluate_every", "patience"):
        given |= {name: int(given[name])} if name in given else {}
    run = RunConfig.resolve(**given, dataset="debian", options=pairs(repeated["--set"], ""), episode=pairs(repeated["--episode"], ""))  # fmt: skip
    asked = {name: value for name, value in config.items() if name != "perturbation"}
    asked["options"] = {n: v for n, v in asked["options"].items() if n not in PLACE}
    made = run.to_json()
    made["options"] = {n: v for n, v in made["options"].items() if n not in PLACE}
    assert made == asked


def test_the_rule_explains_an_interval_without_0_beside_no_significant_difference():
    """Holm's correction is over all pairs of a column, the interval of a difference is its own: both occur together."""
    random = np.random.default_rng(0)
    tasks, means = random.normal(0, 0.1, 200), np.linspace(0.6, 0.62, 12)
    column = {str(mean): score(mean + tasks + random.normal(0, 0.06, (5, 200)), "t") for mean in means}
    apart = [one.to_best for one in compare(column).values() if one.to_best is not None and not one.to_best.significant]
    assert any(abs(one.difference.mean) > one.difference.ci95 for one in apart)
    assert "± of a difference is its own 95 % interval, without that correction: it may exclude 0" in RULE
