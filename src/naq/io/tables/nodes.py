"""Tables of nodes and of edges to what a graph is made of: ids, labels, features, pairs of node numbers, and what is no edge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from naq.device import require
from naq.errors import DataError
from naq.files import file_of
from naq.io.tables import features as kinds
from naq.io.tables.columns import BadCell, Dropped, Table, Vectors, drop, is_missing, stripped
from naq.io.tables.features import Feature
from naq.io.tables.roles import Choice, id_columns, label_column, name_column, named, plain, shown
from naq.text import NodeTable

LONGEST_ID = 1_000
SAMPLED_ENDS = 1_000


@dataclass
class Nodes:
    """The nodes of a graph: their ids, and what the table, called ``title``, says of them."""

    ids: list[str]
    title: str
    labels: np.ndarray | None
    class_names: list[str] | None
    features: list[Feature]
    unused: dict[str, str]
    dropped: list[Dropped]
    notes: list[str]
    cells: NodeTable | None = None


def read_nodes(
    table: Table, choice: Choice, vectors: Sequence[tuple[str, np.ndarray]] = (), ends: Sequence[str] = ()
) -> Nodes:
    """Everything of a node table.

    Args:
        ends: ids that edges name; where no column of ids is named, it is the one that holds them.
        vectors: arrays from outside with one row per row of the table, by name.
    """
    if not table.rows:
        raise DataError(f"{table.title} has a header but no rows; expected one row per node.")
    for title, values in vectors:
        if len(values) != table.rows:
            raise DataError(f"{title} has {len(values):,} rows but {table.title} has {table.rows:,}; give one each.")
    for title, values in vectors:
        table.columns[title] = Vectors(values)
    outside = [title for title, _ in vectors]
    ignored = [named(one, list(table.columns), "--ignore", table.title) for one in choice.ignore]
    table = replace(table, columns={name: column for name, column in table.columns.items() if name not in ignored})
    names = [name for name in table.columns if name not in outside]
    key = _id_column(table, names, choice.id, ends)
    label = label_column([c for c in names if c != key or choice.label], choice.label, table.title)
    if label == key:
        raise DataError(f"{table.title}: column {key!r} is both --id and --label; give two columns.")
    table, dropped = _one_row_per_id(table, key)
    if label is not None and choice.label is None and not _looks_like_classes(table, label):
        label = None
    labels, class_names = (None, None) if label is None else read_labels(table, label)
    features, unused = _features(table, choice, [c for c in names if c not in (key, label)])
    features += [kinds.vectors(table, [title], title) for title in outside]
    unused |= dict.fromkeys(ignored, "left out by --ignore")
    ids = [value.strip() for value in table.columns[key].strings()]
    notes = list(table.notes)
    if label is not None and choice.label is None:
        notes.append(f"classes are those of column {label!r}; name another with --label")
    if choice.id is None and len(names) > 1 and plain(key) != "id":
        notes.append(f"ids of nodes are those of column {key!r}; name another with --id")
    held = {feature.column for feature in features if feature.kind != "vector"}
    kept = [c for c in names if c not in (key, label) and (c in unused or shown(c) in held)]
    name = name_column(kept, choice.display, table.title)
    text = [shown(feature.column) for feature in features if feature.kind == "text"]
    columns = {shown(c): table.columns[c].strings() for c in kept}
    cells = NodeTable.of(columns, None if name is None else shown(name), text) if kept and choice.keep else None
    return Nodes(ids, table.name, labels, class_names, features, unused, table.dropped + dropped, notes, cells)


def _id_column(table: Table, names: list[str], asked: str | None, ends: Sequence[str]) -> str:
    if asked is not None:
        return named(asked, names, "--id", table.title)
    likely = id_columns(names)
    wanted = list(ends[:: max(1, len(ends) // SAMPLED_ENDS)])
    best, most = likely[0], 0.0
    for name in likely:
        held = set(stripped(table.columns[name])[1])
        share = sum(end in held for end in wanted) / max(1, len(wanted))
        if share > most:
            best, most = name, share
        if most > 0.9 or not wanted:
            break
    return best


def _looks_like_classes(table: Table, column: str) -> bool:
    """Whether a column called label holds classes: two or more, and not a name of its own for every node, as in Gephi's exports."""
    codes, values = stripped(table.columns[column])
    known = [i for i, value in enumerate(values) if not is_missing(value)]
    labelled = int(np.isin(codes, known).sum())
    return len(known) > 1 and not (len(known) > 0.9 * labelled and 2 * labelled > table.rows)


