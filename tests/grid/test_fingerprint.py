"""The hash of the code: it changes when a number may perturbation, and not before."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import naq
from naq.experiments import code
from naq.grid.cells import Cell
from naq.grid.fingerprint import ROOT, _hash_of, code_of, core_hash, statements, with_imports
from naq.grid.measurements import MEASUREMENTS
from naq.grid.perturbations import PERTURBATIONS
from naq.learners import LEARNERS
from naq.protocol.methods import methods

SOURCE = '''"""What the module is for."""

import os  # the system

NAME = "a"
"""What it names."""


class Thing:
    """A thing.

    In two paragraphs.
    """

    size = 3  # of things

    # why it doubles
    def double(self):
        """Twice."""
        return f"""
{2 * self.size}"""
'''
KEPT = '''import os  # the system
NAME = "a"
class Thing:
    size = 3  # of things
    def double(self):
        return f"""
{2 * self.size}"""'''


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Hashes are kept for the life of a process, and these tests edit code."""
    forget()
    yield
    forget()


def forget() -> None:
    code.core_hash.cache_clear()
    code._own_hash.cache_clear()


def edit(monkeypatch: pytest.MonkeyPatch, name: str, more: str = "\nEDITED = 1\n") -> None:
    """From now on a file of the package reads as if it had one more line."""
    original, edited = Path.read_text, ROOT / name
    assert edited.is_file()

    def read(self: Path, *given: object, **named: object) -> str:
        text = original(self, *given, **named)
        return text + more if self == edited else text

    monkeypatch.setattr(Path, "read_text", read)
    forget()


def own(measurement: str = "empty", **config: object) -> str:
    return code._own_hash(*code._own_parts(measurement, config))


def test_statements_drop_docstrings_comments_and_blank_lines_and_nothing_else():
    assert statements(SOURCE) == KEPT
    assert statements(KEPT) == KEPT


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("What the module is for.", "What it is about,\n\nat length."),
        ("# why it doubles", "# why"),
        ("    # why it doubles\n", ""),
        ('    """Twice."""\n', "\n\n"),
        ("What it names", "Who it names"),
    ],
)
def test_words_about_the_code_do_not_count(old, new):
    assert old in SOURCE and statements(SOURCE.replace(old, new)) == statements(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"), [("size = 3", "size = 4"), ('"a"', '"b"'), ("import os", "import re"), ("2 *", "3 *")]
)
def test_code_counts(old, new):
    assert statements(SOURCE.replace(old, new)) != statements(SOURCE)


def test_the_hash_of_files_is_of_names_and_statements_and_of_no_order(tmp_path):
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("A = 1\n")
    two.write_text("B = 2\n")
    before = _hash_of([one, two])
    assert _hash_of([two, one]) == before and _hash_of([one]) != before
    one.write_text('"""Why."""\n\n# because\nA = 1\n')
    assert _hash_of([one, two]) == before
    one.write_text("A = 3\n")
    assert _hash_of([one, two]) != before
    one.write_text("B = 2\n")
    two.write_text("A = 1\n")
    assert _hash_of([one, two]) != before


def test_the_core_hash_is_stable_and_follows_the_core_alone(monkeypatch):
    before = core_hash()
    forget()
    assert core_hash() == before
    for name in ("errors.py", "learners/maml.py"):
        with monkeypatch.context() as patch:
            edit(patch, name)
            assert core_hash() == before, name
        forget()
    for name in ("randomness.py", "experiments/protocol.py"):
        with monkeypatch.context() as patch:
            edit(patch, name)
            assert core_hash() != before, name
        forget()
    with monkeypatch.context() as patch:
        edit(patch, "graph/graph.py", "\n# a remark\n")
        assert core_hash() == before


def test_every_file_that_computes_is_core_or_own_to_some_cell():
    """A new room must be placed: what it computes enters a hash, or it is told here that it computes nothing."""
    found = {path for pattern in code.CORE for path in ROOT.glob(pattern)}
    for room in ("learners", "embedders", "experiments/works", "experiments/changes"):
        found |= set((ROOT / room).rglob("*.py"))
    rooms = {path.relative_to(ROOT).parts[0] for path in ROOT.rglob("*.py")} - {path.name for path in ROOT.glob("*.py")}
    assert rooms - {path.relative_to(ROOT).parts[0] for path in found} <= {"cli", "report"}


