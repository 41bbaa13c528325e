"""Cells in this process: computed once, filed, and never a reason for a crash."""

from __future__ import annotations

import os
import re
import sys
import threading
from types import SimpleNamespace

import pytest

from naq.errors import DataError, MissingDependency, OptionError
from naq_paper.cells.cell import Cell, Identity
from naq_paper.cells.datasets import DatasetCache, identify
from naq_paper.cells.runners import Outcome, Pending, Planned, Setup, make_runner, record_of
from naq_paper.cells.runners import release_gpu_memory as release
from naq_paper.cells.store import Store
from naq_paper.cells.workers import Changed, Order, Worker


def run(cells, store, *, listener=None, **setup):
    return make_runner("local").run(cells, store, Setup(**setup), listener)


def test_every_cell_is_computed_once_and_in_order(store, empties, key_of):
    cells, heard = empties(5), []
    outcome = run([*cells, cells[0]], store, listener=lambda phase, facts: heard.append((phase, facts)))
    assert outcome.done == cells and outcome.complete
    assert heard[0] == ("plan", {"cells": 5, "todo": 5, "skipped": 0, "left": 0})
    assert [phase for phase, _ in heard[1:]] == ["begun", "finished"] * 5
    assert heard[-1][1]["key"] == key_of(cells[-1]) and heard[-1][1]["state"] == "done"
    assert len({facts["cell"] for _, facts in heard[1:]}) == 5, "every cell has a title of its own"
    again = run(cells, store)
    assert again.skipped == cells and not again.done and again.complete
    assert list((store.folder / "claims").iterdir()) == list((store.folder / "running").iterdir()) == []
    found = store.get(key_of(cells[3]))
    assert found.result == {"number": 3} and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found.finished)
    assert {"processor", "cores", "threads", "platform", "device", "versions"} == set(found.machine)
    text = str(found.to_json())
    assert os.uname().nodename not in text and str(store.folder) not in text


def test_a_failed_cell_keeps_its_error_and_is_retried_on_request_only(store, measurement, key_of):
    weather = ["rain"]

    def outing(config, context):
        if weather[0] == "rain":
            raise OptionError("it rains; wait.")
        return {"sun": 1}

    cell = measurement(outing)
    outcome = run([cell], store)
    assert [failure.sentence for failure in outcome.failed] == ["it rains; wait."] and not outcome.complete
    assert store.failure(key_of(cell)).error == "it rains; wait."
    weather[0] = "sun"
    left = run([cell], store)
    assert not left.failed and not left.done and [each.sentence for each in left.left] == ["it rains; wait."]
    assert run([cell], store, retry=True).done == [cell]
    assert store.failure(key_of(cell)) is None and store.get(key_of(cell)).result == {"sun": 1}


def crash(config, context):
    raise ZeroDivisionError("a\nlong story")


def leave(config, context):
    raise SystemExit(3)


def starve(config, context):
    raise MemoryError


@pytest.mark.parametrize(("compute", "sentence"), [
    (crash, r"ZeroDivisionError: a long story \(test_runners\.py, line \d+, in crash\)"), (leave, r"SystemExit: 3 .*"),
    (starve, r"MemoryError: no message .*"), (lambda config, context: {"accuracy": float("nan")}, r"ValueError: .*"),
    (lambda config, context: {"accuracy": object()}, r"TypeError: .*"),
    (lambda config, context: None, r"TypeError: .*"),
])  # fmt: skip
def test_whatever_goes_wrong_fails_only_its_cell(store, measurement, empties, key_of, compute, sentence):
    bad, good = measurement(compute), empties(1)
    outcome = run([bad, *good], store)
    assert outcome.done == good and re.fullmatch(sentence, outcome.failed[0].sentence)
    assert store.failure(key_of(bad)).error == outcome.failed[0].sentence


def test_a_cell_whose_data_is_not_there_fails_without_a_record(store, empties):
    outcome = run([Cell("empty", {"dataset": "no-graph"}), Cell("no-measurement", {}), *empties(1)], store)
    assert len(outcome.done) == 1 and list(store.failures()) == []
    words = [failure.sentence for failure in outcome.failed]
    assert "no-graph" in words[0] and "no-measurement" in words[1]


def test_ctrl_c_keeps_the_checkpoints_and_releases_the_locks(store, measurement, empties, key_of):
    def stepwise(config, context):
        file = context.scratch / "step"
        if file.exists():
            return {"resumed from": file.read_text()}
        file.parent.mkdir()
        file.write_text("7")
        raise KeyboardInterrupt

    cell, (first, last) = measurement(stepwise), empties(2)
    outcome = run([first, cell, last], store)
    assert outcome.stopped and outcome.done == [first] and not outcome.complete and not outcome.failed
    assert store.lock_file(key_of(cell)).exists() and list(store.failures()) == []
    again = run([first, cell, last], store)
    assert again.done == [cell, last] and store.get(key_of(cell)).result == {"resumed from": "7"}
    assert list((store.folder / "running").iterdir()) == list((store.folder / "claims").iterdir()) == []


