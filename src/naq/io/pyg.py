"""Graphs of PyG: datasets by name, ``Data`` and ``HeteroData``, feature and graph stores; and back to ``Data``.

The nodes of a ``HeteroData`` follow each other type by type, in its order. They are called ``type/i`` or, where a type
has text as ``names``, so. Their type is a category, the features of every type are a block of their own (zero, or the
mean of numbers, for other nodes), and every type of edges is a relation.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from naq.errors import DataError, GraphError, warn
from naq.graph import Graph, arcs_of
from naq.graph.checks import as_dense, clean_features, clean_labels, edge_matrix
from naq.graph.operators import usual_blocks
from naq.options import did_you_mean

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData


def from_pyg(data: Data | HeteroData, name: str, target: str | None = None) -> Graph:
    """The graph of a ``Data``, with ``edge_type`` as relations, or of a ``HeteroData``.

    An ``edge_index`` that is not symmetric is directed; weights are ``edge_weight`` or one column of ``edge_attr``.
    """
    from torch_geometric.data import Data, HeteroData

    if isinstance(data, HeteroData):
        return _of_types(data, name, target)
    if not isinstance(data, Data):
        raise GraphError(f"data is a {type(data).__name__}; expected a torch_geometric.data.Data or HeteroData.")
    if data.edge_index is None:
        raise GraphError("data has no edge_index; expected a torch_geometric.data.Data with one (2, edges).")
    nodes = None if data.num_nodes is None else int(data.num_nodes)
    ends, codes = _array(data.edge_index), _array(getattr(data, "edge_type", None))
    graph = Graph(ends, _features(data), _labels(data), nodes=nodes, name=name)
    titles = getattr(data, "edge_type_names", None) or [str(k) for k in range(0 if codes is None else codes.max() + 1)]
    if codes is not None and (codes.shape != ends[0].shape or codes.min() < 0 or codes.max() >= len(titles)):
        expected = f"a number from 0 to {len(titles) - 1} for each of {len(ends[0]):,} edges"
        raise GraphError(f"edge_type has shape {codes.shape}; expected {expected}.")
    return _with_edges(graph, ends, _weights(data), codes, titles)


def _of_types(data: HeteroData, name: str, target: str | None) -> Graph:
    """All types of nodes, one after the other."""
    kinds, sizes = data.node_types, {kind: data[kind].num_nodes for kind in data.node_types}
    for kind, size in sizes.items():
        if size is None:
            raise GraphError(f"nodes of type {kind!r} are not counted; set data[{kind!r}].num_nodes, or x.")
    known = [kind for kind in kinds if getattr(data[kind], "y", None) is not None]
    if target is None and len(known) > 1:
        raise GraphError(f"types {' and '.join(map(repr, known))} have y; name one by target, e.g. {known[0]!r}.")
    if target is not None and target not in known:
        hint = did_you_mean(target, known) if known else "leave it out."
        raise GraphError(f"target is {target!r}, a type without y; {hint}")
    starts = dict(zip(kinds, np.concatenate([[0], np.cumsum(list(sizes.values()))]).tolist()))
    codes, n = np.repeat(np.arange(len(kinds)), list(sizes.values())), sum(sizes.values())
    parts = [sp.csr_array((np.ones(n), (np.arange(n), codes)), shape=(n, len(kinds)))]
    blocks, vocab, titles = [("categories", len(kinds), "type")], list(kinds), list[str]()
    labels = None if not known else np.full(n, -1)
    for kind, size in sizes.items():
        titles += _names(data[kind], kind, size)
        if labels is not None and kind == (target or known[0]):
            labels[starts[kind] : starts[kind] + size] = clean_labels(_labels(data[kind]), size)
        if (own := clean_features(_features(data[kind]), size)) is None:
            continue
        form = usual_blocks(own)[0].kind
        if form == "numbers":  # 0, as other nodes have it, is then the mean
            own = as_dense(own)
            spread = own.std(axis=0)
            own = np.divide(own - own.mean(axis=0), spread, out=np.zeros_like(own), where=spread > 0)
        coo = sp.coo_array(own)
        parts.append(sp.csr_array((coo.data, (coo.row + starts[kind], coo.col)), shape=(n, own.shape[1])))
        blocks.append((form, own.shape[1], kind))
        vocab += [f"{kind}[{place}]" for place in range(own.shape[1])]
    ends, weights, of_edges, relations = _edges_by_type(data, starts, sizes)
    features = sp.csr_array(sp.hstack(parts))
    graph = Graph(ends, features, labels, names=titles, vocab=vocab, nodes=n, name=name, blocks=blocks)
    return _with_edges(graph, ends, weights, of_edges, relations)


def _edges_by_type(
    data: HeteroData, starts: Mapping[str, int], sizes: Mapping[str, int]
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray, list[str]]:
    """All edges, what they weigh, the type of each, and what types are called: by their relation alone if no other has
    the same."""
    if not data.edge_types:
        raise GraphError("data has no type of edges; expected a HeteroData with an edge_index for one or more.")
    ends, weights, names = [], [], [kind[1] for kind in data.edge_types]
    for kind in data.edge_types:
        own, first, last = _array(data[kind].edge_index), kind[0], kind[2]
        if own.size and ((own < 0) | (own >= np.array([[sizes[first]], [sizes[last]]]))).any():
            counts = f"{sizes[first]:,} nodes of type {first!r} and {sizes[last]:,} of type {last!r}"
            raise GraphError(f"edges of type {kind} join nodes that are not there; expected some of {counts}.")
        ends.append(own + np.array([[starts[first]], [starts[last]]]))
        if not (ends[-1][0] != ends[-1][1]).any():
            warn(f"edges of type {kind} join no two nodes; the type is left out.", stacklevel=6)
        given = _weights(data[kind])
        weights.append(np.ones(own.shape[1]) if given is None else given)
    titles = [kind[1] if names.count(kind[1]) == 1 else " ".join(kind) for kind in data.edge_types]
    codes, weight = np.repeat(np.arange(len(ends)), [own.shape[1] for own in ends]), np.concatenate(weights)
    return np.concatenate(ends, axis=1), weight if (weight != 1).any() else None, codes, titles


def _with_edges(graph: Graph, ends: np.ndarray, weights: Any, codes: np.ndarray | None, titles: Sequence[str]) -> Graph:
    """The graph with directions, weights and, for each title that is not empty, the edges with its code."""
    n, found = graph.num_nodes, {}
    graph = graph.with_arcs(arcs_of(ends, weights, n, directed=True))
    for code, title in enumerate(titles if codes is not None else ()):
        some = np.flatnonzero(codes == code)
        matrix = edge_matrix(ends[:, some], None if weights is None else weights[some], n, directed=True)
        if title and matrix.nnz:
            found[title] = matrix
    return graph.with_relations(found)


def _array(values: Any) -> Any:
    return values.detach().cpu().numpy() if hasattr(values, "detach") else values


def _features(store: Any) -> Any:
    x = getattr(store, "x", None)
    if x is None or str(x.layout) == "torch.strided":
        return _array(x)
    coo = x.detach().cpu().to_sparse_coo().coalesce()
    return sp.csr_array((coo.values().numpy(), tuple(coo.indices().numpy())), shape=tuple(coo.shape))


def _labels(store: Any) -> Any:
    y = _array(getattr(store, "y", None))
    return y[:, 0] if y is not None and y.ndim == 2 and y.shape[1] == 1 else y


def _names(store: Any, kind: str, size: int) -> list[str]:
    names = getattr(store, "names", None)
    if names is None:
        return [f"{kind}/{place}" for place in range(size)]
    if len(names) != size:
        raise GraphError(f"type {kind!r} has {len(names):,} names for {size:,} nodes; give one each.")
    return [str(one) for one in names]


def _weights(store: Any) -> np.ndarray | None:
    """What its edges weigh; attributes that are not weights are left out with a warning."""
    weight, attributes = _array(getattr(store, "edge_weight", None)), _array(getattr(store, "edge_attr", None))
    if weight is not None:
        return np.asarray(weight.reshape(-1))
    if attributes is None:
        return None
    if attributes.size == len(attributes) and (attributes > 0).all():
        return np.asarray(attributes.reshape(-1))
    warn("edge_attr is not one positive number for each edge, so edges have no weights.", stacklevel=5)
    return None


def from_stores(feature_store: Any, graph_store: Any, name: str, target: str | None) -> Graph:
    """The graph of a feature store's ``x`` and ``y`` and all edges of a graph store, read into memory."""
    import torch
    from torch_geometric.data import Data, HeteroData

    held, edges = feature_store.get_all_tensor_attrs(), graph_store.get_all_edge_attrs()
    if not edges:
        raise GraphError("the graph store holds no edges; expected an edge index for one type or more.")
    data: Any = HeteroData() if any(one.edge_type is not None for one in edges) else Data()
    if left := sorted({one.attr_name for one in held} - {"x", "y"}):
        warn(f"of the feature store, x and y are read; {', '.join(left)} are not.", stacklevel=4)
    for one in held:
        if one.attr_name in ("x", "y"):
            whole = copy.copy(one)
            whole.group_name, whole.index = one.group_name if isinstance(one.group_name, str) else None, None
            part = data if whole.group_name is None else data[whole.group_name]
            part[one.attr_name] = feature_store.get_tensor(whole)
    for one in edges:
        sizes = zip((one.edge_type[0], one.edge_type[2]), one.size or ()) if one.edge_type else ()
        for kind, size in sizes:
            data[kind].num_nodes = size
    rows, columns, _ = graph_store.coo()
    if not isinstance(rows, dict):  # edges without types
        rows, columns = {None: rows}, {None: columns}
    for kind in rows:
        (data if kind is None else data[kind]).edge_index = torch.stack([rows[kind], columns[kind]])
    return from_pyg(data, name, target)


