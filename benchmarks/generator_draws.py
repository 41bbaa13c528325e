"""The draws of :mod:`generate`, compiled: what every edge, class, number and word is, from a hash of its own number."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from naq.random import mixed

LONGEST, SHORTEST = 32, 8
"""Words of a node with sparse features."""
ROUNDS = 4


class Plan(NamedTuple):
    """What decides every draw, for compiled code."""

    nodes: int
    bounds: np.ndarray
    """(classes + 1,) where each class begins in the order of places."""
    offset: float
    """r_0 as a share of the class."""
    slope: float
    """1 - 1 / (exponent - 1)."""
    within: float
    key: np.uint64
    bits: int
    """Of half a place, for the permutation."""


@njit(cache=True)
def _uniform(bits: Any) -> Any:
    """In [0, 1), from the upper 53 bits."""
    return np.float64(bits >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True)
def _permuted(place: Any, plan: Any) -> Any:
    """A node's number from its place: Feistel rounds on the bits, again until the result is in range."""
    half = np.uint64(plan.bits)
    mask = (np.uint64(1) << half) - np.uint64(1)
    x = np.uint64(place)
    while True:
        left, right = x >> half, x & mask
        for turn in range(ROUNDS):
            left, right = right, left ^ (mixed(plan.key ^ (right << np.uint64(3)) ^ np.uint64(turn)) & mask)
        x = (left << half) | right
        if x < np.uint64(plan.nodes):
            return np.int64(x)


@njit(cache=True)
def _place_of(node: Any, plan: Any) -> Any:
    """The inverse of :func:`_permuted`."""
    half = np.uint64(plan.bits)
    mask = (np.uint64(1) << half) - np.uint64(1)
    x = np.uint64(node)
    while True:
        left, right = x >> half, x & mask
        for back in range(ROUNDS):
            turn = ROUNDS - 1 - back
            left, right = right ^ (mixed(plan.key ^ (left << np.uint64(3)) ^ np.uint64(turn)) & mask), left
        x = (left << half) | right
        if x < np.uint64(plan.nodes):
            return np.int64(x)


@njit(cache=True)
def _class_of(place: Any, bounds: Any) -> Any:
    low, high = 0, len(bounds) - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if place < bounds[middle]:
            high = middle
        else:
            low = middle
    return low


@njit(cache=True)
def _member(chosen: Any, bits: Any, plan: Any, floor: Any, ceiling: Any) -> Any:
    """A node of a class, drawn by expected degree."""
    size = plan.bounds[chosen + 1] - plan.bounds[chosen]
    share = (floor + _uniform(bits) * (ceiling - floor)) ** (1.0 / plan.slope) - plan.offset
    rank = min(max(np.int64(share * size), 0), size - 1)
    return _permuted(plan.bounds[chosen] + rank, plan)


@njit(cache=True, parallel=True)
def edge_ends(plan: Any, start: Any, stop: Any) -> Any:
    """(edges, 2) the ends of edges ``start`` to ``stop``."""
    ends = np.empty((stop - start, 2), dtype=np.int64)
    floor, ceiling = plan.offset**plan.slope, (1.0 + plan.offset) ** plan.slope
    for e in prange(stop - start):
        bits = mixed(plan.key + np.uint64(start + e) * np.uint64(0x9E3779B97F4A7C15))
        one = mixed(bits + np.uint64(1))
        chosen = _class_of(np.int64(_uniform(one) * plan.nodes), plan.bounds)
        ends[e, 0] = _member(chosen, mixed(bits + np.uint64(2)), plan, floor, ceiling)
        if _uniform(mixed(bits + np.uint64(3))) >= plan.within:
            chosen = _class_of(np.int64(_uniform(mixed(bits + np.uint64(4))) * plan.nodes), plan.bounds)
        ends[e, 1] = _member(chosen, mixed(bits + np.uint64(5)), plan, floor, ceiling)
    return ends


