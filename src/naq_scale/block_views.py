r"""The classifier's views (:mod:`naq.classifier.views`) of graphs larger than memory.

Of every node four rows are kept in files: the start, what smoothing makes of it, and the means of its neighbours and
of theirs. What turns them into views (means, medians, the closed form) is learned from a sample; views of some rows are
made when they are read, on any device. With no more nodes than the sample has, they are the views in memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
import torch
from numba import njit, prange

from naq.classifier.confidence import Pool
from naq.classifier.estimator import UNLIKE
from naq.classifier.views import View, join, means, thin_out
from naq.embedders.closed_form import AGREES, ClosedForm
from naq.embedders.smoothing import (
    OUTLIER,
    ROUNDING,
    balance,
    in_usual_units,
    on_device,
    smooth,
    unit,
    usual_units,
)
from naq.graph import Graph
from naq_scale.blocks.shards import Arrays, Block, BlockArray, Bounds, Shards, below
from naq_scale.blocks.smoothing import smooth_tile
from naq_scale.lanes import add_rows, line_aligned
from naq_scale.tiles import columns_that_fit, new_mapped

WIDTH = 128
"""Columns of the start at most; in memory there are 384."""
STEPS = 10
PAIRED, AGREED = 1 << 15, 1 << 13
"""Nodes of the sample whose neighbours in it are sought, and whose edges are compared with the features."""
VIEWS = {
    "naq-plus": ("naq-plus",),
    "smooth": ("smooth",),
    "features": ("features",),
    "surroundings": ("features", "near", "far"),
    "around": ("near", "far"),
    "degrees": ("degrees",),
}
"""Views, and the rows that are side by side in each."""
Stored = dict[str, BlockArray]
"""Rows of all nodes by name: ``start``, of length one, ``length`` before, and what edges make of them."""


def smooth_rows(stored: Stored, graph: Graph, shards: Shards, device: str) -> Stored:
    """``smooth``: the start, smoothed over the edges, tile by tile."""
    made = shards.run(_smooth, *_tiles(stored, shards, device), stored)
    return {"smooth": BlockArray([[part["smooth"] for part in made]])}


def walk_rows(stored: Stored, graph: Graph, shards: Shards, device: str) -> Stored:
    """``near`` and ``far``: means of the features of neighbours, and of theirs; ``degrees``."""
    made = shards.run(_walk, *_tiles(stored, shards, device), {name: stored[name] for name in ("start", "length")})
    logs = {"logs": np.log1p(graph.degrees).astype(np.float32)}
    degrees = shards.by_rows(_degrees, graph.num_nodes, {"block": 1 << 16}, logs)
    found = {name: BlockArray([[part[name] for part in made]]) for name in ("near", "far")}
    return {**found, "degrees": below(degrees, "degrees")}


SPREADS: dict[str, Callable[[Stored, Graph, Shards, str], Stored]] = {"smoothing": smooth_rows, "neighbours": walk_rows}
"""What goes along edges, from rows that are stored to others."""


def _tiles(stored: Stored, shards: Shards, device: str) -> tuple[Bounds, dict[str, Any]]:
    line = stored["start"].grid[0]
    widest, nodes = max(array.shape[1] for array in line), stored["start"].shape[0]
    columns = columns_that_fit(nodes * shards.processes, widest)
    return [(number, number + 1) for number in range(len(line))], {"columns_at_once": columns, "device": device}


def _columns(block: Block, first: int, last: int) -> np.ndarray:
    """Columns of the tile number ``block.start`` of all nodes in memory, rows at the beginning of cache lines."""
    start = block.inputs["start"]
    held, begin = line_aligned((start.shape[0], last - first)), 0
    for line in start.grid:
        held[begin : begin + len(line[0])] = line[block.start][:, first:last]
        begin += len(line[0])
    return held


def _smooth(block: Block) -> Arrays:
    return _by_columns(block, _smooth_columns)


def _walk(block: Block) -> Arrays:
    return _by_columns(block, _walk_columns)


def _by_columns(block: Block, make: Callable[[Graph, np.ndarray, Block], Arrays]) -> Arrays:
    """A tile, some of its columns at once; in files if those are not all."""
    width, step = block.inputs["start"].grid[0][block.start].shape[1], block.facts["columns_at_once"]
    if step >= width:
        return make(block.graph, _columns(block, 0, width), block)
    out: Arrays = {}
    with tempfile.TemporaryDirectory(prefix="naq-") as folder:
        for first in range(0, width, step):
            made = make(block.graph, _columns(block, first, min(first + step, width)), block)
            for name, part in made.items():
                if name not in out:
                    out[name] = new_mapped(Path(folder, f"{name}.npy"), (len(part), width))
                out[name][:, first : first + step] = part
    return out


def _smooth_columns(graph: Graph, held: np.ndarray, block: Block) -> Arrays:
    if (device := torch.device(block.facts["device"])).type != "cpu":
        adjacency = on_device(graph.normalized_adjacency(), device)
        return {"smooth": smooth(adjacency, torch.from_numpy(held).to(device), STEPS).cpu().numpy()}
    return {"smooth": smooth_tile(graph, (held, line_aligned(held.shape), line_aligned(held.shape)), STEPS)}


def _walk_columns(graph: Graph, held: np.ndarray, block: Block) -> Arrays:
    """Means of neighbours, and of their neighbours without the node itself."""
    held *= block.inputs["length"].whole()[:, None]
    indptr, indices, degrees = graph.adjacency.indptr, graph.adjacency.indices, graph.degrees
    share = np.divide(1.0, degrees, out=np.zeros(len(degrees)), where=degrees > 0).astype(np.float32)
    back = np.zeros(len(held), dtype=np.float32)
    if (device := torch.device(block.facts["device"])).type != "cpu":
        _share_back(indptr, indices, share, back)
        walk, start = on_device(means(graph.adjacency), device), torch.from_numpy(held).to(device)
        one = walk @ start
        two = walk @ one - torch.from_numpy(back).to(device)[:, None] * start
        return {"near": one.cpu().numpy(), "far": two.cpu().numpy()}
    near, far = line_aligned(held.shape), line_aligned(held.shape)
    _mean_rows(indptr, indices, share, held, held, back, near)
    _share_back(indptr, indices, share, back)
    _mean_rows(indptr, indices, share, near, held, back, far)
    return {"near": near, "far": far}


@njit(cache=True, parallel=True)
def _mean_rows(indptr: Any, indices: Any, share: Any, rows: Any, start: Any, back: Any, out: Any) -> None:
    """out = P rows - back start."""
    width, flat, sums = out.shape[1], rows.reshape(-1), out.reshape(-1)
    for i in prange(len(out)):
        out[i] = 0
        add_rows(flat, width, indices, indptr[i], indptr[i + 1], sums, i * width)
        for k in range(width):
            out[i, k] = share[i] * out[i, k] - back[i] * start[i, k]


@njit(cache=True, parallel=True)
def _share_back(indptr: Any, indices: Any, share: Any, out: Any) -> None:
    """The diagonal of P^2."""
    for i in prange(len(out)):
        total = np.float32(0)
        for e in range(indptr[i], indptr[i + 1]):
            total += share[indices[e]]
        out[i] = share[i] * total


def _degrees(block: Block) -> Arrays:
    """Log of the number of neighbours, its mean over the neighbours, and log of the sum of weights, the same again."""
    logs, adjacency = block.array("logs"), block.graph.adjacency
    out = np.empty((block.stop - block.start, 3), dtype=np.float32)
    _mean_logs(adjacency.indptr[block.start : block.stop + 1], adjacency.indices, logs, out)
    out[:, 0] = out[:, 2] = logs[block.start : block.stop]
    return {"degrees": out}


@njit(cache=True, nogil=True)
def _mean_logs(indptr: Any, indices: Any, logs: Any, out: Any) -> None:
    for i in range(len(out)):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            total += logs[indices[e]]
        out[i, 1] = total / max(1, indptr[i + 1] - indptr[i])


class BlockViews:
    """What a sample of the nodes taught, and the rows of views that it makes of stored rows.

    Attributes:
        facts: JSON values: whether edges are ``trusted``, ``unlike``; ``scale`` of few columns.
        arrays: what was learned, by names with a ``/`` in them.
    """

    def __init__(self, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray], device: str = "cpu") -> None:
        self.facts, self.arrays, self.device = facts, arrays, torch.device(device)

    def rows(self, stored: Mapping[str, np.ndarray], wanted: Sequence[str]) -> dict[str, torch.Tensor]:
        """(m, d) of each of the ``wanted`` rows in :data:`VIEWS`."""
        there = {name: torch.from_numpy(np.ascontiguousarray(rows)).to(self.device) for name, rows in stored.items()}
        made: dict[str, torch.Tensor] = {}
        for name in wanted:
            made[name] = self._rows(name, there, made)
        return made

    def needs(self, wanted: Sequence[str]) -> list[str]:
        """Which stored rows the ``wanted`` ones are made of."""
        smooth = ["smooth"] if self.facts["trusted"] else ["smooth", "start"]
        made_of = {"naq-plus": smooth, "smooth": smooth, "features": ["start", "length"]}
        return list(dict.fromkeys(one for name in wanted for one in made_of.get(name, [name.split()[0]])))

    def _rows(self, name: str, there: Mapping[str, torch.Tensor], made: Mapping[str, torch.Tensor]) -> torch.Tensor:
        if name == "features":
            return there["start"] * there["length"][:, None]
        if name == "degrees":
            return self.few(name, there[name])
        if name in ("near", "far"):
            return self.centre(name, there[name])
        if name in ("near alone", "far alone"):
            return self.few(name, self.centre(name.split()[0], there[name.split()[0]]))
        smooth = made["smooth"] if "smooth" in made else self.centre("fitted", self.smoothed(there))
        return smooth if name == "smooth" else self.centre("vectors", self._closed_form(smooth))

    def smoothed(self, there: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Rows before the closed form: centred, with the start added if edges are not trusted."""
        rows = self.centre("smooth", there["smooth"])
        return rows if self.facts["trusted"] else self.centre("sum", rows + self.centre("start", there["start"]))

    def _closed_form(self, rows: torch.Tensor) -> torch.Tensor:
        if "removal/axes" in self.arrays:
            rows = self.centre("removal", rows @ self._there("removal/axes"))
        return unit(rows @ self._there("sharpening/axes")) if "sharpening/axes" in self.arrays else rows

    def centre(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        """Rows of length one less the mean of such rows, of length one again."""
        return cast(torch.Tensor, unit(unit(rows) - self._there(f"{name}/mean"), ROUNDING))

    def few(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        """Columns in their usual units, all together with a mean square of one."""
        middle, usual, mean = (self._there(f"{name}/{part}") for part in ("middle", "usual", "mean"))
        shown = torch.where(usual > 0, (rows.double() - middle) / usual, 0.0).clamp(-OUTLIER, OUTLIER)
        return ((shown - mean) * self.facts["scale"][name]).float()

    def _there(self, name: str) -> torch.Tensor:
        return torch.from_numpy(np.array(self.arrays[name])).to(self.device)


def learn_views(stored: Stored, sample: np.ndarray, graph: Graph, *, few: bool, seed: int, device: str) -> BlockViews:
    """From a sample of the nodes, ascending.

    Args:
        few: whether columns of features keep their lengths.
    """
    rows = {name: torch.from_numpy(array.take(sample)).to(device) for name, array in stored.items()}
    agreement = sample_agreement(stored["start"], thin_out(sample, AGREED), graph)
    facts: dict[str, Any] = {"trusted": agreement >= AGREES, "unlike": agreement < UNLIKE, "scale": {}}
    arrays: dict[str, np.ndarray] = {}
    found = BlockViews(facts, arrays, device)

    def learn_mean(name: str, rows: torch.Tensor) -> None:
        arrays[f"{name}/mean"] = unit(rows).double().mean(dim=0).to(rows).cpu().numpy()

    def learn_few(names: Sequence[str], parts: Sequence[torch.Tensor]) -> None:
        shown = []
        for name, part in zip(names, parts):
            columns = part.cpu().numpy()
            middle, usual = usual_units(columns)
            units = in_usual_units(columns, middle, usual)
            arrays.update({f"{name}/middle": middle, f"{name}/usual": usual, f"{name}/mean": units.mean(axis=0)})
            shown.append(units)
        size = balance(np.concatenate(shown, axis=1), few=True)[1]
        facts["scale"].update(dict.fromkeys(names, 1 / size if size > ROUNDING else 0.0))

    for name in ("start", "smooth", "near", "far"):
        learn_mean(name, rows[name])
    if not facts["trusted"]:
        learn_mean("sum", found.centre("smooth", rows["smooth"]) + found.centre("start", rows["start"]))
    form = ClosedForm(seed=seed, device=device, sample=PAIRED)
    vectors = torch.from_numpy(form.fit_transform(found.smoothed(rows))).to(device)
    assert form.center is not None
    maps = dict(zip(("removal/axes", "removal/mean", "sharpening/axes"), form.maps))
    arrays |= {"fitted/mean": form.center, **{name: array for name, array in maps.items() if array is not None}}
    learn_mean("vectors", vectors)
    learn_few(["degrees"], [rows["degrees"]])
    if few:
        learn_few(["near alone", "far alone"], [found.centre(name, rows[name]) for name in ("near", "far")])
    return found


def sample_agreement(start: BlockArray, sample: np.ndarray, graph: Graph) -> float:
    """:func:`~naq.embedders.smoothing.edge_agreement` of the edges of some nodes."""
    indptr, indices = graph.adjacency.indptr, graph.adjacency.indices
    around = [indices[indptr[node] : indptr[node + 1]] for node in sample]
    degrees = np.array([len(one) for one in around])
    if not degrees.any():
        return 0.0
    nodes = np.unique(np.concatenate([sample, *around]))
    rows = unit(start.take(nodes))
    own = rows[np.searchsorted(nodes, sample)]
    mean = own.mean(axis=0, dtype=np.float64).astype(np.float32)
    rows, own = unit(rows - mean, ROUNDING), unit(own - mean, ROUNDING)
    end = (degrees[:, None] * own).sum(axis=0) / degrees.sum()
    place = np.searchsorted(nodes, np.concatenate(around))
    member = sp.csr_array((np.ones(len(place), np.float32), place, np.concatenate([[0], np.cumsum(degrees)])),
                          shape=(len(sample), len(nodes)))  # fmt: skip
    together = unit(member @ rows - (degrees[:, None] * end).astype(np.float32))
    return float((own * together).sum()) / int((degrees > 0).sum())


class ViewRows:
    """(n, d) rows of a view, read like an array by ``[nodes]`` or ``[start:stop]`` and made then."""

    def __init__(self, views: BlockViews, stored: Stored, names: Sequence[str]) -> None:
        self.views, self.stored, self.names = views, stored, names
        self.widths = [part.shape[1] for part in self._parts(np.zeros(1, dtype=np.int64))]
        self.shape = (stored["start"].shape[0], sum(self.widths))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, nodes: slice | np.ndarray) -> np.ndarray:
        nodes = np.arange(len(self))[nodes] if isinstance(nodes, slice) else nodes
        return np.concatenate([part.cpu().numpy() for part in self._parts(nodes)], axis=1)

    def _parts(self, nodes: np.ndarray) -> list[torch.Tensor]:
        stored = {name: self.stored[name].take(nodes) for name in self.views.needs(self.names)}
        made = self.views.rows(stored, self.names)
        return [made[name] for name in self.names]


def views_of(views: BlockViews, stored: Stored) -> list[View]:
    """All views, as the classifier makes them of a graph in memory with more than 200,000 nodes."""
    found = []
    for name, parts in VIEWS.items():
        if name == "around" and "near alone" in views.facts["scale"]:
            parts = ("near alone", "far alone")
        rows = ViewRows(views, stored, parts)
        found.append(View(name, cast(np.ndarray, rows), name != "degrees", name != "features"))
    around = found.pop(list(VIEWS).index("around"))
    return [*found, around, join(found)]


def weights_of_rows(pool: Pool) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """(d, classes) weights of each of the rows in :data:`VIEWS`, and (classes,) offsets: experts added up."""
    columns, offsets = pool.columns
    total: dict[str, np.ndarray] = {}
    for view, weights in columns:
        rows = cast(ViewRows, cast(object, view.rows))
        for name, part in zip(rows.names, np.split(weights, np.cumsum(rows.widths)[:-1])):
            total[name] = total[name] + part if name in total else part
    return total, offsets
