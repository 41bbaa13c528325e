"""The ends of edges by what their columns hold, where their names say nothing: ids of the table of nodes."""

from __future__ import annotations

from collections.abc import Sequence

from naq.io.tables.columns import Column, Table
from naq.io.tables.features import stripped

SAMPLED = 1_000
MOST = 0.9
"""The share of a column's cells that must be ids of nodes."""


def ends_by_cells(edges: Table, nodes: Table) -> tuple[str, str] | None:
    """The two columns of edges that hold cells of one column of nodes; None where there are not exactly two."""
    samples = {name: _sample(column) for name, column in edges.columns.items()}
    for column in nodes.columns.values():
        held = set(stripped(column)[1]) - {""}
        if 2 * len(held) < nodes.rows:  # ids are different from row to row
            continue
        found = [name for name, cells in samples.items() if cells and _share(cells, held) > MOST]
        if len(found) == 2:
            return found[0], found[1]
    return None


def are_ids(cells: Sequence[str], nodes: Table) -> bool:
    """Whether all cells are in one column of nodes: then a row of them is an edge and no header."""
    wanted = {cell.strip() for cell in cells}
    return any(wanted <= set(stripped(column)[1]) for column in nodes.columns.values())


def _sample(column: Column) -> list[str]:
    cells = [cell for cell in stripped(column)[1] if cell]
    return cells[:: max(1, len(cells) // SAMPLED)]


def _share(cells: Sequence[str], held: set[str]) -> float:
    return sum(cell in held for cell in cells) / len(cells)
