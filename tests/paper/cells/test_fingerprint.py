"""The hash of the code: it changes when a number may change, and not otherwise."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import naq
from naq.embedders import EMBEDDERS
from naq.learners import LEARNERS
from naq.methods import methods
from naq_paper.cells import fingerprint as code
from naq_paper.cells.cell import Cell
from naq_paper.cells.fingerprint import (
    OPTIONAL,
    ROOT,
    _hash_of,
    code_of,
    core_files,
    core_hash,
    statements,
    with_imports,
)
from naq_paper.measurements import MEASUREMENTS
from naq_paper.measurements.train import train_cell
from naq_paper.perturbations import PERTURBATIONS

NOT_REACHED = {"data/cora_full.py", "data/edge_list.py", "data/ogb.py"}
"""Files that no cell needs; what a reader makes of a file is in the hash of the data."""

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
    for cached in (code.core_hash, code.core_files, code._own_hash, code._imported, code._statements_of):
        cached.cache_clear()


def edit(monkeypatch: pytest.MonkeyPatch, name: str, more: str = "\nEDITED = 1\n") -> None:
    """From now on a file of the package reads as if it had one more line."""
    original, edited = Path.read_text, ROOT / name
    assert edited.is_file()

    def read(self: Path, *given: object, **named: object) -> str:
        text = original(self, *given, **named)
        return text + more if self == edited else text

    monkeypatch.setattr(Path, "read_text", read)
    forget()


def file_of(kind: type) -> str:
    return Path(inspect.getfile(kind)).relative_to(ROOT).as_posix()


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


def test_a_file_that_only_re_exports_has_no_statements():
    exports = '"""The room."""\n\nfrom naq.graph.graph import Graph\n\n__all__ = ["Graph"]\n'
    assert statements(exports) == "" and statements(exports + "SIZE = 3\n") != ""


def test_the_hash_of_files_is_of_names_and_statements_and_of_no_order(tmp_path):
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("A = 1\n")
    two.write_text("B = 2\n")
    before = _hash_of([one, two])
    assert _hash_of([two, one]) == before and _hash_of([one]) != before
    forget()
    one.write_text('"""Why."""\n\n# because\nA = 1\n')
    assert _hash_of([one, two]) == before
    forget()
    one.write_text("A = 3\n")
    assert _hash_of([one, two]) != before
    forget()
    one.write_text("B = 2\n")
    two.write_text("A = 1\n")
    assert _hash_of([one, two]) != before


def test_the_core_hash_is_stable_and_follows_the_core_alone(monkeypatch):
    before = core_hash()
    forget()
    assert core_hash() == before
    for name in ("errors.py", file_of(LEARNERS["maml"])):
        with monkeypatch.context() as patch:
            edit(patch, name)
            assert core_hash() == before, name
        forget()
    for name in ("randomness.py", "protocol/training.py", "heads/prototype.py", "learners/base.py"):
        with monkeypatch.context() as patch:
            edit(patch, name)
            assert core_hash() != before, name
        forget()
    with monkeypatch.context() as patch:
        edit(patch, "graph/graph.py", "\n# a remark\n")
        assert core_hash() == before


def names(files: set[Path] | frozenset[Path]) -> set[str]:
    return {path.relative_to(ROOT).as_posix() for path in files}


def test_every_file_that_computes_is_core_or_own_to_some_cell():
    """What no cell reaches computes nothing for one: it is listed here."""
    found = set(core_files())
    for measurement in MEASUREMENTS.values():
        found |= with_imports(code._files_of(measurement.compute))
    for method in methods().values():
        found |= with_imports(code._files_of(method.learner or method.embedder))
    for perturbation in PERTURBATIONS.values():
        found |= with_imports(code._files_of(perturbation))
    rooms = (
        "graph",
        "data",
        "tasks",
        "neighbors",
        "episodes",
        "encoders",
        "heads",
        "learners",
        "embedders",
        "training",
        "protocol",
    )
    left = {
        name for name in names(set(ROOT.rglob("*.py")) - found) if name.startswith(tuple(f"{room}/" for room in rooms))
    }
    assert {name for name in left if not name.endswith("__init__.py")} <= NOT_REACHED


def test_no_method_measurement_or_perturbation_is_core():
    core = names(core_files())
    assert {"protocol/runs.py", "graph/graph.py", "heads/logistic.py", "learners/base.py", "embedders/base.py"} <= core
    own = {kind.__module__ for kind in (*LEARNERS.values(), *EMBEDDERS.values(), *PERTURBATIONS.values())}
    own |= {measurement.compute.__module__ for measurement in MEASUREMENTS.values()}
    files = {name.partition(".")[2].replace(".", "/") for name in own}
    assert not {name for name in core if name.removesuffix(".py").removesuffix("/__init__") in files}
    assert not any(name.startswith(("report/", "cli/", "experiments/", "grid/")) for name in core)


def test_imports_are_followed():
    room = ROOT / "grid" / "measurements"
    found = names(with_imports([room / "class_similarity.py"]))
    assert {f"grid/measurements/{name}.py" for name in ("class_similarity", "tables", "base")} <= found
    assert {"graph/graph.py", "neighbors/table.py", "randomness.py"} <= found
    assert "grid/measurements/train.py" not in found
    tail = names(with_imports([room / "tail_map.py"]))
    assert "grid/measurements/train.py" in tail and "grid/measurements/tables.py" not in tail
    assert not any(name.startswith(("report/", "experiments/", "cli/")) for name in found | tail)


def test_every_form_of_import_is_followed(tmp_path, monkeypatch):
    room = tmp_path / "naq" / "learners"
    (room / "own").mkdir(parents=True)
    (room / "one.py").write_text("from naq.learners.two import b\nimport numpy as np\nfrom . import three\n")
    (room / "two.py").write_text(
        "def f():\n    from naq.learners.one import a\n    import naq.learners.own.part as part\n"
    )
    (room / "three.py").write_text("from .own import Model\nfrom naq.learners.absent import x\n")
    (room / "own" / "__init__.py").write_text("from naq.learners.own import layers\n")
    for name in ("part", "layers", "unused"):
        (room / "own" / f"{name}.py").write_text("")
    monkeypatch.setattr(code, "ROOT", tmp_path / "naq")
    found = {path.relative_to(room).as_posix() for path in with_imports([room / "one.py"])}
    assert found == {"one.py", "two.py", "three.py", "own/__init__.py", "own/part.py", "own/layers.py"}


def test_a_learner_does_not_depend_on_another_ones_file(monkeypatch):
    before = {name: own("train", method=name) for name in ("naq-feat/protonet", "supervised/tent", "bgrl", "smooth")}
    assert len(set(before.values())) == len(before)
    edit(monkeypatch, file_of(LEARNERS["tent"]))
    after = {name: own("train", method=name) for name in before}
    assert {name for name in before if before[name] != after[name]} == {"supervised/tent"}


def test_episodes_of_one_learner_share_its_code():
    assert own("train", method="naq-feat/protonet") == own("train", method="supervised/protonet")


def test_a_measurement_and_a_perturbation_depend_on_their_own_files(monkeypatch):
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

    assert moved("grid/perturbations/structure_noise.py") == {"noisy"}
    assert moved("grid/measurements/tail_map.py") == {"map"}
    assert moved("grid/measurements/train.py") == {"plain", "noisy", "scarce", "map"}
    assert moved("grid/measurements/tables.py") == {"times"}
    assert moved("grid/datasets.py") == set(cells)
    assert moved("errors.py") == set()
    forget()


def test_every_method_measurement_and_perturbation_has_a_hash():
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
    len(LEARNERS)
    monkeypatch.setitem(LEARNERS._items, "mine", module.Mine)
    before = own("train", method="naq-feat/mine")
    assert before != own("train", method="naq-feat/protonet")
    file.write_text(f'"""Mine."""\n{text}')
    forget()
    assert own("train", method="naq-feat/mine") == before
    file.write_text(text + "    lr = 1\n")
    forget()
    assert own("train", method="naq-feat/mine") != before
    file.write_text(text)
    edit(monkeypatch, file_of(LEARNERS["protonet"]))
    assert own("train", method="naq-feat/mine") != before, "what it inherits counts too"


def test_what_a_switch_reaches_belongs_to_the_cells_that_switch_it_on():
    plain, refined, label_free = (
        train_cell("debian", "bgrl", **more) for more in ({}, {"refine": True}, {"select": "clusters"})
    )
    assert not {ROOT / name for name in OPTIONAL} & core_files()
    assert len({code_of(cell)[1] for cell in (plain, refined, label_free)}) == 1
    assert len({code_of(cell)[2] for cell in (plain, refined, label_free)}) == 3
    reached = with_imports([ROOT / "embedders" / "naq_plus_sugrl.py"], core_files())
    assert {ROOT / name for name in OPTIONAL} <= reached, "a method that imports them depends on them without a switch"
