"""Draws docs/rooms.svg from the tree: the rooms of the library as pyproject.toml orders them, and the other packages.

    python tools/rooms.py            writes the picture
    python tools/rooms.py --check    exit code 1 if it is not what the tree says

A room is described by the first sentence of its docstring; lines are rounded to hundreds.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "rooms.svg"
WIDTH, ROW, GAP = 1160, 36, 6
BESIDE = ("naq_paper", "naq_scale", "naq_studio")
COLOURS = {"top": "#e8eef7", "middle": "#e3f1e6", "low": "#fbf0dd", "base": "#f1f1f1", "beside": "#f6e9f1"}


def place_of(name: str) -> Path:
    folder = ROOT / "src" / name
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def first_sentence(name: str) -> str:
    text = ast.get_docstring(ast.parse(place_of(name).read_text(encoding="utf-8"))) or ""
    sentence = " ".join(text.split("\n\n")[0].split()).rstrip(".").replace("``", "")
    return sentence if len(sentence) < 90 else sentence.partition(":")[0]


def lines_of(name: str) -> int:
    folder = ROOT / "src" / name
    files = folder.rglob("*.py") if folder.is_dir() else [folder.with_suffix(".py")]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def box(x: int, y: int, width: int, height: int, colour: str, text: str) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="{colour}" stroke="#5b6573"/>\n'
        f'<text x="{x + 12}" y="{y + 23}" fill="#1c2430">{text}</text>'
    )


def picture() -> str:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = next(one["layers"] for one in settings["tool"]["importlinter"]["contracts"] if "layers" in one)
    shapes, y = [], 44
    for number, layer in enumerate(layers):
        names = [name.strip() for name in layer.split(":")]
        colour = COLOURS["top" if number < 1 else "middle" if number < 5 else "low" if number < 14 else "base"]
        if len(names) > 1:
            text = f'<tspan font-weight="600">{", ".join(names)}</tspan>: one module each'
        else:
            lines = round(lines_of(f"naq/{names[0]}"), -2)
            words = first_sentence(f"naq/{names[0]}")
            size = f" ({lines:,} lines)" if lines >= 100 else ""
            text = f'<tspan font-weight="600">{names[0]}</tspan>{size}: {escape(words)}'
        shapes.append(box(10, y, 800, ROW, colour, text))
        y += ROW + GAP
    height = (y - 44 - 2 * GAP) // 3
    for number, name in enumerate(BESIDE):
        top = 44 + number * (height + GAP)
        shapes.append(box(830, top, WIDTH - 840, height, COLOURS["beside"], f'<tspan font-weight="600">{name}</tspan>'))
        words, rows = f"{first_sentence(name)} ({round(lines_of(name), -2):,} lines).".split(), [""]
        for word in words:
            if len(rows[-1]) + len(word) > 38:
                rows.append("")
            rows[-1] = f"{rows[-1]} {word}".strip()
        for place, row in enumerate(rows):
            shapes.append(f'<text x="842" y="{top + 48 + 20 * place}" fill="#1c2430">{escape(row)}</text>')
    total = round(lines_of("naq"), -2)
    title = f"naq, the library ({total:,} lines): a room imports those below it, never those above"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 4}" font-family="system-ui, sans-serif" '
        f'font-size="14" role="img" aria-label="The rooms of the library, and the packages beside it">\n'
        f'<rect width="{WIDTH}" height="{y + 4}" fill="#ffffff"/>\n'
        f'<text x="10" y="28" font-weight="600" fill="#1c2430">{title}</text>\n'
        '<text x="830" y="28" font-weight="600" fill="#1c2430">beside it; it imports none of them</text>\n'
        + "\n".join(shapes)
        + "\n</svg>\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    drawn = picture()
    if not parser.parse_args().check:
        PICTURE.write_text(drawn, encoding="utf-8")
        return 0
    sizes = re.compile(r"\([\d,]+ lines\)")  # move with every commit
    if sizes.sub("", PICTURE.read_text(encoding="utf-8")) != sizes.sub("", drawn):
        print("docs/rooms.svg is not what the tree says; run python tools/rooms.py.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
