"""Lines of Python and modules of every package and room, against ``budget.toml``; exit code 1 above it.

python tools/budget.py            what is above its budget
python tools/budget.py --table    every room
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def modules_of(place: Path) -> list[Path]:
    """The Python files of a package, of a room, or the one module of that name."""
    return sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]


def lines_of(files: list[Path]) -> int:
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def measured(budget: dict[str, dict[str, int]]) -> list[tuple[str, int, int, int | None, int | None]]:
    """(place, lines, modules, most lines, most modules) of each entry."""
    rows = []
    for name, most in budget.items():
        files = modules_of(ROOT / name)
        rows.append((name, lines_of(files), len(files), most.get("lines"), most.get("modules")))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    budget = tomllib.loads((ROOT / "budget.toml").read_text(encoding="utf-8"))
    rows = measured(budget)
    without = sorted(
        path.relative_to(ROOT).as_posix()
        for package in (ROOT / "src").iterdir()
        if (package / "__init__.py").exists()
        for path in package.iterdir()
        if (path.is_dir() and any(path.glob("*.py"))) and path.relative_to(ROOT).as_posix() not in budget
    )
    failed = [f"{name} has no budget; give it one in budget.toml." for name in without]
    for name, lines, count, most, most_modules in rows:
        if given.table:
            print(f"{name:<32}{lines:>8,} of {most or 0:>7,} lines{count:>6} of {most_modules or 0:>4} modules")
        if most is not None and lines > most:
            failed.append(f"{name} has {lines:,} lines; its budget is {most:,}.")
        if most_modules is not None and count > most_modules:
            failed.append(f"{name} has {count} modules; its budget is {most_modules}.")
    for sentence in failed:
        print(sentence, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
