"""README.md: its tables are those of the recorded results, and its code runs."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

import methods_under_test as suite
import naq
from fake_records import finds
from naq_paper.cells.store import Store
from naq_paper.experiments.experiment import cells_of, expand
from naq_paper.experiments.folder import Requests, pack_folder
from naq_paper.experiments.request import Request

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("beyond_page", "first_table", "practice_page", "readme")


@pytest.fixture(scope="module")
def tools():
    """The scripts of tools/ as modules, by name."""
    with pytest.MonkeyPatch.context() as patch:
        found = {}
        for name in TOOLS:
            spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
            found[name] = importlib.util.module_from_spec(spec)
            patch.setitem(sys.modules, name, found[name])
            spec.loader.exec_module(found[name])
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Made-up results of the comparison on two graphs."""
    place, find = tmp_path_factory.mktemp("results"), finds()
    facts = {"debian": {"most_classes": 12}, "cora": {"most_classes": 2}}
    request = Request("beyond-accuracy", tuple(facts), seeds=2, facts=facts)
    store = Store(place)
    store.prepare()
    for cell in cells_of(expand(request, find)):
        store.put(find(cell))
    Requests([request]).save(place)
    return place


def test_the_first_table_has_a_line_per_graph_and_shot(tools, folder, tmp_path):
    pack_folder(folder, tmp_path / "beyond.zip")
    lines = tools["first_table"].first_lines(tmp_path / "beyond.zip")
    places = [(line.dataset, line.setting) for line in lines]
    assert places == [(d, f"{w}-way {s}-shot") for d, w in (("debian", 5), ("cora", 2)) for s in (1, 5)]
    text = tools["first_table"].first_table(lines)
    assert text.splitlines()[0] == "| graph | tasks | `smooth` | `naq-plus` | `naq-plus/sugrl` | best trained |"
    # Made-up results: NaQ-Feat has the highest mean of all trained methods.
    assert all(line.best.endswith("(NaQ-Feat)") for line in lines)
    assert "smooth, older form" not in text and text.count("s=") + text.count("s+") + text.count("s-") == 3 * len(lines)
    tools["first_table"].draw_first(lines, tmp_path / "first.png")
    assert (tmp_path / "first.png").read_bytes().startswith(b"\x89PNG")


def test_the_best_trained_is_the_highest_of_the_table(tools, folder, tmp_path):
    pack_folder(folder, tmp_path / "beyond.zip")
    lines = tools["first_table"].first_lines(tmp_path / "beyond.zip")
    (study, _) = expand(Requests.load(folder).requests[0], finds())
    (table,) = [
        view
        for view in study.views()
        if getattr(view, "name", "") == "beyond-accuracy-debian" and hasattr(view, "rows")
    ]
    own = ("smooth", "naq-plus")
    values = [row[2].value for row in table.rows if not str(getattr(row[0], "text", row[0])).startswith(own)]
    assert len(values) == 7 and lines[0].numbers[-1].value == max(values)


def test_results_that_are_not_whole_are_an_error(tools, folder, tmp_path):
    with pytest.raises(SystemExit, match="does not exist"):
        tools["first_table"].first_lines(tmp_path / "beyond.zip")
    less = Store(tmp_path / "less")
    less.prepare()
    for record in list(Store(folder).records())[1:]:
        less.put(record)
    Requests.load(folder).save(less.folder)
    pack_folder(less.folder, tmp_path / "beyond.zip")
    with pytest.raises(SystemExit, match="lacks 1 of"):
        tools["first_table"].first_lines(tmp_path / "beyond.zip")


def test_the_readme_shows_what_is_recorded(tools):
    assert tools["readme"].main(["--check"]) == 0


def test_the_code_of_the_readme_runs(monkeypatch, tmp_path, capsys):
    """On a small graph, with fewer episodes."""
    graph = suite.community_graph(size=20, classes=30)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NAQ_CACHE", str(tmp_path))
    monkeypatch.setattr(naq, "load", lambda name: graph)
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S))
    replaced = (
        ("episodes=960", "episodes=4"),
        ("count=16_000", "count=16"),
        ("count=500", "count=20"),
        ('{"bash": "shells", "vim": "editors"}', '{0: "shells", 25: "editors"}'),
    )
    for old, new in replaced:
        assert code.count(old) == 1
        code = code.replace(old, new)
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names["z"].shape[0] == graph.num_nodes and names["e"].support.shape[0] == 16
    assert "%" in capsys.readouterr().out
