"""Tables of nodes to what a graph is made of: ids, labels, features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from naq.device import require
from naq.errors import DataError
from naq.files import file_of
from naq.io.tables import roles
from naq.io.tables.columns import Feature, Recipe, take_vectors
from naq.io.tables.features import read_features
from naq.io.tables.table import Dropped, Table, is_missing, vector_column
from naq.text import NodeTable

LONGEST_ID = 1_000
SAMPLED_ENDS = 1_000


@dataclass
class Nodes:
    """The nodes of a graph: their ids, and what the table, called ``title``, says of them.

    Attributes:
        recipe: how rows of the table became features; None without a table.
    """

    ids: list[str]
    title: str
    labels: np.ndarray | None
    class_names: list[str] | None
    features: list[Feature]
    unused: dict[str, str]
    dropped: list[Dropped]
    notes: list[str]
    cells: NodeTable | None = None
    recipe: Recipe | None = None


def read_nodes(
    table: Table, choice: roles.Choice, vectors: Sequence[tuple[str, np.ndarray]] = (), ends: Sequence[str] = ()
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
        table.columns[title] = vector_column(values)
    outside = [title for title, _ in vectors]
    ignored = [roles.find_column(one, list(table.columns), "--ignore", table.title) for one in choice.ignore]
    table = replace(table, columns={name: column for name, column in table.columns.items() if name not in ignored})
    names = [name for name in table.columns if name not in outside]
    key = _id_column(table, names, choice.id, ends)
    candidates = [c for c in names if c != key or choice.label]
    label = roles.known_column(candidates, choice.label, "--label", roles.LABELS, table.title)
    if label == key:
        raise DataError(f"{table.title}: column {key!r} is both --id and --label; give two columns.")
    table, dropped = keep_one_row_per_id(table, key)
    if label is not None and choice.label is None and not _looks_like_classes(table, label):
        label = None
    labels, class_names = (None, None) if label is None else encode_labels(table, label)
    features, unused = read_features(table, choice, [c for c in names if c not in (key, label)])
    features += [take_vectors(table, [title], title) for title in outside]
    unused |= dict.fromkeys(ignored, "left out by --ignore")
    ids = [value.strip() for value in table.texts(key)]
    notes = list(table.notes)
    if label is not None and choice.label is None:
        notes.append(f"classes are those of column {label!r}; name another with --label")
    if choice.id is None and len(names) > 1 and roles.normalize_name(key) != "id":
        notes.append(f"ids of nodes are those of column {key!r}; name another with --id")
    held = {feature.column for feature in features if feature.kind != "vector"}
    kept = [c for c in names if c not in (key, label) and (c in unused or roles.display_name(c) in held)]
    name = roles.known_column(kept, choice.display, "--display", roles.NAMES, table.title)
    text = [roles.display_name(feature.column) for feature in features if feature.kind == "text"]
    columns = {roles.display_name(c): table.texts(c) for c in kept}
    shown = None if name is None else roles.display_name(name)
    cells = NodeTable.of(columns, shown, text) if kept and choice.keep else None
    dropped = table.dropped + dropped
    recipe: Recipe = {"id": key, "label": label, "text_ids": table.typed and table.is_text(key)}
    recipe |= {"others": [*filter(None, [label]), *unused], "columns": [one.recipe for one in features]}
    return Nodes(ids, table.name, labels, class_names, features, unused, dropped, notes, cells, recipe)


def _id_column(table: Table, names: list[str], asked: str | None, ends: Sequence[str]) -> str:
    if asked is not None:
        return roles.find_column(asked, names, "--id", table.title)
    likely = roles.id_columns(names)
    wanted = list(ends[:: max(1, len(ends) // SAMPLED_ENDS)])
    best, most = likely[0], 0.0
    for name in likely:
        held = set(table.codes(name)[1])
        share = sum(end in held for end in wanted) / max(1, len(wanted))
        if share > most:
            best, most = name, share
        if most > 0.9 or not wanted:
            break
    return best


def _looks_like_classes(table: Table, column: str) -> bool:
    """Whether a column called label holds classes: two or more, and not a name for every node, as Gephi exports."""
    codes, values = table.codes(column)
    known = [i for i, value in enumerate(values) if not is_missing(value)]
    labelled = int(np.isin(codes, known).sum())
    return len(known) > 1 and not (len(known) > 0.9 * labelled and 2 * labelled > table.rows)


def encode_labels(table: Table, column: str) -> tuple[np.ndarray, list[str]]:
    """Labels (rows,), -1 where unknown, and the names of the classes, sorted; by value if all are whole numbers."""
    codes, values = table.codes(column)
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


def keep_one_row_per_id(table: Table, key: str) -> tuple[Table, list[Dropped]]:
    """The table without rows that have no id or repeat another; two rows of one id that differ are an error."""
    codes, values = table.codes(key)
    longest = max(values, key=len)
    if len(longest) > LONGEST_ID:
        row = int(np.flatnonzero(codes == values.index(longest))[0])
        found = f"the id in column {key!r} has {len(longest):,} characters"
        raise DataError(f"{table.place(row)}: {found}; expected at most {LONGEST_ID:,}.")
    if len(values) == table.rows and "" not in values:
        return table, []
    first = np.unique(codes, return_index=True)[1]
    empty = codes == (values.index("") if "" in values else -1)
    again = ~empty
    again[first] = False
    repeated = np.flatnonzero(again)
    if len(repeated):
        _check_equal(table, key, repeated, first[codes[repeated]])
    kept = ~(empty | again)
    dropped = table.drop("rows of nodes without an id", np.flatnonzero(empty))
    dropped += table.drop("rows of nodes that repeat an earlier row", repeated)
    if not kept.any():
        raise DataError(f"{table.title}: column {key!r} is empty; name the column of ids with --id.")
    return table.take(np.flatnonzero(kept)), dropped


def _check_equal(table: Table, key: str, again: np.ndarray, earlier: np.ndarray) -> None:
    for name in table.columns:
        codes, _ = table.codes(name)
        wrong = np.flatnonzero(codes[again] != codes[earlier])
        if len(wrong):
            row, before = int(again[wrong[0]]), int(earlier[wrong[0]])
            node = table.take(np.array([row])).texts(key)[0].strip()
            first = f"described twice (first in {table.place(before).split(', ')[-1]})"
            raise DataError(
                f"{table.place(row)}: node {node!r} is {first}, with different values in column {name!r}; keep one of "
                "the rows. Is --id the right column?"
            )


def vector_file(path: Path) -> np.ndarray:
    """The (nodes, d) array of an ``.npy`` file, never a pickle."""
    try:
        values = np.load(file_of(path), allow_pickle=False, mmap_mode="r")
    except DataError:
        raise
    except Exception as error:  # NumPy parses the header as Python, and fails in as many ways
        raise DataError(f"{path} is not a readable .npy array of numbers; save it with numpy.save.") from error
    require(5 * getattr(values, "size", 0), f"reading {path}", "give fewer columns", DataError)
    return check_vectors(values, str(path))


def check_vectors(values: np.ndarray, title: str) -> np.ndarray:
    if not isinstance(values, np.ndarray) or values.ndim != 2 or values.dtype.kind not in "biuf":
        shape = getattr(values, "shape", type(values).__name__)
        raise DataError(f"{title}: the vectors have shape {shape}; expected numbers of shape (nodes, d).")
    return values.astype(np.float32)
