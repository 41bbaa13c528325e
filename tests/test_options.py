"""Options, and things by name: one is imported when it is looked up, and other packages add theirs by entry points."""

import json
import os
import subprocess
import sys

import pytest

import naq
from naq.errors import OptionError
from naq.heads import HEADS, PrototypeHead
from naq.options import Registry, did_you_mean, merge_options, parse_value

DEFAULTS = {"lr": 1e-4, "latent": 256, "center": True, "smoothing": "hops"}


def merged(**given):
    return merge_options("toy", DEFAULTS, given)


def test_given_values_override_defaults():
    assert merged() == DEFAULTS
    assert merged(lr=3e-3, center=False) == {**DEFAULTS, "lr": 3e-3, "center": False}
    assert DEFAULTS["lr"] == 1e-4


def test_text_from_the_command_line_is_converted():
    found = merged(lr="3e-3", latent="64", center="False", smoothing="7")
    assert found == {"lr": 3e-3, "latent": 64, "center": False, "smoothing": "7"}
    assert [type(value) for value in found.values()] == [float, int, bool, str]


def test_a_whole_number_is_a_number():
    value = merged(lr=1)["lr"]
    assert value == 1.0 and type(value) is float
    assert type(merged(lr="1")["lr"]) is float


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("latent", 2.5), ("latent", "2.5"), ("latent", True), ("latent", None), ("lr", "fast"), ("lr", True),
        ("center", 1),
        ("center", "yes"), ("smoothing", 3), ("smoothing", None), ("latnt", 3),
    ],
)  # fmt: skip
def test_a_wrong_name_or_type_is_named(name, value):
    with pytest.raises(OptionError, match=name):
        merged(**{name: value})


def test_likely_names_come_first():
    assert did_you_mean("cosin", ["cosine", "jaccard"]) == "did you mean cosine?"
    assert did_you_mean("q", ["b", "a"]) == "expected one of a, b."


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), (" False ", False), ("3", 3), ("-3", -3), ("3.5", 3.5), ("1e-3", 1e-3), ("abc", "abc"), ("", "")],
)
def test_parse_value(text, value):
    found = parse_value(text)
    assert found == value and type(found) is type(value)


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


def hello(name: Annotated[str, typer.Argument()] = "you"):
    """Greet."""
    print(f"hello {name}")
'''


@pytest.fixture
def installed(tmp_path):
    """A folder as pip leaves it for a package ``theirs`` with two entry points."""
    (tmp_path / "theirs.py").write_text(THEIRS)
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[naq.methods]\ndegrees = theirs:Degrees\n\n[naq.commands]\nhello = theirs:hello\n"
    )
    return tmp_path


def python(installed, *words):
    path = os.pathsep.join([str(installed), *sys.path])
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=600, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_installed_package_adds_a_method(installed):
    code = "import naq, scipy.sparse as sp; g = naq.Graph(sp.csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))"
    shown = python(installed, "-c", f"{code}; print(naq.embed(g, 'degrees').tolist())")
    assert json.loads(shown) == [[1, 1], [2, 1], [1, 1]]
    listed = json.loads(python(installed, "-m", "naq", "list", "methods", "--json"))
    assert {"degrees", "naq-plus", "bgrl", "naq-feat/protonet"} <= {row["name"] for row in listed}


def test_an_installed_package_adds_a_command(installed):
    assert python(installed, "-m", "naq", "hello", "there") == "hello there\n"
    assert "hello" in python(installed, "-m", "naq", "--help")


def test_looking_up_a_method_imports_that_method_alone():
    code = (
        "import sys; from naq.methods import get_method; get_method('naq-feat/protonet');"
        "print([m for m in sys.modules if m.startswith(('naq.learners.', 'naq_paper'))])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "naq.learners.protonet" in found and "maml" not in found and "naq_paper" not in found


def test_a_registered_class_is_found_and_a_second_of_its_name_refused():
    class Mine(PrototypeHead):
        name = "mine"

    try:
        assert naq.register(Mine) is Mine and HEADS["mine"] is Mine
        with pytest.raises(OptionError, match="mine"):
            naq.register(type("Other", (PrototypeHead,), {"name": "mine"}))
    finally:
        HEADS._items.pop("mine")
    with pytest.raises(OptionError, match="subclass"):
        naq.register(dict)


def test_an_item_is_imported_when_it_is_looked_up():
    table = Registry("a thing", {"ordered": "collections:OrderedDict", "gone": "naq.nothing:Gone"})
    assert "gone" in table and list(table) == ["ordered", "gone"]
    assert table["ordered"].__name__ == "OrderedDict"
    with pytest.raises(ImportError):
        table["gone"]
    with pytest.raises(OptionError, match="orderd"):
        table.find("orderd")
