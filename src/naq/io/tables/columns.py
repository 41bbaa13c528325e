"""One column to features, and as JSON how: words counted, numbers scaled, categories one-hot, vectors as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import numpy as np
import pyarrow.compute as pc
import scipy.sparse as sp

from naq.device import require
from naq.errors import DataError
from naq.io.tables.dates import EPOCH, UNITS, months_since_1970, read_days, read_months
from naq.io.tables.roles import display_name
from naq.io.tables.table import BadCell, Table, as_text, is_missing, parse_number

Recipe = dict[str, Any]
"""What a column became, as JSON: its kind, the column, and what was learned of its cells."""
NOTHING: Recipe = {}
RARE_WORDS_FROM = 1_000
"""With this many nodes or more, a word of a single node is left out: it connects nothing."""
MOST_WORDS = 50_000
LONGEST_WORD = 40
MOST_CATEGORIES = 1_000
"""Of a column that is named; one that is detected has at most ``FEW_CATEGORIES``, each of two nodes on average."""
HEAVY, RANKED_FROM = 9.0, 100
"""Numbers of so many nodes are ranked if their kurtosis is higher; it is 3 for normal ones, 9 for exponential ones."""
MOST_QUANTILES = 1_000
MONTHS = 24
"""Different months from which on the month of the year is a feature of dates."""
TEXT_COPIES = 5
"""Memory that counting words takes, as a multiple of the text."""


@dataclass
class Feature:
    """What one column became; a part of the report.

    Attributes:
        recipe: how, as JSON; with it, the function that made the feature makes the same columns of other rows.
        unknown: what of other rows is in no column.
    """

    column: str
    kind: str
    width: int
    examples: list[str]
    note: str = ""
    matrix: Any = field(default=None, repr=False)
    names: list[str] = field(default_factory=list, repr=False)
    recipe: Recipe = field(default_factory=dict, repr=False)
    unknown: str = ""


def bag_of_words(table: Table, column: str, known: Recipe = NOTHING) -> Feature:
    """How often each word occurs in each node's text: lower case, two letters or more."""
    from sklearn.feature_extraction.text import CountVectorizer

    size = int(pc.sum(pc.binary_length(as_text(table.columns[column]))).as_py() or 0)
    what = f"{table.title}: counting words in the {size:,} bytes of column {column!r}"
    require(TEXT_COPIES * size, what, "shorten its cells, or leave it out with --ignore", DataError)
    texts = table.texts(column)
    least = 2 if table.rows >= RARE_WORDS_FROM else 1
    word = rf"(?u)\b\w{{2,{LONGEST_WORD}}}\b"
    limits = {"min_df": least, "max_features": MOST_WORDS, "vocabulary": known.get("words")}
    counter = CountVectorizer(token_pattern=word, dtype=np.float32, **limits)
    try:
        counts = sp.csr_array(counter.fit_transform(texts))
    except ValueError as error:
        raise DataError(f"{table.title}: column {column!r} holds no words of {least} nodes; leave it out.") from error
    names = counter.get_feature_names_out().tolist()
    note = f"words of one node only left out, at most {MOST_WORDS:,} kept" if least > 1 else ""
    empty = int((np.diff(counts.indptr) == 0).sum())
    note = "; ".join(filter(None, [note, f"{empty:,} nodes without a word" if empty else ""]))
    common = np.argsort(-np.bincount(counts.indices, minlength=len(names)), kind="stable")[:5]
    recipe = {"kind": "text", "column": column, "gaps": any(map(is_missing, texts)), "words": names}
    lost = sum(map(len, map(counter.build_analyzer(), texts))) - int(counts.sum()) if known else 0
    unknown = f"{lost:,} words" if lost else ""
    examples = [names[i] for i in common]
    return Feature(display_name(column), "text", len(names), examples, note, counts, names, recipe, unknown)


