"""Episodes, and how they are drawn: without replacement, in blocks with a random stream each.

Episode t depends on (seed, purpose, t) alone: the first hundred of 16,000 are the same as a hundred.

Two supports of an episode that are neighbours likely share a true class, and then get different labels.
:func:`keep_apart` leaves no support among the ``near`` first neighbours of another: one that clashes with an earlier
slot is drawn again until none does, which is drawing slot after slot among the nodes that are still allowed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numba import njit

from naq.device import require
from naq.errors import DataError, NoSuchItem, OptionError
from naq.files import read_npz, write_npz
from naq.graph import Graph
from naq.neighbors.table import description
from naq.options import check_whole
from naq.random import stream

if TYPE_CHECKING:
    import torch
    from torch_geometric.data import Data

BLOCK = 4096
"""Episodes that share a random stream."""
ROUNDS = 64
"""Times a slot is drawn again before an episode is left with the fewest clashes seen."""
CHUNK = 1024
"""Episodes compared at once when overlaps are dropped."""


class Episode(NamedTuple):
    """One episode: ``support`` (way, shot), ``query`` and ``mask`` (way, queries)."""

    support: np.ndarray
    query: np.ndarray
    mask: np.ndarray


@dataclass(frozen=True, eq=False)
class Episodes:
    """``count`` training episodes, class-major; the label of everything in slot j is j.

    ``mask`` is False where a query is missing (its id is then -1) or was dropped; losses average over the kept ones.

    A map-style dataset of PyTorch: ``len``, an :class:`Episode` by its number, iteration, ``DataLoader(episodes)``. A
    slice gives ``Episodes``.

    Shapes:
        - ``support``: (count, way, shot) int32
        - ``query``: (count, way, queries) int32
        - ``mask``: (count, way, queries) bool
    """

    support: np.ndarray
    query: np.ndarray
    mask: np.ndarray
    info: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        support, query, mask = self.support, self.query, self.mask
        if support.ndim != 3 or query.ndim != 3 or mask.shape != query.shape or support.shape[:2] != query.shape[:2]:
            raise DataError(
                f"support {support.shape}, query {query.shape} and mask {mask.shape} are not episodes; "
                "expected (count, way, shot) and twice (count, way, queries)."
            )

    def __len__(self) -> int:
        return int(self.support.shape[0])

    @property
    def way(self) -> int:
        return int(self.support.shape[1])

    @property
    def shot(self) -> int:
        return int(self.support.shape[2])

    @property
    def queries(self) -> int:
        return int(self.query.shape[2])

    def __repr__(self) -> str:
        kind = self.info.get("kind", "custom")
        return f"Episodes({len(self):,} x {self.way}-way {self.shot}-shot, {self.queries} queries, {kind})"

    @overload
    def __getitem__(self, index: slice) -> Episodes: ...

    @overload
    def __getitem__(self, index: int) -> Episode: ...

    def __getitem__(self, index: int | slice) -> Episode | Episodes:
        if isinstance(index, slice):
            return Episodes(self.support[index], self.query[index], self.mask[index], self.info)
        try:
            number = range(len(self))[index]
        except (IndexError, TypeError) as error:
            what = f"expected a slice or a number of 0..{len(self) - 1}, or from the end -{len(self)}..-1"
            raise NoSuchItem(f"index is {index!r}, but there are {len(self):,} episodes; {what}.") from error
        return Episode(self.support[number], self.query[number], self.mask[number])

    def __iter__(self) -> Iterator[Episode]:
        return map(Episode, self.support, self.query, self.mask)

    def to_pyg(self, graph: Graph, hops: int = 2) -> Exported:
        """A PyG ``Data`` for each episode, when it is asked for: the sub-graph within ``hops`` of its nodes.

        ``x`` dense, ``edge_index``, and ``node``, the ids in ``graph``; ``support_index`` (way * shot,) and
        ``query_index`` (kept queries,) are rows of the sub-graph, which a batch of PyG shifts, with their slots in
        ``support_slot`` and ``query_slot``.
        """
        graph.require_features("PyG episodes")
        graph.known_nodes(np.concatenate([self.support.ravel(), self.query[self.mask]]))
        return Exported(self, partial(_as_pyg, graph=graph, hops=hops))

    def to_learn2learn(self, vectors: np.ndarray | None = None) -> Exported:
        """Tasks as learn2learn has them: (data, labels) for each episode, by class, in each the supports first.

        ``learn2learn.data.partition_task(data, labels, shots=episodes.shot)`` takes them apart again. Missing queries
        are left out; that function needs equally many in every class.

        Args:
            vectors: (n, d) whose rows are the data; node ids if None.
        """
        return Exported(self, partial(_as_learn2learn, vectors=vectors))

    def overlap_ratio(self) -> float:
        """How often a node is the query of more than one class: the mean of 1 - (distinct queries) / (queries)."""
        flat = np.where(self.mask, self.query, -1).reshape(len(self), -1)
        order = np.sort(flat, axis=1)
        kept = (order >= 0).sum(axis=1)
        distinct = (order[:, :1] >= 0).sum(axis=1) + ((order[:, 1:] != order[:, :-1]) & (order[:, 1:] >= 0)).sum(axis=1)
        some = kept > 0
        return float((1.0 - distinct[some] / kept[some]).mean()) if some.any() else 0.0

    def distinct_class_share(self, labels: np.ndarray) -> float:
        """Share of episodes whose classes are of different true classes, by the first support of each.

        Episodes with a first support of unknown class (-1) do not count; NaN if none is left. Never part of training.
        """
        classes = np.sort(labels[self.support[:, :, 0]], axis=1)
        classes = classes[classes[:, 0] >= 0]
        return float((classes[:, 1:] != classes[:, :-1]).all(axis=1).mean()) if len(classes) else float("nan")

    def same_class_share(self, labels: np.ndarray) -> float:
        """Share of kept queries with the true class of their first support, where both are known; an analysis."""
        own = np.broadcast_to(labels[self.support[:, :, :1]], self.query.shape)
        other = labels[np.maximum(self.query, 0)]
        known = self.mask & (own >= 0) & (other >= 0)
        return float((own == other)[known].mean()) if known.any() else float("nan")

    def without_overlap(self) -> Episodes:
        """Drop every copy of a query that two classes share, and every query that is a support of its episode."""
        kept = [self[start : start + CHUNK]._kept_without_overlap() for start in range(0, len(self), CHUNK)]
        return Episodes(self.support, self.query, np.concatenate(kept), {**self.info, "drop_overlap": True})

    def without_random(self, seed: int = 0) -> Episodes:
        """Drop, in every episode, as many random queries as :meth:`without_overlap` would drop there: its control.

        Episode t depends on (seed, t) alone. Queries are drawn uniformly from all kept ones of the episode.
        """
        count, size = len(self), self.way * self.queries
        kept = self.mask.reshape(count, size)
        drops = kept.sum(axis=1) - self.without_overlap().mask.reshape(count, size).sum(axis=1)
        left = np.empty_like(kept)
        for part, random in blocks(count, seed, f"episodes/drop_random/{self.way}way/{self.queries}queries"):
            draw = np.where(kept[part], random.random((BLOCK, size))[: part.stop - part.start], np.inf)
            place = np.argsort(np.argsort(draw, axis=1, kind="stable"), axis=1, kind="stable")
            left[part] = kept[part] & (place >= drops[part, None])
        return Episodes(self.support, self.query, left.reshape(self.mask.shape), {**self.info, "drop_random": True})

    def _kept_without_overlap(self) -> np.ndarray:
        count, size = len(self), self.way * self.queries
        flat = np.where(self.mask, self.query, -1).reshape(count, size)
        # All supports together are one more owner, so that a query clashes with any of them.
        flat = np.concatenate([flat, self.support.reshape(count, -1)], axis=1)
        slot = np.repeat(np.arange(self.way + 1), [self.queries] * self.way + [self.way * self.shot])
        order = np.argsort(flat, axis=1, kind="stable")
        value, owner = np.take_along_axis(flat, order, 1), slot[order]
        clash = (value[:, 1:] == value[:, :-1]) & (owner[:, 1:] != owner[:, :-1])
        shared = np.zeros(flat.shape, dtype=bool)
        shared[:, 1:] |= clash
        shared[:, :-1] |= clash
        dropped = np.empty_like(shared)
        np.put_along_axis(dropped, order, _spread(shared, value), axis=1)
        return self.mask & ~dropped[:, :size].reshape(self.mask.shape)

    def save(self, path: str | Path) -> Path:
        """Write support, query, mask and how they were made."""
        text = np.array(json.dumps(dict(self.info), sort_keys=True))
        return write_npz(path, {"support": self.support, "query": self.query, "mask": self.mask, "info": text})


@dataclass(frozen=True, eq=False)
class Exported(Sequence[Any]):
    """Episodes as another library has them, each made when it is asked for; a slice is one of a part of them."""

    episodes: Episodes
    make: Callable[[Episode], Any] = field(repr=False)

    def __len__(self) -> int:
        return len(self.episodes)

    def __getitem__(self, index: Any) -> Any:
        found = self.episodes[index]
        return self.make(found) if isinstance(found, Episode) else Exported(found, self.make)


def _as_pyg(episode: Episode, graph: Graph, hops: int) -> Data:
    import torch
    from torch_geometric.data import Data

    (support, query, mask), features, adjacency = episode, graph.require_features("PyG episodes"), graph.adjacency
    wanted = np.concatenate([support.ravel(), query[mask]])
    nodes = np.unique(wanted)
    for _ in range(hops):
        nodes = np.union1d(nodes, adjacency[nodes].indices)
    require(4.0 * len(nodes) * graph.num_features, f"an episode with {len(nodes):,} nodes", "lower hops")
    x, edges = features[nodes], adjacency[nodes][:, nodes].tocoo()
    place = torch.from_numpy(np.searchsorted(nodes, wanted))
    return Data(
        x=torch.from_numpy(np.asarray(x if isinstance(x, np.ndarray) else x.toarray(), dtype=np.float32)),
        edge_index=torch.from_numpy(np.stack(edges.coords).astype(np.int64)),
        node=torch.from_numpy(nodes.astype(np.int64)),
        support_index=place[: support.size],
        support_slot=torch.arange(len(support)).repeat_interleave(support.shape[1]),
        query_index=place[support.size :],
        query_slot=torch.from_numpy(np.nonzero(mask)[0]),
    )


def _as_learn2learn(episode: Episode, vectors: np.ndarray | None) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    there = np.concatenate([np.ones_like(episode.support, dtype=bool), episode.mask], axis=1)
    nodes = np.concatenate([episode.support, episode.query], axis=1)[there].astype(np.int64)
    data = nodes if vectors is None else np.asarray(vectors)[nodes]
    return torch.from_numpy(data), torch.from_numpy(np.nonzero(there)[0])


def _spread(shared: np.ndarray, value: np.ndarray) -> np.ndarray:
    """A run of equal values is shared as a whole if any of it is."""
    start = np.ones(value.shape, dtype=bool)
    start[:, 1:] = value[:, 1:] != value[:, :-1]
    run = np.cumsum(start.ravel()) - 1
    any_shared = np.zeros(run[-1] + 1 if len(run) else 0, dtype=bool)
    any_shared[run[shared.ravel()]] = True
    return any_shared[run].reshape(shared.shape)


def load_episodes(path: str | Path) -> Episodes:
    """Read episodes written by :meth:`Episodes.save`."""
    arrays = read_npz(path, kind="episode file")
    if not {"support", "query", "mask", "info"} <= set(arrays):
        raise DataError(f"{path} is not an episode file; expected support, query, mask, info; found {sorted(arrays)}.")
    support, query, mask = (arrays[name] for name in ("support", "query", "mask"))
    if support.dtype.kind not in "iu" or query.dtype.kind not in "iu" or mask.dtype.kind != "b":
        raise DataError(
            f"{path}: support, query and mask have types {support.dtype}, {query.dtype} and {mask.dtype}; "
            "expected whole numbers, whole numbers and true or false."
        )
    found = Episodes(support, query, mask, description(arrays["info"], path))
    if support.size == 0 or int(support.min()) < 0 or int(np.where(mask, query, 0).min(initial=0)) < 0:
        raise DataError(f"{path} holds no supports, or nodes below 0; make the episodes again.")
    return found


def check_counts(**values: int) -> None:
    """Way, shot, queries and count are whole and positive, and the episodes fit into memory."""
    for name, value in values.items():
        check_whole(name, value, 2 if name == "way" else 1)
    nodes = values.get("shot", 1) + values.get("queries", values.get("views", 1))
    size = values.get("count", 1) * values.get("way", 2) * nodes
    require(12.0 * min(size, 10**300), f"{values.get('count', 1):,} episodes of these sizes", "lower them")


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


def keep_apart(
    random: np.random.Generator, support: np.ndarray, ids: np.ndarray, near: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw offending slots again.

    Args:
        support: (rows, way) distinct nodes per row.
        ids: (n, k) neighbours, -1 where there is none; the first ``near`` columns count.

    Returns:
        the supports, still distinct, and (rows,) True where a clash is left.

    Cost: rows x way x near look-ups, and the same for the few rows that are drawn again.
    """
    best = support.astype(np.int64)
    place = np.full(len(ids), -1, dtype=np.int32)
    offending = _offending(ids, best, near, place)
    rows = np.flatnonzero(offending.any(axis=1))
    clashes = offending.sum(axis=1)
    current, again = best[rows], offending[rows]
    for _ in range(ROUNDS):
        if not len(rows):
            break
        current[again] = random.integers(0, len(ids), size=int(again.sum()))
        again = _offending(ids, current, near, place)
        left = again.sum(axis=1)
        # Repeated nodes may pass through a round, never into the result.
        better = (left < clashes[rows]) & ~repeats(current)
        best[rows[better]], clashes[rows[better]] = current[better], left[better]
        going = left > 0
        rows, current, again = rows[going], current[going], again[going]
    return best, clashes > 0


