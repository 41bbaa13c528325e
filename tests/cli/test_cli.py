import json
import os
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors.numpy import load_file

import methods_under_test as suite
from naq.episodes import load_episodes
from naq.io import load, save_graph
from naq.neighbors import NeighborTable
from naq.tasks import ClassSplit, sample_tasks, save_task_file

LONG = 1200
"""Seconds after which a process will not end any more, on a machine that does much else."""


def naq(*words, cwd=None, **environment):
    return subprocess.run(
        [sys.executable, "-m", "naq", *map(str, words)], capture_output=True, text=True, timeout=LONG, cwd=cwd,
        env={**os.environ, "COLUMNS": "120", **environment},
    )  # fmt: skip


@pytest.fixture(scope="module")
def graph_file(tmp_path_factory):
    return save_graph(tmp_path_factory.mktemp("graph") / "communities.npz", suite.community_graph(size=24))


SMALL = (
    "--way",
    "2",
    "--episodes",
    "32",
    "--evaluate-every",
    "8",
    "--set",
    "latent=16",
    "--episode",
    "queries=3",
    "--no-cache",
)


def test_help_is_quick_and_lists_the_commands():
    """By the processor's time: what else the machine does is not counted."""
    naq("--help")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    shown = naq("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert shown.returncode == 0
    assert all(word in shown.stdout for word in ("run", "list", "neighbors", "episodes"))
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 5


def test_help_imports_nothing_heavy():
    code = "import sys, naq.cli.main; print([m for m in ('torch', 'numba', 'scipy', 'sklearn', 'matplotlib', 'numpy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_run_prints_a_table_and_writes_a_folder(graph_file, tmp_path):
    one = (graph_file, "--method", "naq-feat/protonet", *SMALL, "--out", tmp_path / "r")
    shown = naq("run", *one)
    assert shown.returncode == 0, shown.stderr
    assert "naq-feat/protonet" in shown.stdout and "smooth (no training)" in shown.stdout and "±" in shown.stdout
    assert "no labels" in shown.stdout and "Next:" in shown.stdout
    assert json.loads((tmp_path / "r" / "metrics.json").read_text())["config"]["method"] == "naq-feat/protonet"
    again = naq("run", *one)
    assert again.returncode == 0 and "already done" in again.stderr


def test_what_comes_next_is_on_the_same_graph_and_tasks(graph_file, tmp_path):
    """The graph has no 5-way tasks: a command without the way would fail."""
    shown = naq("run", graph_file, "--method", "smooth", "--way", "2", "--shot", "2", "--out", tmp_path / "r")
    assert shown.returncode == 0, shown.stderr
    lines = [line.strip() for line in shown.stdout.split("Next:")[1].splitlines()]
    assert f"naq run {graph_file} --way 2 --shot 2 --method naq-diff/protonet" in lines
    tasks = tmp_path / "own tasks.npz"
    graph = load(graph_file)
    sets = [
        sample_tasks(graph, way=2, shot=1, queries=4, count=3, classes=c, part=p)
        for c, p in (((0, 1), "valid"), ((2, 3), "test"))
    ]
    save_task_file(tasks, sets, ClassSplit((4, 5), (0, 1), (2, 3)))
    shown = naq("run", graph_file, "-m", "naq-feat/protonet", *SMALL, "--tasks", tasks, "--out", tmp_path / "s")
    assert shown.returncode == 0, shown.stderr
    assert f"naq run {graph_file} --tasks '{tasks}' --way 2 --out runs/full" in shown.stdout


def test_without_a_method_three_stand_side_by_side(graph_file, tmp_path):
    shown = naq("run", graph_file, *SMALL, "--out", tmp_path / "r")
    assert shown.returncode == 0, shown.stderr
    for name, folder in (("smooth", "smooth"), ("naq-plus", "naq-plus"), ("naq-feat/protonet", "naq-feat-protonet")):
        assert name in shown.stdout
        metrics = json.loads((tmp_path / "r" / folder / "metrics.json").read_text())
        assert metrics["config"]["method"] == name and metrics["baseline"] == {}
    wrong = naq("run", graph_file, "--set", "lrr=1")
    assert wrong.returncode == 2 and "none of the 3 methods has an option 'lrr'; did you mean lr" in wrong.stderr


def test_several_methods_share_a_table(graph_file, tmp_path):
    shown = naq("run", graph_file, "--way", "2", "-m", "smooth", "-m", "untrained", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "smooth" in shown.stdout and "untrained" in shown.stdout
    assert (tmp_path / "runs" / "communities" / "untrained" / "2way-1shot-seed0" / "metrics.json").exists()


def test_methods_without_episodes_say_how_they_train_and_what_chose(graph_file, tmp_path):
    words = ("--method", "bgrl", "--way", "2", "--set", "latent=16", "--set", "hidden=16", "--epochs", "6")
    words += ("--evaluate-every", "3", "--select", "clusters", "--no-cache")
    shown = naq("run", graph_file, *words, "--out", tmp_path / "whole")
    assert shown.returncode == 0, shown.stderr
    assert "bgrl: whole graph in every update" in shown.stderr and "6 of 6 epochs" in shown.stderr
    assert "6 epochs with no labels" in shown.stdout and "on tasks without labels" in shown.stdout
    assert "on validation tasks" not in shown.stdout
    shown = naq("run", graph_file, *words, "--set", "batch=64", "--out", tmp_path / "batches")
    assert shown.returncode == 0 and "bgrl: batches of 64 nodes, 3 per epoch (as asked)" in shown.stderr
    metrics = json.loads((tmp_path / "batches" / "metrics.json").read_text())
    assert metrics["facts"]["training"] == "batches of 64" and metrics["config"]["options"]["epochs"] == 6
    assert (tmp_path / "batches" / "curve.png").stat().st_size > 1000


def test_list():
    shown = naq("list", "methods", "--json")
    names = {row["name"] for row in json.loads(shown.stdout)}
    learners = ("maml", "protonet", "gmeta", "tent", "glitter", "cosmic")
    assert {f"{kind}/{name}" for kind in ("supervised", "naq-feat", "naq-diff") for name in learners} <= names
    assert {"g-umtra/maml", "g-umtra/tent", "smooth"} <= names and "g-umtra/cosmic" not in names
    shown = naq("list")
    assert all(word in shown.stdout for word in ("debian", "ogbn-arxiv", "protonet", "g-umtra", "transductive"))


def test_neighbors_and_episodes_are_saved_and_shown(graph_file, tmp_path):
    shown = naq("neighbors", graph_file, "-k", 4, "--by", "diffusion", "--node", 7, "--out", tmp_path / "t.npz")
    assert shown.returncode == 0, shown.stderr
    assert NeighborTable.load(tmp_path / "t.npz").k == 4
    shown = naq("episodes", graph_file, "--way", 3, "--queries", 4, "--count", 50, "--out", tmp_path / "e.npz")
    assert shown.returncode == 0, shown.stderr
    assert "Overlap of queries" in shown.stdout
    assert load_episodes(tmp_path / "e.npz").query.shape == (50, 3, 4)


def test_a_run_from_the_table_of_naq_neighbors(graph_file, tmp_path):
    """Made in shards, then trained on: the vectors of the run that makes its own table."""
    table, run = tmp_path / "t.npz", ("run", graph_file, "--method", "naq-diff/protonet", *SMALL)
    made = naq("neighbors", graph_file, "-k", 5, "--by", "diffusion", "--shards", 3, "--out", table)
    assert made.returncode == 0, made.stderr
    for out, more in (("own", ()), ("given", ("--table", table))):
        shown = naq(*run, *more, "--out", tmp_path / out)
        assert shown.returncode == 0 and "does not say" not in shown.stderr, shown.stderr
    own, given = (load_file(tmp_path / name / "embedding.safetensors")["embedding"] for name in ("own", "given"))
    assert np.array_equal(own, given)
    data = json.loads((tmp_path / "given" / "metrics.json").read_text())["data"]
    assert data["table"]["hash"] == NeighborTable.load(table).hash and data["table"]["info"]["kind"] == "diffusion"
    other = naq(*run, "--out", tmp_path / "given")
    assert other.returncode == 2 and "holds a run with another table" in other.stderr
    feature = naq(*run, "--method", "naq-feat/protonet", "--table", table, "--out", tmp_path / "two")
    assert feature.returncode == 2 and "is of kind 'diffusion', but naq-feat draws" in feature.stderr


def test_an_approximate_table_says_its_recall(graph_file, tmp_path):
    words = ("neighbors", graph_file, "-k", 4, "--search", "approximate", "--out")
    for name, more in (("whole", ()), ("shards", ("--shards", 3))):
        shown = naq(*words, tmp_path / f"{name}.npz", *more)
        assert shown.returncode == 0, shown.stderr
        assert "% of the neighbours of the exact table" in shown.stdout
    assert (tmp_path / "whole.npz").read_bytes() == (tmp_path / "shards.npz").read_bytes()
    shown = naq("neighbors", graph_file, "-k", 4, "--search", "fast")
    assert shown.returncode != 0 and "expected one of auto, exact, approximate" in shown.stderr


def test_neighbors_in_shards_are_the_same_table(graph_file, tmp_path):
    words = ("neighbors", graph_file, "-k", 4, "--by", "diffusion", "--method", "push", "--fill", "random", "--out")
    for name, more in (("whole", ()), ("shards", ("--shards", 3))):
        shown = naq(*words, tmp_path / f"{name}.npz", *more)
        assert shown.returncode == 0, shown.stderr
    assert (tmp_path / "whole.npz").read_bytes() == (tmp_path / "shards.npz").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shards.npz", "whole.npz"]


def test_vectors_in_shards_are_the_same_file(graph_file, tmp_path):
    for name, more in (("whole", ()), ("shards", ("--shards", 3)), ("apart", ("--engine", "processes"))):
        shown = naq("embed", graph_file, "--set", "dim=12", "--out", tmp_path / f"{name}.npy", *more)
        assert shown.returncode == 0, shown.stderr
        assert (tmp_path / f"{name}.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["apart.npy", "shards.npy", "whole.npy"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("run", "debiann"), "debian"),
        (("run", "debian", "--method", "naq-feet/protonet"), "did you mean naq-feat/protonet"),
        (("run", "debian", "--set", "lr"), "expected NAME=VALUE"),
        (("run", "debian", "--set", "lr=fast"), "expected float"),
        (("run", "debian", "-m", "naq-feat/protonet", "--episode", "metric=manhattan"), "metric is 'manhattan'"),
        (("run", "debian", "--way", "40"), "40-way"),
        (("run", "debian", "--method", "g-umtra/cosmic"), "cosmic cannot be trained on g-umtra episodes: it contrasts"),
        (("run", "debian", "--method", "naq-feat/maml", "--set", "order=third"), "order of maml is 'third'"),
        (("run", "debian", "--method", "naq-feat/glitter", "--episode", "way=10"), "episodes of 10 classes do not fit"),
        (("run", "debian", "--method", "g-umtra/maml", "--episode", "drop_edge=1"), "drop_edge"),
        (("run", "debian", "--method", "supervised/maml", "--episode", "queries=5000"), "base class"),
        (("run", "debian", "--method", "naq-feat/maml", "--episodes", "8"), "fewer than one update of maml takes (16)"),
        (
            ("run", "debian", "--method", "bgrl", "--set", "batch=99999"),
            "batch of bgrl is 99999, but graph 'debian' has",
        ),
        (("run", "debian", "--method", "smooth", "--epochs", "3"), "smooth is not trained in epochs"),
        (("run", "debian", "--select", "labels"), "select is 'labels'; expected one of clusters, valid"),
        (("run", "no/such/file.npz"), "no/such/file.npz"),
        (("list", "method"), "did you mean methods"),
        (("neighbors", "debian", "-k", "100000"), "lower k"),
        (("neighbors", "debian", "--by", "magic"), "features or diffusion"),
        (("neighbors", "debian", "--shards", "4"), "a table in shards needs --out T.npz"),
        (("neighbors", "debian", "--shards", "0", "--out", "t.npz"), "--shards is 0"),
        (("embed", "debian", "--shards", "0", "--out", "v.npy"), "--shards is 0"),
        (("embed", "debian", "--engine", "rays", "--out", "v.npy"), "there is no engine 'rays'"),
        (("embed", "debian", "--address", "127.0.0.1:1", "--out", "v.npy"), "but the engine is local"),
        (("embed", "debian", "--method", "bgrl", "--shards", "2", "--out", "v.npy"), "bgrl does not work in blocks"),
        (("episodes", "debian", "--way", "1"), "way is 1"),
        (("episodes", "debian", "--table", "t.npz", "--by", "features"), "--by and --table were both given"),
        (("episodes", "debian", "--table", "none.npz"), "none.npz"),
        (("run", "debian", "-m", "smooth", "--table", "t.npz"), "smooth draws no episodes from one; leave it out"),
        (("run", "debian", "-m", "naq-feat/protonet", "--table", "none.npz"), "none.npz"),
        (("estimate", "debian", "--method", "smooth", "--table", "t.npz"), "smooth draws no episodes from one"),
    ],
)
def test_mistakes_are_one_sentence_and_no_traceback(words, expected, tmp_path):
    shown = naq(*words, cwd=tmp_path)
    assert shown.returncode == 2
    assert expected in shown.stderr and "Traceback" not in shown.stderr + shown.stdout
    assert not list(tmp_path.rglob("*.tmp*")) and not list(tmp_path.rglob("metrics.json"))


def start(graph_file, out):
    words = (
        "--way",
        "2",
        "--episodes",
        "4000",
        "--evaluate-every",
        "40",
        "--set",
        "latent=16",
        "--episode",
        "queries=3",
    )
    return subprocess.Popen(
        [sys.executable, "-m", "naq", "run", str(graph_file), "-m", "naq-feat/protonet", *words, "--no-cache", "--out", str(out)],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "NAQ_CHECKPOINT_SECONDS": "0.05"},
    )  # fmt: skip