def scale_numbers(table: Table, column: str, known: Recipe = NOTHING) -> Feature:
    """Standardised: mean 0 and deviation 1; a missing number is the mean. Skewed numbers are ranked first."""
    values = _read_numbers(table, column, known)
    missing, notes, name = np.isnan(values), list[str](), display_name(column)
    if "mean" not in known:
        if missing.all():
            raise DataError(f"{table.title}: column {column!r} holds no numbers; leave it out.")
        known = {"kind": "number", "column": column, "gaps": bool(missing.any()), **known}
        known |= _learn_scale(values[~missing])
        if not np.isfinite((known["mean"], known["deviation"])).all():
            what = f"{table.title}: numbers of column {column!r} are too large to be scaled"
            raise DataError(f"{what}; divide them first.")
    if "dates" in known:
        notes.append(f"days before {date.fromordinal(EPOCH + int(known['newest']))}")
    ranked = "quantiles" in known
    mean, deviation = known["mean"], known["deviation"]
    notes.append("skewed, so by rank" if ranked else f"mean {mean:.4g}, deviation {deviation:.4g}")
    if missing.any():
        notes.append(f"{int(missing.sum()):,} missing, set to the mean")
    if not deviation > 0:
        notes.append("always the same")
    scaled = (_ranked(values, known) - mean) / (deviation if deviation > 0 else np.inf)
    examples = [f"{value:g}" for value in values[~missing][:3]]
    matrix = np.where(missing, 0, scaled)[:, None].astype(np.float32)
    return Feature(name, "number", 1, examples, ", ".join(notes), matrix, [name], known)


def _learn_scale(values: np.ndarray) -> Recipe:
    """Mean and deviation of the numbers, or of their ranks among ``quantiles`` where few lie far from most."""
    found: Recipe = {}
    with np.errstate(over="ignore", invalid="ignore"):
        apart = values - values.mean()
        if len(values) >= RANKED_FROM and (apart**4).mean() > HEAVY * (apart**2).mean() ** 2:
            points = np.linspace(0, 1, min(len(values), MOST_QUANTILES))
            found = {"quantiles": np.quantile(values, points, method="inverted_cdf").tolist()}
        scaled = _ranked(values, found)
        return found | {"mean": float(scaled.mean()), "deviation": float(scaled.std())}


def _ranked(values: np.ndarray, known: Recipe) -> np.ndarray:
    """The share of the quantiles that are lower, equal ones by half; the values if there are none."""
    if "quantiles" not in known:
        return values
    ordered = np.asarray(known["quantiles"], dtype=np.float64)
    both = [np.searchsorted(ordered, values, side) for side in ("left", "right")]
    return np.asarray(np.where(np.isnan(values), np.nan, sum(both) / (2 * len(ordered))))


def read_dates(table: Table, column: str, form: str) -> list[Feature]:
    """Dates as numbers, days before the newest; and as the month of the year, where there are ``MONTHS`` or more."""
    days = _read_numbers(table, column, {"dates": form, "newest": 0})
    found = [scale_numbers(table, column, {"dates": form, "newest": -float(np.nanmin(days))})]
    if len(np.unique(months_since_1970(-days[~np.isnan(days)]))) >= MONTHS:
        found.append(encode_categories(table, column, {"dates": form}))
    return found


def encode_categories(table: Table, column: str, known: Recipe = NOTHING) -> Feature:
    """One column of 0 and 1 for each distinct value, or for each month of dates; a missing value is all 0."""
    with _numbers_expected(table, column, known):
        codes, values = read_months(table, column, known["dates"]) if "dates" in known else table.codes(column)
    missing = [is_missing(value) for value in values]
    kept = known.get("values") or sorted(value for value, none in zip(values, missing) if not none)
    if len(kept) > MOST_CATEGORIES:
        raise DataError(
            f"{table.title}: column {column!r} has {len(kept):,} values, over {MOST_CATEGORIES:,}; use --text."
        )
    place = {value: i for i, value in enumerate(kept)}
    columns = np.array([place.get(value, -1) for value in values], dtype=np.int64)[codes]
    rows = np.flatnonzero(columns >= 0)
    matrix = sp.csr_array((np.ones(len(rows), np.float32), (rows, columns[rows])), shape=(table.rows, len(kept)))
    gaps = int(np.array(missing, dtype=bool)[codes].sum())
    others = [value for value, none in zip(values, missing) if value not in place and not none]
    unknown = f"{table.rows - len(rows) - gaps:,} values, e.g. {shown_cell(others[0])}" if others else ""
    title = f"{display_name(column)} month" if "dates" in known else display_name(column)
    recipe = {"kind": "category", "column": column, "gaps": gaps > 0, **known, "values": kept}
    names, note = [f"{title}={value}" for value in kept], f"{gaps:,} missing" if gaps else ""
    return Feature(title, "category", len(kept), kept[:5], note, matrix, names, recipe, unknown)


