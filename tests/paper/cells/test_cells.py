"""Cells are equal by what they say; their keys depend on configuration, data and code, and on nothing else."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from fake_records import record_for
from naq.errors import DataError
from naq.files import sealed
from naq_paper.cells.cell import Cell, Identity, canonical, digest
from naq_paper.cells.records import Record

IDENTITY = Identity("data", "protonet 2")
CELL = Cell("train", {"dataset": "debian", "way": 5, "options": {"lr": 0.1, "latent": 8}})


def test_equal_values_have_one_text():
    assert canonical({"b": [1, 2.5, None], "a": {"y": True, "x": "ü"}}) == canonical(
        {"a": {"x": "ü", "y": True}, "b": [1, 2.5, None]}
    )
    assert canonical({"a": (1, 2)}) == canonical({"a": [1, 2]}) == '{"a":[1,2]}'
    assert canonical([1, 2]) != canonical([2, 1])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float32(1.0), {1, 2}, object()])
def test_what_is_not_json_is_refused(value):
    with pytest.raises((ValueError, TypeError)):
        canonical({"a": value})


def test_digests_tell_texts_apart_and_have_the_size_asked_for():
    assert digest("a") == digest("a") != digest("b")
    assert len(digest("a")) == 24 and len(digest("a", 8)) == 16


def test_cells_are_equal_by_text():
    turned = Cell("train", {"options": {"latent": 8, "lr": 0.1}, "way": 5, "dataset": "debian"})
    assert turned == CELL and hash(turned) == hash(CELL) and len({turned, CELL}) == 1
    assert Cell("tail-map", CELL.config) != CELL and CELL.text != CELL
    assert Cell("train", {**CELL.config, "way": 5.0}) != CELL


def test_titles_say_what_runs():
    assert CELL.title == "debian train 5-way"
    config = {
        "dataset": "d",
        "method": "bgrl",
        "way": 5,
        "shot": 1,
        "seed": 2,
        "perturbation": {"name": "noise", "share": 0.1},
    }
    assert Cell("train", config).title == "d bgrl 5-way 1-shot noise share=0.1 seed 2"
    assert Cell("empty", {}).title == "empty"


def test_a_key_changes_with_configuration_data_and_code():
    key = IDENTITY.key(CELL)
    others = [replace(IDENTITY, **{name: "other"}) for name in ("data", "versions")]
    cells = [
        Cell("other", CELL.config),
        Cell("train", {**CELL.config, "way": 6}),
        Cell("train", {**CELL.config, "x": None}),
    ]
    keys = [other.key(CELL) for other in others] + [IDENTITY.key(cell) for cell in cells]
    assert len({key, *keys}) == 1 + len(keys)


def test_a_key_does_not_change_with_the_order_of_options():
    turned = Cell("train", dict(reversed(CELL.config.items())))
    assert list(turned.config) != list(CELL.config)
    assert IDENTITY.key(turned) == IDENTITY.key(CELL) == Identity("data", "protonet 2").key(CELL)


@pytest.mark.parametrize(("result", "error"), [({"number": 1.25}, None), (None, "it rains; wait.")])
def test_a_record_comes_back_from_its_file(result, error):
    record = record_for(CELL, result, error)
    text = json.dumps(record.to_json())
    again = type(record).from_json(json.loads(text))
    assert json.dumps(again.to_json()) == text
    assert again.cell == CELL and again.identity == record.identity and again.key == record.key
    assert again.done == (error is None) and again.result == result and again.error == error


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ({"format": 4}, "format 4; expected 3"),
        ({"format": 2}, "tools/rekey.py"),
        ({"key": "0" * 24}, "does not fit its key"),
        ({"config": {"way": 6}}, "does not fit its key"),
        ({"measurement": "other"}, "does not fit its key"),
        ({"result": None}, "does not fit its key"),
        ({"error": "both"}, "does not fit its key"),
        ({"identity": {"date": "only"}}, "no record of a cell"),
        ({"seconds": "long"}, "no record of a cell"),
        ({"config": [1]}, "no record of a cell|does not fit"),
    ],
)
def test_what_is_no_record_is_refused(edit, words):
    data = record_for(CELL, {"number": 1}).to_json()
    content = {name: value for name, value in data.items() if name != "checksum"} | edit
    with pytest.raises(DataError, match=words):
        Record.from_json(sealed(content))
    with pytest.raises(DataError, match=r"format|does not fit its checksum|rekey"):
        Record.from_json(data | edit)


@pytest.mark.parametrize("data", [None, [], "text", {}])
def test_other_json_is_no_record(data):
    with pytest.raises(DataError, match="no record of a cell"):
        type(record_for(CELL, {})).from_json(data)
