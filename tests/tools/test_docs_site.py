"""The documentation site: what is put together for Sphinx. ``make docs`` builds it, with warnings as errors."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

import naq
from executed_page import run_page

ROOT = Path(__file__).resolve().parents[2]


def test_every_page_is_in_a_list(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "tools" / "docs_site.py")
    assert spec and spec.loader
    docs_site = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(docs_site)
    docs_site.put_together(tmp_path / "source")
    pages = [*(tmp_path / "source").glob("*.md"), *(tmp_path / "source").glob("*.rst")]
    listed = set()
    for page in pages:
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
            listed |= {line.strip() for line in block.splitlines() if line.strip() and not line.startswith(":")}
    assert {page.stem for page in pages} == (listed | {"index"}) - {"gallery/index"}


def test_every_public_name_is_in_the_api() -> None:
    text = (ROOT / "docs" / "site" / "api.rst").read_text(encoding="utf-8")
    found = re.findall(r"^\.\. auto(?:class|function|module):: naq\.(\w+)(?:\.run\.run)?$", text, re.M)
    assert sorted(found) == sorted(name for name in naq.__all__ if not name.startswith("_"))


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

    for text, block in formulas():
        assert mathml(text, as_block=block).startswith("<math ")


def test_the_first_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the labelled packages of debian and some others."""
    whole = naq.load("debian")
    nodes = np.unique(np.r_[np.flatnonzero(np.isin(whole.names, ("bash", "vim", "gimp"))), 0 : whole.num_nodes : 100])
    part = naq.Graph(whole.adjacency[nodes][:, nodes], whole.features[nodes], names=whole.names[nodes])
    monkeypatch.setattr(naq, "load", {"debian": part}.__getitem__)
    assert run_page(ROOT / "docs" / "site" / "start.md", tmp_path, monkeypatch, capsys)
