from __future__ import annotations

import io
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from naq.errors import DataError
from naq.io import readers
from naq.io.readers import read_numbers


def read(text: str, delimiter: str | None = ",", **options: Any) -> np.ndarray:
    return read_numbers(io.StringIO(text, newline=""), "t.csv", delimiter=delimiter, **options)


def test_separators_line_ends_and_blank_lines() -> None:
    assert read("1,2\r\n\n3,4\n5, 6").tolist() == [[1, 2], [3, 4], [5, 6]]
    assert read("1 2\n\n3\t4\n", delimiter=None).tolist() == [[1, 2], [3, 4]]
    assert read("7").shape == (1, 1) and read("7\n8\n").shape == (2, 1) and read("7,8").shape == (1, 2)
    assert read("").shape == (0, 0)
    assert read("\n\n", columns=2, dtype=np.int32).shape == (0, 2)


NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=200, deadline=None)
@given(st.lists(NUMBERS.map(repr) | st.integers(-(10**18), 10**18).map(str), min_size=1, max_size=8))
def test_every_number_is_what_python_reads(texts: list[str]) -> None:
    found = read("\n".join(texts), columns=1, dtype=np.float64)[:, 0]
    assert found.tolist() == [float(text) for text in texts]


def test_exact_row_counts() -> None:
    table = np.arange(300).reshape(100, 3)
    text = "\n".join(",".join(map(str, row)) for row in table)
    assert np.array_equal(read(text, dtype=np.int64), table)
    assert np.array_equal(read(text + "\n\n", rows=100, dtype=np.int64), table)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("1,2\n3\n", {}, "line 2: '3'"), ("1,2\n3,4,5\n6,7\n", {"columns": 2}, "line 2: '3,4,5' .* 2 numbers"),
        ("1,2\n3,,4\n", {"columns": 2}, "line 2: '3,,4'"), ("1,2,3\n", {"columns": 2}, "3 numbers per line"),
        ("from,to\n1,2\n", {"columns": 2}, "line 1: 'from,to'"), ("1,2\n\n3,4x\n5,6\n", {}, "line 3: '3,4x'"),
        ("1_0,2\n", {}, "line 1: '1_0,2'"), ("1e2.5\n", {}, "line 1: '1e2.5'"),
        ("1\n2.5\n", {"dtype": np.int32}, "line 2: '2.5' .* whole numbers"),
        ("1\n3000000000\n2\n", {"dtype": np.int32}, "line 2: '3000000000' .* whole numbers"),
        ("nan\n", {"dtype": np.int64}, "line 1: 'nan' .* whole numbers"), ("1\n2\n", {"rows": 3}, "2 rows"),
        ("", {"rows": 3}, "0 rows"), ("1\n2\n3\n4\n", {"rows": 2}, "more than 2 rows"),
    ],
)  # fmt: skip
def test_bad_text(text: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=f"t.csv.*{message}"):
        read(text, **options)


def test_text_beyond_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "room", lambda: 40.0)
    with pytest.raises(DataError, match="more than this machine's memory"):
        read("1\n" * 100)
    monkeypatch.setattr(readers, "LONGEST_LINE", 8)
    with pytest.raises(DataError, match="has a line over"):
        read("1" * 100)
