"""Columns of a node table to features: words counted, numbers standardised, categories one-hot, vectors as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from shlex import quote
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import bdtrc

from naq.errors import DataError
from naq.graph import Graph
from naq.graph.checks import as_dense
from naq.io.tables.columns import (
    Feature,
    bag_of_words,
    encode_categories,
    parse_vector,
    read_dates,
    scale_numbers,
    shown_cell,
    take_vectors,
)
from naq.io.tables.dates import NotDates, date_format, unix_unit
from naq.io.tables.roles import Choice, array_kind, display_name, find_column, normalize_name
from naq.io.tables.table import BadCell, Table, is_missing, parse_number

FEW_CATEGORIES = 50
TEXT_NAMES = {"text", "description", "abstract", "summary", "title", "content", "words", "keywords"}
"""Columns of these names with several words in a cell are text, however often a cell comes again."""
LEAST_VECTOR = 8
"""Columns PREFIX0, PREFIX1, ... are one vector if there are at least this many."""
BLOCKS = {"text": "words", "number": "numbers", "category": "categories", "vector": "vectors"}
"""The kinds of blocks (:data:`naq.graph.checks.KINDS`) that features become."""
NOTES_FROM = 100
"""Nodes from which on a person is asked to check what columns became; fewer can be read."""
MOST_COMPARED, NEARLY = 1_000, 0.95
"""Labels that a column is compared with, and the share of them that it tells if it may be the class in other words."""
_NUMBERED = re.compile(r"(.*?)(\d+)")


def read_features(table: Table, choice: Choice, columns: Sequence[str]) -> tuple[list[Feature], dict[str, str]]:
    """The features of the columns that are named, else of all ``columns``; and the unused columns, with why."""
    return _named_features(table, choice, columns) if choice.names_features else _detect_features(table, columns)


def _named_features(table: Table, choice: Choice, columns: Sequence[str]) -> tuple[list[Feature], dict[str, str]]:
    everything, found, used = list(table.columns), list[Feature](), set[str]()
    for flag, asked, make in (
        ("--text", choice.text, bag_of_words),
        ("--numeric", choice.numeric, scale_numbers),
        ("--categorical", choice.categorical, encode_categories),
    ):
        for one in asked:
            column = find_column(one, everything, flag, table.title)
            if column in used:
                raise DataError(f"{table.title}: column {column!r} is named twice; give it one kind.")
            used.add(column)
            kind, form = _kind(table, column) if flag == "--numeric" else ("", "")
            found += read_dates(table, column, form) if kind == "date" else [make(table, column)]
    for one in choice.vector:
        if not isinstance(one, str) or one.endswith(".npy"):
            continue  # from outside
        group = [one] if one in everything else list(_group_numbered(everything).get(one.rstrip("_"), {}).values())
        group = group or [find_column(one, everything, "--vector", table.title)]
        used |= set(group)
        found.append(take_vectors(table, group, display_name(one)))
    why = "features are named, and this is not one of them"
    return found, {column: why for column in columns if column not in used}


def _detect_features(table: Table, columns: Sequence[str]) -> tuple[list[Feature], dict[str, str]]:
    found: list[Feature] = []
    unused: dict[str, str] = {}
    done: set[str] = set()
    for prefix, group in _group_numbered(columns).items():
        first = next(iter(group))
        together = len(group) >= LEAST_VECTOR and first < 2 and list(group) == list(range(first, first + len(group)))
        if together and all(_kind(table, c)[0] == "number" for c in group.values()):
            found.append(take_vectors(table, list(group.values()), prefix or "vector"))
            done |= set(group.values())
    for column in columns:
        if column in done:
            continue
        kind, why = _kind(table, column)
        if kind == "vector":
            found.append(take_vectors(table, [column], display_name(column)))
        elif kind == "date":
            found += read_dates(table, column, why)
        elif kind:
            make = {"text": bag_of_words, "number": scale_numbers, "category": encode_categories}[kind]
            found.append(make(table, column))
        else:
            unused[column] = why
    return found, unused


def class_columns(graph: Graph, nodes: np.ndarray, classes: np.ndarray) -> list[str]:
    """A note on each number and each category that alone gives nearly all ``classes`` (strings) of these ``nodes``.

    A class is given by the other nodes with the same value. Where chance could do that, only names of classes count.
    """
    if graph.features is None or graph.mapped or len(set(classes.tolist())) < 2:
        return []
    vocab = graph.vocab if graph.vocab is not None else np.array([f"[{i}]" for i in range(graph.num_features)])
    groups: dict[str, list[int]] = {}
    for block in graph.blocks:
        for column, name in enumerate(vocab[block.start : block.stop].tolist(), block.start):
            title, category, _ = name.partition("=")
            if category or block.kind == "numbers" or (block.kind == "vectors" and not name.endswith("]")):
                groups.setdefault(title if category else name, []).append(column)
    chosen = np.linspace(0, len(nodes) - 1, min(len(nodes), MOST_COMPARED)).astype(np.int64)
    names, own = np.unique(classes[chosen].astype(np.str_), return_inverse=True)
    rows, count, found = graph.features[nodes[chosen]], np.arange(len(chosen)), []
    for title, columns in groups.items():
        values = as_dense(rows[:, columns])
        _, value = np.unique(values, axis=0, return_inverse=True)
        counts_by_value = np.zeros((len(count), len(names)))
        np.add.at(counts_by_value, (value.ravel(), own), 1)
        usual, others = counts_by_value.sum(axis=0).max() / len(count), counts_by_value[value.ravel()]
        others[count, own] -= 1
        told = int(((others >= others[count, own][:, None]).sum(axis=1) == 1).sum())
        told = told if bdtrc(told - 1, len(count), usual) * len(groups) < 0.01 else 0
        if "=" in str(vocab[columns[0]]):
            cells = np.char.partition(vocab[columns], "=")[:, 2][values.argmax(axis=1)]
            same = np.char.lower(cells) == np.char.lower(names[own])
            told = max(told, int((same & values.any(axis=1)).sum()))
        if told >= NEARLY * len(count):
            share = f"{told / len(count):.0%} of {len(count):,} labels"
            found.append(
                f"column {title!r} alone tells the class of {share}; if it is the class in other words, accuracy is "
                f"overstated: leave it out with --ignore {quote(title)} (of naq import, for a graph file)"
            )
    return found


def quote_names(columns: Sequence[str]) -> str:
    return ", ".join(map(repr, columns[:5])) + (", ..." if len(columns) > 5 else "")


def join_features(features: list[Feature]) -> tuple[Any, list[str] | None, list[tuple[str, int, str]] | None]:
    """All features in one matrix, sparse if any is; their names; and the blocks of several kinds."""
    if not features:
        return None, None, None
    groups: dict[tuple[str, str], list[Feature]] = {}
    for feature in features:
        groups.setdefault((feature.kind, feature.column if feature.kind == "vector" else ""), []).append(feature)
    ordered = [feature for group in groups.values() for feature in group]
    names = [name for feature in ordered for name in feature.names]
    blocks = [
        (BLOCKS[kind], sum(one.width for one in group), ", ".join(one.column for one in group))
        for (kind, _), group in groups.items()
    ]
    matrices = [feature.matrix for feature in ordered]
    if any(sp.issparse(matrix) for matrix in matrices) and len(matrices) > 1:
        matrix = sp.csr_array(sp.hstack([sp.csr_array(m) for m in matrices], format="csr"))
    else:
        matrix = matrices[0] if len(matrices) == 1 else np.hstack(matrices)
    return matrix, names, blocks if len(blocks) > 1 else None


def _kind(table: Table, column: str) -> tuple[str, str]:
    """``text``, ``number``, ``category``, ``vector``, ``date`` with its format, or "" with why it is not used."""
    if table.vectors(column) is not None:
        return "vector", ""
    try:
        values = table.numbers(column)
        if np.isnan(values).all():
            return "", "empty"
        if normalize_name(column).endswith("id"):
            return "", "its name says that it is an id; give --numeric or --categorical to use it"
        return ("date", unit) if (unit := unix_unit(column, values)) else ("number", "")
    except BadCell as bad:
        first_bad = bad
    try:
        if form := date_format(table, column):
            return "date", form
    except NotDates as reason:
        return "", str(reason)
    codes, distinct = table.codes(column)
    present = [value for value in distinct if not is_missing(value)]
    if array := array_kind(column):
        if array in ("string", "char"):
            return ("text", "") if len(present) > 1 else ("", f"always {shown_cell(present[0])}")
        lengths = {len(parse_vector(value)) for value in present}
        return ("vector", "") if len(lengths) == 1 and 0 not in lengths else ("", "arrays of different lengths")
    if all(value.startswith("[") and value.endswith("]") for value in present) and parse_vector(present[0]):
        return "vector", ""
    counts = np.bincount(codes, minlength=len(distinct))
    rows = int(sum(counts[i] for i, value in enumerate(distinct) if not is_missing(value)))
    numeric = sum(int(counts[i]) for i, v in enumerate(distinct) if parse_number(v, table.decimal_comma) is not None)
    if numeric - (table.rows - rows) > 0.5 * rows:
        place = table.place(first_bad.row)
        return (
            "",
            f"mostly numbers, but {shown_cell(first_bad.cell)} in {place}; correct it, or use --categorical or --text",
        )
    several_words = sum(len(value.split()) for value in present) >= 1.5 * len(present)
    if several_words and normalize_name(column) in TEXT_NAMES and len(present) > 1:
        return "text", ""
    if len(present) <= FEW_CATEGORIES and (2 * len(present) <= rows or len(present) == 2 < rows):
        return ("category", "") if len(present) > 1 else ("", f"always {shown_cell(present[0])}")
    if several_words:
        return "text", ""
    return "", f"{len(present):,} different single words; give --text or --categorical to use it"


def _group_numbered(columns: Sequence[str]) -> dict[str, dict[int, str]]:
    """Columns v0, v1, ... or x_1, x_2, ... that belong together: by prefix, by number, in the order of numbers."""
    found: dict[str, dict[int, str]] = {}
    for column in columns:
        match = _NUMBERED.fullmatch(display_name(column))
        if match is not None and len(match[2]) < 10:
            found.setdefault(match[1].rstrip("_"), {})[int(match[2])] = column
    return {prefix: dict(sorted(group.items())) for prefix, group in found.items()}
