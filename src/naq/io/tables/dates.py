"""Columns of dates: in which format they are written, and the days that they mean."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date

import numpy as np

from naq.io.tables.roles import normalize_name
from naq.io.tables.table import BadCell, Table, is_missing

_TIME = r"(?:[T ]+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?.*)?"
_DAY, _MONTH, _YEAR = r"(?P<day>\d{1,2})", r"(?P<month>\d{1,2})", r"(?P<year>\d{4})"
_NAMED = r"(?P<month>[A-Za-z]{3,9})\.?"
_FORMATS = {
    "year-month-day": re.compile(rf"{_YEAR}([-/]){_MONTH}\2{_DAY}{_TIME}"),
    "day.month.year": re.compile(rf"{_DAY}\.{_MONTH}\.{_YEAR}{_TIME}"),
    "month/day/year": re.compile(rf"{_MONTH}/{_DAY}/{_YEAR}{_TIME}"),
    "day/month/year": re.compile(rf"{_DAY}/{_MONTH}/{_YEAR}{_TIME}"),
    "day month-name year": re.compile(rf"{_DAY}\.?[ -]{_NAMED}[ -]{_YEAR}{_TIME}"),
    "month-name day, year": re.compile(rf"{_NAMED} {_DAY},? {_YEAR}{_TIME}"),
    "year-month": re.compile(rf"{_YEAR}([-/]){_MONTH}"),
}
_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_UNIX = re.compile(r"(.*_)?(unix|epoch|timestamp|unixtime|unix_time)(_.*)?")
UNITS = {"seconds": 1, "milliseconds": 1000}
_FROM, _UNTIL = 1e8, 1e10
"""Seconds that are dates from 1973 to 2286."""
FIRST = 100
"""Cells one of which must be a date, or all are not looked through."""
EPOCH = date(1970, 1, 1).toordinal()
NO_MONTH = -(1 << 40)


class NotDates(ValueError):
    """Why a column that holds dates cannot be read as such."""


def unix_unit(column: str, numbers: np.ndarray) -> str:
    """``seconds`` or ``milliseconds`` since 1970, where the name of a column says so and its numbers may be; or ""."""
    known = numbers[~np.isnan(numbers)]
    if not _UNIX.fullmatch(normalize_name(column)) or not len(known):
        return ""
    low, high = known.min(), known.max()
    return next((name for name, unit in UNITS.items() if _FROM * unit < low and high < _UNTIL * unit), "")


def date_format(table: Table, column: str) -> str:
    """How the dates of a column of text are written; "" where most cells are none.

    Raises ``NotDates`` if some cells are no dates, if they have several formats, or if day and month cannot be told.
    """
    codes, values = table.codes(column)
    cells = [value for value in values if not is_missing(value)]
    if not any(form.fullmatch(cell) for cell in cells[:FIRST] for form in _FORMATS.values()):
        return ""
    days = {name: np.array([_day(cell, name) for cell in cells]) for name in _FORMATS}
    found = ~np.isnan(list(days.values()))
    is_date = found.any(axis=0)
    years = found[-1]  # 2012-13 may be a season: of these alone, all must be months
    if 2 * is_date.sum() <= len(cells) or (not years.all() and (is_date == years).all()):
        return ""
    if not is_date.all():
        wrong = cells[int(np.argmin(is_date))]
        place = table.place(int(np.flatnonzero(codes == values.index(wrong))[0]))
        raise NotDates(f"mostly dates, but {wrong[:40]!r} in {place}; correct it")
    fits = [name for name, fit in zip(days, found) if fit.all()]
    if not fits:
        examples = [repr(cells[i][:40]) for i in np.unique(found.argmax(axis=0), return_index=True)[1]]
        raise NotDates(f"dates in several formats, {' and '.join(examples)}; write all of them as 2021-03-04")
    if len(fits) > 1 and (days[fits[0]] != days[fits[1]]).any():
        raise NotDates(f"{cells[0][:40]!r} may be {fits[0]} or {fits[1]}; write it as 2021-03-04")
    return fits[0]


def read_days(table: Table, column: str, form: str) -> np.ndarray:
    """float64 (rows,) days since 1970, NaN where a date is missing; ``BadCell`` where one is not in this format, unless
    all of them are in one other."""
    try:
        if form in UNITS:
            return table.numbers(column) / (86_400 * UNITS[form])
        codes, values = table.codes(column)
        days = np.array([_day(value, form) for value in values])
        if wrong := [i for i in np.flatnonzero(np.isnan(days)) if not is_missing(values[i])]:
            raise BadCell(int(np.flatnonzero(codes == wrong[0])[0]), values[wrong[0]])
        return days[codes] if len(days) else np.empty(0)
    except BadCell:
        with suppress(NotDates):
            if other := date_format(table, column):
                return read_days(table, column, other)
        raise


def read_months(table: Table, column: str, form: str) -> tuple[np.ndarray, list[str]]:
    """Codes of the months of the year, and these: ``01`` to ``12``, or "" where a date is missing."""
    months = months_since_1970(read_days(table, column, form))
    texts = np.where(months == NO_MONTH, "", np.char.zfill((months % 12 + 1).astype(np.str_), 2))
    values, codes = np.unique(texts, return_inverse=True)
    return codes, values.tolist()


def months_since_1970(days: np.ndarray) -> np.ndarray:
    """int64 whole months, ``NO_MONTH`` where a day is missing."""
    missing = np.isnan(days)
    whole = np.floor(np.where(missing, 0, days)).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    return np.where(missing, NO_MONTH, whole)


def _day(cell: str, form: str) -> float:
    if (found := _FORMATS[form].fullmatch(cell)) is None:
        return float("nan")
    parts = {"day": "1"} | found.groupdict("0")
    named = [i for i, name in enumerate(_MONTHS, 1) if name.startswith(parts["month"].lower())]
    try:
        month = named[0] if named else int(parts["month"])
        whole = date(int(parts["year"]), month, int(parts["day"])).toordinal() - EPOCH
    except ValueError:
        return float("nan")
    hour, minute, second = (int(parts.get(part, 0)) for part in ("hour", "minute", "second"))
    return whole + hour / 24 + minute / 1_440 + second / 86_400
