"""docs/beyond.md: filled from packed results, never with less than all of them, and the same as what is packed."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from fake_records import finds
from naq_paper.cells.store import Store
from naq_paper.experiments.datasets import experiments_of
from naq_paper.experiments.experiment import cells_of, expand
from naq_paper.experiments.folder import Requests, pack_folder
from naq_paper.experiments.request import Request

ROOT = Path(__file__).resolve().parents[2]
FACTS = {"debian": {"most_classes": 12}, "cora": {"most_classes": 2}}
PAGE = """# A page
<!-- beyond-accuracy-reached:begin -->
old
<!-- beyond-accuracy-reached:end -->
![reached](beyond/beyond-accuracy-reached.png) ![bars](beyond/beyond-accuracy-bars.png)
<!-- beyond-accuracy-cora:begin -->
<!-- beyond-accuracy-cora:end -->
<!-- beyond-robustness:begin -->
<!-- beyond-robustness:end -->
The end.
"""


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("beyond_page", ROOT / "tools" / "beyond_page.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "beyond_page", module)  # dataclasses look their module up by name
        spec.loader.exec_module(module)
        yield module


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Made-up results of all that ``naq reproduce beyond`` computes on two datasets."""
    place, find = tmp_path_factory.mktemp("results"), finds()
    requests = [Request(name, tuple(FACTS), seeds=2, facts=FACTS) for name in experiments_of("beyond")]
    store = Store(place)
    store.prepare()
    for cell in cells_of(study for request in requests for study in expand(request, find)):
        store.put(find(cell))
    Requests(requests).save(place)
    return place


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "beyond.md"
    path.write_text(PAGE, encoding="utf-8")
    return path


def test_tables_and_pictures_are_filled_in_and_checked(tool, folder, page):
    pack = page.with_name("beyond.zip")
    assert tool.main([str(folder)], page=page, pack=pack) == 0
    text = page.read_text(encoding="utf-8")
    assert "\nold\n" not in text and text.startswith("# A page") and text.endswith("The end.\n")
    reached, accuracy, robustness = re.findall(r"begin -->\n(.*?)\n<!--", text, re.S)
    assert "| debian | inductive | 1-shot, logistic |" in reached and "| cora | inductive |" in reached
    assert "2-way 1-shot" in accuracy and "5-way" not in accuracy and "| dataset |" not in accuracy
    assert "| debian | naq-plus (no training) |" in robustness and "feature noise 0.3" in robustness
    assert "Every seed draws its own noise" in robustness, "what all notes say is kept"
    for name in ("beyond-accuracy-reached", "beyond-accuracy-bars"):
        assert (page.parent / "beyond" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert tool.main(["--check"], page=page, pack=pack) == 0
    assert len(tool.read(pack).plots("beyond-accuracy-bars")) == 4, "two datasets, two shots"


def test_a_page_that_differs_is_noticed(tool, folder, page, capsys):
    pack = page.with_name("beyond.zip")
    tool.main([str(folder)], page=page, pack=pack)
    right = page.read_text(encoding="utf-8")
    page.write_text(right.replace("| debian |", "| Debian |", 1), encoding="utf-8")
    assert tool.main(["--check"], page=page, pack=pack) == 1 and "does not show" in capsys.readouterr().err
    page.write_text(right, encoding="utf-8")
    (page.parent / "beyond" / "beyond-accuracy-bars.png").unlink()
    assert tool.main(["--check"], page=page, pack=pack) == 1 and "beyond-accuracy-bars.png" in capsys.readouterr().err


def test_what_is_missing_is_an_error(tool, folder, page, tmp_path):
    pack = tmp_path / "beyond.zip"
    with pytest.raises(SystemExit, match="does not exist"):
        tool.main([], page=page, pack=pack)
    pack_folder(folder, pack)
    for wrong, message in (
        ("<!-- beyond-nothing:begin -->\n<!-- beyond-nothing:end -->", "no table beyond-nothing"),
        ("![x](beyond/beyond-nothing.png)", "no plot beyond-nothing"),
        ("<!-- beyond-ablation:begin -->", "once each"),
    ):
        page.write_text(PAGE + wrong, encoding="utf-8")
        with pytest.raises(SystemExit, match=message):
            tool.main([], page=page, pack=pack)
    page.write_text("no marker", encoding="utf-8")
    with pytest.raises(SystemExit, match="no markers"):
        tool.main([], page=page, pack=pack)


def test_results_that_are_not_whole_are_an_error(tool, folder, tmp_path):
    less, pack = tmp_path / "less", tmp_path / "beyond.zip"
    store = Store(less)
    store.prepare()
    for record in list(Store(folder).records())[1:]:
        store.put(record)
    Requests.load(folder).save(less)
    pack_folder(less, pack)
    with pytest.raises(SystemExit, match=r"lacks 1 of \d+ results of beyond-"):
        tool.read(pack)


def test_the_page_shows_what_is_packed(tool):
    assert tool.main(["--check"]) == 0
