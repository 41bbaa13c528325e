"""Columns of a node table to features: words counted, numbers standardised, categories one-hot, vectors as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import bdtrc

from naq.errors import DataError
from naq.graph import Graph
from naq.graph.checks import as_dense
from naq.io.tables.columns import BadCell, Table, Vectors, is_missing, parse_number, stripped
from naq.io.tables.roles import array_kind, plain, shown

RARE_WORDS_FROM = 1_000
"""With this many nodes or more, a word of a single node is left out: it connects nothing."""
MOST_WORDS = 50_000
LONGEST_WORD = 40
MOST_CATEGORIES = 1_000
"""Of a column that is named; one that is detected has at most ``FEW_CATEGORIES``, each of two nodes on average."""
FEW_CATEGORIES = 50
TEXT_NAMES = {"text", "description", "abstract", "summary", "title", "content", "words", "keywords"}
"""Columns of these names with several words in a cell are text, however often a cell comes again."""
LEAST_VECTOR = 8
"""Columns PREFIX0, PREFIX1, ... are taken as one vector where there are so many."""
BLOCKS = {"text": "words", "number": "numbers", "category": "categories", "vector": "vectors"}
"""The kinds of blocks (:data:`naq.graph.checks.KINDS`) that features become."""
NOTES_FROM = 100
"""Nodes from which on a person is asked to check what columns became; fewer can be read."""
MOST_COMPARED, NEARLY = 1_000, 0.95
"""Labels that a column is compared with, and the share of them that it tells if it may be the class in other words."""
_NUMBERED = re.compile(r"(.*?)(\d+)")


@dataclass
class Feature:
    """What one column became; a part of the report."""

    column: str
    kind: str
    width: int
    examples: list[str]
    note: str = ""
    matrix: Any = field(default=None, repr=False)
    names: list[str] = field(default_factory=list, repr=False)


def words(table: Table, column: str) -> Feature:
    """How often each word occurs in each node's text (scikit-learn's CountVectorizer, lower case, two letters or more)."""
    from sklearn.feature_extraction.text import CountVectorizer

    texts = table.columns[column].strings()
    least = 2 if table.rows >= RARE_WORDS_FROM else 1
    word = rf"(?u)\b\w{{2,{LONGEST_WORD}}}\b"
    counter = CountVectorizer(token_pattern=word, min_df=least, max_features=MOST_WORDS, dtype=np.float32)
    try:
        counts = sp.csr_array(counter.fit_transform(texts))
    except ValueError as error:
        raise DataError(f"{table.title}: column {column!r} holds no words of {least} nodes; leave it out.") from error
    names = counter.get_feature_names_out().tolist()
    note = f"words of one node only left out, at most {MOST_WORDS:,} kept" if least > 1 else ""
    empty = int((np.diff(counts.indptr) == 0).sum())
    note = "; ".join(filter(None, [note, f"{empty:,} nodes without a word" if empty else ""]))
    common = np.argsort(-np.bincount(counts.indices, minlength=len(names)), kind="stable")[:5]
    return Feature(shown(column), "text", len(names), [names[i] for i in common], note, counts, names)


def numbers(table: Table, column: str) -> Feature:
    """Standardised: mean 0 and deviation 1; a missing number is the mean."""
    values = _read_numbers(table, column)
    missing = np.isnan(values)
    if missing.all():
        raise DataError(f"{table.title}: column {column!r} holds no numbers; leave it out.")
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(values[~missing].mean()), float(values[~missing].std())
    if not np.isfinite(mean) or not np.isfinite(deviation):
        raise DataError(f"{table.title}: numbers of column {column!r} are too large to be scaled; divide them first.")
    known = np.where(missing, mean, values)
    scaled = (known - mean) / deviation if deviation > 0 else np.zeros_like(known)
    notes = [f"mean {mean:.4g}, deviation {deviation:.4g}"]
    if missing.any():
        notes.append(f"{int(missing.sum()):,} missing, set to the mean")
    if deviation == 0:
        notes.append("always the same")
    examples = [f"{value:g}" for value in values[~missing][:3]]
    matrix = scaled[:, None].astype(np.float32)
    return Feature(shown(column), "number", 1, examples, ", ".join(notes), matrix, [shown(column)])


def categories(table: Table, column: str) -> Feature:
    """One column of 0 and 1 for each distinct value; a missing value is all 0."""
    codes, values = stripped(table.columns[column])
    kept = sorted((i for i, value in enumerate(values) if not is_missing(value)), key=values.__getitem__)
    if len(kept) > MOST_CATEGORIES:
        raise DataError(
            f"{table.title}: column {column!r} has {len(kept):,} values, over {MOST_CATEGORIES:,}; use --text."
        )
    place = np.full(len(values) + 1, -1)
    place[kept] = np.arange(len(kept))
    codes = place[codes]
    rows = np.flatnonzero(codes >= 0)
    matrix = sp.csr_array((np.ones(len(rows), np.float32), (rows, codes[rows])), shape=(table.rows, len(kept)))
    names = [f"{shown(column)}={values[i]}" for i in kept]
    missing = table.rows - len(rows)
    note = f"{missing:,} missing" if missing else ""
    return Feature(shown(column), "category", len(kept), [values[i] for i in kept[:5]], note, matrix, names)


def vectors(table: Table, columns: Sequence[str], title: str) -> Feature:
    """Vectors that were computed elsewhere, unchanged: a column of lists, or one column per number."""
    if len(columns) > 1:
        matrix = np.stack([_read_numbers(table, c).astype(np.float32) for c in columns], axis=1)
    else:
        own = table.columns[columns[0]].vectors()
        matrix = own if own is not None else _parsed_vectors(table, columns[0])
    wrong = ~np.isfinite(matrix)
    gaps = wrong.any(axis=1)
    note = f"{int(gaps.sum()):,} nodes with missing numbers, set to 0" if gaps.any() else ""
    matrix = np.where(wrong, 0, matrix).astype(np.float32) if gaps.any() else matrix
    width = matrix.shape[1]
    examples = [", ".join(f"{x:.3g}" for x in matrix[0, :3]) + (", ..." if width > 3 else "")] if len(matrix) else []
    return Feature(title, "vector", width, examples, note, matrix, [f"{title}[{i}]" for i in range(width)])


def detect(table: Table, columns: Sequence[str]) -> tuple[list[Feature], dict[str, str]]:
    """The features of columns that nobody named, and the columns that are not used, with why."""
    found: list[Feature] = []
    unused: dict[str, str] = {}
    groups = _numbered_groups(columns)
    done: set[str] = set()
    for prefix, group in groups.items():
        if all(_kind(table, c)[0] == "number" for c in group):
            found.append(vectors(table, group, prefix.rstrip("_") or "vector"))
            done |= set(group)
    for column in columns:
        if column in done:
            continue
        kind, why = _kind(table, column)
        if kind == "vector":
            found.append(vectors(table, [column], shown(column)))
        elif kind:
            found.append({"text": words, "number": numbers, "category": categories}[kind](table, column))
        else:
            unused[column] = why
    return found, unused


def feature_notes(features: Sequence[Feature], labelled: bool) -> list[str]:
    """What a person should check of columns that nobody named: a category that may be the class."""
    columns = [feature.column for feature in features if feature.kind == "category"]
    if labelled or not columns:
        return []
    return [
        f"values of {listed(columns)} are features; if one of these columns holds the classes, name it with --label"
    ]


def class_columns(graph: Graph, nodes: np.ndarray, classes: np.ndarray) -> list[str]:
    """A note on each number and each category that alone tells nearly all ``classes`` (strings) of these ``nodes``.

    A class is told by the other nodes with the same value. Where chance could do that, only values that are the names of the classes count.
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
        beside = np.zeros((len(count), len(names)))
        np.add.at(beside, (value.ravel(), own), 1)
        usual, others = beside.sum(axis=0).max() / len(count), beside[value.ravel()]
        others[count, own] -= 1
        told = int(((others >= others[count, own][:, None]).sum(axis=1) == 1).sum())
        told = told if bdtrc(told - 1, len(count), usual) * len(groups) < 0.01 else 0
        if "=" in str(vocab[columns[0]]):
            cells = np.char.partition(vocab[columns], "=")[:, 2][values.argmax(axis=1)]
            same = np.char.lower(cells) == np.char.lower(names[own])
            told = max(told, int((same & values.any(axis=1)).sum()))
        if told >= NEARLY * len(count):
            found.append(
                f"column {title!r} alone tells the class of {told / len(count):.0%} of {len(count):,} labels; if it is the class in "
                f"other words, accuracy is overstated: leave it out with --ignore {quote(title)} (of naq import, for a graph file)"
            )
    return found


