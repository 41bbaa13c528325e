"""What columns become: dates, skewed numbers, names of ends."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from scipy.stats import rankdata

from naq.errors import DataError
from naq.io import Choice, Imported, import_tables

DAYS = [date(2021, 3, 4), date(2021, 3, 14), date(2020, 3, 4), None, date(2021, 1, 31)]
AGES = np.array([10, 0, 375, np.nan, 42])


def imported(name: str, cells: Any, choice: Choice = Choice()) -> Imported:  # noqa: B008
    ids = [f"n{i}" for i in range(len(cells))]
    return import_tables({"source": ids[:1], "target": ids[1:2]}, {"id": ids, name: cells}, choice)


def column(made: Imported, place: int = 0) -> np.ndarray:
    features = made.graph.features
    return np.asarray(features.toarray() if sp.issparse(features) else features)[:, place]


def scaled(values: np.ndarray) -> np.ndarray:
    known = values[~np.isnan(values)]
    return np.nan_to_num((values - known.mean()) / known.std())


def seconds(factor: int) -> list[int | None]:
    return [day and int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * factor) for day in DAYS]


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("born", pa.array(DAYS, pa.date32())),
        ("born", pa.array(DAYS, pa.date32()).cast(pa.timestamp("ns"))),
        *(
            ("born", ["" if day is None else day.strftime(form) for day in DAYS])
            for form in (
                "%Y-%m-%d",
                "%Y/%m/%d",
                "%Y-%m-%dT00:00:00Z",
                "%d.%m.%Y",
                "%m/%d/%Y",
                "%d/%m/%Y 00:00",
                "%d %b %Y",
                "%d-%B-%Y",
                "%b. %d, %Y 00:00",
            )
        ),
        ("signup_timestamp", seconds(1)),
        ("unix", seconds(1000)),
    ],
)
@pytest.mark.parametrize("named", [False, True])
def test_dates_are_days_before_the_newest(name: str, cells: Any, named: bool) -> None:
    made = imported(name, cells, Choice(numeric=name) if named else Choice())
    assert np.allclose(column(made), scaled(AGES), atol=1e-6)
    assert made.report.features[0].kind == "number" and "days before 2021-03-14" in made.report.features[0].note


def test_months_without_days() -> None:
    made = imported("at", ["2021-03", "2021-01", "", "2020/03"])
    assert np.allclose(column(made), scaled(np.array([0, 59, np.nan, 365])), atol=1e-6)
    for cells in (["2011-12", "2012-13", "2012-13", "2011-12"], ["2011-12", "2010-11", "2009-10", "soon"] * 2):
        assert imported("season", cells).report.features[0].kind == "category"


def test_times_count_as_parts_of_days() -> None:
    cells = ["2021-03-04 12:00:00.000", "2021-03-04T18:00Z", "2021-03-05 00:00:43+00:00"]
    assert np.allclose(column(imported("at", cells)), scaled(np.array([0.5, 0.25, -43 / 86400])), atol=1e-5)


@pytest.mark.parametrize("months", [23, 24])
def test_the_month_of_the_year_from_24_months_on(months: int) -> None:
    cells = [date(2019 + i // 12, i % 12 + 1, 28).isoformat() for i in range(months)]
    made = imported("born", [*cells, ""])
    assert made.graph.num_features == (1 if months < 24 else 13)
    if months == 24:
        assert made.graph.vocab is not None and made.graph.vocab[1:3].tolist() == ["born month=01", "born month=02"]
        assert np.array_equal(column(made, 2).nonzero()[0], [1, 13])


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["2021-03-04", "04.03.2021", "13/03/2021", ""], "several formats"),
        (["13/03/2021", "03/13/2021"], "several formats"),
        (["2021-03-04", "4 Mar 2021", "13/03/2021"], "several formats"),
        (["2021-03", "4 Mar 2021", "Mar 4, 2021"], "several formats"),
        (["4 Mar 2021", "5 March 2021", "6 Mac 2021"], "'6 Mac 2021' in nodes, row 2"),
        (["01/03/2021", "02/04/2021"], "may be month/day/year or day/month/year"),
        (["2021-03-04", "2021-03-05", "soon"], "'soon' in nodes, row 2"),
        (["2021-03-04", "2021-03-05", "2021-02-30"], "'2021-02-30' in nodes, row 2"),
    ],
)
def test_what_is_wrong_with_dates_is_said(cells: list[str], said: str) -> None:
    made = imported("born", cells)
    assert said in made.report.unused["born"] and made.graph.features is None
    with pytest.raises(DataError, match="born"):
        imported("born", cells, Choice(numeric="born"))


@pytest.mark.parametrize("name", ["born", "size", "price_unix"])
def test_numbers_that_are_no_dates(name: str) -> None:
    values = np.array([20210304.0, 20210305, 20210307])
    assert np.allclose(column(imported(name, values)), scaled(values), atol=1e-6)
    assert imported("about", ["on 2021-03-04 x", "y 2021-03-05", "z"]).report.features[0].kind == "text"


@pytest.mark.parametrize("n", [120, 5_000])
def test_skewed_numbers_count_by_rank(n: int) -> None:
    values = np.round(np.random.default_rng(0).lognormal(3, 2, n))
    values[:3] = np.nan, 0, 0
    ranks = np.full(n, np.nan)
    ranks[1:] = rankdata(values[1:])
    made = imported("income", values)
    assert np.allclose(column(made), scaled(ranks), atol=1e-6 if n < 1_000 else 0.01)
    assert "skewed, so by rank" in made.report.features[0].note
    few = imported("income", values[:99])
    assert np.allclose(column(few), scaled(values[:99]), atol=1e-5), "few can be looked at"
    even = np.random.default_rng(0).normal(size=n)
    assert np.allclose(column(imported("income", even)), scaled(even), atol=1e-5)


@pytest.mark.parametrize("pair", ["origin,destination", "sender_id,receiver_id", "Payer,Payee", "parent,child"])
def test_more_names_of_ends(pair: str) -> None:
    first, second = pair.split(",")
    made = import_tables({second: ["x", "x"], "amount": [1, 2], first: ["y", "z"]})
    assert made.graph.names is not None and made.graph.names.tolist() == ["y", "x", "z"]


@pytest.mark.parametrize(("n", "noted"), [(99, False), (300, True), (1_000, False)])
def test_words_of_one_node_are_noted(n: int, noted: bool) -> None:
    choice = Choice(text="name")
    made = imported("name", [f"Airport {10 + i}" for i in range(n)] if n < 1_000 else ["Airport 12"] * n, choice)
    assert any("'name'" in note and f"{n:,} are" in note for note in made.report.notes) == noted
    shared = imported("about", [f"red car {10 + i // 2}" for i in range(n // 2 * 2)], Choice(text="about"))
    assert not any("of one node" in note for note in shared.report.notes)


@pytest.mark.parametrize("kind", ["number", ""])
def test_many_columns_are_counted_in_the_summary(kind: str) -> None:
    cells = {f"c{i}x": ([1, 2, 3 + i] if kind else ["same"] * 3) for i in range(5_000)}
    made = import_tables({"source": ["a"], "target": ["b"]}, {"id": ["a", "b", "c"]} | cells)
    lines = str(made.report).splitlines()
    assert sum("c1" in line for line in lines) == 11 and any("4,960 columns more" in line for line in lines)
    assert len(lines) < 60
    listed = made.report.as_json()["features" if kind else "unused"]
    assert len(listed) == 5_000


def test_columns_called_as_options_are() -> None:
    nodes = {"--id": ["a", "b", "c"], "--label": ["u", "v", "u"], "--text": [1.5, 2, 4], "--weight": [1, 5, 2]}
    edges = {"--source": ["a", "b"], "--target": ["b", "c"], "--weight": [2, 3]}
    names: Any = {"source": "--source", "target": "--target", "weight": "--weight", "id": "--id", "label": "--label"}
    graph = import_tables(edges, nodes, Choice(**names, numeric="--text")).graph
    assert graph.vocab is not None and graph.vocab.tolist() == ["--text"] and graph.num_classes == 2
    assert graph.arcs is not None and graph.arcs.max() == 3
    other = import_tables(edges, nodes, Choice(**names, ignore="--text")).graph
    assert other.vocab is not None and other.vocab.tolist() == ["--weight"]
