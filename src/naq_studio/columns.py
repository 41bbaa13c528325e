"""Columns of the nodes, one value per node: to show, to sort and filter by, and to colour the map by.

A column is known by its number, never by its name: names may be equal, and may be anything. After the columns of the
table of nodes follow the number of edges and, where the graph brings classes, these.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from naq.graph import Graph

MOST_CATEGORIES = 200
"""Different cells of a column of categories at most, each of two nodes on average."""
LONGEST_TITLE, LONGEST_SHOWN = 80, 160
LONGEST_READ = 100_000
"""Characters of a cell that are searched; ``LONGEST_SHOWN`` are sorted by."""
HELD, SHOWN = 8, 2
"""Columns that are kept as they were read, and that a table shows unasked."""


@dataclass(frozen=True, eq=False)
class Column:
    """A value for every node.

    Attributes:
        kind: ``number``, ``date``, ``category`` or ``text``.
        values: (n,) float64: the number, the days since 1970, or the place of the cell in alphabetical order; NaN if
            the cell is empty.
        common: the most frequent cells of a category or a text as (value, cell, nodes); of a text, those that two
            nodes have.
    """

    kind: str
    values: np.ndarray
    common: list[tuple[int, str, int]]

    def facts(self) -> dict[str, Any]:
        """All but the values."""
        return {"kind": self.kind, "common": self.common, "empty": int(np.isnan(self.values).sum())}


class Columns:
    """All columns of a graph.

    Attributes:
        titles: of the columns, each another.
        shown: numbers of some that a table shows unasked, none of them the names of nodes.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        own = [] if graph.table is None else graph.table.columns.tolist()
        self._own = len(own)
        known = ["class in the file"] if graph.labels is not None and graph.class_names is not None else []
        self.titles = _different([title[:LONGEST_TITLE] for title in [*own, "edges", *known]])
        named = [] if graph.table is None else np.flatnonzero(np.isin(graph.table.uses, ("name", "both"))).tolist()
        self.shown = [one for one in range(len(self.titles)) if one not in named][:SHOWN]
        self.cells = lru_cache(HELD)(lambda column: [self.cell(column, node) for node in range(graph.num_nodes)])
        self.read = lru_cache(HELD)(self._read)

    def cell(self, column: int, node: int) -> str:
        """What a cell holds, as people read it."""
        if column < self._own:
            assert self.graph.table is not None
            return self.graph.table.cell(node, column)[:LONGEST_READ]
        if column == self._own:
            return str(int(self.graph.degrees[node]))
        assert self.graph.labels is not None and self.graph.class_names is not None
        label = int(self.graph.labels[node])
        return "" if label < 0 else str(self.graph.class_names[label])

    def holding(self, column: int, text: str) -> list[int]:
        """Nodes whose cell holds a text, in upper or lower case."""
        wanted = text.casefold()
        return [node for node, cell in enumerate(self.cells(column)) if wanted in cell.casefold()]

    def _read(self, column: int) -> Column:
        from naq.io.tables.dates import NotDates, date_format, read_days, unix_unit
        from naq.io.tables.table import BadCell, frame_table

        title, cells = self.titles[column], [cell[:LONGEST_SHOWN].strip() for cell in self.cells(column)]
        table = frame_table({title: cells}, title)
        for comma in (False, True):
            try:
                values = replace(table, decimal_comma=comma).numbers(title)
            except BadCell:
                continue
            if unit := unix_unit(title, values):
                return Column("date", read_days(table, title, unit), [])
            return Column("text" if np.isnan(values).all() else "number", values, [])
        with suppress(NotDates):  # then they are texts
            if form := date_format(table, title):
                return Column("date", read_days(table, title, form), [])
        codes, distinct = table.codes(title)
        present = [code for code, cell in enumerate(distinct) if cell]
        place = np.full(len(distinct), np.nan)
        place[sorted(present, key=lambda code: (distinct[code].casefold(), distinct[code]))] = np.arange(len(present))
        counts = np.bincount(codes, minlength=len(distinct))
        category = len(present) <= MOST_CATEGORIES and 2 * len(present) <= counts[present].sum()
        category = category and max(len(distinct[code]) for code in present) < LONGEST_SHOWN  # else cells were cut
        common = [
            (int(place[code]), distinct[code], int(counts[code]))
            for code in np.argsort(-counts, kind="stable").tolist()
            if distinct[code] and (category or counts[code] > 1)
        ]
        return Column("category" if category else "text", place[codes], common[:MOST_CATEGORIES])


def _different(titles: list[str]) -> list[str]:
    """With a number behind those that came before."""
    seen: dict[str, int] = {}
    found = []
    for title in titles:
        seen[title] = seen.get(title, 0) + 1
        found.append(title if seen[title] == 1 else f"{title} ({seen[title]})")
    return found
