"""Kinds of features, and edges with direction and weight."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from torch_geometric.data import Data

from naq import Graph
from naq.classifier.extend import with_nodes
from naq.errors import GraphError
from naq.graph import FeatureBlock, arcs_of
from naq.graph.checks import KINDS
from naq.io.npz import read_graph, save_graph

PATH = [[0, 1], [1, 2]]


def csr(rows):
    return sp.csr_array(np.array(rows, dtype=np.float32))


def slow_arcs(edges, n, directed):
    table = np.zeros((n, n))
    for a, b, weight in edges:
        if a != b:
            table[a, b] += weight
    if not directed and (table != table.T).any():
        table = table + table.T
    return None if (table == table.T).all() and set(np.unique(table)) <= {0, 1} else table


EDGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 9).map(float)), max_size=25)


@settings(max_examples=100, deadline=None)
@given(EDGES, st.booleans())
def test_arcs_against_a_table(edges, directed):
    ends = np.array([edge[:2] for edge in edges], dtype=np.int64).reshape(-1, 2).T
    found = arcs_of(ends, [edge[2] for edge in edges], 6, directed=directed)
    slow = slow_arcs(edges, 6, directed)
    assert (found is None) == (slow is None)
    graph = Graph(ends, nodes=6, arcs=found)
    if slow is not None:
        assert (graph.arcs.toarray() == slow).all()
        assert graph.arcs.dtype == np.float32
        together = slow if (slow == slow.T).all() else slow + slow.T
        assert graph.directed == (slow != slow.T).any()
        assert (graph.weighted_adjacency.toarray() == together).all()
    else:
        assert not graph.directed
        assert graph.weighted_adjacency is graph.adjacency
    assert ((graph.weighted_adjacency != 0).toarray() == (graph.adjacency != 0).toarray()).all()


def test_arcs_without_weights():
    assert arcs_of([[0, 0, 1, 1], [1, 1, 0, 1]], None, 2, directed=True) is None
    once = arcs_of([[0, 0], [1, 1]], None, 2, directed=True)
    assert once.toarray().tolist() == [[0, 1], [0, 0]]
    assert arcs_of([[0, 0], [1, 1]], None, 2, directed=False) is None
    ones = csr([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    assert Graph(PATH, nodes=3, arcs=ones).arcs is None
    assert Graph(PATH, nodes=3, arcs=ones).hash == Graph(PATH, nodes=3).hash


def test_arcs_are_content_that_survives():
    arcs = csr([[0, 2, 0], [0, 0, 1], [0, 0.5, 0]])
    graph = Graph(PATH, [[1, 0], [0, 1], [1, 1]], [0, 1, -1], nodes=3, arcs=arcs)
    plain = Graph(PATH, [[1, 0], [0, 1], [1, 1]], [0, 1, -1], nodes=3)
    assert graph.directed and plain.arcs is None and not plain.directed
    assert graph.hash != plain.hash
    assert graph.structure_hash == plain.structure_hash
    assert graph.with_arcs(None).hash == plain.hash
    assert plain.with_arcs(arcs).hash == graph.hash
    for other in (graph.without_labels(), graph.with_labels([1, 1, 0]), graph.with_features(np.ones((3, 4)))):
        assert (other.arcs != arcs).nnz == 0
    for one in (graph, plain.with_arcs(arcs)):
        with pytest.raises(ValueError, match="read-only"):
            one.arcs.data[0] = 1


@pytest.mark.parametrize(
    ("arcs", "named"),
    [
        (csr([[0, 1, 0], [0, 0, -2], [0, 0, 0]]), "edge 1, from node 1 to node 2"),
        (csr([[0, 1, 0], [0, 0, np.nan], [0, 0, 0]]), "edge 1"),
        (csr([[0, 1, 0], [0, 0, np.inf], [0, 0, 0]]), "edge 1"),
        (sp.csr_array((np.array([1.0, 0.0]), ([0, 1], [1, 2])), shape=(3, 3)), "edge 1"),
        *((one, "arcs") for one in (
            csr([[1, 1, 0], [0, 0, 1], [0, 0, 0]]), csr([[0, 1, 1], [0, 0, 1], [0, 0, 0]]), csr([[0, 1], [0, 0]]),
            csr([[0, 1, 0], [0, 0, 0], [0, 0, 0]]), [[0, 1], [1, 2]], np.eye(3),
        )),
        (sp.csr_array(np.eye(3, k=1) * 1j), "weights"),
    ],
)  # fmt: skip
def test_bad_arcs_are_refused(arcs, named):
    with pytest.raises(GraphError, match=named):
        Graph(PATH, nodes=3, arcs=arcs)


def test_bad_edges_of_arcs_are_refused():
    with pytest.raises(GraphError, match="weights"):
        arcs_of([[0], [1]], [1, 2], 2, directed=True)
    with pytest.raises(GraphError, match="nodes 0 to 2"):
        arcs_of([[0], [2]], None, 2, directed=True)


def test_weights_that_are_kept_are_no_warning(recwarn):
    weighted = csr([[0, 2], [2, 0]])
    assert Graph(weighted, arcs=weighted).weighted_adjacency.toarray().tolist() == [[0, 2], [2, 0]]
    assert not recwarn.list
    with pytest.warns(UserWarning, match="give arcs="):
        Graph(weighted)


WIDTHS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 5)), min_size=1, max_size=5)


@settings(max_examples=50, deadline=None)
@given(WIDTHS, st.booleans(), st.integers(0, 9))
def test_blocks_are_the_columns(widths, sparse, seed):
    d = sum(width for _, width in widths)
    x = np.random.default_rng(seed).integers(1, 4, (3, d)).astype(np.float32)
    graph = Graph(PATH, sp.csr_array(x) if sparse else x, nodes=3, blocks=widths)
    parts = graph.block_features()
    assert [(block.kind, block.stop - block.start) for block, _ in parts] == widths
    assert tuple(block for block, _ in parts) == graph.blocks
    whole = np.concatenate([part.toarray() if sp.issparse(part) else part for _, part in parts], axis=1)
    assert (whole == x).all()
    for block, part in parts:
        assert sp.issparse(part) == (sparse and block.kind in ("words", "categories"))
    again = Graph(PATH, x, nodes=3, blocks=graph.blocks)
    assert again.blocks == graph.blocks
    assert again.hash == graph.hash


@pytest.mark.parametrize(("features", "kind"), [
    (sp.csr_array(np.eye(3)), "words"), (-sp.csr_array(np.eye(3)), "numbers"), (np.ones((3, 31)), "numbers"),
    (np.ones((3, 32)), "vectors"),
])  # fmt: skip
def test_features_without_blocks_are_one(features, kind):
    graph = Graph(PATH, features, nodes=3)
    assert graph.stated_blocks is None
    assert graph.blocks == (FeatureBlock(kind, 0, features.shape[1]),)
    assert graph.block_features()[0][1] is graph.features
    stated = Graph(PATH, features, nodes=3, blocks=[(kind, features.shape[1], "column")])
    assert stated.blocks[0].kind == kind and stated.hash != graph.hash


def test_blocks_survive():
    x = np.ones((3, 4))
    graph = Graph(PATH, x, [0, 1, 1], nodes=3, blocks=[("words", 1, "title"), ("numbers", 3)])
    for other in (graph.without_labels(), graph.with_labels([1, 1, 0]), graph.with_features(2 * x)):
        assert other.blocks == graph.blocks
    assert graph.with_features(np.ones((3, 2))).stated_blocks is None
    wide = graph.with_features(np.ones((3, 2)), blocks=[("numbers", 1), ("words", 1)])
    assert [block.kind for block in wide.blocks] == ["numbers", "words"]
    bare = Graph(PATH, nodes=3, blocks=[])
    assert graph.with_features(None).blocks == bare.blocks == () and bare.block_features() == []


@pytest.mark.parametrize(
    "blocks",
    [
        [("words", 1)], [("words", 2), ("numbers", 1)], [("words", 2), ("numbers", 0)], [("words", 3), ("numbers", -1)],
        [("words", 1.0), ("numbers", 1)], [("words", True), ("numbers", 1)], [("letters", 2)], [("words",)], ["words"],
        [2], [FeatureBlock("words", 1, 3)], [],
    ],
)  # fmt: skip
def test_bad_blocks_are_refused(blocks):
    with pytest.raises(GraphError, match="blocks"):
        Graph(PATH, np.ones((3, 2)), nodes=3, blocks=blocks)
    with pytest.raises(GraphError, match="blocks"):
        Graph(PATH, nodes=3, blocks=[("words", 2)])


@settings(max_examples=30, deadline=None)
@given(EDGES, st.booleans(), st.integers(0, 5))
def test_more_nodes_keep_blocks_and_arcs(edges, directed, seed):
    ends = np.array([edge[:2] for edge in edges], dtype=np.int64).reshape(-1, 2).T
    arcs = arcs_of(ends, [edge[2] for edge in edges], 6, directed=directed)
    graph = Graph(ends, np.ones((6, 3)), nodes=6, arcs=arcs, blocks=[("numbers", 2), ("vectors", 1)])
    new = np.random.default_rng(seed).integers(0, 8, (2, 10))
    larger = with_nodes(graph, np.zeros((2, 3)), new)
    assert larger.blocks == graph.blocks
    if arcs is None:
        assert larger.arcs is None
        return
    table = np.zeros((8, 8))
    table[:6, :6] = arcs.toarray()
    for a, b in new.T:
        for i, j in ((a, b),) if graph.directed else ((a, b), (b, a)):
            if i != j and table[i, j] == 0:
                table[i, j] = 1
    if (table == table.T).all() and set(np.unique(table)) <= {0, 1}:
        assert larger.arcs is None
    else:
        assert (larger.arcs.toarray() == table).all()


def test_pyg_keeps_direction_and_weight():
    edges = torch.tensor([[0, 1, 1], [1, 2, 1]])
    graph = Graph.from_pyg(Data(edge_index=edges, num_nodes=4))
    assert graph.arcs.toarray().tolist() == [[0, 1, 0, 0], [0, 0, 1, 0], [0] * 4, [0] * 4]
    assert "edge_weight" not in graph.to_pyg()
    for more in ({"edge_weight": torch.tensor([2.0, 0.5, 1])}, {"edge_attr": torch.tensor([[2.0], [0.5], [1]])}):
        weighted = Graph.from_pyg(Data(edge_index=edges, num_nodes=4, **more))
        assert weighted.arcs.toarray()[0, 1] == 2 and weighted.arcs.toarray()[1, 2] == 0.5
        assert Graph.from_pyg(weighted.to_pyg()).hash == weighted.hash
    both = torch.cat([edges[:, :2], edges[:, :2].flip(0)], dim=1)
    assert Graph.from_pyg(Data(edge_index=both, num_nodes=3)).hash == Graph(PATH, nodes=3).hash
    with pytest.raises(GraphError, match="edge 1"):
        Graph.from_pyg(Data(edge_index=edges, edge_weight=torch.tensor([2.0, -1, 1]), num_nodes=4))
    with pytest.warns(UserWarning, match="edge_attr"):
        assert not (Graph.from_pyg(Data(edge_index=both, edge_attr=torch.ones(4, 2), num_nodes=3))).directed


RELATIONS = {"cites": csr([[0, 2, 0], [0, 0, 0], [0, 0, 0]]), "likes": csr([[0, 1, 0], [1, 0, 0], [0, 3, 0]])}


def test_relations_are_content_that_survives(tmp_path):
    graph = Graph(PATH, [[1, 0], [0, 1], [1, 1]], [0, 1, -1], nodes=3, relations=RELATIONS)
    plain = Graph(PATH, [[1, 0], [0, 1], [1, 1]], [0, 1, -1], nodes=3)
    assert graph.hash != plain.hash and graph.structure_hash == plain.structure_hash and plain.relations == {}
    assert plain.with_relations(RELATIONS).hash == graph.hash and graph.with_relations(None).hash == plain.hash
    others = (graph.without_labels(), graph.with_labels([1, 1, 0]), graph.with_features(np.ones((3, 4))))
    for other in (*others, read_graph(save_graph(tmp_path / "g.npz", graph)), Graph.from_pyg(graph.to_pyg())):
        assert list(other.relations) == ["cites", "likes"]
        assert all((other.relations[name] != matrix).nnz == 0 for name, matrix in RELATIONS.items())
    larger = with_nodes(graph, [[0, 1]], [[3], [0]])
    assert larger.relations["likes"].toarray()[:3, :3].tolist() == RELATIONS["likes"].toarray().tolist()
    with pytest.raises(ValueError, match="read-only"):
        graph.relations["cites"].data[0] = 1


@pytest.mark.parametrize(
    ("relations", "named"),
    [
        ({"a": csr([[0, 0, 1], [0, 0, 0], [0, 0, 0]])}, "'a' joins nodes"), ({"a": csr(np.eye(3))}, "'a' joins nodes"),
        ({"a": csr(np.zeros((3, 3)))}, "'a' has no edges"), ({"a": csr([[0, 1], [0, 0]])}, "'a' is not"),
        ({"a": np.eye(3)}, "'a' is not"), ({"": csr(np.eye(3))}, "name ''"), ({3: csr(np.eye(3))}, "name 3"),
        ({"a": csr([[0, -1, 0], [0, 0, 0], [0, 0, 0]])}, "weight -1"),
    ],
)  # fmt: skip
def test_bad_relations_are_refused(relations, named):
    with pytest.raises(GraphError, match=named):
        Graph(PATH, nodes=3, relations=relations)