def listed(columns: Sequence[str]) -> str:
    return ", ".join(map(repr, columns[:5])) + (", ..." if len(columns) > 5 else "")


def joined(features: list[Feature]) -> tuple[Any, list[str] | None, list[tuple[str, int, str]] | None]:
    """All features side by side, sparse if any is; their names; and where there are several kinds, which stand together,
    the blocks of the graph: every vector is one of its own."""
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
    """``text``, ``number``, ``category``, ``vector``, or "" with why the column is not used."""
    cells = table.columns[column]
    if isinstance(cells, Vectors):
        return "vector", ""
    try:
        values = cells.numbers(table.decimal_comma)
        if np.isnan(values).all():
            return "", "empty"
        if plain(column).endswith("id"):
            return "", "its name says that it is an id; give --numeric or --categorical to use it"
        return "number", ""
    except BadCell as bad:
        first_bad = bad
    codes, distinct = stripped(cells)
    present = [value for value in distinct if not is_missing(value)]
    if array := array_kind(column):
        if array in ("string", "char"):
            return ("text", "") if len(present) > 1 else ("", f"always {_cut(present[0])}")
        lengths = {len(_numbers_in(value)) for value in present}
        return ("vector", "") if len(lengths) == 1 and 0 not in lengths else ("", "arrays of different lengths")
    if all(value.startswith("[") and value.endswith("]") for value in present) and _numbers_in(present[0]):
        return "vector", ""
    counts = np.bincount(codes, minlength=len(distinct))
    rows = int(sum(counts[i] for i, value in enumerate(distinct) if not is_missing(value)))
    numeric = sum(int(counts[i]) for i, v in enumerate(distinct) if parse_number(v, table.decimal_comma) is not None)
    if numeric - (table.rows - rows) > 0.5 * rows:
        place = table.place(first_bad.row)
        return "", f"mostly numbers, but {_cut(first_bad.cell)} in {place}; correct it, or give --categorical or --text"
    several_words = sum(len(value.split()) for value in present) >= 1.5 * len(present)
    if several_words and plain(column) in TEXT_NAMES and len(present) > 1:
        return "text", ""
    if len(present) <= FEW_CATEGORIES and (2 * len(present) <= rows or len(present) == 2 < rows):
        return ("category", "") if len(present) > 1 else ("", f"always {_cut(present[0])}")
    if several_words:
        return "text", ""
    return "", f"{len(present):,} different single words; give --text or --categorical to use it"