@pytest.mark.slow
def test_kill_nine_at_random_points_then_resume_gives_the_same_weights(graph_file, tmp_path):
    whole = start(graph_file, tmp_path / "whole")
    whole.communicate(timeout=LONG)
    assert whole.returncode == 0
    random = np.random.default_rng(0)
    killed = 0
    while killed < 3:
        process = start(graph_file, tmp_path / "killed")
        checkpoint = tmp_path / "killed" / "checkpoint.safetensors"
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        while process.poll() is None and not (checkpoint.exists() and checkpoint.stat().st_mtime_ns > before):
            time.sleep(0.02)
        time.sleep(random.uniform(0, 0.6))
        if process.poll() is not None:
            break
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        killed += 1
    assert killed == 3, "the training was over before it could be killed; make it longer"
    last = start(graph_file, tmp_path / "killed")
    last.communicate(timeout=LONG)
    assert last.returncode == 0
    one, two = (load_file(tmp_path / name / "weights.safetensors") for name in ("whole", "killed"))
    assert one.keys() == two.keys() and all(np.array_equal(one[k], two[k]) for k in one)
    histories = [json.loads((tmp_path / n / "metrics.json").read_text())["history"] for n in ("whole", "killed")]
    assert histories[0]["valid_accuracy"] == histories[1]["valid_accuracy"]
    assert histories[0]["loss"] == histories[1]["loss"]


