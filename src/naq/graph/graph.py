"""The graph type every other room works on."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from naq.errors import GraphError, OptionError
from naq.graph import checks, operators
from naq.progress import Listener
from naq.text import NodeTable, SentenceVectors, encode

if TYPE_CHECKING:
    from torch_geometric.data import Data

HASHED = 1 << 22
"""Entries that are converted and hashed at once."""


class Graph:
    """A graph with optional features, labels and names, its edges undirected and equal for most methods. Checked once, then immutable.

    Self-loops are dropped, duplicate edges merged and directed edges made undirected; ``changes`` counts each. Directions
    and weights are kept beside that where ``arcs`` gives them.

    Args:
        adjacency: scipy sparse matrix (n, n), or an edge list of shape (2, edges) together with ``nodes``.
        features: (n, d) sparse or dense, any numeric type; kept as float32. Dense input with under 10 % non-zeros is
            stored as CSR. Stored zeros are removed.
        labels: (n,) whole numbers, -1 for unknown.
        names: (n,) names of the nodes.
        class_names: names of the classes, at least ``labels.max() + 1``.
        vocab: (d,) names of the features.
        name: what to call the graph in tables and folders.
        nodes: number of nodes; needed with an edge list.
        source: the dataset name or path it was loaded from, which is where its tasks are looked for; no part of the content.
        blocks: the kinds of features in the order of columns, as (kind, number of columns) or (kind, number, title), with a kind
            of words, numbers, categories or vectors; without it all are of one kind, told by their form.
        arcs: sparse (n, n) weights above 0 of the same edges, from row to column; :func:`naq.graph.arcs_of` makes it.

    Attributes:
        stated_blocks: as given, or None.
        table: cells of the table that nodes came from, or None.
        text: sentence vectors of the nodes, or None.
        mapped: whether structure and features are memory-mapped files; methods then work in blocks and never copy them whole.

    Shapes:
        - ``adjacency``: CSR (n, n), float32 ones, indices sorted
        - ``features``: CSR or ndarray (n, d), float32, or None
        - ``labels``: (n,) int64 or None
        - ``arcs``: CSR (n, n), float32, or None if all edges go both ways and weigh 1

    Example:
        >>> g = Graph([[0, 1], [1, 2]], features=[[1, 0], [1, 1], [0, 1]], nodes=3)
        >>> g
        Graph('graph', nodes=3, edges=2, features=2, classes=0)
    """

    operator_class: str = "naq.nn.operator:GraphOperator"
    """What encoders read the graph through, as ``module:name``."""
    table: NodeTable | None = None
    text: SentenceVectors | None = None

    def __init__(
        self,
        adjacency: Any,
        features: Any = None,
        labels: Any = None,
        *,
        names: Sequence[str] | np.ndarray | None = None,
        class_names: Sequence[str] | np.ndarray | None = None,
        vocab: Sequence[str] | np.ndarray | None = None,
        name: str = "graph",
        nodes: int | None = None,
        source: str | None = None,
        blocks: Iterable[Any] | None = None,
        arcs: Any = None,
    ) -> None:
        self.adjacency, self.changes = checks.clean_adjacency(adjacency, nodes, warn=arcs is None)
        self.arcs = checks.clean_arcs(arcs, self.adjacency)
        self.features = checks.clean_features(features, self.adjacency.shape[0])
        self.source, self.mapped = source, False
        self._describe(labels, names, class_names, vocab, name, blocks)

    @classmethod
    def on_clean_arrays(
        cls, adjacency: sp.csr_array, features: sp.csr_array | np.ndarray | None = None,
        labels: np.ndarray | None = None, *, names: np.ndarray | None = None, class_names: np.ndarray | None = None,
        vocab: np.ndarray | None = None, name: str = "graph", operator_class: str | None = None,
        blocks: Iterable[Any] | None = None, arcs: sp.csr_array | None = None,
    ) -> Graph:  # fmt: skip
        """A graph on memory-mapped arrays, which are used as they are: large ones are neither checked nor copied.

        The caller answers for the adjacency (symmetric, no loops, columns ascending, float32 ones) and for the features
        (finite float32), and for ``arcs`` of the same edges; ``operator_class`` is what encoders read it through, as ``module:name``.
        """
        graph = object.__new__(cls)
        graph.adjacency, graph.changes = adjacency, dict.fromkeys(checks.CHANGES, 0)
        graph.features, graph.arcs, graph.source, graph.mapped = features, arcs, None, True
        graph.operator_class = operator_class or cls.operator_class
        graph._describe(labels, names, class_names, vocab, name, blocks)
        return graph

    def _describe(self, labels: Any, names: Any, class_names: Any, vocab: Any, name: str, blocks: Any) -> None:
        """What goes with structure and features; nothing changes from then on."""
        self.labels = checks.clean_labels(labels, self.num_nodes)
        self.names = checks.clean_names(names, self.num_nodes, "names")
        self.vocab = checks.clean_names(vocab, None if self.features is None else self.features.shape[1], "vocab")
        self.class_names = checks.clean_names(class_names, None, "class_names")
        checks.check_class_names(self.labels, self.class_names)
        self.stated_blocks = checks.clean_blocks(blocks, self.features)
        self.name = str(name)
        self._derived: dict[str, Any] = {}
        self._own: dict[str, Any] = {}
        self._frozen = True
        for array in self._arrays():
            array.setflags(write=False)

    def __setattr__(self, key: str, value: Any) -> None:
        if getattr(self, "_frozen", False):
            raise AttributeError(f"Graph is immutable; make a new one instead of setting {key!r}.")
        super().__setattr__(key, value)

    def _arrays(self) -> list[np.ndarray]:
        arrays = [self.adjacency.data, self.adjacency.indices, self.adjacency.indptr]
        if isinstance(self.features, np.ndarray):
            arrays.append(self.features)
        elif self.features is not None:
            arrays += [self.features.data, self.features.indices, self.features.indptr]
        if self.arcs is not None:
            arrays += [self.arcs.data, self.arcs.indices, self.arcs.indptr]
        if self.text is not None:
            arrays.append(self.text.vectors)
        if self.table is not None:
            arrays += [self.table.content, self.table.ends]
        return arrays + [a for a in (self.labels, self.names, self.class_names, self.vocab) if a is not None]

    def check_files(self) -> None:
        """Raise ``DataError`` where a memory-mapped array has lost a part of its file since it was opened.

        Bytes past the end of a file end the process (SIGBUS) or read as zeros, so this is called before and after long work on a mapped graph.
        """
        for array in self._arrays() if self.mapped else ():
            checks.check_file(array)

    def __repr__(self) -> str:
        size = f"nodes={self.num_nodes:,}, edges={self.num_edges:,}, features={self.num_features:,}"
        return f"Graph({self.name!r}, {size}, classes={self.num_classes})"

    @property
    def num_nodes(self) -> int:
        return int(self.adjacency.shape[0])

    @property
    def num_edges(self) -> int:
        """Undirected edges, each counted once."""
        return int(self.adjacency.nnz // 2)

    @property
    def num_features(self) -> int:
        return 0 if self.features is None else int(self.features.shape[1])

    @property
    def num_classes(self) -> int:
        """Number of distinct known labels."""
        return 0 if self.labels is None else len(np.unique(self.labels[self.labels >= 0]))

    @property
    def sparse_features(self) -> bool:
        return self.features is not None and not isinstance(self.features, np.ndarray)

    @property
    def blocks(self) -> tuple[checks.FeatureBlock, ...]:
        """The kinds of features in the order of columns, as stated or else all of one kind; none without features.

        Behind them are sentence vectors that count as features.
        """
        own = self.stated_blocks or self._cached("blocks", lambda: checks.usual_blocks(self.features))
        if self.text is None or not self.reads_text:
            return own
        start, title = self.num_features, f"text by {self.text.model}"
        return (*own, checks.FeatureBlock("vectors", start, start + self.text.vectors.shape[1], title))

    def block_features(self) -> list[tuple[checks.FeatureBlock, sp.csr_array | np.ndarray]]:
        """Each block with its columns; numbers and vectors that are stated are dense, also where the features are sparse."""
        rows, blocks = [], self.blocks
        if self.text is not None and self.reads_text:
            rows, blocks = [(blocks[-1], self.text.rows())], blocks[:-1]
        if self.features is None:
            return rows
        if self.stated_blocks is None:
            return [(blocks[0], self.features), *rows]
        parts = [(block, self.features[:, block.start : block.stop]) for block in blocks]
        return [(b, checks.as_dense(part) if b.kind in ("numbers", "vectors") else part) for b, part in parts] + rows

    @property
    def reads_text(self) -> bool:
        """Whether sentence vectors are a block of features."""
        return self.text is not None and self.text.in_features

    @property
    def directed(self) -> bool:
        """Whether some edge goes, or weighs something, one way and not the other."""
        arcs = self.arcs
        return arcs is not None and self._cached("directed", lambda: not checks.is_symmetric(arcs))

    @property
    def weighted_adjacency(self) -> sp.csr_array:
        """The symmetric matrix of weights, of both directions together; the adjacency where there are no ``arcs``."""
        arcs = self.arcs
        return self.adjacency if arcs is None else self._cached("weighted", lambda: checks.both_ways(arcs))

    def require_features(self, purpose: str) -> sp.csr_array | np.ndarray:
        """The features, or a ``GraphError`` that says what to do without them."""
        if self.features is None:
            raise GraphError(
                f"graph {self.name!r} has no features, which {purpose} needs; give features (e.g. one-hot or random "
                "vectors), or use what works on structure alone, such as diffusion neighbours."
            )
        return self.features

    def require_labels(self, purpose: str) -> np.ndarray:
        """The labels, or a ``GraphError`` that says what to do without them."""
        if self.labels is None or not (self.labels >= 0).any():
            raise GraphError(f"graph {self.name!r} has no labels, which {purpose} needs; give labels.")
        return self.labels

    def kept(self, key: str, make: Callable[[], Any]) -> Any:
        """Something derived from this graph with its labels, made once."""
        if key not in self._own:
            self._own[key] = make()
        return self._own[key]

    def _cached(self, key: str, make: Callable[[], Any]) -> Any:
        """Something derived from structure and features alone, made once and shared with the graph under other labels."""
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    @property
    def degrees(self) -> np.ndarray:
        return self._cached("degrees", lambda: operators.degrees(self.adjacency))

    @property
    def components(self) -> np.ndarray:
        """Connected component of each node."""
        return self._cached("components", lambda: operators.components(self.adjacency))

    def normalized_adjacency(self, *, self_loops: bool = True) -> sp.csr_array:
        """A_hat, float32 CSR; made once and kept."""
        key = f"normalized/{self_loops}"
        return self._cached(key, lambda: operators.normalized_adjacency(self.adjacency, self_loops=self_loops))

    def propagated_features(self) -> sp.csr_array | np.ndarray:
        """A_hat X, constant in training; made once and kept. Sparse while X is."""
        features = self.require_features("A_hat X")

        def make() -> sp.csr_array | np.ndarray:
            product = self.normalized_adjacency() @ features
            if isinstance(product, np.ndarray):
                return np.ascontiguousarray(product, dtype=np.float32)
            product = sp.csr_array(product, dtype=np.float32)
            product.sort_indices()
            return product

        return self._cached("propagated", make)

    def propagated_size(self) -> int:
        """Upper bound on the non-zeros of A_hat X, before anything is computed."""
        if self.features is None or isinstance(self.features, np.ndarray):
            return self.num_nodes * self.num_features
        per_row = np.diff(self.features.indptr).astype(np.float64)
        bound = float(((self.degrees + 1) * per_row).sum())
        return int(min(bound, self.num_nodes * self.num_features))

    @property
    def hash(self) -> str:
        """A hash of structure, features and labels; names do not count. The same however the graph was stored."""
        return self.kept("hash", self._content_hash)

    @property
    def structure_hash(self) -> str:
        """A hash of nodes and edges alone."""
        return self._cached("structure_hash", lambda: self._structure_digest().hexdigest())

    def _structure_digest(self) -> hashlib.blake2b:
        digest = hashlib.blake2b(digest_size=16)
        _add(digest, "indptr", self.adjacency.indptr, "<i8")
        _add(digest, "indices", self.adjacency.indices, "<i8")
        return digest

    def _content_hash(self) -> str:
        digest = self._structure_digest()
        if self.features is not None:
            digest.update(f"features:{self.num_features}".encode())
            for start in range(0, self.num_nodes, 65_536):
                block = sp.csr_array(self.features[start : start + 65_536])
                _add(digest, "counts", np.diff(block.indptr), "<i8")
                _add(digest, "columns", block.indices, "<i8")
                _add(digest, "values", block.data, "<f4")
        if self.labels is not None:
            _add(digest, "labels", self.labels, "<i8")
        if self.stated_blocks is not None:
            digest.update(f"blocks:{[(block.kind, block.stop) for block in self.stated_blocks]}".encode())
        if self.arcs is not None:
            _add(digest, "arcs_indptr", self.arcs.indptr, "<i8")
            _add(digest, "arcs_indices", self.arcs.indices, "<i8")
            _add(digest, "arcs", self.arcs.data, "<f4")
        if self.text is not None and self.reads_text:
            _add(digest, "text", self.text.vectors, self.text.vectors.dtype.newbyteorder("<").str)
        return digest.hexdigest()

    def without_labels(self) -> Graph:
        """The same graph with no labels and no class names: what a label-free learner is handed."""
        if self.labels is None and self.class_names is None:
            return self
        return self._with(labels=None, class_names=None, _own={})

    def with_features(self, features: Any, blocks: Iterable[Any] | None = None) -> Graph:
        """The same structure, labels and names with other features of the same nodes; equally many have the same blocks unless given."""
        same = features is not None and features.shape[1] == self.num_features
        vocab, blocks = self.vocab if same else None, self.stated_blocks if blocks is None and same else blocks
        if self.mapped:
            clean = checks.clean_features(features, self.num_nodes)
            width = None if clean is None else clean.shape[1]
            if clean is not None:
                for array in (clean,) if isinstance(clean, np.ndarray) else (clean.data, clean.indices):
                    array.setflags(write=False)
            vocab, changes = checks.clean_names(vocab, width, "vocab"), dict.fromkeys(checks.CHANGES, 0)
            stated = checks.clean_blocks(blocks, clean)
            return self._with(features=clean, vocab=vocab, stated_blocks=stated, changes=changes, _derived={}, _own={})
        kept: dict[str, Any] = {key: getattr(self, key) for key in ("names", "class_names", "name", "source")}
        graph = Graph(self.adjacency, features, self.labels, vocab=vocab, blocks=blocks, arcs=self.arcs, **kept)
        return graph.with_text(self.text).with_table(self.table)

    def with_labels(self, labels: Any, class_names: Any = None) -> Graph:
        """The same structure and features with other labels; tasks of its source are not for these."""
        clean = checks.clean_labels(labels, self.num_nodes)
        titles = checks.clean_names(class_names, None, "class_names")
        checks.check_class_names(clean, titles)
        for array in (clean, titles):
            if array is not None:
                array.setflags(write=False)
        return self._with(labels=clean, class_names=titles, source=None, _own={})

    def with_table(self, table: NodeTable | None) -> Graph:
        """The same graph with the cells of its nodes to look at."""
        return (
            self if table is self.table else self._with(table=None if table is None else table.checked(self.num_nodes))
        )

    def with_text(self, text: SentenceVectors | None) -> Graph:
        """The same graph with these sentence vectors; ``in_features`` of them decides whether they are a block of features."""
        if text is self.text:
            return self
        if text is not None and len(text.vectors) != self.num_nodes:
            raise GraphError(
                f"there are {len(text.vectors):,} sentence vectors for {self.num_nodes:,} nodes; give one each."
            )
        return self._with(text=text, _derived={}, _own={})

    def with_text_encoder(self, model: str | Path, listener: Listener | None = None) -> Graph:
        """The same graph whose text is also seen as sentence vectors of this model (:func:`naq.text.encode`)."""
        if self.text is not None and self.reads_text and self.text.axes is None and self.text.model == str(model):
            return self
        texts = [] if self.table is None else [self.text_of(node) for node in range(self.num_nodes)]
        if not any(texts):
            raise GraphError(
                f"graph {self.name!r} keeps no text to encode by {model}; import it again with a column of text."
            )
        return self.with_text(SentenceVectors(encode(texts, model, listener).astype(np.float16), str(model)))

    def title_of(self, node: int) -> str:
        """The name to show for a node: of its table, else as edges name it, else its number."""
        found = [] if self.table is None else self.table.used(node, "name", "both")
        return found[0] if found else str(node if self.names is None else self.names[node])

    def text_of(self, node: int) -> str:
        """What there is to read of a node, its name where that is all; "" where nothing is known."""
        if self.table is None:
            return ""
        return ". ".join(self.table.used(node, "text", "both") or self.table.used(node, "name"))

    def with_source(self, source: str) -> Graph:
        """The same graph, known to be loaded from ``source``."""
        return self._with(source=source)

    def _with(self, **changed: Any) -> Graph:
        """A copy that shares all arrays; what is derived from structure and features alone stays shared too."""
        other = object.__new__(Graph)
        vars(other).update(vars(self) | changed)
        return other

    def known_nodes(self, nodes: Any) -> np.ndarray:
        """The nodes as int64; an ``OptionError`` where the graph does not have them."""
        ids = np.asarray(nodes, dtype=np.int64)
        if ids.size and (ids.min() < 0 or ids.max() >= self.num_nodes):
            raise OptionError(
                f"nodes hold {ids.min()} to {ids.max()}, but the graph has nodes 0..{self.num_nodes - 1}."
            )
        return ids

    def homophily(self) -> float:
        """Share of edges between two labelled nodes that join equal labels; NaN where there is no such edge."""
        labels = self.require_labels("homophily")
        rows = np.repeat(np.arange(self.num_nodes), np.diff(self.adjacency.indptr))
        a, b = labels[rows], labels[self.adjacency.indices]
        known = (a >= 0) & (b >= 0)
        return float((a[known] == b[known]).mean()) if known.any() else float("nan")

    @classmethod
    def from_pyg(cls, data: Data, *, name: str = "graph") -> Graph:
        """From a PyG ``Data`` with ``edge_index`` and, if present, ``x``, ``y``, and weights as ``edge_weight`` or one column ``edge_attr``.

        An ``edge_index`` that is not symmetric is directed.
        """
        edges = getattr(data, "edge_index", None)
        if edges is None:
            raise GraphError("data has no edge_index; expected a torch_geometric.data.Data with one (2, edges).")
        x, y = getattr(data, "x", None), getattr(data, "y", None)
        if x is not None:
            x = _sparse_from_torch(x) if str(x.layout) != "torch.strided" else x.detach().cpu().numpy()
        if y is not None:
            y = y.detach().cpu().numpy()
            y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        nodes = data.num_nodes
        ends = edges.detach().cpu().numpy()
        bare = cls(ends, x, y, nodes=int(nodes) if nodes is not None else None, name=name)
        return bare.with_arcs(checks.arcs_of(ends, _pyg_weights(data), bare.num_nodes, directed=True))

    def with_arcs(self, arcs: Any) -> Graph:
        """The same graph whose edges have these directions and weights; see ``arcs``."""
        clean = checks.clean_arcs(arcs, self.adjacency)
        for array in () if clean is None else (clean.data, clean.indices, clean.indptr):
            array.setflags(write=False)
        return self._with(arcs=clean, _derived={}, _own={})

    def to_pyg(self) -> Data:
        """A PyG ``Data``: both directions of every edge, or ``arcs`` with their weights; features dense or as a sparse tensor, labels if known."""
        import torch
        from torch_geometric.data import Data

        arcs = self.adjacency if self.arcs is None else self.arcs
        rows = np.repeat(np.arange(self.num_nodes), np.diff(arcs.indptr))
        edges = torch.from_numpy(np.stack([rows, arcs.indices.astype(np.int64)]))
        data = Data(edge_index=edges, num_nodes=self.num_nodes)
        if (arcs.data != 1).any():
            data.edge_weight = torch.from_numpy(arcs.data.copy())
        if self.sparse_features:
            assert self.features is not None
            coo = sp.coo_array(self.features)
            where = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64))
            x = torch.from_numpy(coo.data.copy())
            data.x = torch.sparse_coo_tensor(where, x, coo.shape, is_coalesced=True, check_invariants=False)
        elif self.features is not None:
            data.x = torch.from_numpy(np.array(self.features))
        if self.labels is not None:
            data.y = torch.from_numpy(self.labels.copy())
        return data


def _add(digest: hashlib.blake2b, title: str, array: np.ndarray, kind: str) -> None:
    digest.update(f"{title}:{array.shape}".encode())
    for start in range(0, len(array), HASHED):
        digest.update(np.ascontiguousarray(array[start : start + HASHED], dtype=kind).data)


def _pyg_weights(data: Data) -> np.ndarray | None:
    """What its edges weigh; attributes that are no weights are left out with a warning."""
    weight, attributes = getattr(data, "edge_weight", None), getattr(data, "edge_attr", None)
    if weight is not None:
        return weight.detach().cpu().numpy().reshape(-1)
    if attributes is None:
        return None
    one = attributes.detach().cpu().numpy()
    if one.size == len(one) and (one > 0).all():
        return one.reshape(-1)
    warnings.warn("edge_attr is not one positive number for each edge, so edges have no weights.", stacklevel=4)
    return None


def _sparse_from_torch(x: Any) -> sp.csr_array:
    coo = x.detach().cpu().to_sparse_coo().coalesce()
    row, col = coo.indices().numpy()
    return sp.csr_array((coo.values().numpy(), (row, col)), shape=tuple(coo.shape))
