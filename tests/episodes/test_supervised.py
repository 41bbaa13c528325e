from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from naq import supervised_episodes
from naq.episodes.supervised import _members
from naq.errors import TaskError

SIZES = [30, 9, 12, 50, 11, 25]
LABELS = np.random.default_rng(1).permutation(np.concatenate([np.repeat(np.arange(6), SIZES), np.full(20, -1)]))


@pytest.mark.parametrize("shot", [1, 4])
def test_distinct_nodes_of_the_right_classes(shot: int) -> None:
    episodes = supervised_episodes(LABELS, [0, 2, 3, 4, 5], way=3, shot=shot, queries=7, count=500)
    assert episodes.support.shape == (500, 3, shot) and episodes.query.shape == (500, 3, 7) and episodes.mask.all()
    classes = LABELS[episodes.support[:, :, 0]]
    assert (LABELS[episodes.support] == classes[:, :, None]).all()
    assert (LABELS[episodes.query] == classes[:, :, None]).all()
    assert set(classes.ravel()) == {0, 2, 3, 4, 5}
    nodes = np.concatenate([episodes.support, episodes.query], axis=2).reshape(500, -1)
    assert all(len(set(row)) == 3 * (shot + 7) for row in nodes.tolist())


def test_a_class_of_just_enough_nodes_is_used_up() -> None:
    episodes = supervised_episodes(LABELS, [1, 0], way=2, shot=1, queries=8, count=20)
    one = LABELS[episodes.support[:, :, 0]] == 1
    nodes = np.concatenate([episodes.support, episodes.query], axis=2)[one]
    assert np.array_equal(np.sort(nodes, axis=1), np.tile(np.flatnonzero(LABELS == 1), (20, 1)))


def test_uniform_over_classes_and_over_members() -> None:
    episodes = supervised_episodes(LABELS, range(6), way=2, shot=1, queries=8, count=12_000)
    for slot in range(2):
        assert chisquare(np.bincount(LABELS[episodes.support[:, slot, 0]], minlength=6)).pvalue > 1e-3
    for nodes in (episodes.support, episodes.query):
        counts = np.bincount(nodes.ravel(), minlength=len(LABELS))
        assert chisquare(counts[LABELS == 3]).pvalue > 1e-3
        assert not counts[LABELS == -1].any()


def test_members_are_uniform_over_ordered_choices() -> None:
    sizes = np.array([4] * 30_000 + [5] * 30_000)
    drawn = _members(np.random.default_rng(0), sizes, 3)
    for size in (4, 5):
        index = {choice: i for i, choice in enumerate(permutations(range(size), 3))}
        counts = np.bincount([index[tuple(row)] for row in drawn[sizes == size].tolist()], minlength=len(index))
        assert chisquare(counts).pvalue > 1e-3


def test_seeded_and_a_prefix_of_more() -> None:
    many, few = (supervised_episodes(LABELS, range(6), way=3, queries=4, count=c, seed=2) for c in (5000, 100))
    assert np.array_equal(many.support[:100], few.support) and np.array_equal(many.query[:100], few.query)
    other = supervised_episodes(LABELS, range(6), way=3, queries=4, count=100, seed=3)
    assert not np.array_equal(few.support, other.support)


def test_repeated_classes_count_once() -> None:
    one, two = (supervised_episodes(LABELS, classes, way=2, count=9) for classes in ([3, 0, 0, 3], [0, 3]))
    assert np.array_equal(one.query, two.query)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"way": 7}, "7-way episodes were asked for, but there are 6 base classes"),
        ({"classes": []}, "there are 0 base classes"),
        ({"queries": 9}, "base class 1 has 9 labelled nodes, but 1 shots and 9 queries need 10"),
        ({"classes": [0, 3, 17]}, "base class 17 has 0 labelled nodes"),
        ({"classes": [-1, 0, 3]}, "classes hold -1, which means unknown"),
    ],
)
def test_what_cannot_be_drawn(change: dict[str, Any], message: str) -> None:
    arguments = {"classes": range(6), "way": 2, "shot": 1, "queries": 4, "count": 3} | change
    with pytest.raises(TaskError, match=message):
        supervised_episodes(LABELS, arguments.pop("classes"), **arguments)