def _numbered_groups(columns: Sequence[str]) -> dict[str, list[str]]:
    """Columns v0, v1, ... or x1, x2, ... that belong together, by their prefix."""
    found: dict[str, dict[int, str]] = {}
    for column in columns:
        match = _NUMBERED.fullmatch(shown(column))
        if match is not None and len(match[2]) < 10:
            found.setdefault(match[1], {})[int(match[2])] = column
    groups = {}
    for prefix, members in found.items():
        order = sorted(members)
        if len(order) >= LEAST_VECTOR and order == list(range(order[0], order[0] + len(order))) and order[0] < 2:
            groups[prefix] = [members[i] for i in order]
    return groups


def vector_columns(columns: Sequence[str], asked: str) -> list[str] | None:
    """The columns PREFIX0, PREFIX1, ... for ``--vector PREFIX``, in order; None where there are none."""
    found = {}
    for column in columns:
        match = _NUMBERED.fullmatch(shown(column))
        if match is not None and match[1].rstrip("_") == asked.rstrip("_"):
            found[int(match[2])] = column
    return [found[i] for i in sorted(found)] or None


def _read_numbers(table: Table, column: str) -> np.ndarray:
    try:
        return table.columns[column].numbers(table.decimal_comma)
    except BadCell as bad:
        raise DataError(
            f"{table.place(bad.row)}: {_cut(bad.cell)} in column {column!r} is no number; use --text."
        ) from bad


def _parsed_vectors(table: Table, column: str) -> np.ndarray:
    """Vectors written as ``[0.1, 0.2]``, ``0.1;0.2`` or ``0.1 0.2``."""
    rows: list[list[float] | None] = []
    width = 0
    for row, cell in enumerate(table.columns[column].strings()):
        if is_missing(cell.strip("[]() ")):
            rows.append(None)
            continue
        parsed = _numbers_in(cell)
        if not parsed or (width and len(parsed) != width):
            expected = f"{width} numbers as in the rows before" if width else "numbers"
            raise DataError(f"{table.place(row)}: {_cut(cell)} in column {column!r} is no vector; expected {expected}.")
        width = len(parsed)
        rows.append(parsed)
    return np.array([row if row is not None else [np.nan] * width for row in rows], dtype=np.float32).reshape(-1, width)


def _numbers_in(cell: str) -> list[float]:
    """The numbers of a list such as ``[0.1, 0.2]``; none where it holds anything else."""
    parsed = [parse_number(part) for part in re.split(r"[\s,;|]+", cell.strip("[]() ,;|"))]
    found = [number for number in parsed if number is not None]
    return found if len(found) == len(parsed) else []


def _cut(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else cell[:37] + "...")
