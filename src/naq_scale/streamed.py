r"""A graph read from its own arrays, which may be memory-mapped: neither A_hat nor A_hat X is formed.

A row of A_hat is made of degrees when it is read, :math:`\hat A_{ij} = 1 / \sqrt{(d_i + 1)(d_j + 1)}`, and first-layer
inputs are the products of such rows with the feature rows they name: a training step reads the receptive field of its
nodes.

With a ``cap`` a row of more neighbours than that is replaced by a random one: c of the d_i neighbours are drawn without
replacement and count d_i / c times as much, so that their sum has the right mean in every layer; the node itself counts
once. Which neighbours are drawn is decided by a hash of (seed, index, node, place).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from numba import njit, prange

from naq.episodes import Episodes
from naq.graph import Graph
from naq.learners.base import encode_episodes
from naq.learners.protonet import ProtoNet, prototype_loss
from naq.nn import Operator
from naq.nn.operator import BLOCK, CROWDED, GraphOperator
from naq.nn.rows import SparseRows, renumber, sparse_product, take_rows
from naq.options import Value, option
from naq.random import mixed, word
from naq_scale.tiles import columns_that_fit, inverse_root_degrees, mapped_rows, multiply_tile, new_mapped

ENTRIES_AT_ONCE = 1 << 22
"""Entries of A_hat that are made at once, about."""


class StreamedOperator(GraphOperator):
    """Rows of A_hat and of A_hat X, made when they are read.

    Args:
        graph: with features.
        cap: neighbours of a node that are read at most; 0 for all.
    """

    def __init__(
        self, graph: Graph, device: str | torch.device = "cpu", *, cap: int = 0, seed: int = 0, index: int = 0
    ) -> None:
        graph.require_features("an encoder")
        self.graph, self.device, self.formed = graph, torch.device(device), False
        self.cap = cap
        self._key = word(seed, "hub-cap", index)
        self._scale = inverse_root_degrees(graph)
        self._place = np.full(graph.num_nodes, -1, dtype=np.int32)

    def dense_inputs(self) -> None:
        """Nothing is formed."""

    device_adjacency = dense_inputs

    def prefers_all(self, count: int) -> bool:
        """Never: rows are made when they are read."""
        return False

    def propagate_all(
        self, make: Callable[[np.ndarray], torch.Tensor], width: int,
        finish: Callable[[torch.Tensor, slice], torch.Tensor],
    ) -> torch.Tensor:  # fmt: skip
        """As :meth:`GraphOperator.propagate_all`, with Z in tiles and the result in a file without a name."""
        n = self.graph.num_nodes

        def write(file: Path, folder: Path) -> None:
            out, tile = new_mapped(file, (n, width)), columns_that_fit(n, width)
            tiles = [slice(first, min(width, first + tile)) for first in range(0, width, tile)]
            inner = [new_mapped(folder / f"inner-{c.start}.npy", (n, c.stop - c.start)) for c in tiles]
            for nodes in np.split(np.arange(n), range(BLOCK, n, BLOCK)):
                rows = make(nodes).cpu().numpy()
                for columns, array in zip(tiles, inner):
                    array[nodes[0] : nodes[0] + len(rows)] = rows[:, columns]
            for columns, array in zip(tiles, inner):
                values = torch.from_numpy(multiply_tile(self.graph, np.array(array)))
                out[:, columns] = finish(values.to(self.device), columns).cpu().numpy()
            out.flush()

        return torch.from_numpy(mapped_rows(None, write, mode="c"))

    def capped(self, cap: int, seed: int, index: int) -> StreamedOperator:
        """The same graph with other draws; buffers are shared."""
        other = object.__new__(StreamedOperator)
        vars(other).update(vars(self) | {"cap": cap, "_key": word(seed, "hub-cap", index)})
        return other

    @property
    def adjacency(self) -> sp.csr_array:  # type: ignore[override]
        """A_hat whole, for what cannot do without."""
        return self.graph.normalized_adjacency()

    def _rows(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        adjacency = self.graph.adjacency
        return _normalized_rows(adjacency.indptr, adjacency.indices, self._scale, nodes, self.cap, self._key)

    def field(self, nodes: np.ndarray) -> tuple[SparseRows, np.ndarray]:
        """Rows of A_hat for ``nodes``, columns renumbered, and the nodes those columns are."""
        indptr, indices, data = self._rows(np.asarray(nodes, dtype=np.int64))
        local, around = renumber(indices, self._place)
        return SparseRows(indptr, local, data, (len(nodes), len(around))), around

    def first_layer(self, around: np.ndarray, weight: torch.Tensor) -> torch.Tensor:
        """(A_hat X)[around] @ weight, differentiable in ``weight``."""
        parts = [
            rows.to(self.device) @ weight if isinstance(rows, torch.Tensor) else sparse_product(rows, weight)
            for rows in self._inputs_of(around)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _inputs_of(self, nodes: np.ndarray) -> Iterator[torch.Tensor | SparseRows]:
        """Rows of A_hat X, sparse where they are, a piece of about ``ENTRIES_AT_ONCE`` entries of A_hat at a time."""
        features, nodes = self.graph.require_features("an encoder"), np.asarray(nodes, dtype=np.int64)
        counts = self.graph.degrees[nodes] + 1
        number = np.cumsum(np.minimum(counts, self.cap + 1) if self.cap else counts) // ENTRIES_AT_ONCE
        for part in np.split(nodes, np.flatnonzero(np.diff(number)) + 1):
            if isinstance(features, np.ndarray):
                out = np.empty((len(part), features.shape[1]), dtype=np.float32)
                _dense_product(*self._rows(part), features, out)
                yield torch.from_numpy(out)
                continue
            rows, around = self.field(part)
            product = _csr(rows) @ _csr(take_rows(features, around))
            if product.nnz > CROWDED * product.shape[0] * product.shape[1]:
                yield torch.from_numpy(product.toarray())
                continue
            product.sort_indices()
            indices = product.indices.astype(np.int32, copy=False)
            yield SparseRows(product.indptr.astype(np.int64, copy=False), indices, product.data, product.shape)

    def inputs(self, nodes: np.ndarray, weight: torch.Tensor) -> torch.Tensor:
        """X[nodes] @ weight, differentiable in ``weight``."""
        features = self.graph.require_features("an encoder")
        if isinstance(features, np.ndarray):
            return torch.from_numpy(np.array(features[nodes])).to(self.device) @ weight
        return sparse_product(take_rows(features, nodes), weight)

    def dense_rows(self, nodes: np.ndarray) -> torch.Tensor:
        """(A_hat X)[nodes] as a dense matrix; for few nodes."""
        parts = [
            rows if isinstance(rows, torch.Tensor) else torch.from_numpy(_csr(rows).toarray())
            for rows in self._inputs_of(nodes)
        ]
        return torch.cat(parts).to(self.device)


def _csr(rows: SparseRows) -> sp.csr_array:
    return sp.csr_array((rows.data, rows.indices, rows.indptr), shape=rows.shape)


@njit(cache=True)
def _normalized_rows(indptr: Any, indices: Any, scale: Any, rows: Any, cap: Any, key: Any) -> Any:
    """CSR rows of A_hat, the node itself last, with at most ``cap`` drawn neighbours (Knuth, algorithm S)."""
    out = np.zeros(len(rows) + 1, dtype=np.int64)
    for r in range(len(rows)):
        degree = indptr[rows[r] + 1] - indptr[rows[r]]
        out[r + 1] = out[r] + 1 + (min(degree, cap) if cap > 0 else degree)
    columns = np.empty(out[-1], dtype=np.int32)
    values = np.empty(out[-1], dtype=np.float32)
    for r in range(len(rows)):
        i, place = rows[r], out[r]
        first, degree = np.int64(indptr[i]), np.int64(indptr[i + 1] - indptr[i])
        left = out[r + 1] - 1 - place
        factor = scale[i] * (degree / left if left > 0 else 1.0)
        own = mixed(key ^ (np.uint64(i) * np.uint64(0x9E3779B97F4A7C15)))
        for t in range(degree):
            if left < degree - t:
                bits = mixed(own + np.uint64(t + 1)) >> np.uint64(11)
                if np.float64(bits) * (1.0 / 9007199254740992.0) * (degree - t) >= left:
                    continue
            j = indices[first + t]
            columns[place], values[place] = j, np.float32(factor * scale[j])
            place += 1
            left -= 1
        columns[place], values[place] = i, np.float32(scale[i] * scale[i])
    return out, columns, values


@njit(cache=True, parallel=True)
def _dense_product(indptr: Any, indices: Any, data: Any, features: Any, out: Any) -> None:
    for r in prange(len(out)):
        row = out[r]
        row[:] = 0.0
        for e in range(indptr[r], indptr[r + 1]):
            value, source = data[e], features[indices[e]]
            for k in range(len(row)):
                row[k] += value * source[k]


class CappedProtoNet(ProtoNet):
    """ProtoNet for graphs with hubs: a training step reads at most ``hub_cap`` neighbours of a node, drawn anew in
    every step; tasks are always solved with all neighbours.

    Cost: at most ``hub_cap`` neighbours per node of an episode, and as many of each of these.

    Example:
        >>> import naq
        >>> r = naq.run("debian", method="naq-diff/protonet-capped", options={"hub_cap": 16})  # doctest: +SKIP
    """

    name = "protonet-capped"
    summary = "distance to class means, hubs read by a sample of their neighbours"
    own_encoder = "a module that reads the whole graph reads all neighbours of a hub; take protonet."
    deterministic_options: ClassVar[Mapping[str, Value]] = {"hub_cap": 1 << 30}
    """Options under which nothing drawn belongs to a node, so that renumbering nodes changes nothing."""

    @dataclass(frozen=True)
    class Options(ProtoNet.Options):
        hub_cap: int = option(32, at_least=1)  # neighbours of a node that a training step reads at most

    options: Options

    def build(self) -> None:
        super().build()
        own = self.operator
        self._streamed = own if isinstance(own, StreamedOperator) else StreamedOperator(self.graph, self.device)

    def loss(self, episodes: Episodes, update: int = 0) -> torch.Tensor:
        capped = self._streamed.capped(self.options.hub_cap, self.seed, update)

        def encode(nodes: np.ndarray, view: Operator) -> torch.Tensor:
            return self.encoder.encode(nodes, capped if view is self.operator else view)

        support, *queries = encode_episodes(self, episodes, update, encode)
        return prototype_loss(support.mean(dim=2), *queries)
