"""Delimited text: cells against Python's csv, lines, delimiters, headers, encodings, numbers."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naq.errors import DataError
from naq.io.tables.layout import examine
from naq.io.tables.reading import open_delimited
from naq.io.tables.table import BadCell, Table, parse_number

Write = Callable[..., Path]


def read(path: Path, header: bool | None = None) -> Table:
    source = open_delimited(path, header=header)
    return source.read(source.columns)


def cells(table: Table) -> dict[str, list[str]]:
    return {name: table.texts(name) for name in table.columns}


CELL = st.text(st.sampled_from("ab1 ,;\t\"'\n\r#é☃\\|"), max_size=6)
ROWS = st.integers(2, 4).flatmap(
    lambda width: st.lists(st.lists(CELL, min_size=width, max_size=width), min_size=1, max_size=8)
)


@settings(max_examples=150, deadline=None)
@given(ROWS, st.sampled_from(",;\t"), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_what_is_written_as_csv_is_read_back(tmp_path_factory, rows, delimiter, end, everywhere, bom) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    names = [f"column {i}" for i in range(len(rows[0]))]
    stream = io.StringIO(newline="")
    bare = any("\r" in cell for row in rows for cell in row)  # Python's writer leaves it without quotation marks
    quoting = csv.QUOTE_ALL if everywhere or bare else csv.QUOTE_MINIMAL
    csv.writer(stream, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows([names, *rows])
    path.write_bytes((b"\xef\xbb\xbf" if bom else b"") + stream.getvalue().encode())
    try:
        file = examine(path, header=True)
    except DataError as error:
        assert "is a title" in str(error) or "two columns" in str(error)
        return
    if file.delimiter == delimiter and not file.spaced:
        table = read(path, header=True)
        assert cells(table) == {name: [row[i] for row in rows] for i, name in enumerate(names)} and not table.dropped


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from('ab1,"\n\r \t'), max_size=40))
def test_any_text_is_read_as_by_python(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("any") / "t.csv"
    path.write_bytes(("source,target\n" + text).encode())
    try:
        file = examine(path, header=True)
        table = read(path, header=True)
    except DataError:
        return
    if file.delimiter != "," or file.width != 2 or file.spaced:
        return
    with path.open(newline="") as stream:
        rows = [row for row in list(csv.reader(stream))[1:] if len(row) > 1 or (row and row[0].strip())]
    whole = [row for row in rows if len(row) == 2]
    assert list(zip(table.texts("source"), table.texts("target"))) == [tuple(row) for row in whole]
    assert sum(one.count for one in table.dropped) == len(rows) - len(whole)


def test_rows_are_named_by_their_lines(write: Write) -> None:
    rows = "".join(f"{i},x\n" for i in range(40))
    text = '# made by a program\n\nsource,target\na,"b\nc"\n\nd,e\n1,2,3\n  \nf,g\n' + rows
    table = read(write("t.csv", text))
    assert cells(table)["target"][:3] == ["b\nc", "e", "g"] and table.rows == 43
    assert table.places([0, 1, 2, 42]) == ["t.csv, line 4", "t.csv, line 7", "t.csv, line 10", "t.csv, line 50"]
    assert [(one.count, one.places) for one in table.dropped] == [(1, ["t.csv, line 8"])]


def test_rows_across_blocks(write: Write) -> None:
    """A file of several of pyarrow's blocks, with line breaks in cells and ragged rows."""
    text = "x" * 4000
    rows = [f'{i},"{text}\n{i}"' if i % 700 else f"{i}" for i in range(1, 10_000)]
    table = read(write("t.csv", "source,target\n" + "\n".join(rows) + "\n"))
    assert table.rows == 9_999 - 14 and table.texts("target")[-1] == f"{text}\n9999"
    assert table.places([9_984]) == [f"t.csv, line {1 + 2 * 9_999 - 14 - 1}"]
    assert table.dropped[0].count == 14 and table.dropped[0].places[0] == "t.csv, line 1400"


@pytest.mark.parametrize("delimiter", ",\t ;|")
def test_delimiters_are_detected(write: Write, delimiter: str) -> None:
    assert cells(read(write("t.txt", "source,target\na,b\n".replace(",", delimiter)))) == {
        "source": ["a"],
        "target": ["b"],
    }


