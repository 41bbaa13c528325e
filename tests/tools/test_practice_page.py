"""docs/practice.md: filled from packed results, never with less than all of them, and the same as what is packed."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from fake_records import finds, practice_result, record_for
from naq_paper.cells.store import Store
from naq_paper.experiments.experiment import cells_of, expand
from naq_paper.experiments.folder import Requests, pack_folder
from naq_paper.experiments.request import Request

ROOT = Path(__file__).resolve().parents[2]
GRAPHS = ("cora", "debian")
PAGE = "".join(
    f"<!-- {name}:begin -->\nold\n<!-- {name}:end -->\n"
    for name in (
        "practice-short",
        "practice-networks",
        "practice-macro-short",
        "practice-graphs",
        "practice-methods",
        "practice-targets",
        "practice-expected",
        "practice",
        "practice-random",
    )
)


@pytest.fixture(scope="module")
def tool():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        spec = importlib.util.spec_from_file_location("practice_page", ROOT / "tools" / "practice_page.py")
        module = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, "practice_page", module)
        spec.loader.exec_module(module)
        yield module


def fill(place, requests, leave=0, find=None):
    """Made-up results of the requests, but for the first ones."""
    store, find = Store(place), find or finds()
    store.prepare()
    cells = list(dict.fromkeys(cells_of(study for request in requests for study in expand(request, find))))
    for cell in cells[leave:]:
        store.put(find(cell))
    Requests(requests).save(place)
    return place


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    requests = [Request("practice", (graph,), seeds=seeds) for graph, seeds in zip(GRAPHS, (4, 5))]
    return fill(tmp_path_factory.mktemp("results"), requests)


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "practice.md"
    path.write_text(PAGE, encoding="utf-8")
    return path


def test_tables_and_the_picture_are_filled_in_and_checked(tool, folder, page, capsys):
    pack = page.with_name("practice.zip")
    assert tool.main([str(folder)], page=page, pack=pack) == 0
    text = page.read_text(encoding="utf-8")
    short, networks, macro, graphs, methods, targets, expected, accuracy, random = re.findall(
        r"begin -->\n(.*?)\n<!--", text, re.S
    )
    assert "\nold\n" not in text
    assert "| GCN, tuned |" in networks and "the same draws" in networks
    assert "| method | 1 label | 2 labels |" in short and "| 200 labels, random |" in macro
    assert [line.split("|")[-2].strip() for line in graphs.splitlines()[2:4]] == ["4", "5"]
    assert "scikit-network: PageRankClassifier()" in methods and "| cora, s | debian, s |" in methods
    assert "| 1 label |" in targets and "| 2 of 2 | none |" in targets
    assert "| 1 label | 9 |" in expected, "a case is a graph and a draw"
    assert accuracy.count("naq (FewShotNodeClassifier)") == 2 and "▼" in accuracy and "5 labels, random" in random
    for name in tool.PICTURES:
        assert page.with_name(name).read_bytes().startswith(b"\x89PNG")
    assert tool.main(["--check"], page=page, pack=pack) == 0
    capsys.readouterr()
    assert tool.main(["--readme"], page=page, pack=pack) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0] == "| labels in every class: 1 / 5 / 20 | cora | debian | average |"
    assert table[2].startswith("| naq (FewShotNodeClassifier) | **") and table[2].count("**") == 2 * 9
    assert table[3].startswith("| GCN, tuned |") and "**" not in table[3]
    page.write_text(text.replace("| none |", "| cora |", 1), encoding="utf-8")
    assert tool.main(["--check"], page=page, pack=pack) == 1
    assert "does not show the packed results" in capsys.readouterr().err


def test_the_average_is_over_graphs_and_the_gain_over_the_best_of_each(tool, folder, tmp_path):
    pack_folder(folder, tmp_path / "practice.zip")
    found, at = tool.columns_of(tool.read(tmp_path / "practice.zip")), (1, "equal")
    row = {entry[0]: entry for entry in tool.average_table(found, "short", "Accuracy").rows}["SGC"]
    assert row[1].value == pytest.approx(sum(100 * found[g][at]["sgc"].mean for g in GRAPHS) / 2)

    def gain(graph):
        ours = found[graph][at]["naq-plus"].per_task
        others = [one.per_task for name, one in found[graph][at].items() if name != "naq-plus"]
        return min((ours[: len(one)] - one).mean() for one in others)

    gains = [gain(graph) for graph in GRAPHS]
    assert tool.targets_table(found).rows[0][3].value == pytest.approx(100 * sum(gains) / 2)


def test_methods_with_fewer_draws_are_averaged_over_the_same_draws(tool, folder, tmp_path):
    pack_folder(folder, tmp_path / "practice.zip")
    found, at = tool.columns_of(tool.read(tmp_path / "practice.zip")), (1, "equal")
    few = tool.beside(found, "gcn")["debian"][at]
    assert {one.per_task.size for one in few.values()} == {3} and found["debian"][at]["sgc"].per_task.size == 5
    assert few["sgc"].mean == pytest.approx(found["debian"][at]["sgc"].per_task[:3].mean())
    without = {
        "debian": found["debian"],
        "cora": {k: {r: v[r] for r in v if r != "gcn"} for k, v in found["cora"].items()},
    }
    assert list(tool.beside(without, "gcn")) == ["debian"] and "GCN, tuned on cora" in tool.not_run(without)


def test_where_another_is_ahead_is_told_with_its_name(tool, tmp_path):
    find = finds()

    def behind(cell):
        record = find(cell)
        if cell.config["dataset"] == "debian" and cell.config["peer"] == "sgc":
            record = record_for(cell, practice_result(cell, mean=0.75))
        return record

    requests = [Request("practice", (graph,), seeds=6, shots=(1, 5)) for graph in GRAPHS]
    pack_folder(fill(tmp_path / "some", requests, find=behind), tmp_path / "some.zip")
    rows = tool.targets_table(tool.columns_of(tool.read(tmp_path / "some.zip"))).rows
    assert len(rows) == 4 and all(row[-1].startswith("debian -5") or row[-1].startswith("debian -4") for row in rows)
    assert all("(SGC, significant)" in row[-1] and "cora" not in row[-1] for row in rows)


def test_a_method_that_a_graph_lacks_is_told(tool, tmp_path):
    requests = [
        Request("practice", ("cora",), seeds=2),
        Request("practice", ("debian",), seeds=2, methods=("naq-plus", "sgc")),
    ]
    pack_folder(fill(tmp_path / "some", requests), tmp_path / "some.zip")
    found = tool.columns_of(tool.read(tmp_path / "some.zip"))
    table = tool.average_table(found, "short", "Accuracy")
    assert [row[0] for row in table.rows] == ["naq (FewShotNodeClassifier)", "SGC"]
    assert "SSGC on debian" in table.note and "; SGC on" not in table.note
    assert tool.targets_table(found).rows[0][2].startswith("SGC, ")


def test_results_that_are_not_whole_are_an_error(tool, tmp_path):
    less = fill(tmp_path / "less", [Request("practice", ("cora",), seeds=3)], leave=1)
    pack_folder(less, tmp_path / "less.zip")
    with pytest.raises(SystemExit, match=r"lacks 1 of \d+ results of practice on cora"):
        tool.read(tmp_path / "less.zip")
    twice = fill(tmp_path / "twice", [Request("practice", ("cora",), seeds=seeds) for seeds in (2, 3)])
    pack_folder(twice, tmp_path / "twice.zip")
    with pytest.raises(SystemExit, match="expected each once"):
        tool.read(tmp_path / "twice.zip")
    with pytest.raises(SystemExit, match="does not exist"):
        tool.read(tmp_path / "none.zip")


def test_the_page_shows_what_is_packed(tool):
    assert tool.main(["--check"]) == 0
