"""What to do for nodes that have fewer than k neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from naq.errors import OptionError
from naq.graph import Graph
from naq.neighbors.table import NeighborTable, content_of
from naq.random import stream

FILLS = ("none", "lowest", "random", "feature")


def check_fill(fill: str, allowed: tuple[str, ...] = FILLS) -> str:
    if fill not in allowed:
        raise OptionError(f"fill is {fill!r}; expected one of {', '.join(allowed)}.")
    return fill


def filled(
    table: NeighborTable,
    fill: str,
    *,
    seed: int = 0,
    feature_ids: Callable[[], np.ndarray] | None = None,
    graph: Graph | None = None,
) -> NeighborTable:
    """The table with its short rows completed; filled entries have score 0.

    - ``none``: leave -1;
    - ``lowest``: the lowest node ids that the row does not hold yet. As the released code, whose diagonal is a zero like
      any other, the node itself may be among them;
    - ``random``: other nodes, drawn from a stream of the node's own;
    - ``feature``: the node's nearest by features, in their order.

    Args:
        graph: that the table was made from; a hash of what was read of it joins ``info``.
    """
    info = {**table.info, "fill": fill} | ({"seed": seed} if fill == "random" else {})
    if graph is not None:
        info["graph"] = content_of(graph, reads_features=info.get("kind") == "feature" or fill == "feature")
    short = np.flatnonzero((table.ids < 0).any(axis=1)) if fill != "none" else np.empty(0, dtype=np.int64)
    ids = table.ids.copy() if len(short) else table.ids
    near = feature_ids() if fill == "feature" and feature_ids is not None and len(short) else None
    for i in short:
        _complete(ids[i], int(i), _pool(fill, int(i), ids.shape, seed, near), own=fill == "lowest")
    return NeighborTable(ids, table.scores, info)


def _complete(row: np.ndarray, node: int, pool: Iterable[int], *, own: bool) -> None:
    """Fill the -1 at the end of a row with what the pool gives; the node itself only where ``own`` is set."""
    have = int((row >= 0).sum())
    taken = set(row[:have].tolist()) | (set() if own else {node})
    for j in map(int, pool):
        if have == len(row):
            return
        if j >= 0 and j not in taken:
            taken.add(j)
            row[have] = j
            have += 1


def _pool(fill: str, node: int, shape: tuple[int, ...], seed: int, near: np.ndarray | None) -> Iterable[int]:
    n, k = shape
    if fill == "lowest":
        return range(n)
    if fill == "random":
        return stream(seed, "neighbors/fill", node).permutation(n) if n <= 4 * k + 64 else _draws(n, seed, node)
    assert near is not None
    return near[node]


def _draws(n: int, seed: int, node: int) -> Iterator[int]:
    random = stream(seed, "neighbors/fill", node)
    while True:
        yield from random.integers(0, n, size=64)