@njit(cache=True)
def by_bucket(ends: Any, n: Any, rows: Any, count: Any) -> Any:
    """Both directions of every edge that is no loop as row * n + column, grouped by row // rows, and where groups begin."""
    bounds = np.zeros(count + 1, dtype=np.int64)
    for e in range(len(ends)):
        if ends[e, 0] != ends[e, 1]:
            bounds[ends[e, 0] // rows + 1] += 1
            bounds[ends[e, 1] // rows + 1] += 1
    for b in range(count):
        bounds[b + 1] += bounds[b]
    place = bounds[:-1].copy()
    keys = np.empty(bounds[-1], dtype=np.int64)
    for e in range(len(ends)):
        one, two = ends[e, 0], ends[e, 1]
        if one != two:
            keys[place[one // rows]] = one * n + two
            place[one // rows] += 1
            keys[place[two // rows]] = two * n + one
            place[two // rows] += 1
    return keys, bounds


@njit(cache=True)
def rows_of(keys: Any, n: Any, first: Any, columns: Any, counts: Any) -> Any:
    """Columns of sorted keys without repeats, and how many each row has; how many in all."""
    kept, last, row, begin = 0, np.int64(-1), first, first * n
    for key in keys:
        if key == last:
            continue
        last = key
        while key >= begin + n:
            row += 1
            begin += n
        columns[kept] = key - begin
        counts[row - first] += 1
        kept += 1
    return kept


@njit(cache=True, parallel=True)
def classes_of(plan: Any, start: Any, stop: Any) -> Any:
    labels = np.empty(stop - start, dtype=np.int64)
    for i in prange(stop - start):
        labels[i] = _class_of(_place_of(start + i, plan), plan.bounds)
    return labels


@njit(cache=True, parallel=True)
def dense_rows(plan: Any, centres: Any, noise: Any, key: Any, start: Any, out: Any) -> None:
    """Centres plus normal deviates, two at a time (Box and Muller 1958)."""
    height, width = out.shape
    for i in prange(height):
        centre = centres[_class_of(_place_of(start + i, plan), plan.bounds)]
        own = mixed(key + np.uint64(start + i) * np.uint64(0x9E3779B97F4A7C15))
        for j in range(0, width, 2):
            bits = mixed(own + np.uint64(j + 1))
            one = (np.float32(bits >> np.uint64(40)) + np.float32(0.5)) * np.float32(1.0 / 16777216.0)
            angle = np.float32(bits & np.uint64(0xFFFFFF)) * np.float32(2.0 * np.pi / 16777216.0)
            length = np.sqrt(np.float32(-2.0) * np.log(one))
            out[i, j] = centre[j] + noise * length * np.cos(angle)
            if j + 1 < width:
                out[i, j + 1] = centre[j + 1] + noise * length * np.sin(angle)


@njit(cache=True, parallel=True)
def word_rows(plan: Any, width: Any, start: Any, columns: Any, counts: Any, lengths: Any) -> None:
    """Sorted words and their counts; the first ``lengths[i]`` of row i are filled."""
    classes = len(plan.bounds) - 1
    list_length = max(1, width // (2 * classes))
    for i in prange(len(lengths)):
        own = mixed(~plan.key + np.uint64(start + i) * np.uint64(0x9E3779B97F4A7C15))
        first = _class_of(_place_of(start + i, plan), plan.bounds) * list_length
        length = SHORTEST + np.int64(_uniform(mixed(own)) * (LONGEST - SHORTEST + 1))
        row, many, kept = columns[i], counts[i], 0
        for w in range(length):
            bits = mixed(own + np.uint64(2 * w + 1))
            share = _uniform(mixed(own + np.uint64(2 * w + 2)))
            drawn = first + np.int64(share * list_length) if bits & np.uint64(1) else np.int64(share * share * width)
            drawn = min(drawn, width - 1)
            place = kept
            while place > 0 and row[place - 1] >= drawn:
                place -= 1
            if place < kept and row[place] == drawn:
                many[place] += 1
                continue
            for q in range(kept, place, -1):
                row[q], many[q] = row[q - 1], many[q - 1]
            row[place], many[place] = drawn, 1
            kept += 1
        lengths[i] = kept
