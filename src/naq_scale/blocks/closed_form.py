"""The closed form of NaQ (:mod:`naq.embedders.closed_form`) on rows in files, and nearest rows in one pass over
them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from naq.embedders.closed_form import PAIRS, ClosedForm, removal_of, sharpening_of
from naq.errors import OptionError
from naq.neighbors import vector_neighbors
from naq.neighbors.clusters import PER_CENTRE, assign, centres
from naq.neighbors.topk import offer_rows
from naq.random import stream
from naq_scale.blocks.shards import Arrays, Block, BlockArray, Inputs, RowPasses, Shards

SEARCHED = 1 << 16
"""Nodes whose neighbours are sought: all, or a sample of as many."""
PAIRS_AT_ONCE = 1 << 16
CENTRES = 1024
"""Clusters, whatever the number of rows: the cost is then linear in it."""
PROBES = 24
"""Clusters that a wanted row is compared with."""
ROWS = 1 << 14
"""Rows whose cosines with all centres are held at once."""
ENTRIES = 1 << 25
"""Numbers of a block of rows, at least: with many members of every cluster in a block, products are large."""


def remove_and_sharpen(centred: BlockArray, shards: Shards, form: ClosedForm, *, block: int) -> BlockArray:
    """``form.fit_transform`` of rows that are centred."""
    n, d = centred.shape
    if n <= 2 or d <= 1:
        return centred
    found = near_pairs(centred, min(form.neighbors, n - 1), form.pairs, form.seed, block, shards)
    return remove_scatter(RowPasses(shards, centred, block), found, shrink=form.shrink, power=form.power)


def remove_scatter(rows: RowPasses, found: np.ndarray, *, shrink: float, power: float) -> BlockArray:
    """The rows without the scatter of these pairs, and sharpened."""
    matrix = removal_of(_scatter(rows.rows, found), shrink) if len(found) else None
    if matrix is not None:
        rows = rows.then("times", matrix).center()
    sharp = sharpening_of(rows.gram(), power)
    return rows.compute() if sharp is None else rows.then("times", sharp).then("unit").compute()


def _scatter(rows: BlockArray, pairs: np.ndarray) -> np.ndarray:
    """(d, d) float64: the mean of (z_i - z_j)(z_i - z_j)^T / 2 over the pairs."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        part = pairs[start : start + PAIRS_AT_ONCE]
        used, place = np.unique(part, return_inverse=True)
        held = torch.from_numpy(rows.take(used))
        ends = torch.from_numpy(place.reshape(part.shape))
        apart = (held[ends[:, 0]] - held[ends[:, 1]]).double()
        total += (apart.T @ apart).numpy()
    return total / (2 * len(pairs))


def near_pairs(rows: BlockArray, k: int, pairs: str, seed: int, block: int, shards: Shards) -> np.ndarray:
    """(pairs, 2) of near nodes: of all nodes, or a sample of ``SEARCHED`` of them."""
    n = rows.shape[0]
    if n <= SEARCHED:
        return PAIRS[pairs](vector_neighbors(rows.whole(), k, seed=seed))
    if pairs == "mutual":
        raise OptionError(
            f"pairs is 'mutual', which needs the neighbours of every node, but there are {n:,} nodes and {SEARCHED:,} "
            "is the most in blocks; use pairs='nearest'."
        )
    wanted = np.sort(stream(seed, "closed-form/sample").choice(n, SEARCHED, replace=False))
    ids = neighbors_of_sample(rows, wanted, k, seed, block, shards)[0]
    return np.stack([np.repeat(wanted, k), ids.ravel()], axis=1)[ids.ravel() >= 0]


