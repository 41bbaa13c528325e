"""Labels in a CSV file: a column of nodes and a column of classes."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from naq.classifier.labels import Labels, from_pairs
from naq.errors import DataError
from naq.graph import Graph

NODE_COLUMNS, CLASS_COLUMNS = ("node", "name", "id"), ("class", "label", "category")
LARGEST = 1 << 26
"""Bytes of a file of labels at most: it holds few."""


def read_labels(path: str | Path, graph: Graph) -> Labels:
    """The labels of a CSV with the columns ``node`` and ``class``; a row without a class is one that nobody labelled yet.

    Separated by commas, semicolons or tabs, which the first line decides; UTF-8 with or without a byte order mark. Other columns are not read.
    """
    path = Path(path)
    rows = _rows(path, _text(path))
    if not rows:
        raise DataError(f"{path} is empty; expected a line 'node,class' and a line per label.")
    titles = [title.strip().casefold() for title in rows[0][1]]
    node, value = _column(path, titles, NODE_COLUMNS), _column(path, titles, CLASS_COLUMNS)
    pairs, where = [], []
    for line, cells in rows[1:]:
        if len(cells) != len(titles):
            raise DataError(
                f"{path}, line {line}: {len(cells)} cells, but the first line has {len(titles)}; quote cells that hold the separator."
            )
        if not cells[node].strip():
            raise DataError(f"{path}, line {line}: the cell {titles[node]!r} is empty; name the node.")
        if cells[value].strip():
            pairs.append((_as_written(cells[node]), _as_written(cells[value])))
            where.append(f"{path}, line {line}")
    if not pairs:
        raise DataError(f"{path} holds no label: no line has a class in the column {titles[value]!r}; fill in some.")
    return from_pairs(graph, pairs, where)


def _text(path: Path) -> str:
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise DataError(
                f"{path} has {size:,} bytes, which are more than a file of labels has ({LARGEST:,} at most)."
            )
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}.") from error
    if content[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in content:
        raise DataError(f"{path} is not a CSV file in UTF-8 (it holds zero bytes); save it as 'CSV UTF-8'.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}, line {line}: byte {content[error.start]:#x} is not UTF-8; save the file as UTF-8 (it may be Latin-1)."
        ) from error


def _rows(path: Path, text: str) -> list[tuple[int, list[str]]]:
    """Lines that are not blank, with their numbers."""
    first = text.split("\n", 1)[0]
    separator = max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows, line = [], 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                rows.append((line, cells))
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}, line {line}: not readable as CSV ({error}); check the quotes.") from error
    return rows


def _column(path: Path, titles: list[str], wanted: tuple[str, ...]) -> int:
    found = [index for index, title in enumerate(titles) if title in wanted]
    if len(found) == 1:
        return found[0]
    what = "no column" if not found else "more than one column"
    raise DataError(
        f"{path}, line 1: {what} named {' or '.join(wanted)} among {', '.join(map(repr, titles))}; start the file with 'node,class'."
    )


def _as_written(cell: str) -> str:
    """Without the apostrophe that keeps a spreadsheet from computing the cell (:mod:`naq.classifier.table`)."""
    return cell[1:] if len(cell) > 1 and cell[0] == "'" and cell[1] in "=+-@" else cell
