"""Results in a folder: whole or absent, found by key, set aside when damaged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from naq.errors import DataError
from naq_paper.cells.cell import Cell, Identity
from naq_paper.cells.records import Record
from naq_paper.cells.store import ABANDONED, Store

IDENTITY = Identity(data="")


def record(number=0, *, error=None, result=None):
    cell = Cell("empty", {"number": number})
    found = None if error else (result or {"number": number, "list": [0.1, 0.2]})
    return Record(cell, IDENTITY, found, error, 1.5, {"cores": 2}, "2026-01-31T12:00:00Z")


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "results")
    store.prepare()
    return store


def file_of(store, kept, place="cells"):
    return store.folder / place / f"{kept.key}.json"


def test_a_record_comes_back_as_it_was_put(store):
    kept = record(3)
    store.put(kept)
    assert store.get(kept.key).to_json() == kept.to_json()
    assert store.get(record(4).key) is None
    assert [each.key for each in store.records()] == [kept.key]


def test_a_failure_is_kept_apart_until_there_is_a_result(store):
    failed = record(error="it rained.")
    store.put(failed)
    assert store.get(failed.key) is None and store.failure(failed.key).error == "it rained."
    assert [each.error for each in store.failures()] == ["it rained."] and not list(store.records())
    store.put(record())
    assert store.get(failed.key).done and store.failure(failed.key) is None
    store.put(failed)  # a failure never shadows a result
    assert store.failure(failed.key) is None


@pytest.mark.parametrize("damage", [
    lambda data: data | {"config": {"number": 99}}, lambda data: data | {"format": 7},
    lambda data: data | {"result": None, "error": "none"}, lambda data: [1], lambda data: {},
])  # fmt: skip
def test_a_file_that_is_no_record_of_the_cell_is_set_aside(store, damage):
    kept = record()
    file_of(store, kept).write_text(json.dumps(damage(kept.to_json())))
    assert store.get(kept.key) is None and store.set_aside == [f"cells/{kept.key}.json"]
    assert not file_of(store, kept).exists() and len(list((store.folder / "damaged").iterdir())) == 1


def test_damaged_files_do_not_hide_the_others(store):
    for number in range(5):
        store.put(record(number))
    file_of(store, record(2)).write_text("{")
    (store.folder / "cells" / "notes.json").write_text("{}")
    (store.folder / "cells" / f".{record(9).key}.json.x.tmp.json").write_text("half")
    assert {each.result["number"] for each in store.records()} == {0, 1, 3, 4}
    assert sorted(store.set_aside) == sorted([f"cells/{record(2).key}.json", "cells/notes.json"])


def test_a_damaged_file_that_cannot_be_moved_is_still_no_result(store, monkeypatch):
    file_of(store, record()).write_text("{")
    monkeypatch.setattr("pathlib.Path.rename", lambda *_: (_ for _ in ()).throw(PermissionError(13, "no")))
    assert store.get(record().key) is None and store.set_aside == [f"cells/{record().key}.json"]


def test_a_whole_file_that_came_meanwhile_is_given_back(store, monkeypatch):
    """Between our look at a damaged file and its removal another process may have put the result there."""
    from naq_paper.cells import store as module

    kept, read = record(), module._checked

    def look(path, **more):
        monkeypatch.setattr(module, "_checked", read)
        store.put(kept)
        raise DataError("half")

    monkeypatch.setattr(module, "_checked", look)
    assert store.get(kept.key).key == kept.key
    assert file_of(store, kept).exists() and store.set_aside == []


def test_what_json_cannot_hold_is_refused_and_leaves_no_file(store):
    for bad in ({"number": float("nan")}, {"number": object()}):
        with pytest.raises(DataError, match="JSON"):
            store.put(record(result=bad))
    assert list((store.folder / "cells").iterdir()) == []


def test_a_folder_that_cannot_be_written_gives_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="is a file"):
        Store(tmp_path / "file")
    with pytest.raises(DataError, match="cannot be written"):
        Store(tmp_path / "file" / "below").prepare()
    (tmp_path / "claims").write_text("")
    with pytest.raises(DataError, match="cannot lock"):
        Store(tmp_path).lock("key")


def test_sweep_removes_what_ended_processes_left_and_nothing_else(store):
    store.put(record(1))
    old = time.time() - 3600
    leftover = store.lock_file(record(1).key)
    leftover.write_text("")
    os.utime(leftover, (old, old))
    finished, stopped, forgotten = (store.scratch(record(n).key) for n in (1, 2, 3))
    for folder in (finished, stopped, forgotten):
        folder.mkdir(parents=True)
        (folder / "checkpoint").write_text("")
    ages = time.time() - 2 * ABANDONED
    os.utime(forgotten, (ages, ages))
    held = store.lock(record(3).key)
    store.sweep()
    assert forgotten.exists(), "another process computes it"
    store.unlock(record(3).key, held)
    store.sweep()
    assert not any(path.exists() for path in (leftover, finished, forgotten))
    assert (stopped / "checkpoint").exists() and store.get(record(1).key) is not None


def test_a_lock_has_one_holder_until_it_is_released(store):
    other, key = Store(store.folder), record().key
    held = store.lock(key)
    assert held is not None and other.lock(key) is None and store.lock(key) is None
    another = other.lock(record(1).key)
    assert another is not None
    store.unlock(key, held)
    again = other.lock(key)
    assert again is not None and store.lock(key) is None
    store.put(record())
    other.unlock(key, again)
    other.unlock(record(1).key, another)
    # of the cell that is not finished the file stays: another process may have opened it
    assert list((store.folder / "claims").iterdir()) == [store.lock_file(record(1).key)]


def test_a_process_that_ends_releases_its_locks(store):
    key = record().key
    code = (
        "import sys; from naq_paper.cells.store import Store; held = Store(sys.argv[1]).lock(sys.argv[2]); "
        "print(held is not None, flush=True); input()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(store.folder), key], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "True\n"
    assert store.lock(key) is None
    process.kill()
    process.communicate()
    held = store.lock(key)
    assert held is not None
    store.unlock(key, held)