def take_vectors(table: Table, columns: Sequence[str], title: str, known: Recipe = NOTHING) -> Feature:
    """Vectors that were computed elsewhere, unchanged: a column of lists, or one column per number."""
    if len(columns) > 1:
        matrix = np.stack([_read_numbers(table, c, known).astype(np.float32) for c in columns], axis=1)
    else:
        own = table.vectors(columns[0])
        matrix = own if own is not None else _parsed_vectors(table, columns[0])
    wrong = ~np.isfinite(matrix)
    gaps = wrong.any(axis=1)
    note = f"{int(gaps.sum()):,} nodes with missing numbers, set to 0" if gaps.any() else ""
    matrix = np.where(wrong, 0, matrix).astype(np.float32) if gaps.any() else matrix
    width = matrix.shape[1]
    examples = [", ".join(f"{x:.3g}" for x in matrix[0, :3]) + (", ..." if width > 3 else "")] if len(matrix) else []
    recipe = {"kind": "vector", "title": title, "columns": list(columns), "gaps": bool(gaps.any()), "width": width}
    return Feature(title, "vector", width, examples, note, matrix, [f"{title}[{i}]" for i in range(width)], recipe)


def repeat_features(table: Table, recipes: Sequence[Recipe]) -> list[Feature]:
    """The features that these recipes are of, for the rows of another table with the same columns."""
    makers, found = {"text": bag_of_words, "number": scale_numbers, "category": encode_categories}, list[Feature]()
    for known in recipes:
        if known["kind"] != "vector":
            found.append(makers[known["kind"]](table, known["column"], known))
            continue
        made, width = take_vectors(table, known["columns"], known["title"], known), known["width"]
        if made.width not in (0, width):
            numbers = f"the vectors {known['title']!r} have {made.width} numbers"
            raise DataError(f"{table.title}: {numbers}, those of the graph {width}; make them the same way.")
        found.append(made if made.width else replace(made, matrix=np.zeros((table.rows, width), np.float32)))
    return found


def _read_numbers(table: Table, column: str, known: Recipe = NOTHING) -> np.ndarray:
    """The numbers of a column; of dates, days before the newest."""
    with _numbers_expected(table, column, known):
        if "dates" not in known:
            return table.numbers(column)
        return np.asarray(known["newest"] - read_days(table, column, known["dates"]))


@contextmanager
def _numbers_expected(table: Table, column: str, known: Recipe) -> Iterator[None]:
    try:
        yield
    except BadCell as bad:
        form = known.get("dates")
        what = f"a date in {form} since 1970" if form in UNITS else f"a date as {form}" if form else "a number"
        advice = "write it as in the table of the graph" if "kind" in known else "use --text"
        where = f"{table.place(bad.row)}: {shown_cell(bad.cell)} in column {column!r}"
        raise DataError(f"{where} is not {what}; {advice}.") from bad


def _parsed_vectors(table: Table, column: str) -> np.ndarray:
    """Vectors written as ``[0.1, 0.2]``, ``0.1;0.2`` or ``0.1 0.2``."""
    rows: list[list[float] | None] = []
    width = 0
    for row, cell in enumerate(table.texts(column)):
        if is_missing(cell.strip("[]() ")):
            rows.append(None)
            continue
        parsed = parse_vector(cell)
        if not parsed or (width and len(parsed) != width):
            expected = f"{width} numbers as in the rows before" if width else "numbers"
            raise DataError(
                f"{table.place(row)}: {shown_cell(cell)} in column {column!r} is not a vector; expected {expected}."
            )
        width = len(parsed)
        rows.append(parsed)
    full = [row if row is not None else [np.nan] * width for row in rows]
    return np.array(full, dtype=np.float32).reshape(len(rows), width)


def parse_vector(cell: str) -> list[float]:
    """The numbers of a list such as ``[0.1, 0.2]``; none where it holds anything else."""
    parsed = [parse_number(part) for part in re.split(r"[\s,;|]+", cell.strip("[]() ,;|"))]
    found = [number for number in parsed if number is not None]
    return found if len(found) == len(parsed) else []


def shown_cell(cell: str) -> str:
    """A cell in quotation marks, cut where it is long."""
    return repr(cell if len(cell) <= 40 else cell[:37] + "...")
