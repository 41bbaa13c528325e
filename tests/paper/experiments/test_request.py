"""Requests: budgets, levels under a thin one, their checks, and their JSON."""

from __future__ import annotations

import json

import pytest

from naq.errors import DataError, OptionError
from naq_paper.experiments.request import BUDGETS, Request


def test_budgets_cost_less_and_less():
    paper, standard, quick = (BUDGETS[name] for name in ("paper", "standard", "quick"))
    assert paper.episodes == 16_000 and paper.patience == 0
    assert paper.episodes > standard.episodes > quick.episodes and standard.table_seeds > standard.analysis_seeds > 1
    assert quick.thin and not standard.thin and not paper.thin
    assert all(quick.epochs[name] < epochs for name, epochs in standard.epochs.items())
    assert all(budget.evaluate_every <= budget.episodes for budget in BUDGETS.values())


def test_what_is_not_given_is_the_budgets_own():
    request = Request("methods", ("debian",))
    assert request.all_seeds == (0, 1, 2, 3, 4) and Request("queries", ("debian",)).all_seeds == (0, 1, 2)
    assert Request("methods", (), "quick").all_seeds == Request("queries", (), "paper").all_seeds == (0,)
    assert request.features == "raw" and request.limits is BUDGETS["standard"]
    assert request.profile == "default" and request.learners == ()
    own = Request("methods", (), seeds=3, learners=("tent", "maml"))
    assert own.all_seeds == (0, 1, 2) and own.learners == ("tent", "maml")


def test_the_cost_says_what_was_given_instead_of_the_budgets_own():
    quick = BUDGETS["quick"].summary
    assert Request("queries", (), "quick").cost == f"{quick}."
    assert Request("queries", (), "quick", seeds=2).cost == f"{quick}. Given instead: 2 seeds."
    both = Request("queries", (), "paper", seeds=1, episodes=1_600)
    assert both.cost.endswith(". Given instead: 1 seed and 1,600 episodes.")


def test_an_analysis_takes_the_first_way_and_shot():
    assert (Request("queries", ()).way, Request("queries", ()).shot) == (5, 1)
    assert (Request("queries", (), ways=(3, 7)).way, Request("queries", (), shots=(2, 4)).shot) == (3, 2)


def test_levels_are_all_unless_the_budget_is_thin():
    values = (1, 2, 3, 4)
    assert Request("queries", ()).levels(values) == Request("queries", ()).levels(list(values), (2,)) == values
    quick = Request("queries", (), "quick")
    assert quick.levels(values) == (1, 4) and quick.levels(values, (1, 3)) == (1, 3)
    assert quick.levels((1, 2)) == (1, 2) and quick.levels((7,)) == (7,) and quick.levels(()) == ()


def test_facts_say_what_a_dataset_lacks():
    request = Request(
        "overlap", ("bare", "whole"), facts={"bare": {"features": 0}, "whole": {"features": 3, "most_classes": 7}}
    )
    assert [request.fact(name, "features") for name in ("bare", "whole", "unknown")] == [0, 3, None]
    assert [request.fact(name, "most_classes") for name in ("whole", "bare", "unknown")] == [7, None, None]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"budget": "standart"}, "no budget 'standart'; did you mean standard?"),
        ({"profile": "papper"}, "no profile 'papper'; did you mean paper?"),
        ({"seeds": -1}, "seeds is -1; expected at least 1 and at most 1,000,000,000, or 0 for the budget's own."),
        ({"episodes": -5}, "episodes is -5; expected at least 1"),
        ({"ways": (5, 1)}, r"ways are \[5, 1\]; expected whole numbers of at least 2."),
        ({"shots": (0,)}, r"shots are \[0\]; expected whole numbers of at least 1."),
    ],
)
def test_a_mistake_is_one_sentence(given, words):
    with pytest.raises(OptionError, match=words):
        Request("methods", ("debian",), **given)


def test_a_request_comes_back_from_its_json():
    request = Request(
        "methods",
        ("debian", "cora"),
        "quick",
        "paper",
        learners=("maml", "tent"),
        episode={"queries": 3},
        ways=(5, 10),
        shots=(1,),
        methods=("bgrl",),
        tune=True,
        options={"protonet": {"lr": 3e-4}},
        facts={"debian": {"nodes": 3, "tasks": None}},
    )
    assert Request.from_json(json.loads(json.dumps(request.to_json()))) == request
    assert Request.from_json(json.loads(json.dumps(Request("times", ()).to_json()))) == Request("times", ())


@pytest.mark.parametrize("data", [None, [], "text", {}, {"experiment": "x"}, {"experiment": "x", "datasets": 3}])
def test_what_is_no_request_is_one_sentence(data):
    with pytest.raises(DataError, match="this is no request for an experiment"):
        Request.from_json(data)


def test_a_request_with_an_unknown_field_is_refused():
    with pytest.raises(DataError, match="colour"):
        Request.from_json({**Request("times", ()).to_json(), "colour": "red"})
