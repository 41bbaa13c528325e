"""naq predict and naq suggest."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import methods_under_test as suite
from naq import Graph
from naq.cli.main import app, main
from naq.errors import NaqError
from naq.io import save_graph


@pytest.fixture(scope="module")
def graph() -> Graph:
    plain = suite.community_graph(size=24)
    names = [f"=n{i}" if i == 5 else f"n{i}" for i in range(plain.num_nodes)]
    vocab = [f"w{j}" for j in range(plain.num_features)]
    return Graph(plain.adjacency, plain.features, plain.labels, names=names, vocab=vocab, name="communities")


@pytest.fixture(scope="module")
def graph_file(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_graph(tmp_path_factory.mktemp("graph") / "communities.npz", graph)


@pytest.fixture
def labels(graph: Graph, tmp_path: Path) -> Path:
    assert graph.names is not None and graph.labels is not None
    chosen = [int(i) for c in np.unique(graph.labels) for i in np.flatnonzero(graph.labels == c)[:2]]
    path = tmp_path / "few.csv"
    path.write_text("node,class\n" + "".join(f"{graph.names[i]},-class {graph.labels[i]}\n" for i in chosen))
    return path


def run(*words: object) -> str:
    shown = CliRunner().invoke(app, [str(word) for word in words])
    if shown.exception is not None and not isinstance(shown.exception, SystemExit):
        raise shown.exception
    assert shown.exit_code == 0, shown.output
    return shown.stdout


def test_predict_writes_a_line_per_node(graph: Graph, graph_file: Path, labels: Path, tmp_path: Path) -> None:
    shown = run("predict", graph_file, "--labels", labels, "--out", tmp_path / "p.csv")
    assert "Expected accuracy" in shown and "Chosen: naq-plus" in shown and "-class 0" in shown
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    assert len(rows) == graph.num_nodes
    assert rows[5]["node"] == "'=n5" and rows[6]["node"] == "n6"
    assert graph.labels is not None
    right = [row["class"] == f"'-class {c}" for row, c in zip(rows, graph.labels)]
    assert np.mean(right) > 0.9
    for row in rows:
        assert 0 <= float(row["runner_up_probability"]) <= 1 and row["runner_up"] != row["class"]
        assert row["given"] or float(row["probability"]) >= float(row["runner_up_probability"])
        assert row["nearest_label"] and row["prediction_set"]
    assert sum(row["given"] == "yes" for row in rows) == len(labels.read_text().splitlines()) - 1
    assert any(row["words"] for row in rows)


def test_summary_as_json(graph: Graph, graph_file: Path, labels: Path, tmp_path: Path) -> None:
    facts = json.loads(run("predict", graph_file, "--labels", labels, "--out", tmp_path / "p.csv", "--json"))
    assert facts["nodes"] == graph.num_nodes == sum(row["nodes"] for row in facts["classes"])
    assert (
        facts["expected_accuracy"]["low"] <= facts["expected_accuracy"]["value"] <= facts["expected_accuracy"]["high"]
    )


def test_report_is_written_and_says_how(graph_file: Path, labels: Path, tmp_path: Path) -> None:
    page = tmp_path / "my page.html"
    words = ("predict", graph_file, "--labels", labels, "--out", tmp_path / "p.csv", "--report", page, "--level", 0.8)
    assert str(page) in run(*words)
    html = page.read_text()
    assert "How often a probability is right" in html and "for 80 % of the nodes" in html
    said = re.sub("<[^>]+>", "", html)
    assert "--level 0.8" in said and "my page.html" in said and "--seed" not in said


def test_unknown_nodes_have_no_class(graph_file: Path, labels: Path, tmp_path: Path) -> None:
    facts = json.loads(
        run("predict", graph_file, "--labels", labels, "--out", tmp_path / "p.csv", "--unknown", "--json")
    )
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    assert sum(not row["class"] for row in rows) == facts["unknown"]


def test_a_mistake_writes_nothing(graph_file: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("node,class\nn1,a\nn99999,b\n")
    with pytest.raises(NaqError, match=r"bad.csv, line 3: there is no node 'n99999'; did you mean"):
        run("predict", graph_file, "--labels", bad, "--out", tmp_path / "p.csv")
    bad.write_text("node,class\nn1,a\nn2,a\n")
    with pytest.raises(NaqError, match="at least two classes"):
        run("predict", graph_file, "--labels", bad, "--out", tmp_path / "p.csv")
    assert not (tmp_path / "p.csv").exists()


def test_ctrl_c_is_one_sentence(
    graph_file: Path, labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("naq.cli.predicting._fitted", stop)
    words = ["naq", "predict", str(graph_file), "--labels", str(labels), "--out", str(tmp_path / "p.csv")]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130 and capsys.readouterr().err == "naq: stopped.\n"
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize("command", ("predict", "suggest"))
def test_nothing_that_is_read_is_written_over(
    graph_file: Path, labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    before = labels.read_bytes(), graph_file.read_bytes()
    link = tmp_path / "link.csv"
    link.symlink_to(labels)
    for out, says in (
        (labels, "the same file as --labels"),
        (link, "the same file as --labels"),
        (graph_file, "the same file as the graph"),
        (tmp_path, "a folder; expected the name of a file"),
        (labels / "p.csv", f"{labels} is no folder"),
    ):
        with pytest.raises(NaqError, match=re.escape(says)):
            run(command, graph_file, "--labels", labels, "--out", out)
    monkeypatch.setattr("naq.cli.checking.os.access", lambda path, mode: Path(path) != tmp_path)
    with pytest.raises(NaqError, match=f"you may not write to {tmp_path}; choose"):
        run(command, graph_file, "--labels", labels, "--out", tmp_path / "new" / "p.csv")
    assert (labels.read_bytes(), graph_file.read_bytes()) == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["few.csv", "link.csv"]


def test_predictions_and_report_are_two_files(graph_file: Path, labels: Path, tmp_path: Path) -> None:
    with pytest.raises(NaqError, match=r"--report is .* the same file as --out"):
        run("predict", graph_file, "--labels", labels, "--out", tmp_path / "p.csv", "--report", tmp_path / "p.csv")


def test_suggestions_are_filled_in_and_used(graph: Graph, graph_file: Path, labels: Path, tmp_path: Path) -> None:
    first = json.loads(run("suggest", graph_file, "-k", 4, "--json"))
    assert len({row["node"] for row in first}) == 4 and all(row["likely"] is None for row in first)
    shown = run("suggest", graph_file, "--labels", labels, "-k", 6, "--out", tmp_path / "next.csv")
    assert shown.count("likely") == 6
    rows = list(csv.DictReader((tmp_path / "next.csv").read_text().splitlines()))
    assert len(rows) == 6 and all(row["class"] == "" for row in rows)
    filled = tmp_path / "filled.csv"
    filled.write_text("node,class\n" + "".join(f"{row['node']},class {i % 2}\n" for i, row in enumerate(rows)))
    run("predict", graph_file, "--labels", filled, "--out", tmp_path / "p.csv")
