"""A neighbour table in shards: ranges of its rows are cells of a store, computed by any runner and put together here.

A shard is stored whole or not at all, under a hash of graph, description and code: shards of another graph or version are not found, and
a damaged one is computed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from naq.errors import DataError, NaqError
from naq.grid.cells import Cell
from naq.grid.fingerprint import identify
from naq.grid.measurements.neighbors import neighbors_cell, unpacked
from naq.grid.runners import Outcome, Runner, Setup
from naq.grid.runners.computing import worker_lost
from naq.grid.store import Store
from naq.neighbors import NeighborTable
from naq.neighbors.diffusion import share_refined
from naq.progress import Listener

ROUNDS = 4
"""How often the shards of lost workers, and damaged ones, are computed before it is an error."""


def shard_cells(dataset: str, info: Mapping[str, Any], nodes: int, shards: int) -> list[Cell]:
    """``shards`` ranges of nearly the same number of rows; an exact diffusion table is made whole."""
    whole = info.get("method") == "exact"
    bounds = np.linspace(0, nodes, 1 + (1 if whole else min(shards, nodes))).astype(int).tolist()
    return [neighbors_cell(dataset, info, low, high) for low, high in pairwise(bounds)]


def sharded_table(
    cells: Sequence[Cell],
    info: Mapping[str, Any],
    nodes: int,
    runner: Runner,
    store: Store,
    paths: Mapping[str, str] | None = None,
    listener: Listener | None = None,
) -> NeighborTable:
    """Compute what the store lacks of the shards of :func:`shard_cells`; the table is the one that is made in one piece.

    Args:
        info: what describes the table, see :func:`~naq.neighbors.diffusion.diffusion_info`.
        paths: where workers find the dataset, see :class:`Setup`.

    Raises ``NaqError`` if a shard fails, and ``KeyboardInterrupt`` if Ctrl-C ended the run: what is finished is kept.
    """
    for attempt in range(ROUNDS):
        setup = Setup(paths or {}, cache=None, retry=True)
        outcome = runner.run(cells, store, setup, listener)
        _check(outcome, last=attempt == ROUNDS - 1)
        if not outcome.complete:
            continue
        ids = np.full((nodes, info["k"]), -1, dtype=np.int32)
        scores = np.zeros((nodes, info["k"]), dtype=np.float32)
        damaged, refined = 0, np.zeros(2, dtype=np.int64)
        for cell in cells:
            key = identify(cell, runner.dataset_cache(setup)).key(cell)
            try:
                refined += _place(cell, store.get(key), ids, scores)
            except DataError:
                store.drop(key)
                damaged += 1
        if not damaged:
            pushed = info.get("method") == "push"
            more = share_refined((int(refined[0]), int(refined[1]))) if pushed else {}
            return NeighborTable(ids, scores, {**info, **more})
    raise DataError(f"shards in {store.folder} are damaged again and again; check the disk or choose another folder.")


def _check(outcome: Outcome, *, last: bool) -> None:
    if outcome.stopped:
        raise KeyboardInterrupt
    if outcome.busy:
        raise NaqError(f"another process computes {len(outcome.busy)} shards of this table; wait for it.")
    failed = [failure for failure in outcome.failed if last or not worker_lost(failure.sentence)]
    if failed:
        raise NaqError(f"{len(failed)} shards failed, {failed[0].cell.title}: {failed[0].sentence}")


def _place(cell: Cell, record: Any, ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Put the rows of a record into the table; how many were refined, and of how many."""
    if record is None:
        raise DataError("the shard is gone.")
    first, last = cell.config["rows"]
    rows = {name: unpacked(record.result.get(name)) for name in ("ids", "scores")}
    if any(array.shape != ids[first:last].shape for array in rows.values()):
        raise DataError("the shard has rows of another table.")
    if any(rows[name].dtype != array.dtype for name, array in (("ids", ids), ("scores", scores))):
        raise DataError("the shard has numbers of other types.")
    counts = record.result.get("refined") or [0, 0]
    if (
        not isinstance(counts, list)
        or len(counts) != 2
        or not all(type(one) is int and 0 <= one < 2**62 for one in counts)
    ):
        raise DataError("the shard does not say how many rows were refined.")
    if (rows["ids"] < -1).any() or (rows["ids"] >= len(ids)).any():
        raise DataError("the shard names nodes that the graph does not have.")
    ids[first:last], scores[first:last] = rows["ids"], rows["scores"]
    return np.array(counts, dtype=np.int64)
