"""Requests: budgets, levels under a thin one, checks, JSON; the folder they are kept in, as one file and back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fake_records import record_for, train_result
from naq.errors import DataError, OptionError
from naq_paper.cells.store import Store
from naq_paper.experiments.folder import REQUESTS, Requests, pack_folder, read_pack
from naq_paper.experiments.request import BUDGETS, Request
from naq_paper.experiments.seed_groups import training

REQUEST = Request("methods", ("debian",), facts={"debian": {"nodes": 3}})
ONE, TWO = Request("overlap", ("a",)), Request("times", ("a",), facts={"a": {"nodes": 1}})


def test_what_is_not_given_is_the_budgets_own():
    assert Request("methods", ()).all_seeds == (0, 1, 2, 3, 4) and Request("queries", ()).all_seeds == (0, 1, 2)
    assert Request("methods", (), "quick").all_seeds == Request("queries", (), "paper").all_seeds == (0,)
    assert Request("methods", (), seeds=3).all_seeds == (0, 1, 2)
    assert (Request("queries", ()).way, Request("queries", ()).shot) == (5, 1)
    assert (Request("queries", (), ways=(3, 7)).way, Request("queries", (), shots=(2, 4)).shot) == (3, 2)
    both = Request("queries", (), "paper", seeds=1, episodes=1_600)
    assert both.cost.endswith(". Given instead: 1 seed and 1,600 episodes.")
    assert Request("queries", (), "quick").cost == f"{BUDGETS['quick'].summary}."


def test_levels_and_base_models_are_all_unless_the_budget_is_thin():
    values, whole, quick = (1, 2, 3, 4), Request("queries", ()), Request("queries", (), "quick")
    assert whole.levels(values) == whole.levels(list(values), (2,)) == values
    assert quick.levels(values) == (1, 4) and quick.levels(values, (1, 3)) == (1, 3)
    assert quick.levels((1, 2)) == (1, 2) and quick.levels((7,)) == (7,) and quick.levels(()) == ()
    assert whole.learners_or(("a", "b")) == ("a", "b") and quick.learners_or(("a", "b")) == ("a",)
    assert Request("queries", (), "quick", learners=("maml", "tent")).learners_or(("a",)) == ("maml", "tent")


@pytest.mark.parametrize(
    "given",
    [{"budget": "standart"}, {"profile": "papper"}, {"seeds": -1}, {"episodes": -5}, {"ways": (5, 1)}, {"shots": (0,)}],
)
def test_a_wrong_option_is_named(given):
    with pytest.raises(OptionError, match=next(iter(given))):
        Request("methods", ("debian",), **given)


def test_a_request_comes_back_from_its_json():
    more = {"learners": ("maml",), "episode": {"queries": 3}, "ways": (5, 10), "shots": (1,), "methods": ("bgrl",)}
    request = replace(REQUEST, budget="quick", profile="paper", tune=True, options={"protonet": {"lr": 3e-4}}, **more)
    for one in (request, TWO):
        assert Request.from_json(json.loads(json.dumps(one.to_json()))) == one
    for data in (None, [], "text", {}, {"experiment": "x"}, {"experiment": "x", "datasets": 3}):
        with pytest.raises(DataError, match="request"):
            Request.from_json(data)
    with pytest.raises(DataError, match="colour"):
        Request.from_json({**TWO.to_json(), "colour": "red"})


def test_each_request_is_kept_once_and_comes_back_from_its_folder(tmp_path):
    kept = Requests()
    kept.add([ONE, TWO], {"a": "a.npz"})
    newer = replace(TWO, facts={"a": {"nodes": 2}})
    kept.add([newer, Request("overlap", ("b",))], {"b": "b.npz"})
    assert kept.requests == [ONE, newer, Request("overlap", ("b",))] and kept.paths == {"a": "a.npz", "b": "b.npz"}
    double = Requests([TWO, ONE, TWO])
    double.add([newer], {})
    assert double.requests == [newer, ONE] and Requests.load(tmp_path) == Requests()
    kept.save(tmp_path)
    assert Requests.load(tmp_path) == kept


EDITED = '{"format": 3, "requests": [{"experiment": "methods", "datasets": %s}], "paths": {}}'


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "{}", '{"format": 1}', '{"format": 3, "requests": 3, "paths": {}}', EDITED % "[]", EDITED % '"debian"',
     '{"format": 3, "requests": [], "paths": "ab"}', '{"format": 3, "requests": [{}], "paths": {}}'],
)  # fmt: skip
def test_damaged_requests_are_an_error_that_names_the_file(tmp_path, text):
    (tmp_path / REQUESTS).write_text(text)
    with pytest.raises(DataError, match=REQUESTS):
        Requests.load(tmp_path)


def cells(count):
    return [training(REQUEST, "debian", "smooth", seed=seed, options={}) for seed in range(count)]


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "results"
    store = Store(place)
    store.prepare()
    for cell in cells(2):
        store.put(record_for(cell, train_result(cell)))
    store.put(record_for(training(REQUEST, "debian", "bgrl", options={}), None, "it rains; wait."))
    Requests([REQUEST], {"debian": "/home/somebody/debian.npz"}).save(place)
    return place


def test_results_and_their_requests_come_back_as_equal_bytes(folder, tmp_path):
    packed, again = tmp_path / "packed.zip", tmp_path / "again.zip"
    assert pack_folder(folder, packed) == 2
    requests, records = read_pack(packed)
    assert requests == [REQUEST] and [r.to_json() for r in records] == [r.to_json() for r in Store(folder).records()]
    there = Store(tmp_path / "there")
    there.prepare()
    for record in records[::-1]:
        there.put(record)
    Requests(requests, {"debian": "elsewhere.npz"}).save(there.folder)
    pack_folder(there.folder, again)
    assert again.read_bytes() == packed.read_bytes() and b"somebody" not in packed.read_bytes()
    assert pack_folder(tmp_path / "none", packed) == 0 and read_pack(packed) == ([], [])
