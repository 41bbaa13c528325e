"""The linear encoder trained by NaQ beside the closed form: the table in the docs, and the training itself on a small problem."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from naq.neighbors import NeighborTable, mutual_pairs, vector_neighbors

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("linear_protonet", ROOT / "benchmarks" / "linear_protonet.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_docs_show_the_recorded_table(benchmark):
    text = benchmark.DOCS.read_text(encoding="utf-8")
    results = json.loads(benchmark.RESULTS.read_text(encoding="utf-8"))
    assert [r["graph"] for r in results] == list(benchmark.GRAPHS)
    assert f"{benchmark.BEGIN}\n{benchmark.table_of(results)}\n{benchmark.END}" in text


def test_the_mutual_table_holds_the_mutual_pairs(benchmark):
    x = np.random.default_rng(0).standard_normal((60, 5))
    table, pairs = benchmark.mutual_table(x)
    full = vector_neighbors(x, benchmark.NEIGHBORS)
    assert np.array_equal(pairs, mutual_pairs(full)) and table.counts.sum() == 2 * len(pairs)
    assert np.array_equal(table.ids[table.ids >= 0], full.ids[table.ids >= 0])


@pytest.mark.parametrize("training", ["distance", "cosine"])
def test_training_shrinks_the_direction_in_which_classes_are_wide(benchmark, monkeypatch, training):
    """Twelve classes in a plane, wide along a third axis: the formula shrinks that axis, and so does training."""
    monkeypatch.setattr(benchmark, "CHECKPOINTS", (400,))
    monkeypatch.setattr(benchmark, "WAY", 6)
    random = np.random.default_rng(0)
    angle = 2 * np.pi * np.arange(12) / 12
    middle = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    x = middle.repeat(20, 0) + random.standard_normal((240, 3)) * [0.05, 0.05, 1.0]
    mates = np.arange(240).reshape(12, 1, 20).repeat(20, 1).reshape(240, 20)
    ids = mates[mates != np.arange(240)[:, None]].reshape(240, 19)[:, ::2]
    table = NeighborTable(ids, np.ones(ids.shape))
    ((_, weight),) = benchmark.trained_maps(x.astype(np.float32), table, training, 0)
    gram = weight @ weight.T
    assert gram[2, 2] < 0.8 * min(gram[0, 0], gram[1, 1])
