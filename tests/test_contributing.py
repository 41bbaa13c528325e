"""What CONTRIBUTING.md tells a newcomer to do: each addition is one copied file and a line in the table of its kind."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import methods_under_test as suite
import naq
from naq.cli.main import main
from naq.embedders import EMBEDDERS
from naq.heads import HEADS, evaluate
from naq.io import save_graph
from naq.io.readers import READERS
from naq.learners import LEARNERS
from naq.methods import methods
from naq.options import Registry
from naq.testing import check_embedder, check_head, check_learner
from naq_paper.experiments.experiment import EXPERIMENTS, Experiments

TABLES = {
    "naq.learners": LEARNERS, "naq.embedders": EMBEDDERS, "naq_paper.rivals": EMBEDDERS, "naq.heads": HEADS,
    "naq_paper.datasets": READERS,
}  # fmt: skip
Copy = Callable[[str, dict[str, str]], str]


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Copy]:
    """``copy("naq.learners.protonet", {"class ProtoNet": "class Mine"})``: the module as ``mine``, with other words."""
    added: list[str] = []

    def make(module: str, words: dict[str, str]) -> str:
        package = module.rpartition(".")[0]
        text = Path(str(import_module(module).__file__)).read_text()
        for old, new in words.items():
            assert old in text, old
            text = text.replace(old, new)
        folder = tmp_path / package
        folder.mkdir()
        (folder / "mine.py").write_text(text)
        home = import_module(package)
        monkeypatch.setattr(home, "__path__", [*home.__path__, str(folder)])
        added.append(f"{package}.mine")
        return added[-1]

    yield make
    for name in added:
        sys.modules.pop(name, None)


@pytest.fixture
def add(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Copy]:
    """The same, with its line in the table of its kind; nothing of it is imported before it is used."""
    tables: list[Registry] = []

    def make(module: str, words: dict[str, str]) -> str:
        made = copy(module, words)
        table = TABLES[module.rpartition(".")[0]]
        kind = next(new.split()[1] for new in words.values() if new.startswith("class "))
        monkeypatch.setitem(table._paths, "mine", f"{made}:{kind}")
        tables.append(table)
        assert "mine" in table and made not in sys.modules
        return made

    yield make
    for table in tables:
        table._items.pop("mine", None)


@pytest.fixture
def graph_file(tmp_path: Path) -> str:
    return str(save_graph(tmp_path / "communities.npz", suite.community_graph(size=14, classes=12, name="communities")))


ONE_FILE = {
    "learner": ("naq.learners.protonet", {'name = "protonet"': 'name = "mine"', "class ProtoNet": "class Mine"}),
    "embedder": ("naq.embedders.untrained", {'name = "untrained"': 'name = "mine"', "class Untrained": "class Mine"}),
    "head": ("naq.heads.prototype", {'name = "prototype"': 'name = "mine"', "class PrototypeHead": "class Mine"}),
    "reader": ("naq_paper.datasets.cora_full", {
        'name = "cora-full"\n': 'name = "mine"\n    expects = "a file of mine"\n\n'
        '    def fits(self, path: Path) -> bool:\n        return path.suffix == ".mine"\n',
        "class CoraFullReader": "class Mine",
    }),
}  # fmt: skip
"""By kind the module that is copied, and the words that make it another."""


def test_a_learner(add: Copy) -> None:
    add(*ONE_FILE["learner"])
    assert {f"{kind}/mine" for kind in ("naq-feat", "naq-diff", "supervised", "g-umtra")} <= set(methods())
    check_learner("mine", episodes="naq-feat")
    result = naq.run(suite.community_graph(), "naq-feat/mine", way=2, episodes=4, evaluate_every=2,
                     options={"latent": 8}, episode={"queries": 3}, cache=None)  # fmt: skip
    assert result.config.method == "naq-feat/mine" and 0 <= result.accuracy <= 1


def test_an_embedder(add: Copy) -> None:
    add(*ONE_FILE["embedder"])
    check_embedder("mine")
    graph = suite.community_graph()
    assert np.array_equal(naq.embed(graph, "mine", latent=8), naq.embed(graph, "untrained", latent=8))
    assert naq.run(graph, "mine", way=2, options={"latent": 8}, cache=None).config.method == "mine"


@pytest.mark.parametrize("kind", ONE_FILE)
def test_one_file_that_registers_itself(kind: str, copy: Copy, tmp_path: Path) -> None:
    """No line of the library changes: the file ends in ``naq.register(Mine)``; entry points are in test_options.py."""
    module, words = ONE_FILE[kind]
    registry, graph = TABLES[module.rpartition(".")[0]], suite.community_graph()
    assert "mine" not in registry
    try:
        naq.register(import_module(copy(module, words)).Mine)
        if kind == "reader":
            assert (
                naq.load(save_graph(tmp_path / "g.npz", graph).rename(tmp_path / "g.mine")).num_edges == graph.num_edges
            )
            return
        method = {"learner": "naq-feat/mine", "embedder": "mine", "head": "untrained"}[kind]
        more = {"episodes": 4, "evaluate_every": 2} if kind == "learner" else {}
        result = naq.run(graph, method, way=2, options={"latent": 8}, cache=None, **more)
        assert 0 <= result.accuracy <= 1 and (kind != "head" or "mine" in result.evaluations)
    finally:
        registry._items.pop("mine", None)


def test_a_trained_embedder(add: Copy) -> None:
    add("naq_paper.rivals.bgrl", {'name = "bgrl"': 'name = "mine"', "class BGRL": "class Mine"})
    graph = suite.community_graph()
    result = naq.run(graph, "mine", way=2, epochs=2, evaluate_every=1, options={"hidden": 8, "latent": 8}, cache=None)
    assert result.history is not None and result.embedding.shape == (graph.num_nodes, 8)


def test_a_head(add: Copy) -> None:
    add(*ONE_FILE["head"])
    check_head("mine")
    graph = suite.community_graph()
    tasks = naq.sample_tasks(graph, way=2, shot=1, queries=4, count=20)
    vectors = naq.embed(graph, "untrained", latent=8)
    mine, known = (evaluate(vectors, tasks, head) for head in ("mine", "prototype"))
    assert np.array_equal(mine.per_task, known.per_task) and mine.head == "mine"
    assert "mine" in naq.run(graph, "untrained", way=2, options={"latent": 8}, cache=None).evaluations


def test_an_analysis(
    graph_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A data file and no line elsewhere."""
    [folder] = EXPERIMENTS.folders
    text = (folder / "training-way.toml").read_text(encoding="utf-8")
    (tmp_path / "mine.toml").write_text(text.replace("levels = [5, 10, 20]", "levels = [2, 3]"), encoding="utf-8")
    mine = Experiments(folder, tmp_path)
    for module in ("experiment", "datasets"):
        monkeypatch.setattr(f"naq_paper.experiments.{module}.EXPERIMENTS", mine)
    monkeypatch.setattr("naq_paper.report.collect.EXPERIMENTS", mine)
    out = tmp_path / "results"
    words = [
        "naq", "reproduce", "mine", "--dataset", graph_file, "--quick", "--way", "2", "--set", "protonet.latent=8",
        "--out", str(out), "--no-cache",
    ]  # fmt: skip
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    assert ended.value.code in (0, None), shown.err
    assert (
        "ProtoNet (NaQ-Feat)" in shown.out
        and (out / "report.html").is_file()
        and (out / "tables" / "mine-communities.csv").is_file()
    )


def test_a_reader(add: Copy, tmp_path: Path) -> None:
    add(*ONE_FILE["reader"])
    graph = suite.community_graph()
    file = save_graph(tmp_path / "g.npz", graph).rename(tmp_path / "g.mine")
    assert naq.load(file).num_edges == graph.num_edges and READERS["mine"]().fits(file)
    (tmp_path / "g.unknown").write_text("x")
    with pytest.raises(naq.NaqError, match="a file of mine"):
        naq.load(tmp_path / "g.unknown")
