"""Generated graphs: what was asked for, the same whatever the threads and pieces."""

from __future__ import annotations

import numba
import numpy as np
import pytest

import generate as generator
import generator_draws
import naq
from generate import generate
from naq.errors import OptionError


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    return naq.load(
        generate(tmp_path_factory.mktemp("made") / "g", 20_000, 200_000, classes=10, features=16), verify=True
    )


def test_sizes_and_classes(planted):
    assert planted.num_nodes == 20_000 and 190_000 < planted.num_edges <= 200_000
    assert planted.num_classes == 10 and planted.features.shape == (20_000, 16)
    sizes = np.bincount(planted.labels)
    assert sizes.min() >= 900 and len(np.unique(sizes)) > 5
    # 0.8 stay, and of the others as many as land there by chance.
    by_chance = ((sizes / sizes.sum()) ** 2).sum()
    assert planted.homophily() == pytest.approx(0.8 + 0.2 * by_chance, abs=0.02)
    labels = planted.labels[: 20_000 // 2]
    assert np.abs(np.bincount(labels) * 2 / sizes - 1).max() < 0.1  # classes lie anywhere


def test_degrees_follow_the_power_law(planted):
    degrees = np.sort(planted.degrees)[::-1].astype(float)
    assert 300 < degrees[0] < 1.3 * np.sqrt(400_000)
    ranks = np.arange(200, 4000)
    slope = np.polyfit(np.log(ranks), np.log(degrees[ranks]), 1)[0]
    assert slope == pytest.approx(-1 / 1.5, abs=0.12)
    assert abs(np.corrcoef(np.arange(20_000), planted.degrees)[0, 1]) < 0.05  # hubs lie anywhere


def test_features_know_the_classes(planted):
    centres = np.stack([planted.features[planted.labels == c].mean(axis=0) for c in range(10)])
    assert np.abs(centres.std(axis=0).mean() - 1.0) < 0.4
    residual = planted.features - centres[planted.labels]
    assert residual.std() == pytest.approx(5.0, rel=0.02) and abs((residual**4).mean() / residual.var() ** 2 - 3) < 0.1
    assert abs(np.corrcoef(residual[:, 0], residual[:, 1])[0, 1]) < 0.03


def test_sparse_features_count_words(tmp_path):
    graph = naq.load(generate(tmp_path / "g", 3000, 9000, classes=4, features=200, sparse=True), verify=True)
    counts = graph.features
    assert counts.shape == (3000, 200) and (np.diff(counts.indptr) > 0).all() and counts.data.min() >= 1
    totals = np.asarray(counts.sum(axis=1)).ravel()
    assert totals.min() >= 8 and totals.max() <= 32 and totals.mean() == pytest.approx(20, abs=0.5)
    own = [counts[graph.labels == c][:, 25 * c : 25 * c + 25].sum() / counts[graph.labels == c].sum() for c in range(4)]
    assert min(own) > 0.5


@pytest.mark.parametrize("sparse", [False, True])
def test_threads_and_pieces_change_nothing(tmp_path, monkeypatch, sparse):
    settings = {"classes": 5, "features": 9, "sparse": sparse, "seed": 3}
    one = naq.load(generate(tmp_path / "one", 2000, 9000, **settings))
    monkeypatch.setattr(generator, "PIECE", 700)
    monkeypatch.setattr(generator, "BUCKET_ENTRIES", 1500)
    monkeypatch.setattr(generator, "ROWS_AT_ONCE", 301)
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        two = naq.load(generate(tmp_path / "two", 2000, 9000, **settings))
    finally:
        numba.set_num_threads(threads)
    assert one.hash == two.hash
    assert naq.load(generate(tmp_path / "three", 2000, 9000, **settings | {"seed": 4})).hash != one.hash
    assert sorted(path.name for path in (tmp_path / "two").iterdir() if path.suffix == ".tmp") == []


@pytest.mark.parametrize("nodes", [2, 3, 64, 65, 1000])
def test_places_are_permuted(nodes):
    plan = generator._plan(nodes, 10, 1, 2.5, 0.8, 1)
    found = [generator_draws._permuted(place, plan) for place in range(nodes)]
    assert sorted(found) == list(range(nodes)) and (nodes < 64 or found != list(range(nodes)))
    assert [generator_draws._place_of(node, plan) for node in found] == list(range(nodes))


@pytest.mark.parametrize(
    ("given", "named"),
    [({"nodes": 1}, "nodes"), ({"edges": 0}, "edges"), ({"classes": 600}, "classes"), ({"features": 0}, "features"),
     ({"exponent": 2.0}, "exponent"), ({"within": 1.5}, "within"), ({"nodes": 2**32}, "nodes")],
)  # fmt: skip
def test_bad_arguments(tmp_path, given, named):
    with pytest.raises(OptionError, match=f"^{named} is"):
        generate(**{"out": tmp_path / "g", "nodes": 1000, "edges": 10, **given})
    assert not list(tmp_path.iterdir())