def test_imports_from_own_rooms_are_followed():
    works = ROOT / "experiments" / "works"
    found = {path.relative_to(ROOT).as_posix() for path in with_imports([works / "class_similarity.py"])}
    assert {
        "experiments/works/class_similarity.py",
        "experiments/works/overlap.py",
        "experiments/works/base.py",
    } <= found
    assert "experiments/works/train.py" not in found
    tail = {path.relative_to(ROOT).as_posix() for path in with_imports([works / "tail_map.py"])}
    assert {"experiments/works/train.py", "experiments/works/overlap.py"} <= tail
    assert not any(name.startswith(("graph/", "report/", "learners/")) for name in found | tail)


def test_files_that_import_each_other_are_read_once(tmp_path, monkeypatch):
    room = tmp_path / "naq" / "learners"
    room.mkdir(parents=True)
    (room / "one.py").write_text("from naq.learners.two import b\nfrom naq.graph import Graph\n")
    (room / "two.py").write_text("def f():\n    from naq.learners.one import a\n")
    monkeypatch.setattr(code, "ROOT", tmp_path / "naq")
    assert with_imports([room / "one.py"]) == {room / "one.py", room / "two.py"}


def test_a_learner_does_not_depend_on_another_ones_file(monkeypatch):
    before = {name: own("train", method=name) for name in ("naq-feat/protonet", "supervised/tent", "bgrl", "smooth")}
    assert len(set(before.values())) == len(before)
    edit(monkeypatch, "learners/tent/__init__.py")
    after = {name: own("train", method=name) for name in before}
    assert {name for name in before if before[name] != after[name]} == {"supervised/tent"}


def test_episodes_of_one_learner_share_its_code():
    assert own("train", method="naq-feat/protonet") == own("train", method="supervised/protonet")


def test_a_work_and_a_change_depend_on_their_own_files(monkeypatch):
    noise = {"name": "structure-noise", "share": 0.1}
    cells = {
        "plain": ("train", {"method": "smooth", "perturbation": None}),
        "noisy": ("train", {"method": "smooth", "perturbation": noise}),
        "scarce": ("train", {"method": "smooth", "perturbation": {"name": "label-scarcity"}}),
        "map": ("tail-map", {"method": "smooth"}),
        "times": ("times", {}),
    }
    before = {name: own(measurement, **config) for name, (measurement, config) in cells.items()}
    assert len(set(before.values())) == len(before)

    def moved(file: str) -> set[str]:
        with monkeypatch.context() as patch:
            edit(patch, file)
            return {name for name, (measurement, config) in cells.items() if own(measurement, **config) != before[name]}

    assert moved("experiments/changes/structure_noise.py") == {"noisy"}
    assert moved("experiments/works/tail_map.py") == {"map"}
    assert moved("experiments/works/train.py") == {"plain", "noisy", "scarce", "map"}
    assert moved("experiments/works/overlap.py") >= {"map", "times"}
    forget()


def test_every_method_work_and_change_has_a_hash():
    hashes = {own("train", method=name) for name in methods()}
    models = {method.learner or method.embedder for method in methods().values()}
    assert len(hashes) == len(models)
    assert len({own(name) for name in MEASUREMENTS}) == len(MEASUREMENTS)
    assert len({own("empty", perturbation={"name": name}) for name in PERTURBATIONS}) == len(PERTURBATIONS)
    assert code_of(Cell("empty", {})) == (naq.__version__, core_hash(), own("empty"))


def test_a_learner_of_another_package_is_hashed_by_its_own_file(tmp_path, monkeypatch):
    file = tmp_path / "mine.py"
    text = 'from naq.learners.protonet import ProtoNet\n\n\nclass Mine(ProtoNet):\n    name = "mine"\n'
    file.write_text(text)
    spec = importlib.util.spec_from_file_location("mine_of_a_test", file)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.setitem(LEARNERS, "mine", module.Mine)
    before = own("train", method="naq-feat/mine")
    assert before != own("train", method="naq-feat/protonet")
    file.write_text(f'"""Mine."""\n{text}')
    forget()
    assert own("train", method="naq-feat/mine") == before
    file.write_text(text + "    lr = 1\n")
    forget()
    assert own("train", method="naq-feat/mine") != before
    file.write_text(text)
    edit(monkeypatch, "learners/protonet.py")
    assert own("train", method="naq-feat/mine") != before, "what it inherits counts too"
