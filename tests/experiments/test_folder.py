"""A folder of results as one file, and back."""

from __future__ import annotations

import zipfile

import pytest

from fake_records import record_for, train_result
from naq.errors import DataError
from naq.experiments.base import training
from naq.experiments.packing import pack_folder, unpack_folder
from naq.experiments.reproduction import Plan
from naq.experiments.request import Request
from naq.grid.store import Store

ASK = Request("methods", ("debian",), facts={"debian": {"nodes": 3}})
OTHER = Request("times", ("debian",))


def cells(count):
    return [training(ASK, "debian", "smooth", seed=seed) for seed in range(count)]


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "results"
    store = Store(place)
    store.prepare()
    for cell in cells(2):
        store.put(record_for(cell, train_result(cell)))
    store.put(record_for(training(ASK, "debian", "bgrl"), None, "it rains; wait."))
    Plan([ASK], {"debian": "/home/somebody/debian.npz"}).save(place)
    return place


def test_results_and_their_plan_come_back(folder, tmp_path):
    assert pack_folder(folder, tmp_path / "packed.zip") == 2
    there = tmp_path / "there"
    assert unpack_folder(tmp_path / "packed.zip", there) == 2
    found = list(Store(there).records())
    assert [record.to_json() for record in found] == [record.to_json() for record in Store(folder).records()]
    assert Plan.load(there).requests == [ASK] and not list(Store(there).failures())
    assert unpack_folder(tmp_path / "packed.zip", there) == 0 and Plan.load(there).requests == [ASK]


def test_equal_results_are_equal_bytes(folder, tmp_path):
    pack_folder(folder, tmp_path / "one.zip")
    unpack_folder(tmp_path / "one.zip", tmp_path / "again")
    pack_folder(tmp_path / "again", tmp_path / "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    assert b"somebody" not in (tmp_path / "one.zip").read_bytes()


def test_what_is_there_stays(folder, tmp_path):
    pack_folder(folder, tmp_path / "packed.zip")
    there = Store(tmp_path / "there")
    there.prepare()
    extra = cells(3)[2]
    there.put(record_for(extra, train_result(extra)))
    Plan([OTHER], {"debian": "here.npz"}).save(there.folder)
    assert unpack_folder(tmp_path / "packed.zip", there.folder) == 2
    assert len(list(there.records())) == 3
    plan = Plan.load(there.folder)
    assert plan.requests == [OTHER, ASK] and plan.paths == {"debian": "here.npz"}


def test_an_empty_folder_packs_to_nothing(tmp_path):
    assert pack_folder(tmp_path / "none", tmp_path / "packed.zip") == 0
    assert unpack_folder(tmp_path / "packed.zip", tmp_path / "there") == 0


def damaged(path, how):
    data = path.read_bytes()
    if how == "absent":
        path.unlink()
    elif how == "text":
        path.write_text("no archive")
    elif how == "short":
        path.write_bytes(data[: len(data) // 2])
    elif how == "flipped":
        middle = data.index(b"records.json.xz") + 60
        path.write_bytes(data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :])
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            if how == "other plan":
                archive.writestr("plan.json", "[]")
            elif how == "no plan":
                archive.writestr("plan.json", "{")
            if how != "no records":
                archive.writestr("records.json.xz", b"nothing")
            if how == "other records":
                archive.writestr("plan.json", '{"format": 1, "requests": [], "paths": {}}')


@pytest.mark.parametrize(
    "how", ["absent", "text", "short", "flipped", "other plan", "no plan", "no records", "other records"]
)
def test_a_damaged_file_is_one_sentence_that_names_it(folder, tmp_path, how):
    path = tmp_path / "packed.zip"
    pack_folder(folder, path)
    damaged(path, how)
    with pytest.raises(DataError) as caught:
        unpack_folder(path, tmp_path / "there")
    text = str(caught.value)
    assert str(path) in text and "\n" not in text and text.endswith(".")
    assert not (tmp_path / "there" / "plan.json").exists()
