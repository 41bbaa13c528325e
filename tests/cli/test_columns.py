"""Columns of people's own tables that are the class in other words, and values of options that nobody means."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import naq
from naq import Graph
from naq.cli.main import main
from naq.io.tables.features import class_columns


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """90 nodes of three roles; ``team`` is the role in other words but for one node, ``code`` its number, ``size`` says nothing."""
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    role = np.arange(90) % 3
    ends = [(i, (i + 3 * int(step)) % 90) for i in range(90) for step in draw.integers(1, 30, 3)]
    Path("edges.csv").write_text("source,target\n" + "".join(f"n{a},n{b}\n" for a, b in ends))
    team = ["abc"[r if i != 10 else 2] for i, r in enumerate(role)]
    rows = [f"n{i},{team[i]},{r},{draw.integers(0, 4)},{'xyz'[r]},{'xyz'[r]}\n" for i, r in enumerate(role)]
    Path("nodes.csv").write_text("key,team,code,size,role,Same\n" + "".join(rows))
    Path("few.csv").write_text("node,class\n" + "".join(f"n{i},{'xyz'[role[i]]}\n" for i in range(30)))
    return tmp_path


def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["naq", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    return int(ended.value.code or 0), shown.out, shown.err


def told(err: str) -> set[str]:
    return {line.split("column ")[1].split("'")[1] for line in err.splitlines() if "alone tells the class" in line}


def test_columns_that_tell_the_class_are_named_and_can_be_left_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("predict", "edges.csv", "--nodes", "nodes.csv", "--labels", "few.csv", "--out", "p.csv")
    code, out, err = call(monkeypatch, capsys, *given)
    assert code == 0 and told(err) == {"team", "code", "role", "Same"} and "--ignore team" in err, err
    assert "ids of nodes are those of column 'key'" in err, "the notes of the import"
    more = ("--label", "role", "--ignore", "team", "--ignore", "code")
    code, out, err = call(monkeypatch, capsys, *given, *more)
    assert code == 0 and told(err) == {"Same"}, err
    assert "--label role --ignore team --ignore code" in out, "what to do next reads the same table"
    code, _, err = call(monkeypatch, capsys, *given, "--ignore", "no such column")
    assert code == 2 and "no such column" in err
    code, _, err = call(
        monkeypatch, capsys, "predict", "bundled.npz", "--ignore", "x", "--label", "y", "--out", "p.csv"
    )
    assert code == 2 and "is no edge list" in err


def test_a_column_of_classes_is_labels_where_no_file_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = list(csv.reader(Path("nodes.csv").read_text().splitlines()))
    Path("nodes.csv").write_text(
        "".join(",".join([*row[:4], row[4] if i < 31 else ""]) + "\n" for i, row in enumerate(rows))
    )
    words = ("edges.csv", "--nodes", "nodes.csv", "--label", "role", "--ignore", "team")
    code, out, err = call(monkeypatch, capsys, "predict", *words, "--out", "p.csv", "--json")
    assert code == 0 and told(err) == {"code"}, err
    assert {one["class"]: one["labels"] for one in json.loads(out)["classes"]} == {"x": 10, "y": 10, "z": 10}
    for command in ("check", "suggest"):
        code, out, err = call(monkeypatch, capsys, command, *words)
        assert code == 0 and told(err) == {"code"}, err


def test_what_counts_as_the_class_in_other_words() -> None:
    draw = np.random.default_rng(1)
    own = np.arange(200) % 2
    names = np.array(["no", "yes"])
    noisy = np.where(draw.random(200) < 0.2, 1 - own, own)
    features = np.stack([own, noisy, draw.random(200), draw.integers(0, 2, 200)], axis=1)
    graph = Graph(np.zeros((2, 0), int), features, nodes=200, vocab=["own", "noisy", "free", "coin"])
    assert [note.split("'")[1] for note in class_columns(graph, np.arange(200), names[own])] == ["own"]
    assert class_columns(graph, np.arange(4), names[own[:4]]) == [], "chance does as well with four labels"
    answers = np.eye(2)[own]
    said = Graph(np.zeros((2, 0), int), answers, nodes=200, vocab=["answer=No", "answer=Yes"])
    assert len(class_columns(said, np.arange(2), names[own[:2]])) == 1, "unless it is their names"
    assert class_columns(said, np.array([0, 2]), names[own[[0, 2]]]) == []
    assert class_columns(graph.with_features(None), np.arange(200), names[own]) == []


def test_python_has_the_same_options(folder: Path) -> None:
    read = naq.load("edges.csv", nodes="nodes.csv", label="role", ignore=["team", "code", "Same"])
    made = naq.from_tables("edges.csv", "nodes.csv", label="role", ignore=["team", "code", "Same"])
    assert read.hash == made.hash and read.vocab is not None and read.vocab.tolist() == ["size"]
    assert read.table is not None and read.table.columns.tolist() == ["size"], "what is ignored is not kept either"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("neighbors debian --alpha 1e400", "--alpha"),
        ("neighbors debian --alpha nan", "--alpha"),
        ("neighbors debian --shards=1_000 --out t.npz", "--shards"),
        ("neighbors debian -k 1_0", "-k"),
        ("estimate debian --set dim=-1", "dim"),
        ("estimate debian --set dim=1_0", "dim"),
        ("estimate debian --episodes -5", "episodes"),
        ("estimate debian --method naq-feat/protonet --set latent=-1", "latent"),
        ("neighbors debian --out=-", "--out"),
        ("run debian --out=-", "--out"),
        ("neighbors debian --out t.csv", ".npz"),
        ("suggest debian --out t.json", ".csv"),
        ("predict debian --labels x.csv --out p.parquet", ".csv"),
        ("predict debian --labels x.csv --out p.csv --report r.pdf", ".html"),
        ("check debian --labels x.csv --out p.xlsx", ".csv"),
    ],
)
def test_values_that_nobody_means(
    words: str, said: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.iterdir())
    code, out, err = call(monkeypatch, capsys, *words.split())
    assert code == 2 and not out and said in err and err.count("\n") == 1, err
    assert sorted(folder.iterdir()) == before
