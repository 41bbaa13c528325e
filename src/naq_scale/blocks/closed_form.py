"""The closed form of NaQ (:mod:`naq.embedders.closed_form`) on rows in files."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from naq.embedders.closed_form import PAIRS, ClosedForm, removal_of, sharpening_of
from naq.errors import OptionError
from naq.neighbors import vector_neighbors
from naq.random import stream
from naq_scale.blocks.parts import Arrays, Parts, Work, stage
from naq_scale.blocks.pieces import Pieces
from naq_scale.blocks.row_passes import RowPasses
from naq_scale.sampled import Heaps, Search, merged, rows_at_once, search_for

SEARCHED = 1 << 16
"""Nodes whose neighbours are sought: all where there are no more, else a sample of so many."""
PAIRS_AT_ONCE = 1 << 16


def closed_form(centred: Pieces, parts: Parts, form: ClosedForm, *, block: int) -> Pieces:
    """``form.fit_transform`` of rows that are centred."""
    n, d = centred.shape
    if n <= 2 or d <= 1:
        return centred
    found = near_pairs(centred, min(form.neighbors, n - 1), form.pairs, form.seed, block, parts)
    return without_scatter(RowPasses(parts, centred, block), found, shrink=form.shrink, power=form.power)


def without_scatter(rows: RowPasses, found: np.ndarray, *, shrink: float, power: float) -> Pieces:
    """The rows without the scatter of these pairs, and sharpened."""
    matrix = removal_of(_scatter(rows.rows, found), shrink) if len(found) else None
    if matrix is not None:
        rows = rows.then("times", matrix).centred()
    sharp = sharpening_of(rows.gram(), power)
    return rows.kept() if sharp is None else rows.then("times", sharp).then("unit").kept()


def near_pairs(rows: Pieces, k: int, pairs: str, seed: int, block: int, parts: Parts) -> np.ndarray:
    """(pairs, 2) of near nodes: of all nodes, or a sample of ``SEARCHED`` of them."""
    n, d = rows.shape
    if n <= SEARCHED:
        return PAIRS[pairs](vector_neighbors(rows.whole(), k, seed=seed))
    if pairs == "mutual":
        raise OptionError(
            f"pairs is 'mutual', which needs the neighbours of every node, but there are {n:,} nodes and {SEARCHED:,} is the most in blocks; use pairs='nearest'."
        )
    wanted = np.sort(stream(seed, "closed-form/sample").choice(n, SEARCHED, replace=False))
    search = search_for(rows.take, n, wanted, seed)
    facts: dict[str, Any] = {"rows_at_once": rows_at_once(block, d), "k": k}
    inputs: dict[str, Any] = {"rows": rows, "asked": search.asked, "middle": search.middle, "near": search.near}
    found = parts.run("neighbours", parts.row_bounds(n, facts["rows_at_once"]), facts, inputs)
    ids = merged([(part["scores"][:], part["ids"][:]) for part in found], wanted)[0]
    return np.stack([np.repeat(wanted, k), ids.ravel()], axis=1)[ids.ravel() >= 0]


@stage("neighbours")
def _neighbours(work: Work, first: int, last: int) -> Arrays:
    search = Search(*(np.array(work.array(name)) for name in ("asked", "middle", "near")))
    found, step = Heaps(len(search.asked), work.facts["k"]), work.facts["rows_at_once"]
    for start in range(first, last, step):
        search.offer(found, work.inputs["rows"].rows(start, min(start + step, last)), start)
    return {"scores": found.scores, "ids": found.ids}


def _scatter(rows: Pieces, pairs: np.ndarray) -> np.ndarray:
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
