"""Lines and modules of every package and room, against ``budget.toml``; names that are defined twice. Exit code 1.

python tools/budget.py            what is above its budget
python tools/budget.py --table    every room
python tools/budget.py --names    also public classes and functions of the same name in two modules of src
"""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src"
TWICE = frozenset({"main"})
"""Names that may be defined more than once."""


def files_of(place: Path) -> list[Path]:
    """The Python files of a package, of a room, or the one module of that name."""
    return sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]


def above_budget(show: bool) -> Iterator[str]:
    budget = tomllib.loads((ROOT / "budget.toml").read_text(encoding="utf-8"))
    for room in SRC.glob("*/*/"):
        if any(room.glob("*.py")) and room.relative_to(ROOT).as_posix() not in budget:
            yield f"{room.relative_to(ROOT)} has no budget; give it one in budget.toml."
    for name, most in budget.items():
        files = files_of(ROOT / name)
        found = {
            "lines": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files),
            "modules": len(files),
        }
        if show:
            print(f"{name:<32}" + "".join(f"{count:>8,} of {most[what]:>7,} {what}" for what, count in found.items()))
        for what, count in found.items():
            if count > most[what]:
                yield f"{name} has {count:,} {what}; its budget is {most[what]:,}."


def defined_twice() -> Iterator[str]:
    places: dict[str, list[str]] = defaultdict(list)
    for path in files_of(SRC):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                places[node.name].append(path.relative_to(SRC).as_posix())
    for name, found in sorted(places.items()):
        if len(found) > 1 and name not in TWICE:
            yield f"{name} is defined in {', '.join(found)}; give one of them another name."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--names", action="store_true")
    given = parser.parse_args()
    failed = [*above_budget(given.table), *(defined_twice() if given.names else ())]
    print("".join(f"{sentence}\n" for sentence in failed), end="", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