def check_apart(ids: np.ndarray, way: int, near: int) -> None:
    """Raise an ``OptionError`` if no draw can succeed: a support needs ``way - 1`` nodes outside its first ``near``."""
    n = len(ids)
    close = ((ids[:, :near] >= 0) & (ids[:, :near] != np.arange(n)[:, None])).sum(axis=1)
    free = int((close + way <= n).sum())
    if free < way:
        raise OptionError(
            f"apart={near} cannot be kept by {way}-way episodes: only {free} of {n} nodes have {way - 1} others "
            f"outside their first {near} neighbours; lower apart."
        )


@njit(cache=True)
def _offending(ids: Any, support: Any, near: Any, place: Any) -> Any:
    """(rows, way): slots that repeat, list or are listed by an earlier support; ``place`` is (n,) of -1, left so."""
    rows, way = support.shape
    out = np.zeros((rows, way), dtype=np.bool_)
    for r in range(rows):
        for j in range(way):
            s = support[r, j]
            if place[s] < 0:
                place[s] = j
            else:
                out[r, j] = True
        for j in range(way):
            row = ids[support[r, j]]
            for c in range(near):
                v = row[c]
                if v >= 0 and place[v] >= 0 and v != support[r, j]:
                    out[r, max(j, place[v])] = True
        for j in range(way):
            place[support[r, j]] = -1
    return out