def test_checkpoints_of_a_failed_cell_go_unless_memory_ran_out(store, measurement, key_of):
    def fills(config, context):
        context.scratch.mkdir()
        raise MemoryError if config["large"] else OptionError("no.")

    cells = [measurement(fills, large=True), measurement(fills, large=False)]
    run(cells, store)
    assert [path.name for path in (store.folder / "running").iterdir()] == [key_of(cells[0])]


def test_a_busy_cell_is_reported_and_asked_for_again(store, empties, key_of):
    cells, other = empties(3), Store(store.folder)
    other.prepare()
    held = [other.lock(key_of(cell)) for cell in cells[:2]]

    def listener(phase, facts):
        if phase == "finished" and facts["key"] == key_of(cells[2]):
            held[0].release()

    outcome = run(cells, store, listener=listener)
    assert outcome.done == [cells[2], cells[0]] and outcome.busy == [cells[1]] and not outcome.complete
    held[1].release()
    assert run(cells, store).done == [cells[1]]


def test_three_runners_share_the_work_and_compute_nothing_twice(store, measurement):
    computed, lock, outcomes = [], threading.Lock(), []

    def count(config, context):
        with lock:
            computed.append(config["number"])
        threading.Event().wait(0.003)
        return {"number": config["number"]}

    cells = [measurement(count, number=number) for number in range(40)]
    work = lambda order: outcomes.append(run(order, Store(store.folder)))  # noqa: E731
    threads = [threading.Thread(target=work, args=(order,)) for order in (cells, cells[::-1], cells)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(computed) == list(range(40)) and sum(len(outcome.done) for outcome in outcomes) == 40
    assert not [failure for outcome in outcomes for failure in outcome.failed + outcome.left]
    assert [len(o.done) + len(o.skipped) + len(o.busy) for o in outcomes] == [40, 40, 40]


def test_a_worker_that_finds_another_identity_computes_nothing(tmp_path, empties):
    (cell,) = empties(1)
    files = (str(tmp_path / "scratch"), str(tmp_path / "lock"), {}, None)
    with pytest.raises(Changed):
        Worker().compute(Order(cell, cell.title, Identity("other"), *files))
    assert Worker().compute(Order(cell, cell.title, identify(cell, DatasetCache()), *files)).result == {"number": 0}


def test_a_worker_that_does_not_see_the_lock_keeps_checkpoints_in_another_folder(tmp_path, measurement):
    def write(config, context):
        context.scratch.mkdir(exist_ok=True)
        return {"folder": str(context.scratch)}

    cell = measurement(write)
    lock, scratch = tmp_path / "lock", tmp_path / "scratch"
    order = Order(cell, cell.title, identify(cell, DatasetCache()), str(scratch), str(lock), {}, None)
    assert Worker().compute(order).result["folder"] != str(scratch) and not scratch.exists()
    lock.touch()
    assert Worker().compute(order).result["folder"] == str(scratch) and scratch.exists()


def test_a_store_that_cannot_be_written_to_ends_the_run(tmp_path, empties):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        run(empties(1), Store(tmp_path / "file" / "below"))


def test_a_worker_is_given_the_next_cell_of_the_dataset_it_holds(store):
    store.prepare()
    pending = Pending(store, Setup(), Outcome(), lambda phase, facts: None)
    pending.todo += [Planned(Cell("w", {"dataset": name, "n": n}), Identity("")) for n, name in enumerate("abab")]
    given = [pending.next(["b"]) for _ in range(3)] + [pending.next()]
    assert [(each.dataset, each.cell.config["n"]) for each in given] == [("b", 1), ("b", 3), ("a", 0), ("a", 2)]
    assert pending.next() is None
    pending.close()


@pytest.mark.parametrize(("given", "error", "word"), [
    (("proceses",), OptionError, "processes"), (("processes", 0), OptionError, "workers"),
    (("ray", 2), MissingDependency, r"naq\[ray\]"),
])  # fmt: skip
def test_engines_by_name(monkeypatch, given, error, word):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(error, match=word):
        make_runner(*given)


def test_gpu_memory_is_given_back_after_every_cell_if_a_gpu_was_used(monkeypatch):
    calls, used = [], [True]
    cuda = SimpleNamespace(is_initialized=lambda: used[0], empty_cache=lambda: calls.append("emptied"))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr("naq_paper.cells.runners.machine", lambda device: {})
    for config in ({"number": 1}, {"error": "made to fail."}):
        assert record_of(Cell("empty", config), Identity(""), None).done == ("number" in config)
    assert calls == ["emptied", "emptied"]
    used[0] = False
    release()
    monkeypatch.delitem(sys.modules, "torch")
    release()
    assert len(calls) == 2 and "torch" not in sys.modules
