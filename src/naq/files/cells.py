"""Cells of a CSV file that no spreadsheet computes."""

from __future__ import annotations

FORMULA = tuple("=+-@\t\r")
"""A spreadsheet computes a cell that starts with one of these, so it gets an apostrophe before it."""


def guarded(cell: str) -> str:
    """A cell that no spreadsheet computes; :func:`as_written` undoes it exactly."""
    return "'" + cell if cell.startswith((*FORMULA, "'")) else cell


def as_written(cell: str) -> str:
    """Without the apostrophe that keeps a spreadsheet from computing the cell."""
    return cell[1:] if len(cell) > 1 and cell[0] == "'" and cell[1] in (*FORMULA, "'") else cell
