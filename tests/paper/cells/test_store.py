"""Results in a folder: whole or absent, found by key, set aside when damaged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

import pytest

from naq.errors import DataError
from naq.files import sealed
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


def wrong_key(data):
    return {**data, "config": {"number": 99}}


def wrong_format(data):
    return {**data, "format": 7}


def unfinished(data):
    return {**data, "result": None, "error": "none"}


@pytest.mark.parametrize("damage", [wrong_key, wrong_format, unfinished, lambda data: [1], lambda data: {}])
def test_a_file_that_is_no_record_of_the_cell_is_set_aside(store, damage):
    kept = record()
    file_of(store, kept).write_text(json.dumps(damage(kept.to_json())))
    assert store.get(kept.key) is None
    assert store.set_aside == [f"cells/{kept.key}.json"]
    assert not file_of(store, kept).exists() and len(list((store.folder / "damaged").iterdir())) == 1


def test_every_cut_of_a_file_is_set_aside_under_a_name_of_its_own(store):
    whole = json.dumps(record().to_json()).encode()
    cuts = [whole[:size] for size in range(0, len(whole), 40)] + [b"\xff\x00", whole.replace(b"0.2", b"NaN")]
    for cut in cuts:
        file_of(store, record()).write_bytes(cut)
        assert store.get(record().key) is None
    assert sorted(file.read_bytes() for file in (store.folder / "damaged").iterdir()) == sorted(cuts)
    assert len(store.set_aside) == len(cuts)


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
        with pytest.raises(DataError, match="cannot be written as JSON"):
            store.put(record(result=bad))
    assert list((store.folder / "cells").iterdir()) == []


def test_a_folder_that_cannot_be_written_gives_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="is a file; give a folder"):
        Store(tmp_path / "file")
    with pytest.raises(DataError, match=r"results cannot be written to .*; choose another folder"):
        Store(tmp_path / "file" / "below").prepare()


def test_reading_needs_no_folder_and_makes_none(tmp_path):
    store = Store(tmp_path / "absent")
    assert list(store.records()) == [] and store.get("x") is None
    store.sweep()
    assert not (tmp_path / "absent").exists()


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
    code = "import sys; from naq_paper.cells.store import Store; held = Store(sys.argv[1]).lock(sys.argv[2]); print(held is not None, flush=True); input()"
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


def test_takers_of_a_lock_never_hold_it_together(store):
    """Many takers, again and again; a cell is not computed again once it is finished."""
    holders, worst, wins = 0, 0, 0
    guard = threading.Lock()

    def contend():
        nonlocal holders, worst, wins
        mine = Store(store.folder)
        for number in range(60):
            key = record(number).key
            while mine.get(key) is None:
                if (held := mine.lock(key)) is None:
                    continue
                if mine.get(key) is None:
                    with guard:
                        holders += 1
                        wins += 1
                        worst = max(worst, holders)
                    time.sleep(0.0002)
                    with guard:
                        holders -= 1
                    mine.put(record(number))
                mine.unlock(key, held)

    threads = [threading.Thread(target=contend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert worst == 1 and wins == 60 and list((store.folder / "claims").iterdir()) == []


def test_a_lock_in_a_folder_that_is_not_there_gives_one_sentence(tmp_path):
    (tmp_path / "claims").write_text("")
    with pytest.raises(DataError, match=r"cannot lock .*; choose another folder"):
        Store(tmp_path).lock("key")


def test_a_pack_holds_all_and_is_the_same_bytes_each_time(store, tmp_path):
    for number in range(20):
        store.put(record(number))
    store.put(record(99, error="no."))
    assert store.pack(tmp_path / "a.json.xz") == 20
    other = Store(tmp_path / "other")
    other.put(record(4))
    assert other.unpack(tmp_path / "a.json.xz") == 19
    assert [each.to_json() for each in other.records()] == [each.to_json() for each in store.records()]
    other.pack(tmp_path / "b.json.xz")
    assert (tmp_path / "a.json.xz").read_bytes() == (tmp_path / "b.json.xz").read_bytes()
    assert (tmp_path / "a.json.xz").stat().st_size < 4000


def test_a_damaged_pack_gives_one_sentence_and_files_nothing(store, tmp_path):
    import lzma

    store.put(record())
    pack = tmp_path / "pack.json.xz"
    store.pack(pack)
    whole = pack.read_bytes()
    bad = {**record().to_json(), "key": "0"}
    wrong = [
        whole[: len(whole) // 2],
        b"",
        b"text",
        lzma.compress(b"[]"),
        lzma.compress(json.dumps(sealed({"format": 3})).encode()),
        lzma.compress(json.dumps(sealed({"format": 3, "records": [record(1).to_json(), bad]})).encode()),
        lzma.compress(json.dumps(sealed({"format": 3, "records": [record(error="x").to_json()]})).encode()),
    ]
    other = Store(tmp_path / "other")
    for content in wrong:
        pack.write_bytes(content)
        with pytest.raises(DataError, match="is no readable pack of results"):
            other.unpack(pack)
    with pytest.raises(DataError, match="does not exist"):
        other.unpack(tmp_path / "absent.xz")
    assert list(other.records()) == []


def test_a_thousand_records_are_read_quickly(store):
    big = {"per_task": [0.123456] * 500}
    for number in range(1000):
        kept = record(number, result=big)
        file_of(store, kept).write_text(json.dumps(kept.to_json()))
    started = time.process_time()
    assert sum(1 for _ in store.records()) == 1000
    assert time.process_time() - started < 4
