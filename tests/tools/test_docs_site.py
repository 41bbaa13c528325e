"""The documentation site: what is put together for Sphinx. ``make docs`` builds it, with warnings as errors."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import naq
from executed_page import run_page

ROOT = Path(__file__).resolve().parents[2]


def load_tool() -> Any:
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "tools" / "docs_site.py")
    assert spec and spec.loader
    docs_site = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(docs_site)
    return docs_site


def test_every_page_is_in_a_list(tmp_path: Path) -> None:
    load_tool().put_together(tmp_path / "source")
    pages = [*(tmp_path / "source").glob("*.md"), *(tmp_path / "source").glob("*.rst")]
    listed = set()
    for page in pages:
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
            listed |= {line.strip() for line in block.splitlines() if line.strip() and not line.startswith(":")}
    assert {page.stem for page in pages} == (listed | {"index"}) - {"gallery/index"}


def test_the_texts_for_assistants(tmp_path: Path) -> None:
    """As https://llmstxt.org has it: a title, a paragraph, lists of links, each with a line; all lead somewhere."""
    text = (ROOT / "llms.txt").read_text(encoding="utf-8")
    assert re.match(r"# .+\n\n> .+\n\n", text)
    lists = text[text.index("\n## ") :]
    assert all(re.fullmatch(r"|## .+|- \[.+\]\(\S+\): .+", line) for line in lists.splitlines())
    named = re.findall(r"\]\((\S+)\)", text)
    assert named[0] == "docs/recipes.md" and len(named) == len(set(named)) == lists.count("\n- ")
    assert [page for page in named if not (ROOT / page).is_file()] == []
    load_tool().copy_texts(tmp_path)
    links = re.findall(r"\]\((\S+)\)", (tmp_path / "llms.txt").read_text(encoding="utf-8"))
    assert [(tmp_path / link).read_bytes() for link in links] == [(ROOT / page).read_bytes() for page in named]


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
