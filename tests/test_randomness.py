"""Keyed random streams; vectors of length one."""

import numpy as np
import pytest

from naq.errors import OptionError
from naq.graph.operators import unit_rows
from naq.random import key, stream, torch_seed


def test_a_stream_depends_on_nothing_but_its_key():
    first = stream(0, "episodes", 3).random(5)
    stream(1, "other").random(1000)
    np.random.random()
    assert np.array_equal(first, stream(0, "episodes", 3).random(5))
    assert np.array_equal(first, stream(np.int64(0), "episodes", np.int32(3)).random(5))


def test_the_numbers_are_pinned():
    """A change here would change every published result."""
    assert key(0, "episodes") == 60790305620985326915178129195517430601
    assert stream(0, "episodes").integers(1000, size=4).tolist() == [539, 853, 426, 148]


def test_keys_differ_in_every_part():
    keys = {key(seed, purpose, index) for seed in range(20) for purpose in "ab" for index in range(20)}
    assert len(keys) == 800
    assert key(1, "a", 11) != key(11, "a", 1)
    assert key(-1, "a") != key(1, "a")


def test_streams_are_not_correlated():
    drawn = np.stack([stream(0, "test", index).standard_normal(2000) for index in range(30)])
    off = np.corrcoef(drawn)[~np.eye(30, dtype=bool)]
    assert np.abs(off).max() < 0.1


def test_torch_seeds_fit_63_bits():
    seeds = [torch_seed(0, "x", index) for index in range(100)]
    assert len(set(seeds)) == 100
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize("seed", [True, 0.0, "0", None])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(OptionError, match="seed"):
        stream(seed, "x")


def test_short_vectors_become_zero_and_long_ones_do_not_overflow():
    x = np.array([[3, 4], [0, 0], [1e-20, 0], [1e18, 1e18]], dtype=np.float32)
    found = unit_rows(x, 1e-12)
    assert found.dtype == np.float32
    assert np.allclose(found, [[0.6, 0.8], [0, 0], [0, 0], [0.5**0.5, 0.5**0.5]])


def test_any_leading_shape_and_a_floor_of_its_own_for_each():
    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    floor = np.where(np.arange(4) == 2, 1e9, 0.0)[:, None]
    found = unit_rows(x, floor)
    lengths = np.linalg.norm(found, axis=-1)
    assert not found[:, 2].any() and np.allclose(lengths[:, [0, 1, 3]], 1.0)
