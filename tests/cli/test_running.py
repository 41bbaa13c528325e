"""``naq run``, and the intermediate values it is made of."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from naq.episodes import load_episodes
from naq.io import load
from naq.neighbors import NeighborTable
from naq.tasks import ClassSplit, sample_tasks, save_task_file

SETTINGS = ("evaluate_every=8", "latent=16", "episode.queries=3", "cache=false")
SMALL = ("--way", 2, "--episodes", 32, *(word for one in SETTINGS for word in ("--set", one)))
LONG = 1200  # seconds after which a process will not end any more, on a machine that does much else


def metrics(folder):
    return json.loads((folder / "metrics.json").read_text())


def test_help_is_quick_and_imports_nothing_heavy():
    """By the processor's time: what else the machine does is not counted."""
    words, before = [sys.executable, "-m", "naq", "--help"], resource.getrusage(resource.RUSAGE_CHILDREN)
    shown = subprocess.run(words, capture_output=True, text=True, timeout=LONG)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert shown.returncode == 0 and all(f" {name} " in shown.stdout for name in ("run", "list", "predict", "studio"))
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 5
    heavy = "('torch', 'numba', 'scipy', 'sklearn', 'matplotlib', 'numpy')"
    code = f"import sys, naq.cli.main; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_a_run_prints_a_table_and_writes_a_folder_once(call, graph_file):
    words = ("run", graph_file, "--method", "naq-feat/protonet", *SMALL, "--out", "r")
    code, out, err = call(*words)
    assert code == 0, err
    assert "naq-feat/protonet" in out and "smooth (no training)" in out and "±" in out and "Next:" in out
    assert metrics(Path("r"))["config"]["method"] == "naq-feat/protonet"
    code, _, err = call(*words)
    assert code == 0 and "already done" in err


def test_what_comes_next_is_on_the_same_graph_and_tasks(call, graph_file):
    """The graph has no 5-way tasks: a command without the way would fail."""
    code, out, err = call("run", graph_file, "--method", "smooth", "--way", 2, "--shot", 2, "--out", "r")
    assert code == 0 and f"naq run {graph_file} --way 2 --shot 2 --method naq-diff/protonet\n" in out, err
    graph, parts = load(graph_file), (((0, 1), "valid"), ((2, 3), "test"))
    sets = [sample_tasks(graph, way=2, shot=1, queries=4, count=3, classes=c, part=p) for c, p in parts]
    save_task_file("own tasks.npz", sets, ClassSplit((4, 5), (0, 1), (2, 3)))
    words = ("-m", "naq-feat/protonet", *SMALL, "--tasks", "own tasks.npz", "--out", "s")
    code, out, err = call("run", graph_file, *words)
    assert code == 0 and f"naq run {graph_file} --tasks 'own tasks.npz' --way 2 --out runs/full" in out, err


def test_without_a_method_three_are_shown(call, graph_file):
    code, out, err = call("run", graph_file, *SMALL, "--out", "r")
    assert code == 0, err
    for name in ("smooth", "naq-plus", "naq-feat/protonet"):
        found = metrics(Path("r", name.replace("/", "-")))
        assert name in out and found["config"]["method"] == name and found["baseline"] == {}


def test_several_seeds_have_one_table_and_one_file_over_them(call, graph_file):
    words = ("run", graph_file, "-m", "naq-feat/protonet", "-m", "smooth", *SMALL, "--seed", 3, "--seeds", 2)
    code, out, err = call(*words, "--out", "r")
    assert code == 0 and "2 seeds" in out and "by seed" in out, err
    for method in ("naq-feat-protonet", "smooth"):
        found = metrics(Path("r", method))
        assert found["seeds"] == [3, 4]
        for seed, one in zip((3, 4), found["per_seed"]):
            assert one["evaluations"] == metrics(Path("r", method, f"seed{seed}"))["evaluations"]
        mean = np.mean([one["evaluations"]["logistic"]["accuracy"] for one in found["per_seed"]])
        assert found["evaluations"]["logistic"]["accuracy"] == pytest.approx(mean)
    assert call(*words, "--out", "r")[2].count("already done") == 4
    code, _, err = call("run", graph_file, "-m", "smooth", "--way", 2, "--seeds", 2)
    assert code == 0 and Path("runs/communities/smooth/2way-1shot/seed1/metrics.json").exists(), err
    code, _, err = call("report", "r")
    assert code == 2 and "r holds no results of naq reproduce" in err


def test_the_usual_folder(call, graph_file):
    code, out, err = call("run", graph_file, "--way", 2, "-m", "untrained")
    assert code == 0 and "smooth" in out, err
    assert Path("runs/communities/untrained/2way-1shot-seed0/metrics.json").exists()


def test_methods_without_episodes(call, graph_file):
    given = ("latent=16", "hidden=16", "epochs=6", "evaluate_every=3", "select=clusters", "batch=64")
    words = ("--method", "bgrl", "--way", 2, *(word for one in given for word in ("--set", one)))
    code, out, err = call("run", graph_file, *words, "--out", "r")
    assert code == 0 and "batches of 64 nodes" in err and "6 of 6 epochs" in err, err
    assert "6 epochs with no labels" in out and "on tasks without labels" in out
    found = metrics(Path("r"))
    assert found["facts"]["training"] == "batches of 64" and found["config"]["options"]["epochs"] == 6
    assert Path("r/curve.png").stat().st_size > 1000