def test_a_text_with_more_commas_than_semicolons(write: Write) -> None:
    table = read(write("t.csv", "id;text\n1;a, b, c, d\n2;e\n3;f, g\n"))
    assert cells(table)["text"] == ["a, b, c, d", "e", "f, g"]


def test_gzip(write: Write) -> None:
    assert cells(read(write("t.csv.gz", gzip.compress(b"source,target\na,b\n")))) == {"source": ["a"], "target": ["b"]}
    with pytest.raises(DataError, match=r"Truncated .* gzip"):
        read(write("t.csv.gz", gzip.compress(b"source,target\n" + b"a,b\n" * 10_000)[:-20]))
    with pytest.raises(DataError, match="gzip"):
        read(write("t.csv.gz", b"source,target\na,b\n"))


@pytest.mark.parametrize(
    ("text", "header", "columns"),
    [
        ("1,2\n2,3\n", None, ["1", "2"]),
        ("a,b\nb,c\n", None, ["1", "2"]),  # b occurs again: an edge
        ("from,to\n1,2\n", None, ["from", "to"]),
        ("x,y\n1,2\n", None, ["x", "y"]),
        ("x,y\n1,2\n", False, ["1", "2"]),
        ("1,2\n2,3\n", True, ["1", "2"]),
        ("id,0,1\na,3,4\n", None, ["id", "0", "1"]),
        (",0,1\na,3,4\n", None, ["column 1", "0", "1"]),
        ("only,one\na,b\nb,c\n", None, ["only", "one"]),
        ("x\na,b\n", None, ["x"]),
    ],
)
def test_headers(write: Write, text: str, header: bool | None, columns: list[str]) -> None:
    file = examine(write("t.csv", text), header=header)
    assert file.columns() == columns and (file.header is not None) == (file.skip == 1)


def test_a_title_above_the_header_is_refused(write: Write) -> None:
    with pytest.raises(DataError, match="line 2 is a title"):
        read(write("n.csv", "# remark\nOur nodes;;\nid;about;size\na;red apple;1,5\n"))


def test_other_encodings(write: Write) -> None:
    table = read(write("t.csv", "source,target\nx,y\nMüller,Café €\n".encode("cp1252")))
    assert cells(table) == {"source": ["x", "Müller"], "target": ["y", "Café €"]}
    assert "line 3" in table.notes[0] and "Windows-1252" in table.notes[0]
    table = read(write("t.csv", "source,target\nx,☃\n".encode("utf-16")))
    assert cells(table) == {"source": ["x"], "target": ["☃"]} and not table.notes


def test_numbers_are_finite_or_missing(write: Write) -> None:
    good = ["1", "-2.5", "1e3", "", "+7", " 8 ", "NaN", "1.7976931348623157e308", ".5", "3."]
    expected = [1, -2.5, 1000, np.nan, 7, 8, np.nan, 1.7976931348623157e308, 0.5, 3]
    for some in (slice(None), slice(0, 4)):  # the second by pyarrow alone
        table = read(write("t.csv", "source,target\n" + "".join(f"{cell},x\n" for cell in good[some])))
        assert np.array_equal(table.numbers("source"), expected[some], equal_nan=True)
    for bad in ("inf", "1_0", "0x10", "٣", "1e999", "1,5", "true"):
        with pytest.raises(BadCell) as error:
            read(write("t.csv", f'source,target\n1,x\n"{bad}",x\n')).numbers("source")
        assert (error.value.row, error.value.cell) == (1, bad)


def test_numbers_as_spreadsheets_show_them(write: Write) -> None:
    assert [parse_number(cell) for cell in ("1,234", "1,234,567.5", "12 %", "$5", "-1,000")] == [
        1234, 1234567.5, 12, 5, -1000,
    ]  # fmt: skip
    assert [parse_number(cell, decimal_comma=True) for cell in ("1,5", "1.234,5", "-1.234.567,25 €", "1.5")] == [
        1.5, 1234.5, -1234567.25, 1.5,
    ]  # fmt: skip
    assert [parse_number(cell) for cell in ("1,23", "12,34,567", "1,2345", "%", "1 2", "€x")] == [None] * 6
    assert [parse_number(cell, decimal_comma=True) for cell in ("1.23,5", "1,2,3", "1.234.5,0")] == [None] * 3
    assert read(write("t.csv", "id;size\na;1,5\nb;2.500,5\n")).numbers("size").tolist() == [1.5, 2500.5]
