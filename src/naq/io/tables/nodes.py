"""A node table to ids, labels and features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from naq.errors import DataError
from naq.files import file_of
from naq.io.tables import features as kinds
from naq.io.tables.choice import Choice
from naq.io.tables.columns import Dropped, Table, Vectors, drop, is_missing
from naq.io.tables.features import Feature, stripped
from naq.io.tables.roles import id_columns, label_column, named, shown
from naq.memory import require

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
            raise DataError(
                f"{title} has {len(values):,} rows but {table.title} has {table.rows:,}; give one vector per node, in the same order."
            )
    for title, values in vectors:
        table.columns[title] = Vectors(values)
    outside = [title for title, _ in vectors]
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
    ids = [value.strip() for value in table.columns[key].strings()]
    notes = list(table.notes)
    if label is not None and choice.label is None:
        notes.append(f"classes are those of column {label!r}; name another with --label")
    if choice.id is None and len(names) > 1:
        notes.append(f"ids of nodes are those of column {key!r}; name another with --id")
    return Nodes(ids, table.name, labels, class_names, features, unused, table.dropped + dropped, notes)


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
        raise DataError(
            f"{table.title}: column {column!r} holds no class; leave --label out, or fill in a few classes."
        )
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
            f"{table.place(row)}: the id in column {key!r} has {len(longest):,} characters; expected at most {LONGEST_ID:,}. "
            "Is --id the right column?"
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
    return kinds.beside_text(table, found), {
        column: "features are named, and this is not one of them" for column in columns if column not in used
    }


def vector_file(path: Path) -> np.ndarray:
    """The (nodes, d) array of an ``.npy`` file, never a pickle."""
    try:
        values = np.load(file_of(path), allow_pickle=False, mmap_mode="r")
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist.") from error
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
