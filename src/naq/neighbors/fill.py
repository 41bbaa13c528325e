"""What to do for nodes that have fewer than k neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from naq.errors import OptionError
from naq.randomness import stream

FILLS = ("none", "lowest", "random", "feature")


def check_fill(fill: str, allowed: tuple[str, ...] = FILLS) -> str:
    if fill not in allowed:
        raise OptionError(f"fill is {fill!r}; expected one of {', '.join(allowed)}.")
    return fill


def fill_table(
    ids: np.ndarray,
    fill: str,
    *,
    seed: int = 0,
    feature_ids: Callable[[], np.ndarray] | None = None,
) -> None:
    """Complete short rows in place; filled entries have score 0.

    - ``none``: leave -1;
    - ``lowest``: the lowest node ids that the row does not hold yet. As the released code, whose diagonal is a zero like
      any other, the node itself may be among them;
    - ``random``: other nodes, drawn from a stream of the node's own;
    - ``feature``: the node's nearest by features, in their order.
    """
    if fill == "none":
        return
    n, k = ids.shape
    short = np.flatnonzero((ids < 0).any(axis=1))
    candidates = feature_ids() if fill == "feature" and feature_ids is not None and len(short) else None
    for i in short:
        have = int((ids[i] >= 0).sum())
        taken = set(ids[i, :have].tolist())
        if fill != "lowest":
            taken.add(int(i))
        pool: Iterator[int]
        if fill == "lowest":
            pool = iter(range(n))
        elif fill == "random":
            pool = iter(
                stream(seed, "neighbors/fill", int(i)).permutation(n) if n <= 4 * k + 64 else _draws(n, seed, int(i))
            )
        else:
            assert candidates is not None
            pool = (int(j) for j in candidates[i] if j >= 0)
        for j in pool:
            if have == k:
                break
            if int(j) not in taken:
                taken.add(int(j))
                ids[i, have] = j
                have += 1


def _draws(n: int, seed: int, node: int) -> Iterator[int]:
    random = stream(seed, "neighbors/fill", node)
    while True:
        yield from random.integers(0, n, size=64)
