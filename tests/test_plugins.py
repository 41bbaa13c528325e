"""Anybody's package adds methods and commands by entry points; looking up one thing imports one thing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import naq
from naq.errors import OptionError
from naq.heads import HEADS
from naq.plugins import Registry

THEIRS = '''
from typing import Annotated

import numpy as np
import typer

from naq.embedders import Embedder


class Degrees(Embedder):
    """One number for every node."""

    name = "degrees"
    summary = "the degree of a node"

    def embed(self):
        degree = np.diff(self.graph.adjacency.indptr)
        return np.stack([degree, np.ones_like(degree)], axis=1).astype(np.float32)


def hello(name: Annotated[str, typer.Argument()] = "you") -> None:
    """Greet."""
    print(f"hello {name}")
'''


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder as pip leaves it for a package ``theirs`` with two entry points."""
    (tmp_path / "theirs.py").write_text(THEIRS)
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[naq.methods]\ndegrees = theirs:Degrees\n\n[naq.commands]\nhello = theirs:hello\n"
    )
    return tmp_path


def python(installed: Path, *words: str) -> str:
    path = os.pathsep.join([str(installed), *sys.path])
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=600, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_installed_package_adds_a_method(installed: Path) -> None:
    code = "import naq, scipy.sparse as sp; g = naq.Graph(sp.csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))"
    shown = python(installed, "-c", f"{code}; print(naq.embed(g, 'degrees').tolist())")
    assert json.loads(shown) == [[1, 1], [2, 1], [1, 1]]
    listed = json.loads(python(installed, "-m", "naq", "list", "methods", "--json"))
    assert {"degrees", "naq-plus", "bgrl", "naq-feat/protonet"} <= {row["name"] for row in listed}


def test_an_installed_package_adds_a_command(installed: Path) -> None:
    assert python(installed, "-m", "naq", "hello", "there") == "hello there\n"
    assert "hello" in python(installed, "-m", "naq", "--help")


def test_looking_up_a_method_imports_that_method_alone() -> None:
    code = (
        "import sys; from naq.methods import get_method; get_method('naq-feat/protonet');"
        "print([m for m in sys.modules if m.startswith(('naq.learners.', 'naq_paper'))])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "naq.learners.protonet" in found and "maml" not in found and "naq_paper" not in found


def test_a_registered_class_is_found_and_a_second_of_its_name_refused() -> None:
    from naq.heads import PrototypeHead

    class Mine(PrototypeHead):
        name = "mine"

    try:
        assert naq.register(Mine) is Mine and HEADS["mine"] is Mine
        with pytest.raises(OptionError, match="mine"):
            naq.register(type("Other", (PrototypeHead,), {"name": "mine"}))
    finally:
        HEADS._items.pop("mine")
    with pytest.raises(OptionError, match="subclass"):
        naq.register(dict)  # type: ignore[arg-type]


def test_an_item_is_imported_when_it_is_looked_up() -> None:
    table: Registry[type] = Registry("a thing", {"ordered": "collections:OrderedDict", "gone": "naq.nothing:Gone"})
    assert "gone" in table and list(table) == ["ordered", "gone"]
    assert table["ordered"].__name__ == "OrderedDict"
    with pytest.raises(ImportError):
        table["gone"]
    with pytest.raises(OptionError, match="did you mean ordered"):
        table.find("orderd")