def test_list(call):
    names = {row["name"] for row in json.loads(call("list", "methods", "--json")[1])}
    learners = ("maml", "protonet", "gmeta", "tent", "glitter", "cosmic")
    assert {f"{kind}/{name}" for kind in ("supervised", "naq-feat", "naq-diff") for name in learners} <= names
    assert {"g-umtra/maml", "g-umtra/tent", "smooth"} <= names and "g-umtra/cosmic" not in names
    out = call("list")[1]
    assert all(word in out for word in ("debian", "ogbn-arxiv", "protonet", "g-umtra", "transductive"))


def test_neighbors_and_episodes_are_saved_and_shown(call, graph_file):
    code, _, err = call("neighbors", graph_file, "-k", 4, "--by", "diffusion", "--node", 7, "--out", "t.npz")
    assert code == 0 and NeighborTable.load("t.npz").k == 4, err
    code, out, err = call("episodes", graph_file, "--way", 3, "--queries", 4, "--count", 50, "--out", "e.npz")
    assert code == 0 and "Overlap of queries" in out, err
    assert load_episodes("e.npz").query.shape == (50, 3, 4)


def test_a_run_from_the_table_of_naq_neighbors(call, graph_file):
    """Made in shards, then trained on: the vectors of the run that makes its own table."""
    run = ("run", graph_file, "--method", "naq-diff/protonet", *SMALL)
    code, _, err = call("neighbors", graph_file, "-k", 5, "--by", "diffusion", "--shards", 3, "--out", "t.npz")
    assert code == 0, err
    for out, more in (("own", ()), ("given", ("--table", "t.npz"))):
        code, _, err = call(*run, *more, "--out", out)
        assert code == 0 and "does not say" not in err, err
    own, given = (load_file(f"{name}/embedding.safetensors")["embedding"] for name in ("own", "given"))
    assert np.array_equal(own, given)
    table = metrics(Path("given"))["data"]["table"]
    assert table["hash"] == NeighborTable.load("t.npz").hash and table["info"]["kind"] == "diffusion"
    for wrong in ((*run, "--out", "given"), (*run, "-m", "naq-feat/protonet", "--table", "t.npz", "--out", "two")):
        code, _, err = call(*wrong)
        assert code == 2 and "table" in err


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("neighbors", "-k", 4, "--search", "approximate"), "t.npz"),
        (("neighbors", "-k", 4, "--by", "diffusion", "--method", "push", "--fill", "random"), "t.npz"),
        (("embed", "--set", "dim=12"), "v.npy"),
    ],
)
def test_parts_are_the_same_file(call, graph_file, words, name):
    parts = {"whole": (), "shards": ("--shards", 3)}
    parts |= {"apart": ("--engine", "processes")} if words[0] == "embed" else {}
    for folder, more in parts.items():
        Path(folder).mkdir()
        code, out, err = call(words[0], graph_file, *words[1:], *more, "--out", f"{folder}/{name}")
        assert code == 0 and ("Approximate" in out) == ("approximate" in words), err
        assert Path(folder, name).read_bytes() == Path("whole", name).read_bytes()
        assert [path.name for path in Path(folder).iterdir()] == [name]


def test_set_reaches_the_run_the_method_the_head_and_the_episodes(call, graph_file):
    given = ("features=tfidf", "episode.fill=lowest", "method.latent=8", "head.C=2", "patience=3")
    run = ("run", graph_file, *SMALL, "-m", "naq-feat/protonet")
    code, _, err = call(*run, *(word for one in given for word in ("--set", one)), "--out", "r")
    assert code == 0, err
    found = metrics(Path("r"))["config"]
    assert (found["features"], found["episode"]["fill"], found["options"]["latent"]) == ("tfidf", "lowest", 8)
    assert (found["head_options"]["C"], found["patience"]) == (2, 3)


LENGTH = ("--episodes", 2000, "--set", "evaluate_every=40")


def start(graph_file, out):
    words = ["run", graph_file, "-m", "naq-feat/protonet", *SMALL, *LENGTH, "--out", out]
    return subprocess.Popen(
        [sys.executable, "-m", "naq", *map(str, words)],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "NAQ_CHECKPOINT_SECONDS": "0.05"},
    )  # fmt: skip


@pytest.mark.slow
def test_stopped_at_random_points_then_resumed_gives_the_same_weights(graph_file, tmp_path):
    """By ``kill -9``, twice, and by Ctrl-C, which says how to go on. Every part is a process with the same threads."""
    whole, stopped, random, last = tmp_path / "whole", tmp_path / "stopped", np.random.default_rng(0), 0
    checkpoint = stopped / "checkpoint.safetensors"
    for how in (signal.SIGKILL, signal.SIGKILL, signal.SIGINT):
        process = start(graph_file, stopped)
        while process.poll() is None and not (checkpoint.exists() and checkpoint.stat().st_mtime_ns > last):
            time.sleep(0.02)
        time.sleep(random.uniform(0, 0.4))
        assert process.poll() is None, "the training was over before it could be stopped; make it longer"
        process.send_signal(how)
        _, errors = process.communicate(timeout=LONG)
        last = checkpoint.stat().st_mtime_ns
    assert process.returncode == 130 and "go on with" in errors and "Traceback" not in errors
    assert not (stopped / "metrics.json").exists()
    for folder in (stopped, whole):
        process = start(graph_file, folder)
        assert process.communicate(timeout=LONG)[1] is not None and process.returncode == 0
    one, two = (load_file(folder / "weights.safetensors") for folder in (whole, stopped))
    assert one.keys() == two.keys() and all(np.array_equal(one[name], two[name]) for name in one)
    one, two = (metrics(folder)["history"] for folder in (whole, stopped))
    assert {**one, "seconds": 0} == {**two, "seconds": 0}
