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
from naq_paper.experiments.experiment import EXPERIMENTS
from naq_paper.experiments.request import BUDGETS

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


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("label-nois",), "there is no table or analysis 'label-nois'; did you mean label-noise"),
        (("label-noise", "--dataset", "debiann"), "there is no dataset 'debiann' (nearest: debian)"),
        (("label-noise", "--dataset", "no/such.npz"), "no/such.npz"),
        (("label-noise", "--budget", "qick"), "there is no budget 'qick'; did you mean quick"),
        (("label-noise", "--quick", "--budget", "paper"), "--quick and --budget paper exclude each other"),
        (("label-noise", "--learner", "protonett"), "--learner is 'protonett'; did you mean protonet"),
        (("label-noise", "--profile", "papper"), "there is no profile 'papper'; did you mean paper"),
        (("label-noise", "--episode", "querys=5"), "an episode has no option 'querys'; did you mean queries"),
        (("label-noise", "--episode", "queries=few"), "expected int"),
        (("label-noise", "--episode", "queries"), "expected NAME=VALUE"),
        (("label-noise", "--json"), "--json prints the plan of a request; give --plan too."),
        (("label-noise", "--set", "protonet.latnt=8"), "protonet has no option 'latnt'; did you mean latent"),
        (("label-noise", "--set", "latent=8"), "expected LEARNER.NAME=VALUE"),
        (("label-noise", "--set", "protonett.lr=1"), "--set names 'protonett'; did you mean protonet"),
        (("label-noise", "--set", "protonet.lr=fast"), "expected float"),
        (("label-noise", "--engine", "lokal"), "there is no engine 'lokal'; did you mean local"),
        (("label-noise", "--workers", "0"), "workers is 0"),
        (("label-noise", "--seeds", "-1"), "seeds is -1"),
        (("label-noise", "--way", "1"), "ways are [1]"),
        (("label-noise", "--features", "tf-idf"), "--features is 'tf-idf'; did you mean tfidf"),
        (("label-noise", "--data", "no-folder"), "--data is no-folder, which is no folder"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_written(run, tmp_path, monkeypatch, words, expected):
    monkeypatch.chdir(tmp_path)
    shown = run("reproduce", *words)
    assert shown.code == 2
    assert expected in shown.err and "Traceback" not in shown.err and shown.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (("--select", "labels"), "select is 'labels'"),
        (("--head", "logistik"), "logistik"),
        (("--device", "abacus"), "device is 'abacus', which cannot be used here"),
    ],
)
def test_mistakes_that_need_the_graph_are_said_before_anything_is_written(run, graph_file, tmp_path, more, expected):
    shown = run(*small(graph_file, tmp_path / "out", *more))
    assert shown.code == 2 and expected in shown.err and "Traceback" not in shown.err
    assert not (tmp_path / "out").exists()


def test_an_unknown_method_of_a_table(run, graph_file, tmp_path):
    shown = run("reproduce", "methods", "-d", graph_file, "-m", "naq-feet/protonet", "--out", tmp_path / "out")
    assert shown.code == 2 and "did you mean naq-feat/protonet" in shown.err and not (tmp_path / "out").exists()


def test_two_graphs_of_one_name_are_a_mistake(run, graph_file, tmp_path):
    other = save_graph(tmp_path / "communities.npz", suite.community_graph(size=4))
    shown = run(*small(graph_file, tmp_path / "out", "--dataset", other, "--plan"))
    assert shown.code == 2 and "two datasets are called 'communities'" in shown.err


def test_a_dataset_that_cannot_fill_a_table_is_left_out_with_a_sentence(run, tmp_path):
    few = save_graph(tmp_path / "few.npz", suite.community_graph(size=16, classes=6))
    shown = run("reproduce", "methods", "--dataset", few, "--plan", "--out", tmp_path / "out")
    assert shown.code == 2 and "methods has no setting that the classes of few can fill" in shown.err
    bare = save_graph(tmp_path / "bare.npz", suite.community_graph(size=8).without_labels())
    shown = run("reproduce", "label-noise", "--dataset", bare, "--plan", "--out", tmp_path / "out")
    assert shown.code == 2 and "label-noise needs labels, which bare does not have" in shown.err


