"""Cells on a local Ray cluster."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from types import SimpleNamespace

import pytest

from naq.errors import NaqError
from naq.threads import available_cores
from naq_paper.cells.datasets import DatasetCache, identify
from naq_paper.cells.runners import Setup, make_runner
from naq_paper.cells.store import Store
from naq_scale.engines import connect

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]  # Ray's own warnings are not ours to mend


@pytest.fixture(scope="module")
def runner():
    with make_runner("ray", 2) as runner:
        yield runner
    assert not ray.is_initialized()


def key_of(cell):
    return identify(cell, DatasetCache()).key(cell)


def is_free(store, cell):
    """Whether no process holds the lock of a cell."""
    held = Store(store.folder).lock(key_of(cell))
    if held is not None:
        held.release()
    return held is not None


def test_an_address_that_does_not_answer_is_one_sentence():
    with pytest.raises(NaqError, match="no Ray cluster answers at 127"):
        make_runner("ray", 1, "127.0.0.1:1")
    with pytest.raises(NaqError, match="address is 'x', but the engine is processes"):
        make_runner("processes", 1, "x")


def test_all_are_computed_and_filed_by_this_process(runner, store, empties, capfd):
    cells, bad, heard = empties(20), empties(1, error="this is no day for it."), []
    outcome = runner.run([*cells, *bad], store, listener=lambda phase, facts: heard.append(phase))
    assert len(outcome.done) == 20 and [each.sentence for each in outcome.failed] == ["this is no day for it."]
    assert heard == ["plan", *heard[1:]] and heard.count("begun") == heard.count("finished") == 21
    assert {record.result["number"] for record in store.records()} == set(range(20))
    assert {record.machine["threads"] for record in store.records()} == {max(1, available_cores() // 2)}
    again = runner.run([*cells, *bad], store)
    assert again.skipped == cells and len(again.left) == 1
    assert len(runner.run(bad, store, Setup(retry=True)).failed) == 1
    assert [path.stem for path in (store.folder / "claims").iterdir()] == [key_of(bad[0])]
    assert list((store.folder / "running").iterdir()) == []
    assert capfd.readouterr().out == ""


def test_a_killed_actor_fails_its_own_cell_and_is_replaced(runner, store, empties):
    slow, cells = empties(1, seconds=6000)[0], empties(4)
    runner.run(cells[:2], store)
    pids = {slot: ray.get(slot.actor.__ray_call__.remote(lambda _: os.getpid())) for slot in runner._slots}

    def kill():
        while not (found := [s for s in runner._slots if s.planned is not None and s.planned.cell == slow]):
            time.sleep(0.01)
        os.kill(pids[found[0]], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    outcome = runner.run([slow, *cells], store)
    thread.join()
    assert len(outcome.done) == 2 and [failure.cell for failure in outcome.failed] == [slow]
    assert "the worker process died" in store.failure(key_of(slow)).error
    assert is_free(store, slow)
    assert len(runner.run(empties(6), store).done) == 2


def test_ctrl_c_releases_the_locks_and_ends_the_cluster(runner, store, empties):
    cells = empties(2, seconds=6000)

    def listener(phase, facts):
        if phase == "begun" and facts["key"] == key_of(cells[1]):
            threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()

    outcome = runner.run(cells, store, listener=listener)
    assert outcome.stopped and not outcome.done and not outcome.failed
    assert all(is_free(store, cell) for cell in cells)
    assert not ray.is_initialized()


def test_a_port_that_accepts_and_says_nothing_is_one_sentence(monkeypatch):
    monkeypatch.setattr("naq_scale.engines.ANSWER", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(NaqError, match=f"no Ray cluster answers at {address} .nothing came within 0.2 s.; start"):
            make_runner("ray", 1, address)


def test_without_an_address_a_cluster_of_its_own_is_started():
    asked = {}
    connect(SimpleNamespace(init=asked.update), 3, None)
    assert asked["address"] == "local" and asked["num_cpus"] == 3  # else Ray joins whatever cluster runs, or ran, here
