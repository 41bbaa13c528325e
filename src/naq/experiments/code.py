"""Which code a result depends on: a hash that changes when a number may change, and not before.

Every result depends on the *core*: the rooms from graph to training and the protocol. Beside it a cell depends on the files of its
own work, method and change and of what those import beside the core, so a new learner in a file of its own makes no finished
result of another one obsolete. Comments, docstrings and blank lines do not count.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import naq
from naq.experiments.bench import Bench
from naq.experiments.cells import Cell, Identity, digest

ROOT = Path(naq.__file__).resolve().parent
CORE = (
    "*.py",
    "graph/**/*.py",
    "data/**/*.py",
    "tasks/**/*.py",
    "neighbors/**/*.py",
    "episodes/**/*.py",
    "encoders/**/*.py",
    "heads/**/*.py",
    "training/**/*.py",
    "learners/base.py",
    "learners/parts/**/*.py",
    "embedders/base.py",
    "embedders/trained.py",
    "embedders/smooth.py",
    "embedders/parts/**/*.py",
    "experiments/episodes_for.py",
    "experiments/model_training.py",
    "experiments/protocol.py",
    "experiments/selection.py",
    "experiments/task_source.py",
    "experiments/testing.py",
)
APART = ("__init__.py", "__main__.py", "files.py", "errors.py", "data/download.py", "data/catalog.py")
"""Files of these places that move no number: names, sentences, addresses."""


def identify(cell: Cell, bench: Bench) -> Identity:
    """What the cell's result belongs to, with the data and the code as they are now."""
    dataset = cell.config.get("dataset")
    return Identity("" if dataset is None else bench.data_hash(str(dataset)), *code_of(cell))


def code_of(cell: Cell) -> tuple[str, str, str]:
    """Version, core and own hash of the code that computes a cell now."""
    return naq.__version__, core_hash(), _own_hash(*_own_parts(cell.work, cell.config))


@cache
def core_hash() -> str:
    """The hash of what every result depends on."""
    found = {path for pattern in CORE for path in ROOT.glob(pattern)}
    apart = {ROOT / name for name in APART}
    return _hash_of(path for path in found if path not in apart and path.name != "__init__.py")


def _own_parts(work: str, config: Mapping[str, Any]) -> tuple[str, str, str]:
    return work, str(config.get("method", "")), str((config.get("change") or {}).get("name", ""))


@cache
def _own_hash(work: str, method: str, change: str) -> str:
    from naq.experiments.changes import CHANGES
    from naq.experiments.works import get_work

    files = {_file_of(get_work(work))}
    if method:
        from naq.methods import get_method

        known = get_method(method)
        model = known.learner or known.embedder
        assert model is not None
        files |= {_file_of(kind) for kind in model.__mro__ if kind.__module__.partition(".")[0] not in _FOREIGN}
    if change in CHANGES:
        files.add(_file_of(CHANGES[change].apply))
    return _hash_of(with_imports(path for path in files if path is not None))


OWN_ROOMS = ("naq.learners", "naq.embedders", "naq.experiments.works", "naq.experiments.changes")
"""Where a file may belong to some cells and not to others."""


def with_imports(files: Iterable[Path]) -> set[Path]:
    """The files and, again and again, what they import from rooms whose files are not all core."""
    found: set[Path] = set()
    left = list(files)
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += _imported(path)
    return found


def _imported(path: Path) -> list[Path]:
    names = [
        node.module
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(OWN_ROOMS)
    ]
    modules = (ROOT.parent.joinpath(*name.split(".")).with_suffix(".py") for name in names)
    return [module for module in modules if module.is_file()]


_FOREIGN = {"builtins", "abc", "torch", "typing"}


def _file_of(thing: Any) -> Path | None:
    try:
        found = inspect.getsourcefile(thing)
    except TypeError:
        return None
    return None if found is None else Path(found).resolve()


def _hash_of(paths: Iterable[Path]) -> str:
    texts = {_name_of(path): statements(path.read_text(encoding="utf-8")) for path in paths}
    return digest("\0".join(f"{name}\0{text}" for name, text in sorted(texts.items())))


def _name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


def statements(source: str) -> str:
    """The lines of a Python file without docstrings, comment lines and blank lines; equal under every Python that reads it."""
    dropped: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            dropped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = (line.rstrip() for number, line in enumerate(source.splitlines(), 1) if number not in dropped)
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))
