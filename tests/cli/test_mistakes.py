"""Wrong uses of the command line: one sentence that names the argument, exit code 2, nothing left behind."""

import os
import shlex

import numpy as np
import pytest

import methods_under_test as suite
from naq.errors import LONGEST
from naq.io import save_graph
from naq.tasks import sample_tasks

HUGE, LONG, ESCAPE, NAME = "1" + "0" * 30, "9" * 5000, "\x1b[31mred\x1b[0m\n", "x" * 300
RUN = "run g.npz -m naq-feat/protonet --way 2 --episodes 16 --set cache=false"
PREDICT = "predict g.npz --labels few.csv --out p.csv"
NUMBERS = ("", "²", "1.5", "one", "1_0", LONG, ESCAPE)
JUNK = ("junk.npz", "junk.csv", "junk.parquet", "junk.graphml")
FILES = ("absent.npz", "fifo", "folder", "empty.npz", *JUNK, "tasks.npz", "a\0b")
USES = [  # a command, the option that is wrong, its values
    *((RUN, option, NUMBERS) for option in ("--way", "--shot", "--seed", "--episodes")),
    (RUN, "--way", ("0", "1", "-5", "1000", HUGE)),
    (RUN, "--shot", ("0", "1000", HUGE)),
    (RUN, "--episodes", ("0", "-1", "1" + "0" * 12)),
    (RUN, "--device", ("meta", "cuda:99", "", "²")),
    (RUN, "--head", ("nonsense", "", ESCAPE)),
    (RUN, "--out", ("g.npz", "g.npz/below", "/dev/null/x", "-")),
    (RUN, "--tasks", ("absent.npz", "junk.npz", "fifo", "g.npz")),
    (RUN, "--table", ("absent.npz", "junk.npz", "g.npz")),
    (RUN, "--set", (
        "latent", "=1", "latent=x", "latent=0", "latent=1000000000", "latent=1.5", f"latent={LONG}", "lr=nan", "lr=-1",
        "latnt=1", "evaluate_every=0", "patience=-1", "patience=x", "epochs=3", "features=nonsense", "select=labels",
        "refine=3", "cache=x", "head.C=x", "head_options=x", "episode.queries=0", "episode.queries=1000000000",
        "episode.metric=nonsense", "episode.way=1", "episode.shot=0", "episode.apart=-1", "episode.fill=nonsense",
        "episode.drop_overlap=1", "episode.queriez=1",
    )),
    ("run g.npz -m naq-diff/protonet --way 2 --set cache=false", "--set", ("episode.alpha=0", "episode.alpha=2")),
    ("run g.npz --way 2", "--set", ("lrr=1",)),
    ("run g.npz --way 2", "-m", ("naq-feet/protonet", "g-umtra/cosmic", "", ESCAPE)),
    ("run g.npz --way 2 -m naq-feat/maml", "--set", ("order=third",)),
    ("run g.npz --way 2 -m naq-feat/maml", "--episodes", ("8",)),
    ("run g.npz --way 2 -m naq-feat/glitter", "--set", ("episode.way=3",)),
    ("run g.npz --way 2 -m g-umtra/maml", "--set", ("episode.drop_edge=1",)),
    ("run g.npz --way 2 -m bgrl", "--set", ("batch=99999",)),
    ("run g.npz --way 2 -m smooth", "--table", ("g.npz",)),
    ("neighbors g.npz", "-k", (*NUMBERS, "0", "-1", "100000", HUGE)),
    ("neighbors g.npz", "--by", ("magic", "")),
    ("neighbors g.npz", "--metric", ("nonsense", "")),
    ("neighbors g.npz", "--search", ("fast",)),
    ("neighbors g.npz", "--node", ("nobody", "-1", "1000", ESCAPE)),
    ("neighbors g.npz --by diffusion", "--alpha", ("0", "1", "-1", "nan", "1e400", "x")),
    ("neighbors g.npz --by diffusion", "--method", ("nonsense",)),
    ("neighbors g.npz", "--fill", ("nonsense", "")),
    ("neighbors g.npz", "--out", (f"{NAME}.npz", "g.npz/x.npz", "folder", "t.csv", "-")),
    ("neighbors g.npz --out t.npz", "--shards", ("0", "1_000")),
    ("neighbors g.npz", "--shards", ("4",)),
    ("neighbors g.npz --out t.npz", "--workers", ("0",)),
    ("embed g.npz --out v.npy", "--workers", ("0",)),
    ("embed g.npz --out v.npy", "--engine", ("rays",)),
    ("embed g.npz --out v.npy", "--address", ("127.0.0.1:1",)),
    ("embed g.npz --out v.npy --shards 2", "--method", ("bgrl",)),
    ("embed g.npz", "--out", ("v.csv", "folder")),
    ("estimate g.npz", "--set", ("dim=-1", "dim=1_0")),
    ("estimate g.npz", "--episodes", ("-5",)),
    ("estimate g.npz --method smooth", "--table", ("t.npz",)),
    *(("episodes g.npz", f"--{name}", ("-1", "1.5", LONG)) for name in ("way", "shot", "queries", "count", "apart")),
    ("episodes g.npz", "--way", ("1", "1000")),
    ("episodes g.npz --by features", "--table", ("t.npz",)),
    ("episodes g.npz", "--table", ("none.npz",)),
    ("import edges.csv", "--out", ("g.txt", f"{NAME}.npz", "g.npz/x.npz", "mapped.npz --mmap")),
    ("import edges.csv", "--nodes", ("absent.csv", "fifo", "junk.csv")),
    *(("import edges.csv", f"--{name}", ("sorce", ESCAPE)) for name in ("source", "target", "weight")),
    ("import edges.csv", "--vector", ("absent.npy", "junk.npy", "fifo.npy")),
    ("predict g.npz --labels few.csv", "--out", (f"{NAME}.csv", "folder", "few.csv", "g.npz", "few.csv/p.csv", "p.x")),
    ("predict g.npz --out p.csv", "--labels", ("absent.csv", "fifo", "junk.csv", "empty.csv")),
    (PREDICT, "--level", ("0", "1", "nan", "x")),
    (PREDICT, "--report", ("p.csv", "r.pdf")),
    (PREDICT, "--method", ("nonsense", "naq-feat/protonet", "")),
    (PREDICT, "--ignore", ("x",)),
    (PREDICT, "--classes", ("absent.txt",)),
    ("suggest g.npz", "-k", ("0", "-1", "x")),
    ("suggest g.npz", "--out", ("t.json",)),
    ("check g.npz --labels few.csv", "--out", ("p.xlsx",)),
    ("reproduce label-noise", "--dataset", ("absent.npz", "junk.npz")),
    ("reproduce label-noise", "--set", ("latent=1", "protonet.latent=x", "x.y=1")),
    *(("reproduce label-noise", f"--{name}", ("nonsense",)) for name in (
        "data", "budget", "seeds", "episodes", "workers", "engine", "profile", "learner", "head", "features", "select",
        "episode", "shot",
    )),
    *((command, "", FILES) for command in ("run", "neighbors", "episodes", "suggest")),
    ("import", "", ("absent.csv", "fifo", "folder", "junk.csv", "empty.csv")),
    ("report", "", ("absent", "junk.npz", "fifo", "junk.zip", "damaged")),
    ("list", "", ("method", ESCAPE, "x" * 3000)),
    ("reproduce", "", ("nonsense", ESCAPE)),
    ("", "", ("nonsense", "--nonsense")),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("wrong")
    graph = suite.community_graph(size=24)
    save_graph(place / "g.npz", graph)
    sample_tasks(graph, way=2, shot=1, queries=3, count=5, seed=0).save(place / "tasks.npz")
    for name in ("npz", "csv", "parquet", "graphml", "zip", "npy"):
        (place / f"junk.{name}").write_bytes(np.random.default_rng(0).bytes(500))
    for name in ("fifo", "fifo.npy"):
        os.mkfifo(place / name)
    for name in ("empty.npz", "empty.csv"):
        (place / name).write_bytes(b"")
    for name in ("folder", "damaged"):
        (place / name).mkdir()
    (place / "damaged" / "requests.json").write_text("[" * 100_000)
    (place / "edges.csv").write_text("source,target\na,b\nb,c\n")
    (place / "few.csv").write_text("node,class\n0,a\n30,b\n")
    return place


def files_in(folder):
    return {path for path in folder.rglob("*") if "cache" not in path.parts and not path.is_dir()}


@pytest.mark.parametrize(("words", "option", "values"), USES)
def test_a_mistake_names_the_argument(words, option, values, folder, call, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("NAQ_DATA", str(folder / "data"))
    monkeypatch.setenv("NAQ_CACHE", str(folder / "cache"))
    before = files_in(folder)
    for value in values:
        given = [value] if not value.endswith("--mmap") else value.split()
        code, _, err = call(*shlex.split(words), *([option] if option else []), *given)
        sentence = (err.strip().splitlines() or [""])[-1]
        assert code == 2 and sentence.startswith("naq: ") and len(sentence) < LONGEST + 10 and "\x1b" not in err, err
        name = value.partition("=")[0].rpartition(".")[2] if option == "--set" else option.lstrip("-")
        expected = [name, name.replace("_", " "), value.partition(".")[0], repr(value)[1:-1][:100]]
        assert any(one in sentence for one in expected if one), (sentence, expected)
    assert files_in(folder) == before


@pytest.mark.parametrize("words", ["predict g.npz --out p.csv", "predict g.npz --labels few.csv", "reproduce"])
def test_what_is_missing_is_named(words, folder, call, monkeypatch):
    monkeypatch.chdir(folder)
    code, _, err = call(*words.split())
    assert code == 2 and err.startswith("naq: ")
