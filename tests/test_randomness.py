from __future__ import annotations

import numpy as np
import pytest

from naq.errors import OptionError
from naq.random import key, stream, torch_seed


def test_a_stream_depends_on_nothing_but_its_key() -> None:
    first = stream(0, "episodes", 3).random(5)
    stream(1, "other").random(1000)
    np.random.random()
    assert np.array_equal(first, stream(0, "episodes", 3).random(5))
    assert np.array_equal(first, stream(np.int64(0), "episodes", np.int32(3)).random(5))


def test_the_numbers_are_pinned() -> None:
    """A change here would change every published result."""
    assert key(0, "episodes") == 60790305620985326915178129195517430601
    assert stream(0, "episodes").integers(1000, size=4).tolist() == [539, 853, 426, 148]


def test_keys_differ_in_every_part() -> None:
    keys = {key(seed, purpose, index) for seed in range(20) for purpose in "ab" for index in range(20)}
    assert len(keys) == 800
    assert key(1, "a", 11) != key(11, "a", 1)
    assert key(-1, "a") != key(1, "a")


def test_streams_are_not_correlated() -> None:
    drawn = np.stack([stream(0, "test", index).standard_normal(2000) for index in range(30)])
    off = np.corrcoef(drawn)[~np.eye(30, dtype=bool)]
    assert np.abs(off).max() < 0.1


def test_torch_seeds_fit_63_bits() -> None:
    seeds = [torch_seed(0, "x", index) for index in range(100)]
    assert len(set(seeds)) == 100
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize("seed", [True, 0.0, "0", None])
def test_a_seed_is_a_whole_number(seed: object) -> None:
    with pytest.raises(OptionError, match=r"seed is .*expected a whole number"):
        stream(seed, "x")  # type: ignore[arg-type]
