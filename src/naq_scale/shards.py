"""Tables and embeddings in shards: cells of a store, computed by any runner and put together here.

A shard of a table is a range of its rows, one of an embedding a part of one of its stages (:mod:`naq_scale.blocks.parts`). It is stored whole or not at all,
under a hash of graph, description and code: shards of another graph or version are not found, and a damaged one is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from naq.errors import DataError, NaqError
from naq.neighbors import NeighborTable
from naq.neighbors.diffusion import share_refined
from naq.neighbors.feature import described
from naq.progress import Listener
from naq_paper.cells.cell import Cell
from naq_paper.cells.fingerprint import identify
from naq_paper.cells.runners import Outcome, Runner, Setup
from naq_paper.cells.runners.computing import worker_lost
from naq_paper.cells.store import Store
from naq_scale.arrays import SharedArrays
from naq_scale.blocks import Arrays, Bounds, Parts, Pieces, as_pieces
from naq_scale.embedding_parts import embedding_cell
from naq_scale.neighbor_rows import neighbors_cell, unpacked

ROUNDS = 4
"""How often the shards of lost workers, and damaged ones, are computed before it is an error."""

Take = Callable[[Cell, Any, bool], None]
"""Is given a cell, its record and whether it was stored before; raises ``DataError`` for a record that is damaged."""


def shard_cells(dataset: str, info: Mapping[str, Any], nodes: int, shards: int) -> list[Cell]:
    """``shards`` ranges of nearly the same number of rows; an exact diffusion table and an approximate feature table are made whole."""
    whole = info.get("method") == "exact" or info.get("search") == "approximate"
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
    ids = np.full((nodes, info["k"]), -1, dtype=np.int32)
    scores = np.zeros((nodes, info["k"]), dtype=np.float32)
    refined, measured = np.zeros(2, dtype=np.int64), {}

    def take(cell: Cell, record: Any, _: bool) -> None:
        nonlocal refined
        refined = refined + _place(cell, record, ids, scores)
        measured.update(_recall(record))

    compute_all(cells, runner, store, Setup(paths or {}, cache=None, retry=True), listener, take)
    pushed = info.get("method") == "push"
    more = share_refined((int(refined[0]), int(refined[1]))) if pushed else {}
    about = described(info) if info["kind"] == "feature" else info
    return NeighborTable(ids, scores, {**about, **more, **measured})


class ShardedParts(Parts):
    """The parts of an embedding as cells; their arrays lie in the folder ``arrays`` of the store, which every worker has to see.

    Args:
        dataset, paths: the graph as cells name it, and where workers find it.
        shards: parts of a stage at most.
        processes: workers that share the memory of this machine.
        listener: is called with ``stage`` (name, parts) and all that a runner tells.
    """

    def __init__(
        self, runner: Runner, store: Store, dataset: str, paths: Mapping[str, str], *, shards: int, processes: int = 1,
        listener: Listener | None = None,
    ) -> None:  # fmt: skip
        self.shards, self.processes = shards, processes
        self._runner, self._store, self._dataset, self._listener = runner, store, dataset, listener
        store.prepare()
        self._shared = SharedArrays(store.folder.absolute() / "arrays")
        self._setup = Setup(paths, cache=None, retry=True, arrays=str(self._shared.folder))

    def run(
        self, name: str, bounds: Bounds, facts: Mapping[str, Any], inputs: Mapping[str, np.ndarray | Pieces]
    ) -> list[Arrays]:
        if self._listener is not None:
            self._listener("stage", {"name": name, "parts": len(bounds)})
        grids = {key: self._shared.put_grid(pieces) for key, pieces in as_pieces(inputs).items()}
        cells = [embedding_cell(self._dataset, name, part, facts, grids) for part in bounds]
        found: dict[Cell, Any] = {}

        def take(cell: Cell, record: Any, before: bool) -> None:
            found[cell] = self._opened(record, verify=before)

        compute_all(cells, self._runner, self._store, self._setup, self._listener, take)
        return [found[cell] for cell in cells]

    def _opened(self, record: Any, *, verify: bool) -> dict[str, Any]:
        """The arrays of a record; those that were made now were summed while they were written and are not read again."""
        entries = record.result.get("arrays")
        if not isinstance(entries, dict) or not entries:
            raise DataError("the shard names no arrays.")
        try:
            return {name: self._shared.open(entry, verify=verify) for name, entry in entries.items()}
        except DataError:
            for entry in entries.values():
                self._shared.forget(entry)
            raise


def compute_all(
    cells: Sequence[Cell], runner: Runner, store: Store, setup: Setup, listener: Listener | None, take: Take
) -> None:
    """Compute what the store lacks and give every record to ``take``; cells of lost workers, and damaged ones, are computed again.

    Raises ``NaqError`` if a cell fails, and ``KeyboardInterrupt`` if Ctrl-C ended the run: what is finished is kept.
    """
    left = dict.fromkeys(cells)
    for attempt in range(ROUNDS):
        outcome = runner.run(cells, store, setup, listener)
        _check(outcome, last=attempt == ROUNDS - 1)
        if not outcome.complete:
            continue
        before = set(outcome.skipped)
        for cell in list(left):
            key = identify(cell, runner.dataset_cache(setup)).key(cell)
            try:
                record = store.get(key)
                if record is None:
                    raise DataError("the shard is gone.")
                take(cell, record, cell in before)
                del left[cell]
            except DataError:
                store.drop(key)
        if not left:
            return
    raise DataError(f"shards in {store.folder} are damaged again and again; check the disk or choose another folder.")


def _check(outcome: Outcome, *, last: bool) -> None:
    if outcome.stopped:
        raise KeyboardInterrupt
    if outcome.busy:
        raise NaqError(f"another process computes {len(outcome.busy)} of these shards; wait for it.")
    failed = [failure for failure in outcome.failed if last or not worker_lost(failure.sentence)]
    if failed:
        raise NaqError(f"{len(failed)} shards failed, {failed[0].cell.title}: {failed[0].sentence}")


def _place(cell: Cell, record: Any, ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Put the rows of a record into the table; how many were refined, and of how many."""
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


def _recall(record: Any) -> dict[str, float]:
    """What an approximate table measured of itself."""
    found = record.result.get("recall") or {}
    if not isinstance(found, dict) or not all(type(one) is float and 0 <= one <= 1 for one in found.values()):
        raise DataError("the shard states no recall.")
    return found
