"""``naq reproduce`` and ``naq report``, in this process: an interpreter takes seconds to start."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

import methods_under_test as suite
import naq
from naq.cli.main import main
from naq.io import save_graph
from naq.tasks import ClassSplit, save_task_file
from naq_paper.cells.store import Store
from naq_paper.cli.reproducing import devices_of
from naq_paper.experiments.experiment import EXPERIMENTS

SPLIT = ClassSplit(tuple(range(6)), tuple(range(6, 11)), tuple(range(11, 16)))


@dataclass(frozen=True)
class Shown:
    code: int
    out: str
    err: str


@pytest.fixture
def run(monkeypatch, capsys):
    """The program with these words; what it wrote, and its exit code."""
    monkeypatch.setenv("COLUMNS", "140")

    def call(*words: object) -> Shown:
        monkeypatch.setattr(sys, "argv", ["naq", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main()
        written = capsys.readouterr()
        return Shown(int(stopped.value.code or 0), written.out, written.err)

    return call


@pytest.fixture(scope="module")
def graph_file(tmp_path_factory) -> Path:
    """Sixteen communities with few tasks of five classes."""
    graph = suite.community_graph(size=16, classes=16)
    folder = tmp_path_factory.mktemp("graph")
    sets = [
        naq.sample_tasks(graph, way=5, shot=1, queries=3, count=count, classes=SPLIT.part(part), part=part)
        for part, count in (("valid", 8), ("test", 12))
    ]
    save_task_file(folder / "communities.tasks.npz", sets, SPLIT)
    return save_graph(folder / "communities.npz", graph)


def small(graph_file: Path, out: Path, *more: object) -> tuple[object, ...]:
    words = ("--dataset", graph_file, "--quick", "--set", "protonet.latent=8", "--no-cache", "--out", out)
    return ("reproduce", "label-noise", *words, *more)


WRONG = [  # what is given, and what the one sentence names
    ("label-nois", "label-nois"),
    ("label-noise --dataset debiann", "debiann"),
    ("label-noise --dataset no/such.npz", "no/such.npz"),
    ("label-noise --budget qick", "budget"),
    ("label-noise --quick --budget paper", "--budget"),
    ("label-noise --learner protonett", "learner"),
    ("label-noise --profile papper", "profile"),
    ("label-noise --episode querys=5", "querys"),
    ("label-noise --episode queries=few", "queries"),
    ("label-noise --episode queries", "NAME=VALUE"),
    ("label-noise --json", "--plan"),
    ("label-noise --set protonet.latnt=8", "latnt"),
    ("label-noise --set latent=8", "--set"),
    ("label-noise --set protonett.lr=1", "protonett"),
    ("label-noise --set protonet.lr=fast", "lr"),
    ("label-noise --engine lokal", "engine"),
    ("label-noise --workers 0", "workers"),
    ("label-noise --seeds -1", "seeds"),
    ("label-noise --way 1", "ways"),
    ("label-noise --features tf-idf", "features"),
    ("label-noise --data no-folder", "--data"),
    ("label-noise --dataset GRAPH --select labels", "select"),
    ("label-noise --dataset GRAPH --head logistik", "logistik"),
    ("label-noise --dataset GRAPH --device abacus", "device"),
    ("label-noise --dataset GRAPH --device cuda:0,cpu", "device"),
    ("label-noise --dataset GRAPH --device cuda:1,cuda:1", "device"),
    ("label-noise --dataset GRAPH --device cuda:0,cuda:1 --engine ray", "device"),
    ("label-noise --dataset GRAPH --device cuda:0,cuda:1", "device"),
    ("methods --dataset GRAPH -m naq-feet/protonet", "naq-feet"),
    ("methods --dataset FEW --plan", "few"),
    ("label-noise --dataset BARE --plan", "labels"),
    ("label-noise --dataset GRAPH --dataset OTHER", "communities"),
]


@pytest.mark.parametrize(("words", "named"), WRONG)
def test_a_wrong_use_is_one_sentence_and_nothing_is_written(run, graph_file, tmp_path, monkeypatch, words, named):
    other, few, bare = (tmp_path / "graphs" / name for name in ("communities.npz", "few.npz", "bare.npz"))
    if re.search("OTHER|FEW|BARE", words):
        save_graph(other, suite.community_graph(size=4))
        save_graph(few, suite.community_graph(size=16, classes=6))
        save_graph(bare, suite.community_graph(size=8).without_labels())
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    known = {"GRAPH": graph_file, "OTHER": other, "FEW": few, "BARE": bare}
    shown = run("reproduce", *(known.get(word, word) for word in words.split()))
    assert shown.code == 2 and named in shown.err and "Traceback" not in shown.err
    assert "GRAPH" in words or shown.err.count("\n") <= 2
    assert list(place.iterdir()) == []


def test_experiments_are_listed(run):
    shown = run("list", "experiments")
    assert shown.code == 0
    assert all(name in shown.out for name in list(EXPERIMENTS))
    assert max(map(len, shown.out.splitlines())) <= 140
    rows = json.loads(run("list", "experiments", "--json").out)
    assert [row["name"] for row in rows] == list(EXPERIMENTS)
    assert all(row["what"].endswith("?") and row["in_the_paper"] and row["kind"] for row in rows)


def test_a_plan_writes_nothing(run, graph_file, tmp_path):
    shown = run(*small(graph_file, tmp_path / "out", "--plan"))
    assert shown.code == 0, shown.err
    assert "label-noise on communities: What happens" in shown.out and "Budget quick: " in shown.out
    assert "Profile default: " in shown.out
    assert "5 cells, 0 done, 5 to compute." in shown.out
    assert "  communities supervised/protonet 5-way 1-shot label-noise" in shown.out
    assert not (tmp_path / "out").exists()


def test_a_plan_as_json_has_every_cell_with_its_whole_configuration(run, graph_file, tmp_path):
    words = ("--profile", "paper", "--episode", "queries=3", "--learner", "protonet", "--learner", "maml", "--json")
    shown = run(*small(graph_file, tmp_path / "out", "--plan", *words))
    assert shown.code == 0, shown.err
    plan = json.loads(shown.out)
    assert set(plan) == {"requests", "cells"} and not (tmp_path / "out").exists()
    [request] = plan["requests"]
    assert request["profile"] == "paper" and request["episode"] == {"queries": 3}
    assert request["learners"] == ["protonet", "maml"] and request["options"] == {"protonet": {"latent": 8}}
    assert plan["cells"] and all(
        set(cell) == {"title", "measurement", "config", "done"} and not cell["done"] for cell in plan["cells"]
    )
    by_method = {cell["config"]["method"]: cell["config"] for cell in plan["cells"]}
    diff = by_method["naq-diff/protonet"]
    assert diff["options"] == {"latent": 8, "lr": 1e-4} and diff["features"] == "raw" and diff["episodes"] == 16
    assert diff["episode"]["queries"] == 3 == by_method["supervised/protonet"]["episode"]["queries"]
    assert diff["episode"]["self_loops"] is False and diff["episode"]["fill"] == "lowest"
    assert "episode" not in by_method["smooth"]
    assert run(*small(graph_file, tmp_path / "out", "--plan", *words)).out == shown.out, "the same at every call"


def test_compute_then_nothing_then_report_then_pack(run, graph_file, tmp_path, monkeypatch):
    out = tmp_path / "out"
    shown = run(*small(graph_file, out))
    assert shown.code == 0, shown.err
    assert "Cells: 5 computed." in shown.err and "5/5 communities" in shown.err
    assert "Label noise" in shown.out and "ProtoNet (Supervised)" in shown.out
    plan = run(*small(graph_file, out, "--plan"))
    assert "5 cells, 5 done, 0 to compute." in plan.out
    before = {path: path.stat().st_mtime_ns for path in (out / "cells").iterdir()}

    again = run(*small(graph_file, out, "--device", "cpu"))
    assert again.code == 0 and "Cells: 5 there before." in again.err
    assert {path: path.stat().st_mtime_ns for path in (out / "cells").iterdir()} == before

    page = tmp_path / "docs" / "page.html"
    shown = run("report", out, "--out", page, "--title", "Mine <b>", "--pack", tmp_path / "all.naq")
    assert shown.code == 0, shown.err
    assert f"Written: {page}" in shown.out and "Packed: 5 results into" in shown.out
    html = page.read_text(encoding="utf-8")
    assert "Mine &lt;b&gt;" in html and html.count("ProtoNet (NaQ-Feat)") > 2
    assert {path.name for path in (page.parent / "tables").iterdir()} == {
        f"label-noise-communities.{kind}" for kind in ("csv", "md", "tex")
    }
    command = re.search(r"How do I run it again.*?<code>(.*?)</code>", html, re.DOTALL)
    assert command is not None and str(graph_file) in command[1] and str(out) in command[1]

    packed = tmp_path / "elsewhere" / "page.html"
    shown = run("report", tmp_path / "all.naq", "--out", packed)
    assert shown.code == 0, shown.err
    tables = [(where.parent / "tables" / "label-noise-communities.csv").read_text() for where in (page, packed)]
    assert tables[0] == tables[1]
    assert str(tmp_path) not in packed.read_text(encoding="utf-8"), "a packed file names no folder of this machine"
    shown = run("report", tmp_path / "all.naq", "--pack", tmp_path / "twice.naq")
    assert shown.code == 2 and "packed already" in shown.err


@pytest.mark.parametrize(
    ("words", "named"),
    [("nowhere", "nowhere"), (".", "requests.json"), ("junk.naq", "junk.naq"), (". --out .", "--out")],
)
def test_wrong_uses_of_report(run, tmp_path, monkeypatch, words, named):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "junk.naq").write_bytes(b"junk")
    shown = run("report", *words.split())
    assert shown.code == 2 and named in shown.err and "Traceback" not in shown.err
    assert [path.name for path in tmp_path.iterdir()] == ["junk.naq"]


def test_a_cell_that_fails_is_said_kept_and_tried_again_on_request(run, graph_file, tmp_path, monkeypatch):
    from naq_paper.measurements import MEASUREMENTS

    def broken(config, context):
        if config["method"] == "smooth":
            return train(config, context)
        raise RuntimeError("[/red] a bracket")

    train = MEASUREMENTS["train"]
    monkeypatch.setitem(MEASUREMENTS._items, "train", broken)
    out = tmp_path / "out"
    shown = run(*small(graph_file, out))
    assert shown.code == 1 and "Traceback" not in shown.err
    assert "Cells: 1 computed, 4 failed." in shown.err and "RuntimeError: [/red] a bracket" in shown.err
    assert "[/red] a bracket" in (out / "report.html").read_text(encoding="utf-8")
    again = run(*small(graph_file, out))
    assert "4 failed before and left alone (--retry computes them again)" in again.err


def test_options_that_are_in_no_cell_are_named(run, graph_file, tmp_path):
    words = ("--dataset", graph_file, "--quick", "--way", "2", "--plan", "--out", tmp_path / "out")
    given = ("--set", "bgrl.lr=1e-3", "--set", "protonet.lr=1e-3", "--episode", "apart=1")
    shown = run("reproduce", "queries", *words, *given, "--episode", "queries=5")
    assert shown.code == 0 and "--set bgrl: no cell of queries trains it." in shown.err
    assert "--episode queries=5: no cell of queries takes it" in shown.err, "the analysis has its own numbers"
    assert "protonet" not in shown.err and "apart" not in shown.err
    both = run("reproduce", "queries", "training-way", *words, "--episode", "queries=5")
    assert both.code == 0 and "takes it" not in both.err, "training-way does"
    table = run("reproduce", "metrics", *words, "--episode", "fill=lowest")
    assert table.code == 0 and "takes it" not in table.err, "tables of neighbours do"


def test_ctrl_c_keeps_finished_cells_and_says_how_to_go_on(graph_file, tmp_path):
    out = tmp_path / "out"
    words = ["reproduce", "methods", "-m", "smooth", "-m", "naq-feat/protonet", "--shot", "1", "--seeds", "1"]
    words += ["--dataset", str(graph_file), "--episodes", "30000", "--budget", "paper", "--no-cache", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-m", "naq", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "140"},
    )  # fmt: skip

    def at_the_second_cell() -> bool:
        done = {path.stem for path in (out / "cells").glob("[!.]*.json")}
        return bool(done) and bool({path.stem for path in (out / "claims").glob("[!.]*")} - done)

    deadline = time.monotonic() + 1200
    while process.poll() is None and not at_the_second_cell() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=1200)
    assert process.returncode == 130, errors
    assert "Cells: 1 computed." in errors and "Traceback" not in errors
    assert "Stopped. Finished cells are kept; go on with:" in errors
    assert errors.splitlines()[-1].strip().startswith("naq reproduce methods -m smooth")
    [left] = (out / "claims").iterdir()
    store = Store(out)
    lock = store.lock(left.stem)
    assert len(list((out / "cells").iterdir())) == 1 and lock is not None, "the lock of the stopped cell is free"
    store.unlock(left.stem, lock)
    assert "1 cell has not been run" in (out / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("engine", ["local", "processes", "ray"])
def test_one_device_is_taken_as_it_is(engine):
    assert devices_of("cpu", engine) == ["cpu"] and devices_of("cuda:1", engine) == ["cuda:1"]
