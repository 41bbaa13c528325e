"""Mutation tests of one module: which small mistakes in it do its tests miss?

    python tools/mutate.py src/naq/heads/prototype.py tests/heads [--count 40] [--seed 0]

One mutation at a time is made in a copy of src: + for -, * for /, < for <=, a term dropped, a constant changed, a
condition negated. Each that the tests pass is printed with its line: it is equivalent, or an assertion is
missing. Messages of errors, annotations and docstrings are left alone.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OPERATORS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Lt: ast.LtE,
    ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
UNTOUCHED = ("annotation", "returns", "decorator_list")


def places(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """(parent, field, index in a list) of every node that may be mutated."""
    for field, value in ast.iter_fields(tree):
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            message = isinstance(child, ast.Raise | ast.JoinedStr | ast.Assert)
            if isinstance(child, ast.AST) and field not in UNTOUCHED and not docstring and not message:
                yield tree, field, index if isinstance(value, list) else None
                yield from places(child)


def mutations(node: ast.AST) -> Iterator[ast.AST]:
    """What may take the place of a node."""
    fields = dict(ast.iter_fields(node))
    operator = fields.get("op") or (fields.get("ops") or [None])[0]
    if type(operator) in OPERATORS:
        new = OPERATORS[type(operator)]()
        yield type(node)(**fields | ({"op": new} if "op" in fields else {"ops": [new, *fields["ops"][1:]]}))
    if isinstance(node, ast.BinOp) and isinstance(operator, ast.Add | ast.Sub):
        yield node.left
    elif isinstance(node, ast.UnaryOp) and isinstance(operator, ast.USub | ast.Not):
        yield node.operand
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and type(node.value) in (
        int,
        float,
    ):  # an axis of 0 or -1 becomes the other one
        yield ast.Constant(node.value + 1 if isinstance(node.value, int) else 2 * node.value + 1e-3)
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        yield type(node)(**fields | {"test": ast.UnaryOp(ast.Not(), node.test)})


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """What is changed, and the whole source with it."""
    tree = ast.parse(source)
    for parent, field, index in list(places(tree)):
        holder = getattr(parent, field)
        node = holder if index is None else holder[index]
        for new in mutations(node):
            if index is None:
                setattr(parent, field, new)
            else:
                holder[index] = new
            texts = [ast.unparse(ast.fix_missing_locations(one)).splitlines()[0] for one in (node, new)]
            yield f"{getattr(node, 'lineno', 0)}: {'  ->  '.join(texts)}", ast.unparse(tree)
            if index is None:
                setattr(parent, field, node)
            else:
                holder[index] = node


def passes(tests: list[str], src: Path, limit: float) -> bool:
    """Whether the tests pass, in a forked process with ``src`` first on its path."""
    process = os.fork()
    if process == 0:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        import pytest

        paths = f"pythonpath={src} {ROOT / 'tests'} {ROOT / 'benchmarks'}"
        os._exit(int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", paths, *tests])))
    end = time.monotonic() + limit
    while time.monotonic() < end:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.05)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", type=Path)
    parser.add_argument("tests", nargs="+", help="files or folders of tests")
    parser.add_argument("--count", type=int, default=10**6, help="number of mutants, drawn with --seed")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for name in ("numba", "sklearn", "torch"):  # once, for all processes
        importlib.import_module(name)

    os.chdir(ROOT)
    every = list(mutants(given.module.read_text(encoding="utf-8")))
    chosen = sorted(random.Random(given.seed).sample(range(len(every)), min(given.count, len(every))))
    with tempfile.TemporaryDirectory() as folder:
        src = Path(folder, "src")
        shutil.copytree("src", src, ignore=shutil.ignore_patterns("__pycache__"))
        os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(src)}
        for _ in range(2):  # the first compiles
            began = time.monotonic()
            if not passes(given.tests, src, 3600):
                raise SystemExit("the tests fail without a mutation.")
        limit, survivors = 20 + 5 * (time.monotonic() - began), 0
        sys.dont_write_bytecode = True
        for number in chosen:
            what, text = every[number]
            Path(folder, given.module).write_text(text, encoding="utf-8")
            if passes(given.tests, src, limit):
                survivors += 1
                print(f"{given.module}:{what}", flush=True)
    caught = f"{len(chosen) - survivors} caught, {survivors} survived"
    print(f"{given.module}: {len(chosen)} of {len(every)} mutants, {caught}")


if __name__ == "__main__":
    main()
