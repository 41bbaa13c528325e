"""Which code a result depends on: a hash that changes when a number may change, and not otherwise.

The files are found by following ``import`` statements within the package, no list of rooms is kept:

- *core*: what :mod:`naq.run` and the heads reach; every result depends on it.
- *own*: what a cell's measurement, method class (with the classes it inherits from), peer and perturbation reach without passing through the core.

Methods, peers, measurements and perturbations are registered by modules that nobody imports by name (:class:`naq.plugins.Registry`
imports them when it is first read), so one is not reached from another: a new learner in a module or package of its own makes no
stored result obsolete. (What a method looks up by name while it runs is not followed: import it.) Heads are registered in the same way, but every run is family with all of them, so they are core. Two hashes
rather than one, because a report groups older results by the core they share.

What :mod:`naq.run` reaches only for a switch (``OPTIONAL``: refined vectors, label-free selection) belongs to the cells that switch it on.

Comments, docstrings and blank lines do not count, nor does an ``__init__.py`` that only re-exports names, nor the modules in
``NO_NUMBERS`` and the readers of data.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeGuard

import naq
from naq_paper.cells.cell import Cell, Identity, digest
from naq_paper.cells.datasets import DatasetCache

ROOT = Path(naq.__file__).resolve().parent
NO_NUMBERS = (
    "__init__.py",
    "data/catalog.py",
    "data/download.py",
    "errors.py",
    "progress.py",
    "grid/cells.py",
    "protocol/curve.py",
    "protocol/machine.py",
)
"""Files that results depend on but whose code changes no number: messages, addresses, files, progress, keys, the plot."""
READERS = ROOT / "data"
"""What a reader reads is in the hash of the data, so its code need not be here; the splits are, which are drawn where no file has them."""


OPTIONAL = {
    "embedders/closed_form.py": lambda config: bool(config.get("refine")),
    "embedders/naq_plus.py": lambda config: config.get("select") == "clusters",
}
"""Files that only some cells need, and whether the cell of a configuration does."""


def identify(cell: Cell, dataset_cache: DatasetCache) -> Identity:
    """What the cell's result belongs to, with the data and the code as they are now."""
    dataset = cell.config.get("dataset")
    return Identity("" if dataset is None else dataset_cache.data_hash(str(dataset)), *code_of(cell))


def code_of(cell: Cell) -> tuple[str, str, str]:
    """Version, core and own hash of the code that computes a cell now."""
    return naq.__version__, core_hash(), _own_hash(*_own_parts(cell.measurement, cell.config))


@cache
def core_hash() -> str:
    """The hash of what every result depends on."""
    return _hash_of(core_files())


@cache
def core_files() -> frozenset[Path]:
    from naq.heads import HEADS

    heads = {path for head in HEADS.values() for path in _files_of(head)}
    left_out = frozenset(ROOT / name for name in OPTIONAL)
    return frozenset(with_imports([*(ROOT / "protocol").glob("*.py"), *heads], left_out))


def _own_parts(measurement: str, config: Mapping[str, Any]) -> tuple[str, str, str, str, tuple[str, ...]]:
    switched_on = tuple(name for name, needed in OPTIONAL.items() if needed(config))
    perturbation = str((config.get("perturbation") or {}).get("name", ""))
    return measurement, str(config.get("method", "")), str(config.get("peer", "")), perturbation, switched_on


@cache
def _own_hash(measurement: str, method: str, peer: str, perturbation: str, switched_on: tuple[str, ...]) -> str:
    from naq.methods import get_method
    from naq_paper.measurements import MEASUREMENTS
    from naq_paper.peers import PEERS
    from naq_paper.perturbations import PERTURBATIONS

    files = _files_of(MEASUREMENTS.find(measurement).compute) | {ROOT / name for name in switched_on}
    if method:
        known = get_method(method)
        files |= _files_of(known.learner or known.embedder)
    if peer:
        files |= _files_of(PEERS.find(peer))
    if perturbation:
        files |= _files_of(PERTURBATIONS.find(perturbation))
    return _hash_of(with_imports(files - core_files(), core_files()))


def with_imports(files: Iterable[Path], left_out: frozenset[Path] = frozenset()) -> set[Path]:
    """The files and, transitively, the files of the package that they import, but for those ``left_out`` and what only they reach."""
    found: set[Path] = set()
    left = set(files)
    while left:
        path = left.pop()
        found.add(path)
        left |= _imported(path) - found - left_out
    return found


@cache
def _imported(path: Path) -> frozenset[Path]:
    modules = (_file_of_module(name) for name in _imported_names(path))
    return frozenset(module for module in modules if module is not None)


def _imported_names(path: Path) -> Iterator[str]:
    """Dotted names that may be modules: of ``from a.b import c`` both ``a.b`` and ``a.b.c``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = path.parents[node.level - 1].relative_to(ROOT.parent).parts if node.level else ()
            module = ".".join((*package, *filter(None, [node.module])))
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _file_of_module(name: str) -> Path | None:
    """The file of a module or package of naq; None for everything else."""
    if name.partition(".")[0] != "naq":
        return None
    place = ROOT.parent.joinpath(*name.split("."))
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def _files_of(thing: Any) -> set[Path]:
    """The files of a function, or of a class and those it inherits from, as far as they are Python files outside the libraries."""
    kinds = (
        [kind for kind in thing.__mro__ if kind.__module__.partition(".")[0] not in _LIBRARIES]
        if isinstance(thing, type)
        else [thing]
    )
    return {Path(inspect.getfile(kind)).resolve() for kind in kinds}


_LIBRARIES = {"builtins", "abc", "torch", "typing"}


def _hash_of(paths: Iterable[Path]) -> str:
    texts = {_name_of(path): _statements_of(path) for path in paths if _counts(path)}
    return digest("\0".join(f"{name}\0{text}" for name, text in sorted(texts.items()) if text))


def _counts(path: Path) -> bool:
    ignored = {ROOT / name for name in NO_NUMBERS}
    return (
        path not in ignored
        and not path.is_relative_to(ROOT / "files")
        and (not path.is_relative_to(READERS) or path == READERS / "splits.py")
    )


def _name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


@cache
def _statements_of(path: Path) -> str:
    return statements(path.read_text(encoding="utf-8"))


def statements(source: str) -> str:
    """The lines of a Python file without docstrings, comment lines and blank lines; "" for a file that only re-exports names.

    Equal under every Python that reads it.
    """
    tree = ast.parse(source)
    if all(_reexports(node) for node in tree.body):
        return ""
    dropped: set[int] = set()
    for node in ast.walk(tree):
        if _is_text(node):
            dropped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = (line.rstrip() for number, line in enumerate(source.splitlines(), 1) if number not in dropped)
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))


def _is_text(node: ast.AST) -> TypeGuard[ast.Expr]:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _reexports(node: ast.stmt) -> bool:
    names_all = (
        isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"
    )
    return isinstance(node, ast.Import | ast.ImportFrom) or _is_text(node) or names_all
