"""How the cells of a text file are laid out, guessed from its first rows: delimiter, title line, header."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

from naq.errors import DataError
from naq.io.tables.roles import known_name
from naq.io.tables.text_file import DICTIONARY, LONGEST_ROW, TextFile, lines_of, scan, too_long

DELIMITERS = "\t;,| "
_SAMPLE = 1 << 18
_SPACED = re.compile(r' +".*"', re.S)


def examine(path: Path, *, header: bool | None = None) -> TextFile:
    """Look through a file once.

    Args:
        header: whether the first row holds names; decided by its cells if None.
    """
    file = scan(path)
    file = replace(file, dictionaries=_ends_in_dictionaries(file))
    file = replace(file, delimiter=_delimiter_of_pairs(file) if file.dictionaries else _delimiter(file))
    file = replace(file, spaced=_is_spaced(file))
    rows, skip = _first_rows(file, 200)
    if rows and header is not False and _is_title(rows):
        skip, first = rows.pop(0)
        file = replace(file, title_line=next(cell.strip() for cell in first if cell.strip()))
    if not rows:
        raise DataError(f"{path} holds no rows; expected a header and rows of cells.")
    line, first = rows[0]
    if file.dictionaries:  # NetworkX writes no header
        header = header or False
    named = header if header is not None else _is_header(first, [row for _, row in rows[1:]])
    if not named:
        return replace(file, skip=skip, width=len(first))
    names = tuple(" ".join(cell.split()) for cell in first)
    twice = next((name for i, name in enumerate(names) if name and name in names[:i]), None)
    if twice is not None:
        raise DataError(f"{path}, line {line}: two columns are called {twice!r}; rename one.")
    names = tuple(name or f"column {i + 1}" for i, name in enumerate(names))
    return replace(file, header=names, skip=line, width=len(first))


def _first_rows(file: TextFile, count: int) -> tuple[list[tuple[int, list[str]]], int]:
    """The first rows, each with the line it ends in, and the lines before them: blank ones and comments (``#``)."""
    sample, before = _first_lines(file)
    rows: list[tuple[int, list[str]]] = []
    reader = csv.reader(iter(sample), delimiter=file.delimiter, skipinitialspace=file.spaced)
    csv.field_size_limit(LONGEST_ROW)
    try:
        for row in reader:
            if row:
                rows.append((before + reader.line_num, row))
            if len(rows) == count:
                break
    except csv.Error as error:
        raise too_long(file, before + reader.line_num) from error
    return rows, before


def _first_lines(file: TextFile) -> tuple[list[str], int]:
    """The lines to look at, and how many blank ones and comments are above them."""
    with lines_of(file) as lines:
        before, taken = 0, 0
        sample: list[str] = []
        for line in lines:
            if not sample and (not line.strip() or line.startswith("#")):
                before += 1
                continue
            sample.append(line)
            taken += len(line)
            if taken > _SAMPLE and len(sample) > 2:
                break
    return sample, before


def _ends_in_dictionaries(file: TextFile) -> bool:
    """Whether every line ends in a dictionary of Python: ``a b {'weight': 1.0}``, or in an empty one."""
    lines = [line for line in _first_lines(file)[0] if line.strip()]
    return bool(lines) and all(DICTIONARY.search(line) for line in lines)


def _is_title(rows: list[tuple[int, list[str]]]) -> bool:
    """Whether the first row is a single cell above a table: the two rows below have more cells."""

    def filled(row: list[str]) -> int:
        return sum(bool(cell.strip()) for cell in row)

    below = [filled(row) for _, row in rows[1:3]]
    return filled(rows[0][1]) == 1 and bool(rows[0][1][0].strip()) and len(below) == 2 and min(below) > 1


def _delimiter(file: TextFile) -> str:
    """The delimiter under which the first rows have equally many cells, and more than one."""
    best, score = ",", (0.0, 0)
    for delimiter in DELIMITERS:
        rows = [row for _, row in _first_rows(replace(file, delimiter=delimiter), 50)[0]]
        width = _usual_width(rows)
        if width < 2:
            continue
        same = sum(len(row) == width for row in rows) / len(rows)
        # A space stands in text everywhere: it counts only where nothing else divides the rows.
        found = (round(same, 2) - (0.5 if delimiter == " " else 0.0), width)
        if found > score:
            best, score = delimiter, found
    return best


def _delimiter_of_pairs(file: TextFile) -> str:
    """The delimiter that divides every line, without its dictionary, into two names, as NetworkX writes them."""
    for delimiter in DELIMITERS:
        rows, _ = _first_rows(replace(file, delimiter=delimiter), 50)
        if rows and all(len(row) == 2 for _, row in rows):
            return delimiter
    raise DataError(
        f"{file.path}: lines end in dictionaries, as NetworkX writes them, but do not divide into two names; where names hold "
        "spaces, write them with write_edgelist(..., delimiter='\\t'), or give the graph to naq.from_networkx."
    )


def _is_spaced(file: TextFile) -> bool:
    """Whether most rows have a quoted cell behind a delimiter and a space, which then is no part of it."""
    if file.delimiter == " " or not re.search(rf'{re.escape(file.delimiter)} +"', "".join(_first_lines(file)[0])):
        return False
    rows = [row for _, row in _first_rows(file, 50)[0]]
    return sum(any(_SPACED.fullmatch(cell) for cell in row) for row in rows) > len(rows) / 2


def _usual_width(rows: list[list[str]]) -> int:
    """Cells of most rows, of the earliest where several are as frequent: the first row may be a title."""
    counts = Counter(map(len, rows))
    return max(counts, key=counts.__getitem__) if counts else 0


def _is_header(first: list[str], others: list[list[str]]) -> bool:
    """Whether the first row holds names: one that columns have, or no number and, of two cells, none that occurs below."""
    if not first[0].strip() or any(known_name(cell) for cell in first):
        return True
    if any(_is_number(cell.strip()) for cell in first):
        return False
    below = {cell.strip() for row in others for cell in row[:2]}
    return len(first) > 2 or not ({cell.strip() for cell in first} & below)


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True
