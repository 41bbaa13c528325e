from __future__ import annotations

import io
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from naq.data import number_text
from naq.data.number_text import read_numbers
from naq.errors import DataError


def read(text: str, **options: Any) -> np.ndarray:
    return read_numbers(io.BytesIO(text.encode()), "t.csv", **options)


def test_separators_line_ends_and_blank_lines() -> None:
    assert read("1,2\r\n\n3\t4\n5 6").tolist() == [[1, 2], [3, 4], [5, 6]]
    assert read("").shape == (0, 0)
    assert read("\n\n", columns=2, dtype=np.int32).shape == (0, 2)


NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=200, deadline=None)
@given(st.lists(NUMBERS.map(repr) | st.integers(-(10**18), 10**18).map(str), min_size=1, max_size=8))
def test_every_number_is_what_python_reads(texts: list[str]) -> None:
    found = read("\n".join(texts), columns=1, dtype=np.float64)[:, 0]
    assert found.tolist() == [float(text) for text in texts]


@pytest.mark.parametrize(
    "text", ["5.", ".5", "-0.0", "1e5", "1E-5", "2.5e+3", "00012", "+7", "123456789012345678", "1e300"]
)
def test_spellings(text: str) -> None:
    assert read(text, dtype=np.float64)[0, 0] == float(text)


def test_lines_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(number_text, "BLOCK", 7)
    table = np.arange(300).reshape(100, 3)
    text = "\n".join(",".join(map(str, row)) for row in table)
    assert np.array_equal(read(text, dtype=np.int64), table)
    assert np.array_equal(read(text + "\n", rows=100, dtype=np.int64), table)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("1,2\n3\n", {}, "t.csv, row 2: found 1 values; expected 2"),
        ("1,2\n3,4,5\n", {}, "t.csv, row 2: found 3 values; expected 2"),
        ("1,2\n3,,4\n", {"columns": 2}, "row 2: found 3 values"),
        ("from,to\n1,2\n", {"columns": 2}, "row 1: 'from,to' is not a row of plain numbers"),
        ("1,2\n3,4x\n", {}, "row 2: '3,4x' is not a row of plain numbers"),
        ("1_0,2\n", {}, "row 1: '1_0,2' is not a row of plain numbers"),
        ("1,e5\n", {}, "row 1: '1,e5' is not"),
        ("1e2.5\n", {}, "row 1: '1e2.5' is not"),
        ("1\n2.5\n", {"dtype": np.int32}, "row 2: found 2.5; expected a whole number"),
        (
            "1\n3000000000\n",
            {"dtype": np.int32},
            r"row 2: found 3e\+09; expected a whole number to 2,147,483,647",
        ),
        ("nan\n", {"dtype": np.int64}, "row 1: found nan; expected a whole number"),
        ("1\n2\n", {"rows": 3}, "t.csv has 2 rows; expected 3: it may be truncated"),
        ("", {"rows": 3}, "t.csv has 0 rows; expected 3"),
        ("1\n2\n3\n", {"rows": 2}, "more than the 2 rows"),
        ("1\n", {"rows": 10**15}, "more than this machine's memory"),
    ],
)
def test_bad_text(text: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(text, **options)


def test_endless_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(number_text, "BLOCK", 8)
    with pytest.raises(DataError, match="has a line over"):
        read("1" * 100)
