"""Random streams keyed by (seed, purpose, index).

A stream depends on nothing but its key, so a new method never moves another's numbers and the
number of workers never matters.

>>> stream(0, "episodes", 3).integers(100) == stream(0, "episodes", 3).integers(100)
np.True_
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numba import njit

from naq.errors import OptionError


def key(seed: int, purpose: str, index: int = 0) -> int:
    """A 128-bit integer that identifies one stream."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise OptionError(f"seed is {seed!r}; expected a whole number, e.g. seed=0.")
    text = f"{int(seed)}|{purpose}|{int(index)}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=16).digest(), "little")


def word(seed: int, purpose: str, index: int = 0) -> np.uint64:
    """64 bits for hashes in compiled code."""
    return np.uint64(key(seed, purpose, index) & (2**64 - 1))


def stream(seed: int, purpose: str, index: int = 0) -> np.random.Generator:
    """An independent NumPy generator for this key."""
    return np.random.Generator(np.random.Philox(key=key(seed, purpose, index)))


def torch_seed(seed: int, purpose: str, index: int = 0) -> int:
    """A seed for ``torch.Generator.manual_seed`` (63 bits)."""
    return key(seed, purpose, index) & ((1 << 63) - 1)


@njit(cache=True)
def mixed(x: Any) -> Any:
    """The finaliser of SplitMix64: a bijection of 64-bit words in which every bit depends on every bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
