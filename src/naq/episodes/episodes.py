"""The episode type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from naq.device import require
from naq.episodes.draws import BLOCK, blocks
from naq.errors import DataError, OptionError
from naq.files import read_npz, write_npz
from naq.neighbors.table import description
from naq.options import check_whole

CHUNK = 1024
"""Episodes compared at once when overlaps are dropped."""


@dataclass(frozen=True, eq=False)
class Episodes:
    """``count`` training episodes, class-major; the label of everything in slot j is j.

    ``mask`` is False where a query is missing (its id is then -1) or was dropped; losses average over the kept ones.

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
                f"support {support.shape}, query {query.shape} and mask {mask.shape} are no episodes; "
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
        return f"Episodes({len(self):,} x {self.way}-way {self.shot}-shot, {self.queries} queries, {self.info.get('kind', 'custom')})"

    def __getitem__(self, index: slice) -> Episodes:
        if not isinstance(index, slice):
            raise OptionError(f"episodes are taken by slices, e.g. episodes[3:4]; got {index!r}.")
        return Episodes(self.support[index], self.query[index], self.mask[index], self.info)

    def overlap_ratio(self) -> float:
        """Mean over episodes of 1 - (distinct queries) / (queries): how often a node is the query of more than one class."""
        flat = np.where(self.mask, self.query, -1).reshape(len(self), -1)
        order = np.sort(flat, axis=1)
        kept = (order >= 0).sum(axis=1)
        distinct = (order[:, :1] >= 0).sum(axis=1) + ((order[:, 1:] != order[:, :-1]) & (order[:, 1:] >= 0)).sum(axis=1)
        some = kept > 0
        return float((1.0 - distinct[some] / kept[some]).mean()) if some.any() else 0.0

    def distinct_class_share(self, labels: np.ndarray) -> float:
        """Share of episodes whose classes are of different true classes, by the first support of each.

        Episodes with a first support of unknown class (-1) do not count; NaN where none is left. An analysis, never part of
        training.
        """
        classes = np.sort(labels[self.support[:, :, 0]], axis=1)
        classes = classes[classes[:, 0] >= 0]
        return float((classes[:, 1:] != classes[:, :-1]).all(axis=1).mean()) if len(classes) else float("nan")

    def same_class_share(self, labels: np.ndarray) -> float:
        """Share of kept queries with the true class of their first support, where both are known; an analysis as well."""
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

        Episode t depends on (seed, t) alone. Queries are drawn uniformly from all kept ones of the episode, whatever their class.
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
        raise DataError(f"{path} is no episode file; expected support, query, mask and info, found {sorted(arrays)}.")
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
