"""Generated graphs: sizes, degrees, classes and features as asked for."""

from __future__ import annotations

import numpy as np
import pytest

import naq
from generate import generate
from naq.errors import OptionError


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    folder = generate(tmp_path_factory.mktemp("made") / "g", 20_000, 200_000, classes=10, features=16)
    return naq.load(folder, verify=True)


def test_classes_are_where_edges_stay(planted):
    assert planted.num_nodes == 20_000 and 190_000 < planted.num_edges <= 200_000
    assert planted.num_classes == 10 and planted.features.shape == (20_000, 16)
    sizes = np.bincount(planted.labels)
    by_chance = ((sizes / sizes.sum()) ** 2).sum()
    assert sizes.min() >= 900 and planted.homophily() == pytest.approx(0.8 + 0.2 * by_chance, abs=0.02)


def test_degrees_follow_the_power_law(planted):
    degrees, ranks = np.sort(planted.degrees)[::-1].astype(float), np.arange(200, 4000)
    assert 300 < degrees[0] < 1.3 * np.sqrt(400_000)
    assert np.polyfit(np.log(ranks), np.log(degrees[ranks]), 1)[0] == pytest.approx(-1 / 1.5, abs=0.12)
    assert abs(np.corrcoef(np.arange(20_000), planted.degrees)[0, 1]) < 0.05  # hubs are anywhere


def test_features_know_the_classes(planted, tmp_path):
    centres = np.stack([planted.features[planted.labels == c].mean(axis=0) for c in range(10)])
    assert (planted.features - centres[planted.labels]).std() == pytest.approx(5.0, rel=0.02)
    assert np.abs(centres.std(axis=0).mean() - 1.0) < 0.4
    graph = naq.load(generate(tmp_path / "g", 3000, 9000, classes=4, features=200, sparse=True), verify=True)
    totals = np.asarray(graph.features.sum(axis=1)).ravel()
    assert (totals.min(), totals.max()) == (8, 32)
    own = [graph.features[graph.labels == c] for c in range(4)]
    assert min(counts[:, 25 * c : 25 * c + 25].sum() / counts.sum() for c, counts in enumerate(own)) > 0.5


def test_the_seed_decides(tmp_path):
    made = [naq.load(generate(tmp_path / str(i), 2000, 9000, classes=5, seed=s)).hash for i, s in enumerate((3, 3, 4))]
    assert made[0] == made[1] != made[2]
    with pytest.raises(OptionError, match="classes"):
        generate(tmp_path / "g", 1000, 10, classes=600)
