"""``naq predict``, ``naq check`` and ``naq suggest``."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import methods_under_test as suite
from naq import FewShotNodeClassifier, Graph, load
from naq.classifier import table
from naq.errors import Notice, OptionError, name_arguments
from naq.io import save_graph
from naq.io.tables.features import class_columns


@pytest.fixture(scope="module")
def graph():
    plain = suite.community_graph(size=24)
    names = [f"=n{i}" if i == 5 else f"n{i}" for i in range(plain.num_nodes)]
    vocab = [f"w{j}" for j in range(plain.num_features)]
    return Graph(plain.adjacency, plain.features, plain.labels, names=names, vocab=vocab, name="communities")


@pytest.fixture
def named(call, graph):
    """The program where ``g.npz`` and ``few.csv`` are, of two labels in each class."""
    save_graph("g.npz", graph)
    chosen = [int(i) for c in np.unique(graph.labels) for i in np.flatnonzero(graph.labels == c)[:2]]
    rows = "".join(f"{graph.names[i]},-class {graph.labels[i]}\n" for i in chosen)
    Path("few.csv").write_text("node,class\n" + rows)
    return call


def rows_of(path):
    return list(csv.DictReader(Path(path).read_text().splitlines()))


def test_errors_name_flags_in_the_shell_and_arguments_in_python(named, graph):
    Path("names.txt").write_text("fruit\nrock\n")
    code, _, err = named("predict", "g.npz", "--classes", "names.txt", "--out", "p.csv")
    with pytest.raises(OptionError, match="text_encoder=") as error:
        FewShotNodeClassifier().fit(graph, classes=["fruit", "rock"])
    assert code == 2 and "--text-encoder" in err and "text_encoder=" not in err and "--" not in str(error.value)
    assert (
        name_arguments("'--id' or --no-header; run naq import --mmap")
        == "'--id' or header=False; run naq import --mmap"
    )
    assert str(Notice("use --text")) == "use text="


def test_predict_writes_a_line_per_node_and_a_page(named, graph):
    words = ("predict", "g.npz", "--labels", "few.csv", "--out", "p.csv", "--level", 0.8)
    code, out, err = named(*words, "--report", "my page.html")
    assert code == 0 and "Expected accuracy" in out and "my page.html" in out, err
    rows = rows_of("p.csv")
    assert len(rows) == graph.num_nodes and rows[5]["node"] == "'=n5" and rows[6]["node"] == "n6"
    assert np.mean([row["class"] == f"'-class {c}" for row, c in zip(rows, graph.labels)]) > 0.9
    for row in rows:
        assert 0 <= float(row["runner_up_probability"]) <= 1 and row["runner_up"] != row["class"]
        assert row["given"] or float(row["probability"]) >= float(row["runner_up_probability"])
        assert row["nearest_label"] and row["prediction_set"]
    assert sum(row["given"] == "yes" for row in rows) == len(rows_of("few.csv"))
    said = re.sub("<[^>]+>", "", Path("my page.html").read_text())
    assert "for 80 % of the nodes" in said and "--level 0.8" in said and "--seed" not in said
    facts = json.loads(named(*words, "--json")[1])
    assert facts["nodes"] == graph.num_nodes == sum(row["nodes"] for row in facts["classes"])
    assert facts["expected_accuracy"]["low"] <= facts["expected_accuracy"]["value"]
    facts = json.loads(named(*words, "--unknown", "--json")[1])
    assert sum(not row["class"] for row in rows_of("p.csv")) == facts["unknown"]


def test_suggestions_are_filled_in_and_used(named):
    first = json.loads(named("suggest", "g.npz", "-k", 4, "--json")[1])
    assert len({row["node"] for row in first}) == 4 and all(row["likely"] is None for row in first)
    code, out, err = named("suggest", "g.npz", "--labels", "few.csv", "-k", 6, "--out", "next.csv")
    rows = rows_of("next.csv")
    assert code == 0 and out.count("likely") == 6 == len(rows) and all(row["class"] == "" for row in rows), err
    Path("filled.csv").write_text("node,class\n" + "".join(f"{r['node']},{i % 2}\n" for i, r in enumerate(rows)))
    assert named("predict", "g.npz", "--labels", "filled.csv", "--out", "p.csv")[0] == 0


def test_wrong_labels_are_found(named, graph):
    labels = graph.labels.copy()
    labels[3] = 1 - labels[3]
    rows = "".join(f"{name},{label}\n" for name, label in list(zip(graph.names, labels))[:40])
    Path("many.csv").write_text("node,class\n" + rows)
    code, out, err = named("check", "g.npz", "--labels", "many.csv", "--out", "doubts.csv")
    assert code == 0 and " of 40 labels are doubtful" in out, err
    assert rows_of("doubts.csv")[0]["node"] == "n3"


def test_ctrl_c_and_a_failed_write_leave_nothing(named, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    words = ("predict", "g.npz", "--labels", "few.csv", "--out", "p.csv")
    with monkeypatch.context() as patch:
        patch.setattr("naq.cli.predicting.fit_classifier", stop)
        assert named(*words) == (130, "", "naq: stopped.\n") and not Path("p.csv").exists()
    Path("p.csv").write_text("yesterday's")
    monkeypatch.setattr(table, "cell", lambda value: 1 / 0)
    monkeypatch.setattr("sys.argv", ["naq", *words])
    with pytest.raises(ZeroDivisionError):
        named(*words)
    assert Path("p.csv").read_text() == "yesterday's"
    assert sorted(path.name for path in Path().iterdir()) == ["few.csv", "g.npz", "p.csv"]


@pytest.mark.parametrize("command", ["predict", "suggest"])
def test_nothing_that_is_read_is_written_over(named, command, monkeypatch):
    Path("link.csv").symlink_to("few.csv")
    before = Path("few.csv").read_bytes()
    for out in ("few.csv", "link.csv"):
        code, _, err = named(command, "g.npz", "--labels", "few.csv", "--out", out)
        assert code == 2 and "--labels" in err
    monkeypatch.setattr("naq.cli.arguments.os.access", lambda path, mode: Path(path) != Path.cwd())
    code, _, err = named(command, "g.npz", "--labels", "few.csv", "--out", "new/p.csv")
    assert code == 2 and "--out" in err and Path("few.csv").read_bytes() == before and not Path("new").exists()


@pytest.fixture
def roles(call):
    """90 nodes of three roles; ``team`` is the role in other words but for one node, ``code`` its number, ``size`` says
    nothing, and ``Same`` is the role."""
    draw, role = np.random.default_rng(0), np.arange(90) % 3
    ends = [(i, (i + 3 * int(step)) % 90) for i in range(90) for step in draw.integers(1, 30, 3)]
    Path("edges.csv").write_text("source,target\n" + "".join(f"n{a},n{b}\n" for a, b in ends))
    team = ["abc"[r if i != 10 else 2] for i, r in enumerate(role)]
    rows = [f"n{i},{team[i]},{r},{draw.integers(0, 4)},{'xyz'[r]},{'xyz'[r]}\n" for i, r in enumerate(role)]
    Path("nodes.csv").write_text("key,team,code,size,role,Same\n" + "".join(rows))
    Path("few.csv").write_text("node,class\n" + "".join(f"n{i},{'xyz'[role[i]]}\n" for i in range(30)))
    return call


def told(err):
    return {line.split("column ")[1].split("'")[1] for line in err.splitlines() if "alone tells the class" in line}


def test_columns_that_tell_the_class_are_named_and_can_be_left_out(roles):
    given = ("predict", "edges.csv", "--nodes", "nodes.csv", "--labels", "few.csv", "--out", "p.csv")
    code, out, err = roles(*given)
    assert code == 0 and told(err) == {"team", "code", "role", "Same"} and "--ignore team" in err, err
    more = ("--label", "role", "--ignore", "team", "--ignore", "code")
    code, out, err = roles(*given, *more)
    assert code == 0 and told(err) == {"Same"} and "--label role --ignore team --ignore code" in out, err
    read = load("edges.csv", nodes="nodes.csv", label="role", ignore=["team", "code", "Same"])
    assert read.vocab.tolist() == ["size"] == read.table.columns.tolist(), "what is ignored is not kept either"


def test_a_column_of_classes_is_labels_if_there_is_no_file(roles):
    rows = list(csv.reader(Path("nodes.csv").read_text().splitlines()))
    kept = (",".join([*row[:4], row[4] if i < 31 else ""]) + "\n" for i, row in enumerate(rows))
    Path("nodes.csv").write_text("".join(kept))
    words = ("edges.csv", "--nodes", "nodes.csv", "--label", "role", "--ignore", "team")
    code, out, err = roles("predict", *words, "--out", "p.csv", "--json")
    assert code == 0 and told(err) == {"code"}, err
    assert {one["class"]: one["labels"] for one in json.loads(out)["classes"]} == {"x": 10, "y": 10, "z": 10}
    for command in ("check", "suggest"):
        code, _, err = roles(command, *words)
        assert code == 0 and told(err) == {"code"}, err


@pytest.mark.parametrize("label", ((), ("--label", "role")))
def test_classes_of_an_imported_graph_are_labels(roles, label):
    rows = list(csv.reader(Path("nodes.csv").read_text().splitlines()))
    kept = [",".join([row[0], row[3], row[4] if i < 31 else ""]) + "\n" for i, row in enumerate(rows)]
    Path("some.csv").write_text("".join(kept))
    assert roles("import", "edges.csv", "--nodes", "some.csv", "--label", "role", "--out", "g.npz")[0] == 0
    code, out, err = roles("predict", "g.npz", *label, "--out", "p.csv", "--json")
    assert code == 0 and bool(label) != ("30 of 90" in err), err
    assert {one["class"]: one["labels"] for one in json.loads(out)["classes"]} == {"x": 10, "y": 10, "z": 10}
    assert sum(row["given"] == "yes" for row in rows_of("p.csv")) == 30
    assert all(row["likely"] for row in json.loads(roles("suggest", "g.npz", *label, "--json")[1]))
    assert " of 30 labels" in roles("check", "g.npz", *label)[1]
    code, _, err = roles("predict", "g.npz", "--label", "team", "--out", "p.csv")
    assert code == 2 and "'team'" in err and "'role'" in err


def test_a_graph_whose_nodes_all_have_a_class_needs_labels(named, graph):
    code, _, err = named("predict", "g.npz", "--out", "p.csv")
    assert code == 2 and "--labels" in err and "every node" in err
    assert f" of {graph.num_nodes} labels" in named("check", "g.npz")[1]
    save_graph("bare.npz", graph.without_labels())
    for command in (("predict", "bare.npz", "--out", "p.csv"), ("check", "bare.npz")):
        code, _, err = named(*command)
        assert code == 2 and "--labels" in err and "no node" in err


def test_what_was_learned_is_kept_and_is_the_same(named, monkeypatch, tmp_path):
    fits, fit = [], FewShotNodeClassifier.fit
    monkeypatch.setenv("NAQ_CACHE", str(tmp_path / "kept"))
    monkeypatch.setattr(FewShotNodeClassifier, "fit", lambda self, *given: fits.append(1) or fit(self, *given))
    words = ("g.npz", "--labels", "few.csv")
    for number, more in enumerate((("--no-cache",), (), (), ("--unknown",), ("--seed", 1), ("--method", "smooth"))):
        assert named("predict", *words, "--out", f"{number}.csv", *more)[0] == 0
    assert len(fits) == 4 and len({Path(f"{number}.csv").read_bytes() for number in range(3)}) == 1
    chosen = [named("suggest", *words, *more)[1] for more in ((), ("--no-cache",))]
    assert chosen[0] == chosen[1] and len(fits) == 5
    for path in (tmp_path / "kept").rglob("*.safetensors"):
        path.write_bytes(b"damaged")
    assert named("predict", *words, "--out", "6.csv")[0] == 0 and len(fits) == 6
    assert Path("6.csv").read_bytes() == Path("0.csv").read_bytes()


def test_options_of_import_are_named_where_they_belong(roles):
    words = ("--nodes", "nodes.csv", "--label", "role")
    for command in (
        ("predict", "edges.csv", "--out", "p.csv"),
        ("suggest", "edges.csv"),
        ("check", "edges.csv", "-k", 3),
    ):
        code, _, err = roles(*command, *words, "--source", "source", "--directed")
        line = "naq import edges.csv --nodes nodes.csv --label role --source source --directed --out graph.npz"
        assert code == 2 and line in err and f"naq {command[0]} graph.npz" in err
    code, _, err = roles("predict", "edges.csv", "more.csv", *words, "--out", "p.csv")
    assert code == 2 and "naq import edges.csv more.csv --nodes nodes.csv --label role --out graph.npz" in err
    code, _, err = roles("predict", "edges.csv", "--shuffle", "--out", "p.csv")
    assert code == 2 and "--help" in err and "import" not in err


def test_suggestions_and_doubts_as_parquet(named, graph):
    assert named("suggest", "g.npz", "-k", 4, "--out", "s.parquet")[0] == 0
    assert named("check", "g.npz", "--labels", "few.csv", "--out", "d.parquet")[0] == 0
    found = parquet.read_table("s.parquet")
    assert found.column_names == ["node", "class", "likely"] and found["class"].to_pylist() == [None] * 4
    assert set(found["node"].to_pylist()) <= set(graph.names.tolist())
    assert named("suggest", "g.npz", "--out", "s.xlsx")[0] == 2


def test_what_counts_as_the_class_in_other_words():
    draw, own, names = np.random.default_rng(1), np.arange(200) % 2, np.array(["no", "yes"])
    noisy = np.where(draw.random(200) < 0.2, 1 - own, own)
    features = np.stack([own, noisy, draw.random(200), draw.integers(0, 2, 200)], axis=1)
    graph = Graph(np.zeros((2, 0), int), features, nodes=200, vocab=["own", "noisy", "free", "coin"])
    assert [note.split("'")[1] for note in class_columns(graph, np.arange(200), names[own])] == ["own"]
    assert class_columns(graph, np.arange(4), names[own[:4]]) == [], "chance does as well with four labels"
    said = Graph(np.zeros((2, 0), int), np.eye(2)[own], nodes=200, vocab=["answer=No", "answer=Yes"])
    assert len(class_columns(said, np.arange(2), names[own[:2]])) == 1, "unless it is their names"
    assert class_columns(said, np.array([0, 2]), names[own[[0, 2]]]) == []
    assert class_columns(graph.with_features(None), np.arange(200), names[own]) == []


def test_new_rows_alone_are_written(named, graph):
    words = [" ".join(graph.vocab[row.indices]) for row in graph.features]
    kinds = [f"kind {label}" for label in graph.labels]
    lines = [f"{name},{text},{kind}\n" for name, text, kind in zip(graph.names, words, kinds)]
    Path("n.csv").write_text("id,text,kind\n" + "".join(lines))
    ends = [f"{graph.names[a]},{graph.names[b]}\n" for a, b in zip(*graph.adjacency.nonzero())]
    Path("e.csv").write_text("source,target\n" + "".join(ends))
    Path("new.csv").write_text(f"id,text,kind\n=new,{words[0]},{kinds[0]}\nother,{words[-1]},\n")
    Path("joined.csv").write_text(f"source,target\n=new,{graph.names[0]}\n")
    asked = ("predict", "e.csv", "--nodes", "n.csv", "--labels", "few.csv", "--out", "p.csv")
    for more in ((), ("--edges", "joined.csv")):
        code, out, err = named(*asked, "--new", "new.csv", *more)
        assert code == 0 and "2 new nodes" in out, err
        first, _ = rows_of("p.csv")
        assert (first["node"], first["class"][-1]) == ("'=new", str(graph.labels[0]))
        facts = json.loads(named(*asked, "--new", "new.csv", *more, "--report", "p.html", "--json")[1])
        assert facts["nodes"] == 2 == sum(row["nodes"] for row in facts["classes"])
        rows = rows_of("p.csv")
        total = sum(float(row["probability"]) for row in rows)
        assert sum((row["mean_probability"] or 0) * row["nodes"] for row in facts["classes"]) == pytest.approx(
            total, abs=1e-3
        )
        page = Path("p.html").read_text()
        assert "other" in page and "n100" not in re.sub("<[^>]+>", "", page)
    for wrong, named_there in (
        (("--edges", "joined.csv"), "--new"),
        (("--new", "n.csv"), "n0"),
        (("--new", "p.csv"), "--out"),
    ):
        code, _, err = named(*asked, *wrong)
        assert code == 2 and named_there in err.splitlines()[-1]


@pytest.mark.parametrize("kind", ["csv", "numbers", "text", "mixed csv"])
def test_parquet_keeps_types(named, graph, kind):
    ids = [f"{i}" if kind != "mixed csv" or i else "007" for i in range(graph.num_nodes)]
    words = [" ".join(graph.vocab[row.indices]) for row in graph.features]
    nodes = pa.table({"id": pa.array(map(int, ids)) if kind == "numbers" else ids, "text": words})
    if "csv" in kind:
        Path("n.csv").write_text("id,text\n" + "".join(f"{a},{b}\n" for a, b in zip(ids, words)))
    else:
        parquet.write_table(nodes, "n.parquet")
    ends = [f"{ids[a]},{ids[b]}\n" for a, b in zip(*graph.adjacency.nonzero())]
    Path("e.csv").write_text("source,target\n" + "".join(ends))
    Path("few.csv").write_text("node,class\n" + "".join(f"{ids[i]},{graph.labels[i]}\n" for i in range(8, 160, 12)))
    table = "n.csv" if "csv" in kind else "n.parquet"
    for out in ("p.parquet", "p.csv"):
        code, _, err = named("predict", "e.csv", "--nodes", table, "--labels", "few.csv", "--out", out)
        assert code == 0, err
    found, rows = parquet.read_table("p.parquet").to_pydict(), rows_of("p.csv")
    assert found["node"] == ([int(one) for one in ids] if kind in ("csv", "numbers") else ids)
    assert found["class"] == [row["class"] for row in rows] and list(found) == list(rows[0])
    assert ["|".join(one) for one in found["prediction_set"]] == [row["prediction_set"] for row in rows]
    assert ["|".join(one) for one in found["words"]] == [row["words"] for row in rows]
    assert [f"{one:.4f}" for one in found["probability"]] == [row["probability"] for row in rows]
    assert [one is True for one in found["given"]] == [row["given"] == "yes" for row in rows]
