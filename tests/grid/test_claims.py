"""A cell belongs to one process at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import asdict

import pytest

from naq.errors import DataError
from naq.grid import claims as module
from naq.grid.claims import SILENT, Claims, Owner, process_start, this_host

ELSEWHERE = Owner("elsewhere", 1, "1", "t" * 32)


@pytest.fixture
def claims(tmp_path):
    claims = Claims(tmp_path)
    yield claims
    claims.release_all()


@pytest.fixture
def dead(tmp_path):
    """An owner whose process ended a moment ago and is not waited for yet: a zombie."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = Owner(this_host(), process.pid, process_start(process.pid), "d" * 32)
    assert owner.alive()
    process.kill()
    while process_start(process.pid) is not None:
        time.sleep(0.001)
    yield owner
    process.communicate()


def write(claims, name, owner, *, age=0.0):
    path = claims.folder / name
    path.write_text(json.dumps(asdict(owner)))
    os.utime(path, (time.time() - age,) * 2)


def test_one_takes_and_the_other_waits_for_the_release(claims):
    other = Claims(claims.folder)
    with claims.take("key") as held:
        assert other.take("key") is None and other.owner("key") == held.owner
        assert other.take("another") is not None
    assert other.take("key") is not None
    other.release_all()
    assert list(claims.folder.iterdir()) == []


def test_the_claim_of_a_dead_process_is_taken_over(claims, dead):
    write(claims, "key", dead)
    assert claims.owner("key") is None
    held = claims.take("key")
    assert held is not None and Claims(claims.folder).take("key") is None
    held.release()
    assert list(claims.folder.iterdir()) == []


def test_a_number_that_another_process_has_now_is_not_mistaken(claims):
    write(claims, "key", Owner(this_host(), os.getpid(), "an earlier start", "e" * 32))
    assert claims.take("key") is not None


def test_another_host_keeps_its_claim_while_its_heart_beats(claims):
    write(claims, "key", ELSEWHERE, age=SILENT / 2)
    assert claims.take("key") is None
    write(claims, "key", ELSEWHERE, age=SILENT * 2)
    assert claims.take("key") is not None


def test_a_claim_that_cannot_be_read_is_judged_by_its_age(claims):
    (claims.folder / "key").write_text("")
    assert claims.take("key") is None
    os.utime(claims.folder / "key", (0, 0))
    assert claims.take("key") is not None


def test_the_heart_beats(claims, monkeypatch):
    monkeypatch.setattr(module, "BEAT", 0.02)
    held = claims.take("key")
    os.utime(held.path, (0, 0))
    until = time.monotonic() + 5
    while held.path.stat().st_mtime == 0 and time.monotonic() < until:
        time.sleep(0.01)
    assert held.path.stat().st_mtime > 0


def test_a_release_leaves_the_claim_of_a_new_owner(claims):
    """Whoever was silent for so long that its cell was taken over does not free it under the new owner."""
    held = claims.take("key")
    write(claims, f".key.{held.owner.token}", ELSEWHERE)
    held.release()
    assert (claims.folder / "key").exists() and claims.take("key") is None


def test_takers_of_a_stale_claim_never_hold_it_together(claims, dead):
    """Many takers, again and again, each time upon a claim of the dead."""
    holders, worst, wins = 0, 0, 0
    lock, start = threading.Lock(), threading.Barrier(4)

    def contend():
        nonlocal holders, worst, wins
        mine = Claims(claims.folder)
        for _ in range(40):
            if start.wait() == 0:
                for path in claims.folder.iterdir():
                    path.unlink()
                write(claims, "key", dead)
            start.wait()
            for _ in range(5):
                if (held := mine.take("key")) is not None:
                    with lock:
                        holders += 1
                        wins += 1
                        worst = max(worst, holders)
                    time.sleep(0.0002)
                    with lock:
                        holders -= 1
                    held.release()
            start.wait()
        mine.release_all()

    threads = [threading.Thread(target=contend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert worst == 1 and wins >= 40


def test_a_successor_of_a_chain_that_was_released_meanwhile_does_not_count(claims, dead, monkeypatch):
    """The whole chain goes and is made anew between a taker's look and its link."""
    write(claims, "key", dead)
    create, other = Claims._create, Claims(claims.folder)

    def late(self, path, owner):
        monkeypatch.setattr(Claims, "_create", create)
        other.clear("key")
        assert other.take("key") is not None
        return create(self, path, owner)

    monkeypatch.setattr(Claims, "_create", late)
    assert claims.take("key") is None
    assert [path.name for path in claims.folder.iterdir()] == ["key"]
    other.release_all()


def test_ctrl_c_while_a_claim_is_made_leaves_none(claims, monkeypatch):
    create = Claims._create

    def interrupted(self, path, owner):
        create(self, path, owner)
        raise KeyboardInterrupt

    monkeypatch.setattr(Claims, "_create", interrupted)
    with pytest.raises(KeyboardInterrupt):
        claims.take("key")
    assert claims.claimed() == ["key"]
    claims.release_all()
    assert claims.claimed() == []


def test_sweep_removes_links_that_lead_nowhere(claims, dead):
    write(claims, "key", dead)
    write(claims, f".key.{dead.token}", ELSEWHERE)
    write(claims, ".key.lost", ELSEWHERE, age=2 * SILENT)
    os.utime(claims.folder / f".key.{dead.token}", (0, 0))
    claims.sweep()
    assert sorted(path.name for path in claims.folder.iterdir()) == [f".key.{dead.token}", "key"]


def test_without_hard_links_it_works_too(claims, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    assert claims.take("key") is not None and Claims(claims.folder).take("key") is None


def test_a_folder_that_is_not_there_gives_one_sentence(tmp_path):
    with pytest.raises(DataError, match="choose a folder you may write to"):
        Claims(tmp_path / "absent").take("key")
