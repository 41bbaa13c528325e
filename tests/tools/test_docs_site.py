"""The documentation site: what is put together for Sphinx, and what a page must not load. ``make docs`` builds it, with warnings as errors."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

import naq
from executed_page import run_page
from naq.embedders import EMBEDDERS
from naq.heads import HEADS
from naq.learners import LEARNERS

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("docs_site", ROOT / "tools" / "docs_site.py")
assert spec and spec.loader
docs_site = importlib.util.module_from_spec(spec)
spec.loader.exec_module(docs_site)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "source"
    docs_site.put_together(folder)
    return folder


def test_every_page_is_in_a_list(source: Path) -> None:
    listed = set()
    for page in [*source.glob("*.md"), *source.glob("*.rst")]:
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.M | re.S):
            listed |= {line.strip() for line in block.splitlines() if line.strip() and not line.startswith(":")}
    assert {page.stem for page in [*source.glob("*.md"), *source.glob("*.rst")]} == (listed | {"index"}) - {
        "gallery/index"
    }


def test_every_method_has_a_page(source: Path) -> None:
    index = (source / "every-method.rst").read_text(encoding="utf-8")
    for kind, registry in (("learners", LEARNERS), ("embedders", EMBEDDERS), ("heads", HEADS)):
        names = {name.replace("/", "-") for name in registry}
        assert {page.stem for page in (source / kind).iterdir()} == names
        assert all(f"<{kind}/{name}>" in index for name in names)
        for method in registry.values():
            assert (sys.modules[method.__module__].__doc__ or "").strip() and (method.__doc__ or "").strip()


def test_every_public_name_is_in_the_api() -> None:
    found = re.findall(
        r"^\.\. auto(?:class|function):: naq\.(\w+)(?:\.run\.run)?$",
        (ROOT / "docs" / "site" / "api.rst").read_text(encoding="utf-8"),
        re.M,
    )
    assert sorted(found) == sorted(name for name in naq.__all__ if not name.startswith("_"))


def test_pages_for_sphinx() -> None:
    page = "[a](docs/x.md) [b](../CONTRIBUTING.md#c)\n```csv few.csv\nnode,class\n```\n```python\n1\n```\n"
    expected = "[a](x.md) [b](contributing.md#c)\n```{code-block} text\n:caption: few.csv\n\nnode,class\n```\n```python\n1\n```\n"
    assert docs_site.for_sphinx(page) == expected


def test_loads_from_a_network_are_found(tmp_path: Path) -> None:
    (tmp_path / "static").mkdir()
    (tmp_path / "good.html").write_text(
        '<a href="https://a.org/x"></a><script src="y.js"></script><img src="data:image/png;base64,AA">'
    )
    assert docs_site.network_loads(tmp_path) == []
    (tmp_path / "bad.html").write_text(
        '<script src="//cdn.org/x.js"></script><link rel="stylesheet" href="https://b.org/y.css">'
    )
    (tmp_path / "static" / "bad.css").write_text(
        "@import 'https://c.org/z.css'; a { background: url(http://d.org/p.png) }"
    )
    assert docs_site.network_loads(tmp_path) == [
        "bad.html: //cdn.org/x.js",
        "bad.html: https://b.org/y.css",
        "static/bad.css: https://c.org/z.css",
        "static/bad.css: http://d.org/p.png",
    ]


def formulas() -> Iterator[tuple[str, bool]]:
    """(LaTeX, whether it is a block) of every formula in a docstring."""
    for path in (ROOT / "src" / "naq").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = (ast.get_docstring(node) or "") + "\n"
                yield from ((found, False) for found in re.findall(r":math:`([^`]+)`", text))
                yield from ((dedent(found), True) for found in re.findall(r"\.\. math::\n((?:    .*\n|\n)+)", text))


def test_every_formula_becomes_mathml(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx", reason="the site is an extra")
    monkeypatch.syspath_prepend(ROOT / "docs" / "site")
    from mathml import mathml

    found = list(formulas())
    assert sum(block for _, block in found) > 20
    for text, block in found:
        assert mathml(text, as_block=block).startswith("<math ")
    accented = re.sub(r"\s", "", mathml(r"\hat z_q"))
    assert '<msub><mover><mi>z</mi><mostretchy="false">ˆ</mo></mover><mi>q</mi></msub>' in accented


@pytest.mark.slow
def test_the_first_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = ROOT / "docs" / "site" / "start.md"
    assert run_page(page, tmp_path, monkeypatch, capsys) == {"console": 1, "python": 1, "file": 1}