def edges_by_type(graph: Graph) -> dict[str, sp.csr_array]:
    """The relations and, as "", edges of no type: with their directions and weights, or both ways."""
    rest = graph.adjacency if graph.arcs is None else graph.arcs
    for matrix in graph.relations.values():
        rest = sp.csr_array(rest - rest.multiply(matrix != 0))
    return dict(graph.relations) | ({"": rest} if rest.nnz or not graph.relations else {})


def to_pyg(graph: Graph) -> Data:
    """The ``Data`` of a graph; with relations, edges of each with ``edge_type`` and ``edge_type_names``, "" for edges
    without a type."""
    import torch
    from torch_geometric.data import Data

    parts = edges_by_type(graph)
    found = [sp.coo_array(matrix) for matrix in parts.values()]
    ends = np.concatenate([np.stack([coo.row, coo.col]) for coo in found], axis=1).astype(np.int64)
    weights = np.concatenate([coo.data for coo in found])
    data = Data(edge_index=torch.from_numpy(ends), num_nodes=graph.num_nodes)
    if (weights != 1).any():
        data.edge_weight = torch.from_numpy(weights)
    if graph.relations:
        data.edge_type = torch.from_numpy(np.repeat(np.arange(len(found)), [coo.nnz for coo in found]))
        data.edge_type_names = list(parts)
    if isinstance(graph.features, np.ndarray):
        data.x = torch.from_numpy(np.array(graph.features))
    elif graph.features is not None:
        coo = sp.coo_array(graph.features)
        where = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64))
        x = torch.from_numpy(coo.data.copy())
        data.x = torch.sparse_coo_tensor(where, x, coo.shape, is_coalesced=True, check_invariants=False)
    if graph.labels is not None:
        data.y = torch.from_numpy(graph.labels.copy())
    return data


