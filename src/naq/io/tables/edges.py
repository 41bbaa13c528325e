"""Tables of edges to what a graph is made of: pairs of node numbers, directions, weights, types."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from naq.errors import DataError
from naq.graph import arcs_of
from naq.graph.checks import HEAVIEST, LIGHTEST, edge_matrix
from naq.io.tables.nodes import LONGEST_ID, Nodes
from naq.io.tables.table import BadCell, Dropped, Table, is_missing

UNWEIGHTED = "weights are not used"
"""Beginning of the note that says so; what was given in Python warns of it."""
MOST_TYPES = 32
"""Types of edges that are kept, the most frequent; a column with more different cells is not taken for types."""


class Edges:
    """Rows of an edge table as node numbers; every step drops rows and says so.

    Attributes:
        ends: (2, rows) node numbers of the rows still kept.
        rows: their numbers in the table.
        weights: (rows,) what they weigh, above 0; None if all weigh the same.
        types: (rows,) places in ``type_names``, -1 for none; None if edges have no types.
    """

    def __init__(self, table: Table, source: str, target: str) -> None:
        self.table = table
        self.dropped: list[Dropped] = list(table.dropped)
        self.notes: list[str] = list(table.notes)
        codes, self.ids = table.codes(source, target)
        self.ends = codes.reshape(2, table.rows)
        self.rows = np.arange(table.rows)
        self.weights: np.ndarray | None = None
        self.types: np.ndarray | None = None
        self.type_names: list[str] = []
        longest = max(self.ids, key=len, default="")
        if len(longest) > LONGEST_ID:
            place = table.place(int(np.flatnonzero(self._rows_with(longest))[0]))
            raise DataError(f"{place}: an id has {len(longest):,} characters; expected at most {LONGEST_ID:,}.")
        if "" in self.ids:
            self._drop("rows without a source or a target", self._rows_with(""))

    def _rows_with(self, name: str) -> np.ndarray:
        """Which rows have an end of this id."""
        return np.asarray((self.ends == self.ids.index(name)).any(axis=0))

    def _drop(self, why: str, wrong: np.ndarray) -> None:
        if wrong.any():
            self.dropped += self.table.drop(why, self.rows[wrong])
            self.ends, self.rows = self.ends[:, ~wrong], self.rows[~wrong]
            self.weights = None if self.weights is None else self.weights[~wrong]
            self.types = None if self.types is None else self.types[~wrong]

    def apply_weight(self, column: str, named: bool) -> None:
        """Weights of the rows, of which those of weight 0 are dropped.

        What is not a weight is an error or, if nobody ``named`` the column, a note.
        """
        try:
            weights = self.table.numbers(column)
            wrong = np.flatnonzero(~((weights == 0) | ((weights >= LIGHTEST) & (weights <= HEAVIEST))))
            if len(wrong):
                value = weights[wrong[0]]
                raise BadCell(int(wrong[0]), "missing" if np.isnan(value) else f"{value:g}")
        except BadCell as bad:
            found = f"{self.table.place(bad.row)}: the weight in column {column!r} is {bad.cell[:40]!r}"
            if named:
                raise DataError(f"{found}; expected a number of 0 or more.") from bad
            self.notes.append(f"{UNWEIGHTED}: {found}")
            return
        self.weights = weights[self.rows]
        self.notes.append(
            "weights count in all views of the classifier but naq-plus, smooth and texts, and in no other method"
        )
        self._drop("rows of weight 0", self.weights == 0)
        if not named:
            out = f"--ignore {column} leaves them out"
            self.notes.append(f"weights of edges are those of column {column!r}; name another with --weight, {out}")

    def apply_types(self, column: str, named: bool) -> None:
        """Types of the rows, if there are several; in a column that nobody ``named``, few that are not directions."""
        codes, names = self.table.codes(column)
        counts = np.bincount(codes[self.rows], minlength=len(names))
        known = [code for code in np.argsort(-counts, kind="stable").tolist() if not is_missing(names[code])]
        known = [code for code in known if counts[code]]
        if len(known) < 2 or (not named and {names[code].casefold() for code in known} <= {"directed", "undirected"}):
            return
        if not named and len(known) > MOST_TYPES:
            several = f"it holds {len(known):,} different cells"
            self.notes.append(f"column {column!r} is not taken for types of edges: {several}; --edge-type names it")
            return
        kept, place = known[:MOST_TYPES], np.full(len(names), -1, dtype=np.int32)
        place[kept] = np.arange(len(kept))
        self.types, self.type_names = place[codes[self.rows]], [names[code] for code in kept]
        if not named:
            out = f"--ignore {column} leaves them out"
            self.notes.append(f"types of edges are those of column {column!r}; name another with --edge-type, {out}")
        if len(known) > MOST_TYPES:
            rest = f"{counts[known[MOST_TYPES:]].sum():,} edges of {len(known) - MOST_TYPES:,} more are of no type"
            self.notes.append(f"the {MOST_TYPES} most frequent types of edges are kept: {rest}")

    def number_by_appearance(self) -> list[str]:
        """Number the nodes in the order in which rows name them; their ids."""
        order = pc.unique(pa.array(self.ends.T.ravel())).to_numpy()
        place = np.full(len(self.ids), -1, dtype=np.int32)
        place[order] = np.arange(len(order))
        self.ends = place[self.ends]
        self.ids = [self.ids[i] for i in order.tolist()]
        return self.ids

    def locate(self, nodes: Nodes) -> None:
        """Number the nodes as in a table; rows that name others are dropped."""
        where = {name: i for i, name in enumerate(nodes.ids)}
        place = np.array([where.get(name, -1) for name in self.ids], dtype=np.int32)
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
            lacks = f"it has no node {first[:60]!r}, its first is {nodes.ids[0][:60]!r}"
            place = self.table.place(int(self.rows[0]))
            raise DataError(f"{place}: no edge joins two nodes of {nodes.title}: {lacks}; is --id the right column?")
        folded = {name.casefold(): name for name in where}
        alike = [self.ids[i] for i in lost.tolist() if self.ids[i].casefold() in folded]
        self.notes.append(f"nodes that edges name and {nodes.title} does not have: {len(lost):,}, e.g. {first[:60]!r}")
        if alike:
            example = f"e.g. {alike[0][:60]!r} from {folded[alike[0].casefold()][:60]!r}: write them alike"
            count = f"of these, {len(alike):,} differ from a node of the table only in upper and lower case"
            self.notes.append(f"{count}, {example}")

    def join(self, nodes: int, directed: bool) -> tuple[np.ndarray, sp.csr_array | None, dict[str, sp.csr_array]]:
        """(2, edges) each pair once, without self-loops, ``Graph.arcs`` and ``Graph.relations``; the last step, which
        lets the rows go."""
        self._drop("self-loops (a node joined to itself)", self.ends[0] == self.ends[1])
        plain = self.weights is None and not directed
        arcs = None if plain else arcs_of(self.ends, self.weights, nodes, directed=directed)
        relations = self._by_type(nodes, directed)
        first, second = self.ends if directed else (self.ends.min(axis=0), self.ends.max(axis=0))
        keys = first * np.int64(nodes)
        keys += second
        if self.types is not None:
            keys += (self.types + 1) * np.int64(nodes) ** 2
        self.ends = self.ends[:, :0].copy()
        keys, first = np.unique(keys, return_index=True)
        again = np.ones(len(self.rows), dtype=bool)
        again[first] = False
        why = "edges that repeat an earlier one" + ("" if directed else ", in either direction")
        if self.weights is None:
            self.dropped += self.table.drop(why, self.rows[again])
        elif again.any():
            self.notes.append(f"{why}, whose weights are added up: {again.sum():,}")
        if self.types is not None:
            keys %= np.int64(nodes) ** 2
        return np.stack(np.divmod(keys, max(1, nodes)), dtype=np.int32, casting="unsafe"), arcs, relations

    def _by_type(self, nodes: int, directed: bool) -> dict[str, sp.csr_array]:
        found = {}
        for place, name in enumerate(self.type_names):
            some = np.flatnonzero(self.types == place)
            weights = None if self.weights is None else self.weights[some]
            if len(some):
                found[name] = edge_matrix(self.ends[:, some], weights, nodes, directed=directed)
            else:
                self.notes.append(f"no edge of type {name!r} is left")
        return found
