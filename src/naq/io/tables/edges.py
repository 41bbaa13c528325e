"""An edge table to pairs of node numbers, and what is no edge."""

from __future__ import annotations

import numpy as np

from naq.errors import DataError
from naq.io.tables.columns import BadCell, Dropped, Table, drop
from naq.io.tables.features import stripped
from naq.io.tables.nodes import LONGEST_ID, Nodes

ROWS = 1 << 22
"""Rows that are numbered at once."""


class Edges:
    """Rows of an edge table as node numbers; every step drops rows and says so.

    Attributes:
        ends: (2, rows) node numbers of the rows still kept.
        rows: their numbers in the table.
    """

    def __init__(self, table: Table, source: str, target: str) -> None:
        self.table = table
        self.dropped: list[Dropped] = list(table.dropped)
        self.notes: list[str] = list(table.notes)
        (a, a_ids), (b, b_ids) = stripped(table.columns[source]), stripped(table.columns[target])
        known = {name: i for i, name in enumerate(a_ids)}
        place = np.array([known.setdefault(name, len(known)) for name in b_ids], dtype=np.int64)
        self.ids = list(known)
        self.ends = np.empty((2, table.rows), dtype=_number_type(len(known)))
        if table.rows:
            self.ends[0], self.ends[1] = a, place[b]
        self.rows = np.arange(table.rows)
        longest = max(self.ids, key=len, default="")
        if len(longest) > LONGEST_ID:
            row = int(np.flatnonzero((self.ends == known[longest]).any(axis=0))[0])
            raise DataError(
                f"{table.place(row)}: an id has {len(longest):,} characters; expected at most {LONGEST_ID:,}. "
                "Are --source and --target the right columns?"
            )
        if "" in known:
            self._drop("rows without a source or a target", (self.ends == known[""]).any(axis=0))

    def _drop(self, why: str, wrong: np.ndarray) -> None:
        if wrong.any():
            self.dropped += drop(self.table, why, self.rows[wrong])
            self.ends, self.rows = self.ends[:, ~wrong], self.rows[~wrong]

    def apply_weight(self, column: str) -> None:
        """Drop rows of weight 0; a negative weight, or one that is no number, is an error."""
        try:
            weight = self.table.columns[column].numbers(self.table.decimal_comma)
        except BadCell as bad:
            raise DataError(
                f"{self.table.place(bad.row)}: the weight in column {column!r} is {bad.cell[:40]!r}; expected a number of 0 or more."
            ) from bad
        wrong = np.flatnonzero(~(weight >= 0))
        if len(wrong):
            value = "missing" if np.isnan(weight[wrong[0]]) else f"{weight[wrong[0]]:g}"
            raise DataError(
                f"{self.table.place(int(wrong[0]))}: the weight in column {column!r} is {value}; expected 0 or more, since a graph has "
                "no negative edges: remove such rows or leave --weight out."
            )
        self._drop("rows of weight 0", weight[self.rows] == 0)
        self.notes.append("weights other than 0 are not used: every edge counts the same")

    def by_appearance(self) -> list[str]:
        """Number the nodes in the order in which rows name them; their ids."""
        named = self.ends.size
        first = np.full(len(self.ids), named, dtype=np.int64)
        for start in reversed(range(0, self.ends.shape[1], ROWS)):
            order = self.ends[:, start : start + ROWS].T.ravel()
            first[order[::-1]] = np.arange(2 * start, 2 * start + len(order))[::-1]
        ranked = np.argsort(first, kind="stable")
        ranked = ranked[first[ranked] < named]
        place = np.full(len(self.ids), -1, dtype=_number_type(len(self.ids)))
        place[ranked] = np.arange(len(ranked))
        self.ends = place[self.ends]
        self.ids = [self.ids[i] for i in ranked.tolist()]
        return self.ids

    def locate(self, nodes: Nodes) -> None:
        """Number the nodes as in a table; rows that name others are dropped."""
        where = {name: i for i, name in enumerate(nodes.ids)}
        place = np.array([where.get(name, -1) for name in self.ids], dtype=_number_type(len(where)))
        found = place[self.ends] if len(self.ids) else self.ends
        unknown = np.asarray((found < 0).any(axis=0))
        if unknown.any():
            self._describe_unknown(nodes, where, found, unknown)
        self.ends = found
        self._drop(f"edges to nodes that are not in {nodes.title}", unknown)

    def _describe_unknown(self, nodes: Nodes, where: dict[str, int], found: np.ndarray, unknown: np.ndarray) -> None:
        lost = np.unique(self.ends[found < 0])
        first = self.ids[int(self.ends[:, unknown][:, 0][np.argmax(found[:, unknown][:, 0] < 0)])]
        if unknown.all():
            raise DataError(
                f"{self.table.place(int(self.rows[0]))}: no edge joins two nodes of {nodes.title}: it has no node {first[:60]!r}, "
                f"its first is {nodes.ids[0][:60]!r}; is --id the right column?"
            )
        folded = {name.casefold(): name for name in where}
        alike = [self.ids[i] for i in lost.tolist() if self.ids[i].casefold() in folded]
        self.notes.append(f"nodes that edges name and {nodes.title} does not have: {len(lost):,}, e.g. {first[:60]!r}")
        if alike:
            self.notes.append(
                f"of these, {len(alike):,} differ from a node of the table only in upper and lower case, e.g. {alike[0][:60]!r} "
                f"from {folded[alike[0].casefold()][:60]!r}: write them alike"
            )

    def unique(self, nodes: int) -> np.ndarray:
        """(2, edges), each pair once; self-loops and repetitions in either direction are dropped. The last step: rows are let go."""
        self._drop("self-loops (a node joined to itself)", self.ends[0] == self.ends[1])
        keys = self.ends.min(axis=0) * np.int64(nodes)
        keys += self.ends.max(axis=0)
        self.ends = self.ends[:, :0].copy()
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        again = np.zeros(len(keys), dtype=bool)
        again[1:] = keys[1:] == keys[:-1]
        if again.any():
            rows = np.sort(self.rows[order[again]])
            self.dropped += drop(self.table, "edges that repeat an earlier one, in either direction", rows)
            keys = keys[~again]
        self.rows = self.rows[:0].copy()
        del order, again
        pairs = np.empty((2, len(keys)), dtype=_number_type(nodes))
        pairs[0] = keys // max(1, nodes)
        keys %= max(1, nodes)
        pairs[1] = keys
        return pairs


def _number_type(nodes: int) -> np.dtype:
    """The smaller type that holds the numbers of so many nodes: half the memory for most graphs."""
    return np.dtype(np.int32 if nodes <= np.iinfo(np.int32).max else np.int64)