def read_labels(table: Table, column: str) -> tuple[np.ndarray, list[str]]:
    """Labels (rows,) with -1 where unknown, and the names of the classes, sorted; by value where all are whole numbers."""
    codes, values = stripped(table.columns[column])
    known = [value for value in values if not is_missing(value)]
    if all(_whole(value) for value in known):
        known = sorted((value for value in known if value != "-1"), key=lambda value: (int(value), value))
    else:
        known.sort()
    if not known:
        raise DataError(f"{table.title}: column {column!r} holds no class; leave --label out, or fill in a few.")
    place = {value: i for i, value in enumerate(known)}
    return np.array([place.get(value, -1) for value in values], dtype=np.int64)[codes], known


def _whole(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdigit() and len(text) < 19


def _one_row_per_id(table: Table, key: str) -> tuple[Table, list[Dropped]]:
    """The table without rows that have no id or repeat another; two rows of one id that differ are an error."""
    codes, values = stripped(table.columns[key])
    longest = max(values, key=len)
    if len(longest) > LONGEST_ID:
        row = int(np.flatnonzero(codes == values.index(longest))[0])
        raise DataError(
            f"{table.place(row)}: the id in column {key!r} has {len(longest):,} characters; expected at most {LONGEST_ID:,}."
        )
    if len(values) == table.rows and "" not in values:
        return table, []
    order = np.argsort(codes, kind="stable")
    again = order[1:][codes[order][1:] == codes[order][:-1]]
    first = np.full(len(values), -1, dtype=np.int64)
    first[codes[::-1]] = np.arange(table.rows)[::-1]
    empty = codes == (values.index("") if "" in values else -1)
    again = np.sort(again[~empty[again]])
    _check_equal(table, key, again, first[codes[again]])
    kept = ~empty
    kept[again] = False
    dropped = drop(table, "rows of nodes without an id", np.flatnonzero(empty))
    dropped += drop(table, "rows of nodes that repeat an earlier row", again)
    if not kept.any():
        raise DataError(f"{table.title}: column {key!r} is empty; name the column of ids with --id.")
    return table.take(np.flatnonzero(kept)), dropped


def _check_equal(table: Table, key: str, again: np.ndarray, earlier: np.ndarray) -> None:
    for name, column in table.columns.items():
        if name == key or not len(again):
            continue
        codes, _ = stripped(column)
        wrong = np.flatnonzero(codes[again] != codes[earlier])
        if len(wrong):
            row, before = int(again[wrong[0]]), int(earlier[wrong[0]])
            node = table.columns[key].take(np.array([row])).strings()[0].strip()
            raise DataError(
                f"{table.place(row)}: node {node!r} is described twice (first in {table.place(before).split(', ')[-1]}), with "
                f"different values in column {name!r}; keep one of the rows. Is --id the right column?"
            )


def _features(table: Table, choice: Choice, columns: list[str]) -> tuple[list[Feature], dict[str, str]]:
    if not choice.names_features:
        return kinds.detect(table, columns)
    everything = list(table.columns)
    found: list[Feature] = []
    used: set[str] = set()

    def take(asked: Sequence[Any], flag: str, make: Any) -> None:
        for one in asked:
            column = named(one, everything, flag, table.title)
            if column in used:
                raise DataError(f"{table.title}: column {column!r} is named twice; give it one kind.")
            used.add(column)
            found.append(make(table, column))

    take(choice.text, "--text", kinds.words)
    take(choice.numeric, "--numeric", kinds.numbers)
    take(choice.categorical, "--categorical", kinds.categories)
    for one in choice.vector:
        if not isinstance(one, str) or one.endswith(".npy"):
            continue  # from outside
        group = [one] if one in everything else kinds.vector_columns(everything, one)
        group = group or [named(one, everything, "--vector", table.title)]
        used |= set(group)
        found.append(kinds.vectors(table, group, shown(one)))
    why = "features are named, and this is not one of them"
    return found, {column: why for column in columns if column not in used}


def vector_file(path: Path) -> np.ndarray:
    """The (nodes, d) array of an ``.npy`` file, never a pickle."""
    try:
        values = np.load(file_of(path), allow_pickle=False, mmap_mode="r")
    except DataError:
        raise
    except Exception as error:  # NumPy parses the header as Python, and fails in as many ways
        raise DataError(f"{path} is not a readable .npy array of numbers; save it with numpy.save.") from error
    require(5 * getattr(values, "size", 0), f"reading {path}", "give fewer columns", DataError)
    return checked_vectors(values, str(path))


def checked_vectors(values: np.ndarray, title: str) -> np.ndarray:
    if not isinstance(values, np.ndarray) or values.ndim != 2 or values.dtype.kind not in "biuf":
        shape = getattr(values, "shape", type(values).__name__)
        raise DataError(f"{title}: the vectors have shape {shape}; expected numbers of shape (nodes, d).")
    return values.astype(np.float32)


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
                f"{table.place(row)}: an id has {len(longest):,} characters; expected at most {LONGEST_ID:,}."
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
                f"{self.table.place(int(wrong[0]))}: the weight in column {column!r} is {value}; expected 0 or more."
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