def neighbors_of_sample(
    rows: BlockArray, wanted: np.ndarray, k: int, seed: int, block: int, shards: Shards
) -> tuple[np.ndarray, np.ndarray]:
    """ids and scores (wanted, k) by cosine, best first, -1 and 0 if missing.

    Each wanted row is compared with the members of its nearest clusters, found by k-means on a sample.

    Args:
        rows: (n, d) float32 of length one, or zero: such a row has no neighbours and is none.
        wanted: rows whose neighbours are sought, ascending.
        block: rows read at once, or more where they are narrow.

    Cost: O(n d (CENTRES + wanted PROBES / CENTRES)) and one pass over the rows; memory: the wanted rows and a block.
    """
    n, d = rows.shape
    count = min(CENTRES, max(1, round(n**0.5)))
    some = np.sort(stream(seed, "sampled/centres").choice(n, min(n, PER_CENTRE * count), replace=False))
    sample = torch.from_numpy(rows.take(some))
    middle = centres(sample[sample.any(dim=1)], seed, count)
    asked = torch.from_numpy(rows.take(wanted))
    near = assign(asked, middle, min(PROBES, len(middle))).numpy()
    near[~asked.any(dim=1).numpy()] = -1
    facts = {"rows_at_once": max(block, ENTRIES // max(1, d)), "k": k}
    inputs: Inputs = {"rows": rows, "asked": asked.numpy(), "middle": middle.numpy(), "near": near}
    found = shards.run(_neighbours, shards.row_bounds(n, facts["rows_at_once"]), facts, inputs)
    return best_of_heaps([(part["scores"][:], part["ids"][:]) for part in found], wanted)


def _neighbours(block: Block) -> Arrays:
    """Heaps of the k + 1 best of every wanted row, itself included, among the members of its clusters (``near``)."""
    asked, middle = (torch.from_numpy(np.array(block.array(name))) for name in ("asked", "middle"))
    near, k, step = np.array(block.array("near")), block.facts["k"], block.facts["rows_at_once"]
    order = np.argsort(near.ravel(), kind="stable")
    bounds = np.searchsorted(near.ravel()[order], np.arange(len(middle) + 1))
    owners = order // near.shape[1]
    scores = np.full((len(asked), k + 1), -np.inf, dtype=np.float32)
    ids, sizes = np.full((len(asked), k + 1), -1, dtype=np.int64), np.zeros(len(asked), dtype=np.int64)
    for start in range(block.start, block.stop, step):
        part = torch.from_numpy(block.inputs["rows"].rows(start, min(start + step, block.stop)))
        there = np.flatnonzero(part.any(dim=1).numpy())
        # The nearest centre of every row; faster than the best of a top-k.
        homes = [torch.argmax(some @ middle.T, dim=1) for some in part[there].split(ROWS)]
        home = torch.cat(homes).numpy() if homes else np.empty(0, dtype=np.int64)
        by_home = np.argsort(home, kind="stable")
        ends = np.searchsorted(home[by_home], np.arange(len(middle) + 1))
        for c in np.flatnonzero(np.diff(ends)):
            inside, who = there[by_home[ends[c] : ends[c + 1]]], owners[bounds[c] : bounds[c + 1]]
            if len(who):  # heaps are known by their number here and candidates by their row: shifted, they never meet
                cosines = (asked[who] @ part[inside].T).numpy()
                offer_rows(cosines, who, start + inside + len(asked), scores, ids, sizes)
    return {"scores": scores, "ids": ids}


def best_of_heaps(heaps: Sequence[tuple[np.ndarray, np.ndarray]], wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ids and scores (wanted, k), best first and ties to the lowest id, of the scores and ids of heaps that met
    different rows; without the row itself."""
    size = heaps[0][0].shape[1]
    scores, ids = (np.concatenate(arrays, axis=1) for arrays in zip(*heaps))
    best = np.lexsort((ids, -scores), axis=1)[:, :size]
    scores, ids = np.take_along_axis(scores, best, 1), np.take_along_axis(ids, best, 1)
    ids = np.where(ids >= 0, ids - len(wanted), -1)
    scores[ids == wanted[:, None]] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")[:, :-1]
    scores, ids = np.take_along_axis(scores, order, 1), np.take_along_axis(ids, order, 1)
    there = np.isfinite(scores)
    return np.where(there, ids, -1), np.where(there, scores, 0)
