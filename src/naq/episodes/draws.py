"""Vectorised draws without replacement, in blocks with a random stream each.

Episode t depends on (seed, purpose, t) alone: the first hundred of 16,000 are the same as a hundred.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from naq.random import stream

BLOCK = 4096


def blocks(count: int, seed: int, purpose: str) -> Iterator[tuple[slice, np.random.Generator]]:
    """Slices of 0..count and the generator of each; a generator always draws for a whole block."""
    for number, start in enumerate(range(0, count, BLOCK)):
        yield slice(start, min(count, start + BLOCK)), stream(seed, purpose, number)


def distinct(random: np.random.Generator, rows: int, n: int, size: int) -> np.ndarray:
    """(rows, size) integers below n, each row without repetition, uniform over ordered choices."""
    if n < 4 * size * size:
        chunk = max(1, 4_000_000 // n)
        parts = [np.argsort(random.random((min(chunk, rows - r), n)), axis=1)[:, :size] for r in range(0, rows, chunk)]
        return np.concatenate(parts)
    drawn = random.integers(0, n, size=(rows, size))
    repeated = repeats(drawn)
    while repeated.any():
        drawn[repeated] = random.integers(0, n, size=(int(repeated.sum()), size))
        repeated[repeated] = repeats(drawn[repeated])
    return drawn


def repeats(drawn: np.ndarray) -> np.ndarray:
    """(rows,) whether a row holds a number twice."""
    order = np.sort(drawn, axis=1)
    return (order[:, 1:] == order[:, :-1]).any(axis=1)
