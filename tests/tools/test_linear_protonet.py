"""The linear encoder trained by NaQ beside the closed form: the table in the docs, and the training itself on a small problem."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from naq.neighbors import NeighborTable, mutual_pairs, vector_neighbors

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))


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


def test_what_the_docs_conclude(benchmark):
    results = json.loads(benchmark.RESULTS.read_text(encoding="utf-8"))
    against = {
        (r["graph"], shot, label): found["against"]
        for r in results
        for shot in (1, 5)
        for label, found in r[f"{shot}-shot"].items()
    }

    def graphs(shot, label, mark):
        return {graph for graph, s, name in against if (s, name) == (shot, label) and against[graph, s, name] == mark}

    four = set(benchmark.GRAPHS)
    trained = {key: mark for key, mark in against.items() if "episodes" in key[2] and "sharpened" not in key[2]}
    assert len(trained) == 4 * 2 * 9 and "s+" not in trained.values()
    last = [mark for (_, shot, label), mark in trained.items() if shot == 1 and label.endswith("2,500 episodes")]
    assert last.count("s-") > len(last) / 2
    assert all(
        r["agreement"][f"{training}, 2,500 episodes"] < r["agreement"][f"{training}, 100 episodes"] < 0.97
        for r in results
        for training in benchmark.TRAININGS
    )
    assert graphs(1, "step 4", "s+") == graphs(5, "step 4", "s+") == {"amazon_computers"}
    assert graphs(1, "step 4", "s-") == four - {"amazon_computers"}
    assert graphs(1, "smooth, sharpened", "s+") == {"cora", "citeseer"}
    assert graphs(5, "smooth, sharpened", "s-") == {"amazon_computers", "coauthor_cs"}
    assert graphs(1, "step 4, sharpened", "s+") == four and not graphs(5, "step 4, sharpened", "s-")
    for r in results[:2]:
        for shot in ("1-shot", "5-shot"):
            assert r[shot]["smooth, sharpened"]["mark"] == "≈"


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
