from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from naq import umtra_episodes
from naq.errors import OptionError


@pytest.mark.parametrize("views", [1, 3])
def test_queries_are_the_supports_once_per_view(views: int) -> None:
    episodes = umtra_episodes(50, way=4, views=views, count=200, seed=3, drop_edge=0.2, drop_feature=0.7)
    assert episodes.support.shape == (200, 4, 1) and episodes.query.shape == (200, 4, views)
    for t in range(200):
        for j in range(4):
            assert episodes.query[t, j].tolist() == [episodes.support[t, j, 0]] * views
        assert len(set(episodes.support[t, :, 0].tolist())) == 4
    assert episodes.mask.all()
    assert episodes.info == {"kind": "g-umtra", "seed": 3, "drop_edge": 0.2, "drop_feature": 0.7}


def test_supports_are_uniform_and_the_first_hundred_are_those_of_a_hundred() -> None:
    many, few = (umtra_episodes(40, way=3, count=count, seed=1) for count in (16_000, 100))
    assert np.array_equal(many.support[:100], few.support)
    assert not np.array_equal(few.support, umtra_episodes(40, way=3, count=100, seed=2).support)
    for slot in range(3):
        assert chisquare(np.bincount(many.support[:, slot, 0], minlength=40)).pvalue > 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"way": 11}, "11-way episodes need 11 nodes, but the graph has 10; lower way"),
        ({"views": 0}, "views is 0"),
        ({"drop_edge": 1.0}, r"drop_edge is 1\.0; expected a probability of at least 0 and below 1"),
        ({"drop_feature": -0.5}, r"drop_feature is -0\.5"),
        ({"drop_feature": float("nan")}, "drop_feature is nan"),
    ],
)
def test_what_cannot_be_drawn(change: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        umtra_episodes(10, **({"way": 3, "count": 5} | change))