def test_a_folder_of_graphs_serves_those_experiments_that_use_them(run, graph_file, tmp_path):
    (tmp_path / "cora_full.npz").write_bytes(graph_file.read_bytes())
    words = ("--data", tmp_path, "--quick", "--plan", "--out", tmp_path / "out")
    shown = run("reproduce", "label-noise", "ogbn-arxiv", *words)
    assert shown.code == 0, shown.err
    assert "label-noise on cora-full" in shown.out and "ogbn-arxiv is left out" in shown.err
    assert run("reproduce", "ogbn-arxiv", *words).code == 2


def test_experiments_are_listed(run):
    shown = run("list", "experiments")
    assert shown.code == 0
    assert all(name in shown.out for name in list(EXPERIMENTS))
    assert max(map(len, shown.out.splitlines())) <= 140
    rows = json.loads(run("list", "experiments", "--json").out)
    assert [row["name"] for row in rows] == list(EXPERIMENTS)
    assert all(row["what"].endswith("?") and row["in_the_paper"] and row["kind"] for row in rows)


@pytest.mark.parametrize("command", ["reproduce", "report"])
def test_help_explains_every_option(run, command):
    shown = run(command, "--help")
    assert shown.code == 0
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.out)
    names = re.findall(r"--[a-z]+", text)
    assert len(names) > (20 if command == "reproduce" else 3) and "Traceback" not in text


def test_the_help_of_budget_names_the_numbers_of_every_budget(run):
    text = re.sub(r"\x1b\[[0-9;]*m", "", run("reproduce", "--help").out)
    shown = re.search(r"--budget +NAME(.*?)--seeds", text, re.DOTALL)
    assert shown is not None
    words = " ".join(shown[1].replace("│", " ").split())
    for name, budget in BUDGETS.items():
        part = words.partition(f"{name}: ")[2].partition("; ")[0]
        assert f"{budget.episodes:,} episodes" in part, words
        seeds = (budget.table_seeds, budget.analysis_seeds)
        assert {(1, 1): "one seed", (5, 3): "five seeds for tables, three for analyses"}[seeds] in part, words
        assert not budget.patience or f"stopped after {budget.patience} validations" in part, words
        epochs = budget.epochs.values()
        assert not epochs or f"{min(epochs):,} to {max(epochs):,} epochs" in part, words


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


def test_two_budgets_in_one_folder_have_both_their_tables(run, graph_file, tmp_path):
    out = tmp_path / "out"
    words = ("-m", "smooth", "--way", "5", "--shot", "1")
    one = run("reproduce", "methods", "-d", graph_file, "--quick", *words, "--out", out)
    two = run("reproduce", "methods", "-d", graph_file, *words, "--out", out)
    assert one.code == two.code == 0, two.err
    names = {path.stem for path in (out / "tables").glob("methods-communities*.csv")}
    assert len(names) == 2


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("nowhere",), "nowhere does not exist"),
        ((".",), "holds no results of naq reproduce (no requests.json)"),
        (("junk.naq",), "junk.naq is not a readable file of packed results"),
        ((".", "--out", "."), "--out is the folder ."),
    ],
)
def test_mistakes_of_report(run, tmp_path, monkeypatch, words, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "junk.naq").write_bytes(b"junk")
    shown = run("report", *words)
    assert shown.code == 2 and expected in shown.err and "Traceback" not in shown.err
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


def test_failed_cells_of_one_title_say_what_tells_them_apart(run, graph_file, tmp_path):
    """Seven classes have two or three base classes: no supervised episodes of five or twenty."""
    words = ("--dataset", graph_file, "--quick", "--way", "2", "--set", "protonet.latent=8", "--no-cache")
    shown = run("reproduce", "training-way", *words, "--out", tmp_path / "out")
    failed = [line for line in shown.err.split("Cells:")[1].splitlines() if "supervised/protonet" in line]
    assert len(failed) == 2 and "(way=5)" in failed[0] and "(way=20)" in failed[1]


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


@pytest.mark.slow
def test_the_quick_form_of_label_scarcity_on_the_bundled_graph(run, tmp_path):
    out = tmp_path / "out"
    shown = run("reproduce", "label-scarcity", "--quick", "--dataset", "debian", "--out", out)
    assert shown.code == 0, shown.err
    assert "5 computed" in shown.err
    html = (out / "report.html").read_text(encoding="utf-8")
    assert (
        'id="label-scarcity-debian-quick"' in html and "Figures 1a and 15a" in html and "Budget &#39;quick&#39;" in html
    )
    table = (out / "tables" / "label-scarcity-debian.csv").read_text().splitlines()
    assert len(table) == 5 and sum(row.startswith("ProtoNet (Supervised),") for row in table) == 1
    assert '<svg class="plot"' in html
