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
from naq.io import import_tables
from naq.io.tables import reading
from naq.io.tables.columns import Table, parse_number
from naq.io.tables.text_file import examine

pa = pytest.importorskip("pyarrow")
Write = Callable[..., Path]


def everything(columns: list[str], header: bool) -> list[str]:
    return columns


def cells_of(table: Table) -> dict[str, list[str]]:
    return {name: column.strings() for name, column in table.columns.items()}


CELL = st.text(st.sampled_from("ab1 ,;\t\"'\n\r#é☃\\|"), max_size=6)
ROWS = st.integers(2, 4).flatmap(
    lambda width: st.lists(st.lists(CELL, min_size=width, max_size=width), min_size=1, max_size=8)
)


@settings(max_examples=150, deadline=None)
@given(ROWS, st.sampled_from(",;\t"), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_what_is_written_as_csv_is_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[list[str]],
    delimiter: str,
    end: str,
    everywhere: bool,
    bom: bool,
) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    names = [f"column {i}" for i in range(len(rows[0]))]
    stream = io.StringIO(newline="")
    bare = any("\r" in cell for row in rows for cell in row)  # Python's writer leaves it without quotation marks
    quoting = csv.QUOTE_ALL if everywhere or bare else csv.QUOTE_MINIMAL
    csv.writer(stream, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows([names, *rows])
    path.write_bytes((b"\xef\xbb\xbf" if bom else b"") + stream.getvalue().encode())
    file = examine(path, header=True)
    file = type(file)(**(vars(file) | {"delimiter": delimiter, "header": tuple(names), "width": len(names)}))
    slow = reading._by_csv(file, names)
    fast = reading._by_pyarrow(file, names)
    wanted = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    assert {name: column.strings() for name, column in slow[0].items()} == wanted and slow[1:] == (len(rows), [])
    assert fast is not None
    assert {name: column.strings() for name, column in fast[0].items()} == wanted and fast[1:] == (len(rows), [])


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from('ab1,"\n\r \t'), max_size=40))
def test_both_readers_agree_on_any_text(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("any") / "t.csv"
    path.write_bytes(("source,target\n" + text).encode())
    try:
        file = examine(path, header=True)
    except DataError:  # such as a header of two equal names, where tabs make the better table
        return
    if file.delimiter != "," or file.width != 2:
        return
    fast = reading._by_pyarrow(file, ["source", "target"])
    if fast is None:
        return
    slow = reading._by_csv(file, ["source", "target"])
    assert fast[1:] == slow[1:]
    for name in ("source", "target"):
        assert fast[0][name].strings() == slow[0][name].strings()


def test_rows_are_named_by_their_lines(engine: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = "".join(f"{i},x\n" for i in range(40))
    path.write_text('# made by a program\n\nsource,target\na,"b\nc"\n\nd,e\n1,2,3\n  \nf,g\n' + rows)
    table = reading.read_delimited(path, everything)
    assert cells_of(table)["target"][:3] == ["b\nc", "e", "g"] and table.rows == 43
    assert table.places([0, 1, 2, 42]) == ["t.csv, line 4", "t.csv, line 7", "t.csv, line 10", "t.csv, line 50"]
    assert [(d.count, d.places) for d in table.dropped] == [(1, ["t.csv, line 8"])]


def test_small_blocks_of_pyarrow_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from naq.io.tables import arrow

    path = tmp_path / "t.csv"
    path.write_text("source,target\n" + "".join(f'{i},"x\n{i}"\n' if i % 7 else f"{i}\n" for i in range(1, 60)))
    file = examine(path)
    whole = arrow.read_csv(file, ["target"])
    monkeypatch.setattr(arrow, "BLOCK", 64)
    pieces = arrow.read_csv(file, ["target"])
    slow = reading._by_csv(file, ["target"])
    assert whole is not None and pieces is not None
    assert whole[0]["target"].strings() == pieces[0]["target"].strings() == slow[0]["target"].strings()
    assert whole[1:] == pieces[1:] == slow[1:]


@pytest.mark.parametrize(
    ("name", "delimiter"), [("t.csv", ","), ("t.tsv", "\t"), ("t.txt", " "), ("t.csv", ";"), ("t.psv", "|")]
)
def test_delimiters_are_detected(engine: str, tmp_path: Path, name: str, delimiter: str) -> None:
    path = tmp_path / name
    path.write_text(delimiter.join(["source", "target"]) + "\n" + delimiter.join(["a", "b"]) + "\n")
    assert cells_of(reading.read_delimited(path, everything)) == {"source": ["a"], "target": ["b"]}


def test_a_text_with_more_commas_than_semicolons(engine: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id;text\n1;a, b, c, d\n2;e\n3;f, g\n")
    assert cells_of(reading.read_delimited(path, everything))["text"] == ["a, b, c, d", "e", "f, g"]


def test_gz(engine: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"source,target\na,b\n"))
    assert cells_of(reading.read_delimited(path, everything)) == {"source": ["a"], "target": ["b"]}
    path.write_bytes(gzip.compress(b"source,target\n" + b"a,b\n" * 10_000)[:-20])
    with pytest.raises(DataError, match="is damaged or truncated"):
        reading.read_delimited(path, everything)
    path.write_bytes(b"source,target\na,b\n")
    with pytest.raises(DataError, match=r"is not a gzip file, though its name ends in .gz"):
        reading.read_delimited(path, everything)


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
    ],
)
def test_headers(tmp_path: Path, text: str, header: bool | None, columns: list[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    file = examine(path, header=header)
    assert file.columns() == columns and (file.header is not None) == (file.skip == 1)


def test_other_encodings(engine: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("source,target\nx,y\nMüller,Café\n".encode("latin-1"))
    table = reading.read_delimited(path, everything)
    assert cells_of(table) == {"source": ["x", "Müller"], "target": ["y", "Café"]}
    assert "not UTF-8 (first in line 3); it was read as Windows-1252" in table.notes[0]
    path.write_bytes("source,target\nx,y\n".encode("utf-16"))
    assert cells_of(reading.read_delimited(path, everything)) == {"source": ["x"], "target": ["y"]}
    path.write_bytes("source,target\n€,\x81\n".replace("€", "\x80").encode("latin-1"))
    assert "read as Latin-1" in reading.read_delimited(path, everything).notes[0]


def test_numbers_are_the_same_however_they_are_read(tmp_path: Path) -> None:
    from naq.io.tables.columns import BadCell

    path = tmp_path / "t.csv"
    good = ["1", "-2.5", "1e3", "", "+7", " 8 ", "NaN", "1.7976931348623157e308", ".5", "3."]
    path.write_text("source,target\n" + "".join(f"{cell},x\n" for cell in good))
    file = examine(path, header=True)
    fast, slow = reading._by_pyarrow(file, ["source"]), reading._by_csv(file, ["source"])
    assert fast is not None
    expected = [1, -2.5, 1000, np.nan, 7, 8, np.nan, 1.7976931348623157e308, 0.5, 3]
    for found in (fast, slow):
        assert np.array_equal(found[0]["source"].numbers(), expected, equal_nan=True)
    for bad in ("inf", "1_0", "0x10", "٣", "1e999", "1,5", "true"):
        path.write_text(f'source,target\n1,x\n"{bad}",x\n')
        file = examine(path, header=True)
        for found in (reading._by_pyarrow(file, ["source"]), reading._by_csv(file, ["source"])):
            assert found is not None
            with pytest.raises(BadCell) as error:
                found[0]["source"].numbers()
            assert (error.value.row, error.value.cell) == (1, bad)


def test_a_title_above_the_table_is_left_out_and_lines_are_counted(engine: str, write: Write) -> None:
    text = '# remark\nOur nodes;;\n\n"id\n(short)";about;size\na;red apple;1,5\n;;\nb;"green\npear";2.500,5\n;;\nc;blue plum;3\n'
    graph, report = import_tables(write("e.csv", "From\tTo\na\tb\nb\tc\n"), write("n.csv", text))
    assert graph.names is not None and graph.names.tolist() == ["a", "b", "c"]
    assert [(one.column, one.kind) for one in report.features] == [("about", "text"), ("size", "number")]
    assert report.features[1].examples == ["1.5", "2500.5", "3"]
    assert [(one.why, one.places) for one in report.dropped] == [
        ("rows of nodes without an id", ["n.csv, line 7", "n.csv, line 10"])
    ]
    assert any("the line 'Our nodes' above the table was left out" in note for note in report.notes)


@pytest.mark.parametrize("text", ["only,one\na,b\nb,c\n", "source,target\na,\nb,\n", "x\na,b\n"])
def test_a_header_or_a_single_row_is_no_title(write: Write, text: str) -> None:
    assert examine(write("e.csv", text)).title_line == ""


def test_numbers_as_spreadsheets_show_them() -> None:
    assert [parse_number(cell) for cell in ("1,234", "1,234,567.5", "12 %", "$5", "-1,000")] == [
        1234, 1234567.5, 12, 5, -1000,
    ]  # fmt: skip
    assert [parse_number(cell, decimal_comma=True) for cell in ("1,5", "1.234,5", "-1.234.567,25 €", "1.5")] == [
        1.5, 1234.5, -1234567.25, 1.5,
    ]  # fmt: skip
    assert [parse_number(cell) for cell in ("1,23", "12,34,567", "1,2345", "%", "1 2", "€x")] == [None] * 6
    assert [parse_number(cell, decimal_comma=True) for cell in ("1.23,5", "1,2,3", "1.234.5,0")] == [None] * 3
