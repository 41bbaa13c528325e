"""Worker processes and Ray actors: killed at any moment, they and their runner lose no finished cell."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

import methods_under_test as suite
from naq.errors import DataError, NaqError
from naq.io.npz import save_graph
from naq.threads import available_cores
from naq_paper.cells.cell import Cell
from naq_paper.cells.datasets import DatasetCache
from naq_paper.cells.runners import Setup, make_runner
from naq_paper.cells.store import Store
from naq_paper.measurements.train import train_cell
from naq_scale.engines import connect


@pytest.fixture(scope="module")
def runner():
    with make_runner("processes", 2) as runner:
        yield runner


def is_running(pid):
    """Whether the process exists and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


LONG = 600
"""Seconds after which something will not come about any more, on a machine that does much else; cells that are to be
stopped take longer."""


def wait_for(condition):
    until = time.monotonic() + LONG
    while not (found := condition()):
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.01)
    return found


def test_all_are_computed_with_a_share_of_the_cores_each(runner, store, empties, key_of):
    cells, heard = empties(30), []
    bad = empties(1, error="this is no day for it.")
    outcome = runner.run([*cells, *bad], store, listener=lambda phase, facts: heard.append((phase, facts)))
    assert sorted(cell.text for cell in outcome.done) == sorted(cell.text for cell in cells)
    assert [failure.sentence for failure in outcome.failed] == ["this is no day for it."]
    phases = Counter(phase for phase, _ in heard)
    assert phases == {"plan": 1, "begun": 31, "finished": 31}
    for record in store.records():
        assert record.machine["threads"] == max(1, available_cores() // 2)
    assert runner.run(cells, store).skipped == cells
    assert [path.stem for path in (store.folder / "claims").iterdir()] == [key_of(bad[0])]


@pytest.mark.parametrize(("shown", "expected"), [("", ["0", "1", "0"]), ("4, 7", ["4", "7", "4"])])
def test_workers_see_one_gpu_each_in_turn(monkeypatch, shown, expected):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    with make_runner("processes", 3, ["cuda:0", "cuda:1"]) as runner:

        def start():
            slot = runner._start()
            runner._slots.append(slot)
            return slot._executor.submit(os.getenv, "CUDA_VISIBLE_DEVICES").result()

        assert [start() for _ in range(3)] == expected
        runner._slots.pop(1).close()
        assert start() == expected[1], "the place of a worker that ended is taken"


def test_workers_find_data_where_this_process_does_and_stop_when_it_is_another(runner, store, tmp_path):
    paths = {"small": str(tmp_path / "small.npz")}
    save_graph(paths["small"], suite.community_graph(size=5))
    cell = Cell("empty", {"dataset": "small"})
    assert runner.run([cell], store, Setup(paths)).done == [cell]
    (record,) = store.records()
    assert record.identity.data == DatasetCache(paths).data_hash("small")
    save_graph(paths["small"], suite.community_graph(size=6))
    # this process reads the file as it is now, the workers go on with the graph that they hold
    runner._dataset_cache = DatasetCache(paths)
    with pytest.raises(DataError, match="the code or the data changed"):
        runner.run([cell], store, Setup(paths))
    assert runner.run([cell], store, Setup(paths)).done == [cell]
    assert len(list(store.records())) == 2 and list(store.failures()) == []
    assert list((store.folder / "claims").iterdir()) == []


def test_a_killed_worker_fails_its_own_cell_and_is_replaced(runner, store, empties, key_of, is_free):
    slow, cells = empties(1, seconds=10 * LONG)[0], empties(4)

    def kill():
        busy = wait_for(lambda: [slot for slot in runner._slots if slot.planned and slot.planned.cell == slow])
        busy[0].process.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    outcome = runner.run([slow, *cells], store)
    thread.join()
    assert len(outcome.done) == 4 and [failure.cell for failure in outcome.failed] == [slow]
    assert "the worker process died (signal 9)" in store.failure(key_of(slow)).error
    assert is_free(store, slow)
    assert len(runner.run(empties(6), store).done) == 2


CHILD = """
    import os, signal, sys
    from naq_paper.cells.cell import Cell
    from naq_paper.cells.runners import make_runner
    from naq_paper.cells.store import Store

    signal.signal(signal.SIGINT, signal.default_int_handler)

    def measurement(engine, folder, log, cells, seconds):
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def listener(phase, facts):
            os.write(file, f"{phase} {facts.get('key', '')}\\n".encode())

        with make_runner(engine, 1) as runner:
            return runner.run([Cell("empty", {"number": n, "seconds": seconds}) for n in range(cells)], Store(folder),
            listener=listener)
"""
ONCE = """
    outcome = measurement("processes", *sys.argv[1:3], 1, int(sys.argv[3]))
    print("stopped", outcome.stopped)
"""
AGAIN_AND_AGAIN = """
    import random, time
    from naq_paper.cells.datasets import DatasetCache, identify
    from naq_paper.measurements import MEASUREMENTS
    from naq_paper.cells.records import machine

    identify(Cell("empty", {}), DatasetCache()), MEASUREMENTS["empty"], machine()  # once for all children
    moments = random.Random(0)

    def lines():
        return open(sys.argv[2]).read().count("\\n") if os.path.exists(sys.argv[2]) else 0

    for _ in range(20):
        wanted = lines() + moments.randrange(6)
        if (child := os.fork()) == 0:
            measurement("local", *sys.argv[1:3], 60, 0.005)
            os._exit(0)
        while lines() < wanted and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            time.sleep(0.0005)
        time.sleep(moments.uniform(0, 0.01))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with open(sys.argv[2], "a") as log:
            log.write("killed \\n")
"""


def start(script, *arguments):
    code = textwrap.dedent(CHILD) + textwrap.dedent(script)
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def test_a_runner_killed_twenty_times_loses_no_finished_cell(tmp_path, empties):
    store, log, cells = Store(tmp_path / "results"), tmp_path / "log", empties(60, seconds=0.005)
    child = start(AGAIN_AND_AGAIN, store.folder, log)
    _, errors = child.communicate(timeout=LONG)
    assert child.returncode == 0, errors
    lines = log.read_text().splitlines()
    assert lines.count("killed ") == 20
    reported = [line.split()[1] for line in lines if line.startswith("finished")]
    kept = {record.key for record in store.records()}
    assert reported and set(reported) <= kept and len(reported) == len(set(reported))
    assert store.set_aside == []
    begun = Counter(line.split()[1] for line in lines if line.startswith("begun"))
    assert not [key for key, times in begun.items() if times > 1 and key in reported and _after(lines, key)]
    last = make_runner("local").run(cells, store)
    assert last.complete and len(last.skipped) == len(kept) and len(list(store.records())) == 60
    assert list((store.folder / "claims").iterdir()) == [] == list(store.failures())


def _after(lines, key):
    """Whether a cell was begun again after it was reported as finished."""
    return f"begun {key}" in lines[lines.index(f"finished {key}") :]


def started_by(pid):
    """Processes that any thread of this one started."""
    return [int(one) for file in Path(f"/proc/{pid}/task").glob("*/children") for one in file.read_text().split()]


@pytest.mark.slow
def test_workers_end_with_their_runner(tmp_path, empties, is_free):
    """When it is killed, and when Ctrl-C stops it; either way the locks are free afterwards."""
    (cell,) = empties(1, seconds=10 * LONG)
    ends = {"killed": signal.SIGKILL, "stopped": signal.SIGINT}
    children = {name: start(ONCE, tmp_path / name, tmp_path / f"{name}.log", 10 * LONG) for name in ends}
    for name, child in children.items():
        wait_for(lambda n=name: (log := tmp_path / f"{n}.log").exists() and "begun" in log.read_text())
        store = Store(tmp_path / name)
        assert not is_free(store, cell)
        wait_for(lambda n=child.pid: started_by(n))  # a cell may be begun before its worker is there
        workers = started_by(child.pid)
        assert all(is_running(pid) for pid in workers)
        # Ctrl-C on a terminal reaches the whole group, a kill only the runner
        (os.killpg if name == "stopped" else os.kill)(child.pid, ends[name])
        output, errors = child.communicate(timeout=LONG)
        wait_for(lambda pids=workers: not any(is_running(pid) for pid in pids))
        assert output.split() == ([] if name == "killed" else ["stopped", "True"]), errors
        assert is_free(store, cell) and list(store.records()) == list(store.failures()) == []


@pytest.mark.slow
def test_the_number_of_workers_changes_no_bit(tmp_path, monkeypatch):
    """One worker has two threads, two workers have one each."""
    monkeypatch.setattr("naq_paper.cells.workers.available_cores", lambda: 2)
    cell = train_cell("debian", "naq-feat/protonet", episodes=16, evaluate_every=8)
    found = {}
    for workers in (1, 2):
        store = Store(tmp_path / str(workers))
        with make_runner("processes", workers) as runner:
            assert runner.run([cell], store).complete
        (record,) = store.records()
        assert record.machine["threads"] == 2 // workers
        result = record.result
        found[workers] = (
            {head: each["per_task"] for head, each in result["evaluations"].items()},
            result["history"]["valid_accuracy"],
            result["history"]["loss"],
        )
    assert found[1] == found[2]


ray_warns = pytest.mark.filterwarnings("ignore")
"""Ray's own warnings are not ours to mend."""


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("ray")
    with make_runner("ray", 2) as runner:
        yield runner
    assert not sys.modules["ray"].is_initialized()


@ray_warns
@pytest.mark.slow
def test_a_killed_actor_fails_its_own_cell_and_is_replaced(cluster, store, empties, key_of, is_free):
    slow, cells = empties(1, seconds=6000)[0], empties(4)
    cluster.run(cells[:2], store)
    import ray

    pids = {slot: ray.get(slot.actor.__ray_call__.remote(lambda _: os.getpid())) for slot in cluster._slots}

    def kill():
        while not (found := [s for s in cluster._slots if s.planned is not None and s.planned.cell == slow]):
            time.sleep(0.01)
        os.kill(pids[found[0]], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    outcome = cluster.run([slow, *cells], store)
    thread.join()
    assert len(outcome.done) == 2 and [failure.cell for failure in outcome.failed] == [slow]
    assert "the worker process died" in store.failure(key_of(slow)).error
    assert is_free(store, slow)
    assert len(cluster.run(empties(6), store).done) == 2


@ray_warns
@pytest.mark.slow
def test_ctrl_c_releases_the_locks_and_ends_the_cluster(cluster, store, empties, key_of, is_free):
    cells = empties(2, seconds=6000)

    def listener(phase, facts):
        if phase == "begun" and facts["key"] == key_of(cells[1]):
            threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()

    outcome = cluster.run(cells, store, listener=listener)
    assert outcome.stopped and not outcome.done and not outcome.failed
    assert all(is_free(store, cell) for cell in cells)
    assert not sys.modules["ray"].is_initialized()


@ray_warns
def test_an_address_that_does_not_answer_is_one_sentence(monkeypatch):
    monkeypatch.setattr(pytest.importorskip("ray"), "is_initialized", lambda: False)  # whatever other tests started
    monkeypatch.setattr("naq_scale.engines.ANSWER", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (1, silent.getsockname()[1]):
            monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
            with pytest.raises(NaqError, match="no Ray cluster answers"):
                make_runner("ray", 1)


def test_without_an_address_another_cluster_is_started():
    asked = {}
    connect(SimpleNamespace(init=asked.update), 3, None)
    assert asked["address"] == "local" and asked["num_cpus"] == 3  # else Ray joins whatever cluster runs, or ran, here