def test_ctrl_c_saves_and_says_how_to_go_on(graph_file, tmp_path):
    process = start(graph_file, tmp_path / "r")
    checkpoint = tmp_path / "r" / "checkpoint.safetensors"
    while process.poll() is None and not checkpoint.exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=LONG)
    assert process.returncode == 130
    assert "go on with" in errors and "Traceback" not in errors and "naq: stopped" not in errors
    assert checkpoint.exists() and not (tmp_path / "r" / "metrics.json").exists()


def test_set_reaches_the_run_the_method_and_the_episodes(graph_file, tmp_path):
    words = (
        "--set",
        "features=tfidf",
        "--set",
        "episode.fill=lowest",
        "--set",
        "method.latent=8",
        "--set",
        "patience=3",
    )
    shown = naq("run", graph_file, *SMALL, "-m", "naq-feat/protonet", *words, "--out", tmp_path / "run")
    assert shown.returncode == 0, shown.stderr
    config = json.loads((tmp_path / "run" / "metrics.json").read_text())["config"]
    assert (config["features"], config["episode"]["fill"], config["options"]["latent"]) == ("tfidf", "lowest", 8)
    assert config["patience"] == 3
    for wrong in ("patience=x", "refine=3", "episode.queriez=4", "select=nonsense", "head_options=x"):
        refused = naq("run", graph_file, *SMALL, "-m", "naq-feat/protonet", "--set", wrong)
        name = wrong.partition("=")[0].removeprefix("episode.")
        assert refused.returncode == 2 and name in refused.stderr and "Traceback" not in refused.stderr