def read_pyg(source: str, root: Path, *, download: bool = True, name: str = "") -> Graph:
    """``pyg:Class`` or ``pyg:Class/name``; PyG keeps its own files under ``root/pyg``. ``name``: of the graph."""
    title, _, sub = source.removeprefix("pyg:").partition("/")
    kind = _dataset_class(title)
    folder = root / "pyg" / title / sub.replace("/", "_")
    if not download and "root" in _arguments(kind) and not folder.is_dir():
        raise DataError(f"{source} is not in {folder} and downloading is switched off; allow it once.")
    options = {_name_argument(kind, source): sub} if sub else {}
    if "root" in _arguments(kind):
        options["root"] = str(folder)
    try:
        dataset = kind(**options)
    except TypeError as error:
        hint = f"write pyg:{title}/NAME" if not sub else "see PyG's documentation of this dataset"
        raise DataError(f"{source} cannot be made with these arguments ({error}); {hint}.") from error
    except OSError as error:
        raise DataError(f"{source} could not be downloaded to {folder} ({error}); check the network.") from error
    except Exception as error:  # each dataset class fails in its own way: assertions, parse errors, missing packages
        raise DataError(f"{source} could not be read by PyG ({type(error).__name__}: {error}).") from error
    return graph_of(dataset, source, name)


def graph_of(dataset: Any, source: str, name: str = "") -> Graph:
    """The one graph of a PyG dataset."""
    if len(dataset) != 1:
        raise DataError(f"{source} holds {len(dataset):,} graphs; expected a dataset of one graph.")
    try:
        return from_pyg(dataset[0], name or source.removeprefix("pyg:").rpartition("/")[2])
    except GraphError as error:
        raise DataError(f"{source}: {error}") from error


def _dataset_class(title: str) -> Any:
    from torch_geometric import datasets
    from torch_geometric.data import Dataset

    kind = getattr(datasets, title, None) if title in datasets.__all__ else None
    if not (inspect.isclass(kind) and issubclass(kind, Dataset)):
        near = did_you_mean(title, datasets.__all__, "write pyg:Class/name, e.g. pyg:Planetoid/Cora.")
        raise DataError(f"PyG has no dataset {title!r}; {near}")
    return kind


def _arguments(kind: Any) -> list[str]:
    return list(inspect.signature(kind.__init__).parameters)


def _name_argument(kind: Any, source: str) -> str:
    """PyG's classes call the choice of a sub-dataset ``name``, a few by another word."""
    for word in ("name", "city", "subset", "category", "lang", "region"):
        if word in _arguments(kind):
            return word
    raise DataError(f"{source}: this PyG dataset takes no name; write {source.partition('/')[0]}.")
