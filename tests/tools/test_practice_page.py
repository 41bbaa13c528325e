"""docs/practice.md: filled from packed results, never with less than all of them, and the same as what is packed."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from fake_records import finds
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
        "practice-graphs",
        "practice-methods",
        "practice-targets",
        "practice",
        "practice-cost",
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


def fill(place, requests, leave=0):
    """Made-up results of the requests, but for the first ones."""
    store, find = Store(place), finds()
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
    short, graphs, methods, targets, accuracy, cost = re.findall(r"begin -->\n(.*?)\n<!--", text, re.S)
    assert "\nold\n" not in text
    assert "| method | cora, 1 label | cora, 5 labels | debian, 1 label |" in short and "average, 5 labels" in short
    assert [line.split("|")[-2].strip() for line in graphs.splitlines()[2:4]] == ["4", "5"]
    assert "scikit-network: DiffusionClassifier()" in methods and methods.count("\n") >= 12
    assert "| 1 label |" in targets and "| +5 | yes |" in targets and "| none |" in targets
    assert accuracy.count("naq (FewShotNodeClassifier)") == 2 and "▼" in accuracy
    assert "expected calibration error" in cost
    assert page.with_name("practice.png").read_bytes().startswith(b"\x89PNG")
    assert tool.main(["--check"], page=page, pack=pack) == 0
    capsys.readouterr()
    assert tool.main(["--readme"], page=page, pack=pack) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0] == "| labels in every class: 1 / 5 | cora | debian | average |"
    first = [cell.strip() for cell in short.splitlines()[2].strip("|").split("|")]
    pairs = [" / ".join(first[i : i + 2]) for i in range(1, len(first), 2)]
    assert [cell.strip() for cell in table[2].strip("|").split("|")] == [first[0], *pairs]
    page.write_text(text.replace("| none |", "| cora |"), encoding="utf-8")
    assert tool.main(["--check"], page=page, pack=pack) == 1
    assert "does not show the packed results" in capsys.readouterr().err


def test_the_average_is_over_graphs_and_the_gain_over_the_best_of_each(tool, folder, tmp_path):
    pack_folder(folder, tmp_path / "practice.zip")
    found = tool.columns_of(tool.read(tmp_path / "practice.zip"))
    row = {entry[0]: entry for entry in tool.short_table(found).rows}["SGC"]
    assert row[-2].value == pytest.approx(sum(100 * found[g][1]["sgc"].mean for g in GRAPHS) / 2)
    others = [name for name in found["cora"][1] if name not in ("naq-plus", "smooth")]
    gains = [found[g][1]["naq-plus"].mean - max(found[g][1][name].mean for name in others) for g in GRAPHS]
    assert tool.targets_table(found).rows[0][2].value == pytest.approx(100 * sum(gains) / 2)


def test_a_method_that_a_graph_lacks_is_told(tool, tmp_path):
    requests = [
        Request("practice", ("cora",), seeds=2),
        Request("practice", ("debian",), seeds=2, methods=("naq-plus", "sgc")),
    ]
    pack_folder(fill(tmp_path / "some", requests), tmp_path / "some.zip")
    found = tool.columns_of(tool.read(tmp_path / "some.zip"))
    table = tool.short_table(found)
    rows = {row[0]: row for row in table.rows}
    assert rows["GAT"][1].value > 0 and rows["GAT"][3] == "–" and rows["GAT"][-1] == "–"
    assert rows["SGC"][-1].value > 0 and [row[0] for row in table.rows][:2] == [table.rows[0][0], "SGC"]
    assert "GAT on debian" in table.note and "SGC on" not in table.note
    assert "best other" not in table.note and tool.targets_table(found).rows[0][5].startswith("SGC, ")


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
