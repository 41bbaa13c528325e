"""The graph type every other room works on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from naq.errors import GraphError, Listener, OptionError
from naq.graph import checks, operators
from naq.options import imported

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData

    from naq.text import NodeTable, SentenceVectors

HASHED = 1 << 22
"""Entries that are converted and hashed at once."""


class Graph:
    """A graph with optional features, labels and names; checked once, then immutable.

    Self-loops are dropped, duplicate edges merged, directions removed; ``changes`` counts each. ``arcs`` keeps
    directions and weights.

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
        source: the dataset name or path it was loaded from, where its tasks are looked for; no part of the content.
        blocks: the kinds of features in the order of columns, as (kind, columns) or (kind, columns, title): words,
            numbers, categories or vectors. By default all are of one kind, by their form.
        arcs: sparse (n, n) weights above 0 of the same edges, from row to column; :func:`naq.graph.arcs_of` makes it.
        relations: edges by type: for each name a sparse (n, n) matrix like ``arcs``, of some of the edges; an edge may
            be of several types, or of none.

    Attributes:
        stated_blocks: as given, or None.
        table: cells of the table that nodes came from, or None.
        text: sentence vectors of the nodes, or None.
        recipe: how columns of a table became features, as JSON, or None; new rows are read by it.
        mapped: whether structure and features are memory-mapped files, which methods read in blocks.

    Shapes:
        - ``adjacency``: CSR (n, n), float32 ones, indices sorted
        - ``features``: CSR or ndarray (n, d), float32, or None
        - ``labels``: (n,) int64 or None
        - ``arcs``: CSR (n, n), float32, or None if all edges go both ways and weigh 1
        - ``relations``: name to CSR (n, n), float32; empty if edges have no types

    Example:
        >>> g = Graph([[0, 1], [1, 2]], features=[[1, 0], [1, 1], [0, 1]], nodes=3)
        >>> g
        Graph('graph', nodes=3, edges=2, features=2, classes=0)
    """

    operator_class: str = "naq.nn.operator:GraphOperator"
    """What encoders read the graph through, as ``module:name``."""
    table: NodeTable | None = None
    text: SentenceVectors | None = None
    recipe: dict[str, Any] | None = None

    def __init__(
        self, adjacency: Any, features: Any = None, labels: Any = None, *,
        names: Sequence[str] | np.ndarray | None = None, class_names: Sequence[str] | np.ndarray | None = None,
        vocab: Sequence[str] | np.ndarray | None = None, name: str = "graph", nodes: int | None = None,
        source: str | None = None, blocks: Iterable[Any] | None = None, arcs: Any = None,
        relations: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.adjacency, self.changes = checks.clean_adjacency(adjacency, nodes, warn=arcs is None)
        self.arcs = checks.clean_arcs(arcs, self.adjacency)
        typed = checks.clean_relations(relations, self.adjacency) if relations else {}
        self.relations: Mapping[str, sp.csr_array] = typed
        self.features = checks.clean_features(features, self.adjacency.shape[0])
        self.source, self.mapped = source, False
        self._describe(labels, names, class_names, vocab, name, blocks)

    @classmethod
    def on_clean_arrays(
        cls, adjacency: sp.csr_array, features: sp.csr_array | np.ndarray | None = None,
        labels: np.ndarray | None = None, *, names: np.ndarray | None = None, class_names: np.ndarray | None = None,
        vocab: np.ndarray | None = None, name: str = "graph", operator_class: str | None = None,
        blocks: Iterable[Any] | None = None, arcs: sp.csr_array | None = None,
        relations: Mapping[str, sp.csr_array] | None = None,
    ) -> Graph:  # fmt: skip
        """A graph on memory-mapped arrays, which are used as they are: large ones are neither checked nor copied.

        The caller answers for the adjacency (symmetric, no loops, columns ascending, float32 ones), for the features
        (finite float32), for ``arcs`` of the same edges and for ``relations``; encoders read it by ``operator_class``,
        ``module:name``.
        """
        graph = object.__new__(cls)
        graph.adjacency, graph.changes = adjacency, dict.fromkeys(checks.CHANGES, 0)
        graph.features, graph.arcs, graph.source, graph.mapped = features, arcs, None, True
        graph.relations = relations or {}
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
        for matrix in (*([] if self.arcs is None else [self.arcs]), *self.relations.values()):
            arrays += [matrix.data, matrix.indices, matrix.indptr]
        if self.text is not None:
            arrays.append(self.text.vectors)
        if self.table is not None:
            arrays += [self.table.content, self.table.ends]
        return arrays + [a for a in (self.labels, self.names, self.class_names, self.vocab) if a is not None]

    def check_files(self) -> None:
        """Raise ``DataError`` where a memory-mapped array has lost a part of its file since it was opened.

        Bytes past the end of a file end the process or read as zeros: called around long work on a mapped graph.
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
        own = self.stated_blocks or self.derived("blocks", lambda: operators.usual_blocks(self.features))
        if self.text is None or not self.reads_text:
            return own
        start, title = self.num_features, f"text by {self.text.model}"
        return (*own, checks.FeatureBlock("vectors", start, start + self.text.vectors.shape[1], title))

    def block_features(self) -> list[tuple[checks.FeatureBlock, sp.csr_array | np.ndarray]]:
        """Each block with its columns; stated numbers and vectors are dense, even if the features are sparse."""
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
        return arcs is not None and self.derived("directed", lambda: not checks.is_symmetric(arcs))

    @property
    def weighted_adjacency(self) -> sp.csr_array:
        """The symmetric matrix of weights, of both directions together; the adjacency without ``arcs``."""
        arcs = self.arcs
        return self.adjacency if arcs is None else self.derived("weighted", lambda: checks.both_ways(arcs))

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

    def derived(self, key: str, make: Callable[[], Any]) -> Any:
        """Something derived from structure and features, made once and shared with the graph under other labels."""
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    @property
    def degrees(self) -> np.ndarray:
        return self.derived("degrees", lambda: operators.degrees(self.adjacency))

    @property
    def components(self) -> np.ndarray:
        """Connected component of each node."""
        return self.derived("components", lambda: operators.components(self.adjacency))

    def normalized_adjacency(self, *, self_loops: bool = True) -> sp.csr_array:
        """A_hat, float32 CSR; made once and kept."""
        key = f"normalized/{self_loops}"
        return self.derived(key, lambda: operators.normalized_adjacency(self.adjacency, self_loops=self_loops))

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

        return self.derived("propagated", make)

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
        return self.derived("structure_hash", lambda: self._structure_digest().hexdigest())

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
        for matrix in self.relations.values():
            for part, kind in (("indptr", "<i8"), ("indices", "<i8"), ("data", "<f4")):
                _add(digest, f"relation_{part}", getattr(matrix, part), kind)
        if self.text is not None and self.reads_text:
            _add(digest, "text", self.text.vectors, self.text.vectors.dtype.newbyteorder("<").str)
        return digest.hexdigest()

    def without_labels(self) -> Graph:
        """The same graph with no labels and no class names: what a label-free learner is handed."""
        if self.labels is None and self.class_names is None:
            return self
        return self._with(labels=None, class_names=None, _own={})

    def with_features(self, features: Any, blocks: Iterable[Any] | None = None) -> Graph:
        """The same graph with other features of the nodes; equally many columns keep their blocks unless given."""
        clean = checks.clean_features(features, self.num_nodes)
        same = clean is not None and clean.shape[1] == self.num_features
        stated = checks.clean_blocks(self.stated_blocks if blocks is None and same else blocks, clean)
        changes, vocab = dict.fromkeys(checks.CHANGES, 0), self.vocab if same else None
        described = {"vocab": vocab, "stated_blocks": stated, "recipe": None}
        return self._with(features=clean, **described, changes=changes, _derived={}, _own={})

    def with_labels(self, labels: Any, class_names: Any = None) -> Graph:
        """The same structure and features with other labels; tasks of its source are not for these."""
        clean = checks.clean_labels(labels, self.num_nodes)
        titles = checks.clean_names(class_names, None, "class_names")
        checks.check_class_names(clean, titles)
        return self._with(labels=clean, class_names=titles, source=None, _own={})

    def with_table(self, table: NodeTable | None) -> Graph:
        """The same graph with the cells of its nodes to look at."""
        return self if table is self.table else self._with(table=None if table is None else table.check(self.num_nodes))

    def without_edges(self) -> Graph:
        """The same nodes, each alone."""
        empty = sp.csr_array((self.num_nodes, self.num_nodes), dtype=np.float32)
        return self._with(adjacency=empty, arcs=None, relations={}, _derived={}, _own={})

    def with_recipe(self, recipe: dict[str, Any] | None) -> Graph:
        """The same graph whose features were made by this recipe."""
        return self._with(recipe=recipe)

    def with_text(self, text: SentenceVectors | None) -> Graph:
        """The same graph with these sentence vectors; ``in_features`` says whether they are features."""
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
        return self.with_text(imported("naq.text:SentenceVectors").of(texts, str(model), listener))

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
        for array in other._arrays():
            array.setflags(write=False)
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
        """Share of edges between two labelled nodes that join equal labels; NaN if there is no such edge."""
        labels = self.require_labels("homophily")
        rows = np.repeat(np.arange(self.num_nodes), np.diff(self.adjacency.indptr))
        a, b = labels[rows], labels[self.adjacency.indices]
        known = (a >= 0) & (b >= 0)
        return float((a[known] == b[known]).mean()) if known.any() else float("nan")

    @classmethod
    def from_pyg(cls, data: Data | HeteroData, *, name: str = "graph", target: str | None = None) -> Graph:
        """From a PyG ``Data`` or ``HeteroData``, with directions, weights and types (:mod:`naq.io.pyg`).

        Args:
            target: the type of nodes whose ``y`` are the labels, if several types have one.
        """
        return imported("naq.io.pyg:from_pyg")(data, name, target)

    @classmethod
    def from_stores(
        cls, feature_store: Any, graph_store: Any, *, name: str = "graph", target: str | None = None
    ) -> Graph:
        """From PyG's ``FeatureStore`` and ``GraphStore``, read into memory; as :meth:`from_pyg`."""
        return imported("naq.io.pyg:from_stores")(feature_store, graph_store, name, target)

    def with_relations(self, relations: Mapping[str, Any] | None) -> Graph:
        """The same graph whose edges have these types; see ``relations``."""
        return self._with(relations=checks.clean_relations(relations or {}, self.adjacency), _derived={}, _own={})

    def with_arcs(self, arcs: Any) -> Graph:
        """The same graph whose edges have these directions and weights; see ``arcs``."""
        return self._with(arcs=checks.clean_arcs(arcs, self.adjacency), _derived={}, _own={})

    def to_pyg(self) -> Data:
        """A PyG ``Data``: edges both ways or weighted ``arcs``, or those of every relation with their ``edge_type``;
        dense or sparse features, labels if known."""
        return imported("naq.io.pyg:to_pyg")(self)


def _add(digest: hashlib.blake2b, title: str, array: np.ndarray, kind: str) -> None:
    digest.update(f"{title}:{array.shape}".encode())
    for start in range(0, len(array), HASHED):
        digest.update(np.ascontiguousarray(array[start : start + HASHED], dtype=kind).data)
