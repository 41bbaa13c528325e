"""Results of before are filed under the keys of today: one record per shot, checked, and nothing is made up."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from naq.errors import DataError
from naq.files import sealed
from naq_paper.cells.cell import Cell, Identity, canonical, digest
from naq_paper.cells.records import OutdatedRecords
from naq_paper.cells.store import Store

TOOL = Path(__file__).resolve().parents[2] / "tools" / "rekey.py"


@pytest.fixture(scope="module")
def rekey():
    spec = importlib.util.spec_from_file_location("rekey", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def old_record(shots=(1, 5), *, valid=((0.3, 0.5, 0.4, 0.4), (0.3, 0.4, 0.6, 0.5)), patience=2, **more):
    """A record of format 2: a training whose patience ran out at different evaluations."""
    config = {"method": "naq-feat/protonet", "shot": shots[0], "also_shots": list(shots[1:]), "patience": patience}
    history = {
        "steps": [10, 20, 30, 40],
        "loss": [1.0] * 4,
        "seconds": [1.0, 2.0, 3.0, 4.0],
        "valid_accuracy": valid[0],
    }
    history["also"] = {str(k): each for k, each in zip(shots[1:], valid[1:])}
    result = {
        "config": config,
        "data": {"tasks": "t1", "also": {str(k): f"t{k}" for k in shots[1:]}},
        "evaluations": {"logistic": {"per_task": [0.1]}},
        "baseline": {},
        "also": {str(k): {"logistic": {"per_task": [k / 10]}} for k in shots[1:]},
        "also_baseline": {},
        "facts": {
            "best_step": 20,
            "valid_accuracy": 0.5,
            "steps_trained": 40,
            "stopped_early": True,
            "also_selected": {str(k): {"best_step": 30, "valid_accuracy": 0.6} for k in shots[1:]},
        },
        "history": history,
        **more,
    }
    content = {
        "format": 2,
        "measurement": "train",
        "config": {**config, "perturbation": None},
        "identity": {"data": "d", "version": "0.1.0", "core": "c", "own": "o"},
        "seconds": 10.0,
        "machine": {},
        "finished": "2026-01-01T00:00:00Z",
        "error": None,
        "result": result,
    }
    text = canonical({"measurement": "train", "config": content["config"]})
    return sealed({**content, "key": digest(f"{text}|d|0.1.0|c|o")})


@pytest.fixture
def folder(tmp_path):
    row = old_record()
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / f"{row['key']}.json").write_text(json.dumps(row))
    return tmp_path


def test_a_folder_of_before_is_refused_until_it_is_rekeyed(rekey, folder):
    with pytest.raises(OutdatedRecords, match=r"tools/rekey\.py"):
        Store(folder).prepare()
    assert len(list((folder / "cells").iterdir())) == 1, "nothing is set aside as damaged"
    assert rekey.rekey_folder(folder) == (1, 2) and rekey.rekey_folder(folder) == (0, 0)
    store = Store(folder)
    store.prepare()
    assert {record.cell.config["shot"] for record in store.records()} == {1, 5} and not store.set_aside


def test_each_shot_ends_where_a_training_of_its_own_would_have(rekey):
    one, five = sorted(rekey.of_old([old_record()]), key=lambda record: record.cell.config["shot"])
    config = {"method": "naq-feat/protonet", "shot": 5, "patience": 2, "perturbation": None}
    assert five.cell == Cell("train", config) and five.identity == Identity("d")
    assert five.result["evaluations"] == {"logistic": {"per_task": [0.5]}} and five.result["data"] == {"tasks": "t5"}
    assert not {"also", "also_baseline"} & set(five.result) and "also" not in five.result["history"]
    ends = [(r.result["facts"]["best_step"], r.result["facts"]["steps_trained"]) for r in (one, five)]
    assert ends == [(20, 40), (30, 40)] and [r.result["facts"]["stopped_early"] for r in (one, five)] == [True, False]
    early = [[0.5, 0.4, 0.3, 0.2], [0.3, 0.4, 0.6, 0.5]]
    facts = {**old_record()["result"]["facts"], "best_step": 10}
    one, five = sorted(rekey.of_old([old_record(valid=early, facts=facts)]), key=lambda r: r.cell.config["shot"])
    assert one.result["history"]["steps"] == [10, 20, 30] and one.seconds == 9.0 and five.seconds == 10.0


def test_what_cannot_be_told_apart_or_does_not_fit_is_refused(rekey):
    unknown = old_record(valid=((0.3, 0.5, 0.4, 0.4),))
    with pytest.raises(DataError, match="does not say how 5-shot"):
        rekey.of_old([unknown])
    with pytest.raises(DataError, match="does not fit its key"):
        rekey.of_old([sealed({**{k: v for k, v in old_record().items() if k != "checksum"}, "key": "0" * 24})])
    with pytest.raises(DataError, match="checksum"):
        rekey.of_old([old_record() | {"seconds": 1.0}])
