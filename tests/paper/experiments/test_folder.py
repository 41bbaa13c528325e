"""The requests of a folder of results, and the whole of it as one file and back."""

from __future__ import annotations

import zipfile
from dataclasses import replace

import pytest

from fake_records import record_for, train_result
from naq.errors import DataError
from naq_paper.cells.store import Store
from naq_paper.experiments.folder import REQUESTS, Requests, pack_folder, unpack_folder
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import training

REQUEST = Request("methods", ("debian",), facts={"debian": {"nodes": 3}})
OTHER = Request("times", ("debian",))
EDITED = '{"format": 3, "requests": [{"experiment": "methods", "datasets": %s}], "paths": {}}'
ONE, TWO = Request("overlap", ("a",)), Request("times", ("a",), facts={"a": {"nodes": 1}})


def test_each_request_is_kept_once():
    kept = Requests()
    kept.add([ONE, TWO], {"a": "a.npz"})
    newer = replace(TWO, facts={"a": {"nodes": 2}})
    kept.add([newer, Request("overlap", ("b",))], {"b": "b.npz"})
    assert kept.requests == [ONE, newer, Request("overlap", ("b",))] and kept.paths == {"a": "a.npz", "b": "b.npz"}
    double = Requests([TWO, ONE, TWO])
    double.add([newer], {})
    assert double.requests == [newer, ONE]


def test_requests_come_back_from_their_folder(tmp_path):
    assert Requests.load(tmp_path) == Requests()
    kept = Requests([ONE, TWO], {"a": "a.npz"})
    kept.save(tmp_path)
    assert Requests.load(tmp_path) == kept


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not readable JSON"),
        ("[]", "is damaged: it holds no JSON object"),
        ("{}", "is no list of requests"),
        ('{"format": 1}', "format 1; expected 4"),
        ('{"format": 3, "requests": 3, "paths": {}}', "is no list of requests"),
        ('{"format": 3, "requests": [], "paths": "ab"}', "is no list of requests"),
        ('{"format": 3, "requests": [{}], "paths": {}}', "requests.json: this is no request for an experiment"),
        (EDITED % "[]", r"requests.json: the request for 'methods' has datasets \[\]; expected a list of at least one"),
        (EDITED % '"debian"', "requests.json: the request for 'methods' has datasets 'debian'; expected a list"),
    ],
)
def test_damaged_requests_are_one_sentence(tmp_path, text, words):
    (tmp_path / REQUESTS).write_text(text)
    with pytest.raises(DataError, match=words):
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


def test_results_and_their_requests_come_back(folder, tmp_path):
    assert pack_folder(folder, tmp_path / "packed.zip") == 2
    there = tmp_path / "there"
    assert unpack_folder(tmp_path / "packed.zip", there) == 2
    found = list(Store(there).records())
    assert [record.to_json() for record in found] == [record.to_json() for record in Store(folder).records()]
    assert Requests.load(there).requests == [REQUEST] and not list(Store(there).failures())
    assert unpack_folder(tmp_path / "packed.zip", there) == 0 and Requests.load(there).requests == [REQUEST]


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
    Requests([OTHER], {"debian": "here.npz"}).save(there.folder)
    assert unpack_folder(tmp_path / "packed.zip", there.folder) == 2
    assert len(list(there.records())) == 3
    kept = Requests.load(there.folder)
    assert kept.requests == [OTHER, REQUEST] and kept.paths == {"debian": "here.npz"}


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
            if how == "other requests":
                archive.writestr(REQUESTS, "[]")
            elif how == "no requests":
                archive.writestr(REQUESTS, "{")
            if how != "no records":
                archive.writestr("records.json.xz", b"nothing")
            if how == "other records":
                archive.writestr(REQUESTS, '{"format": 3, "requests": [], "paths": {}}')


@pytest.mark.parametrize(
    "how", ["absent", "text", "short", "flipped", "other requests", "no requests", "no records", "other records"]
)
def test_a_damaged_file_is_one_sentence_that_names_it(folder, tmp_path, how):
    path = tmp_path / "packed.zip"
    pack_folder(folder, path)
    damaged(path, how)
    with pytest.raises(DataError) as caught:
        unpack_folder(path, tmp_path / "there")
    text = str(caught.value)
    assert str(path) in text and "\n" not in text and text.endswith(".")
    assert not (tmp_path / "there" / REQUESTS).exists()
