"""The counts of benchmarks/limits.py on sizes small enough to count by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

import limits


def test_smoothing_is_counted_edge_by_edge(monkeypatch):
    monkeypatch.setattr(limits, "COLUMNS", 2)
    monkeypatch.setattr(limits, "STEPS", 3)
    adjacency = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])  # two edges
    operations = fetched = streamed = 0
    for _ in range(3):
        for row in adjacency:
            for _ in np.flatnonzero(row):
                operations += 2 * 2  # a multiplication and an addition in each of two columns
                fetched += 2 * 4
                streamed += 4  # the index
            streamed += 2 * 4 + 2 * 4  # the start is read, the row written
    assert limits.smoothing(3, 2) == limits.Work(operations, streamed, fetched, among=3)


def test_words_are_counted_entry_by_entry(monkeypatch):
    for name, value in (("COLUMNS", 2), ("EXTRA", 1), ("PASSES", 2)):
        monkeypatch.setattr(limits, name, value)
    entries, products = 5, 2 + 2 + 1  # X B and X^T (X B) in two passes, then X B
    operations = sum(2 for _ in range(entries) for _ in range(3) for _ in range(products))
    assert limits.words(4, entries) == limits.Work(operations, 3 * entries * 8 + 4 * 2 * 4)


def test_dense_stages(monkeypatch):
    monkeypatch.setattr(limits, "COLUMNS", 2)
    assert limits.closed_form(3) == limits.Work(3 * (2 * 3 * 2 * 2), (3 + 2) * 3 * 2 * 4)
    # 8 rows with 4 centres, 2 wanted rows with the members of 2 of 4 clusters of 2 rows
    assert limits.sample_neighbors(8, 2, 4, 2) == limits.Work(2 * 2 * (8 * 4 + 2 * 4), 8 * 2 * 4)
    weight, rows = 3 * 5 * 4, 2 * 3 * 4
    assert limits.protonet(7, 2, 3, 5) == limits.Work(7 * 2 * (2 * 2 * 3 * 5), 7 * (4 * rows + 9 * weight))
    assert limits.euclidean(3, 4) == limits.Work(2 * 9 * 8, 9 * 4)


def test_the_counts_are_those_of_the_docs():
    work = limits.protonet(16_000)
    assert work.operations == pytest.approx(154e12, rel=0.01) and work.streamed == pytest.approx(3.2e12, rel=0.02)
    assert limits.euclidean(2_450_000).operations == pytest.approx(1250e12, rel=0.01)


def test_floors_are_counts_over_rates():
    rates = {"copy": 10.0, "products": {"square": 5.0}}
    assert limits.Work(20.0, 30.0, 8.0, among=7).floors(rates, "square", {7: 2.0}) == (4.0, 3.0 + 4.0)
    assert limits.Work(20.0, 30.0).floors(rates, "square", {}) == (4.0, 3.0)


def test_a_gpu_appears_where_its_rates_are_known(tmp_path):
    for name in ("scale", "device", "row_fetches"):
        (tmp_path / f"{name}.json").write_text((limits.RESULTS / f"{name}.json").read_text())
    made = {"copy": 1e9, "products": {limits.SQUARE: 1e9, limits.FIRST_LAYER: 1e9}}
    (tmp_path / "limits.json").write_text(json.dumps({"cpu": made}))
    assert {row[0] for row in limits.rows_of(tmp_path)} == {"cpu"}
    (tmp_path / "limits.json").write_text(json.dumps({"cpu": made, "cuda": made}))
    assert {row[0] for row in limits.rows_of(tmp_path)} == {"cpu", "cuda"}
