from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components
from torch_geometric.data import Data
from torch_geometric.utils import get_laplacian

from graphs import islands, random_graph
from naq import Graph, load
from naq.errors import GraphError, OptionError
from naq.graph import operators, resolve, weighted
from naq.neighbors import feature_neighbors
from shared_data import shared

PATH = [[0, 1], [1, 2]]
EYE = np.eye(3)


def bad_csr(index):
    matrix = sp.csr_array(np.eye(3))
    matrix.indices[1] = index
    return matrix


MISTAKES = {
    "edge": [{"adjacency": [[0, 3], [1, 1]]}, {"adjacency": [[0, -1], [1, 1]]}, {"adjacency": [[0.5], [1]]},
             {"adjacency": [[np.nan], [1]]}, {"adjacency": [["a"], ["b"]]}],
    "adjacency": [{"adjacency": None}, {"adjacency": np.eye(3)}, {"adjacency": sp.csr_array((2, 3)), "nodes": None},
                  {"adjacency": sp.csr_array((4, 4))}, {"adjacency": sp.csr_array(np.eye(3) * np.nan)},
                  {"adjacency": sp.csr_array(np.eye(3) * 1j)}, {"adjacency": bad_csr(7)}, {"adjacency": bad_csr(-1)}],
    "nodes": [{"nodes": nodes} for nodes in (None, 0, -2, 3.0, "three", True)],
    "empty": [{"adjacency": sp.csr_array((0, 0)), "nodes": None}],
    "features": [{"features": one} for one in (
        np.ones(3), np.ones((2, 4)), [[1], [1, 2], [3]], [["a"], ["b"], ["c"]], EYE * 1j, bad_csr(9))],
    "row 1, column 1": [{"features": [[1, 2], [3, np.nan], [0, 0]]}, {"features": [[1, 2], [3, 1e39], [0, 0]]}],
    "row 2, column 0": [{"features": [[1, 2], [3, 4], [-np.inf, 0]]},
                        {"features": sp.csc_array([[0, 2], [0, 0], [np.nan, 1]])},
                        {"features": sp.coo_array([[0, 2], [0, 0], [1e39, 1]])}],
    "labels": [{"labels": one} for one in (
        [0, 1], [[0, 1, 2]], ["a", "b", "c"], [True, False, True], [0, 0.5, 1], [0, np.nan, 1], [0, -2, 1])],
    "names": [{"names": ["a", "b"]}, {"names": [["a", "b", "c"]]}, {"labels": [0, 1, 2], "class_names": ["a", "b"]}],
    "vocab": [{"features": EYE, "vocab": ["a"]}],
}  # fmt: skip


@pytest.mark.parametrize(("named", "given"), [(named, given) for named, every in MISTAKES.items() for given in every])
def test_bad_input_is_named(named, given):
    with pytest.raises(GraphError, match=named):
        Graph(**({"adjacency": PATH, "nodes": 3} | given))


def test_overflow_by_summing_duplicates_is_seen():
    big = sp.coo_array((np.full(2, 3e38, dtype=np.float32), ([1, 1], [2, 2])), shape=(3, 3))
    with pytest.raises(GraphError, match="row 1, column 2"):
        Graph(PATH, big, nodes=3)


def test_loops_duplicates_and_direction_are_counted():
    graph = Graph([[0, 0, 1, 2, 2, 2], [1, 1, 0, 2, 2, 3]], nodes=5)
    assert graph.changes == {"self_loops_dropped": 2, "duplicates_merged": 1, "made_undirected": 1}
    expected = np.zeros((5, 5))
    expected[[0, 1, 2, 3], [1, 0, 3, 2]] = 1
    assert np.array_equal(graph.adjacency.toarray(), expected)
    assert graph.num_edges == 2
    assert graph.degrees.tolist() == [1, 1, 1, 1, 0]
    assert graph.components.tolist() == [0, 0, 1, 1, 2]


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array, sp.coo_array, sp.lil_array, sp.dok_array, sp.csr_matrix])
def test_any_sparse_format_gives_the_same_graph(kind):
    reference = islands()
    for numbers in (np.float64, np.int64):
        other = Graph(kind(reference.adjacency), kind(reference.features, dtype=numbers))
        assert other.hash == reference.hash
        assert other.features.has_sorted_indices and other.features.dtype == np.float32


def test_edge_lists_of_any_make_give_the_same_graph():
    edges = np.array([[0, 1, 2], [1, 2, 3]])
    makes = [edges, edges.T.copy(), edges.tolist(), edges.astype(float), edges.astype(np.uint8), edges[::-1]]
    hashes = {Graph(e, nodes=4).hash for e in makes}
    assert hashes == {Graph(sp.coo_array((np.ones(3), edges), shape=(4, 4))).hash}
    square = Graph([[0, 1], [2, 3]], nodes=4)  # two rows
    assert square.degrees.tolist() == [1, 1, 1, 1] and square.adjacency.toarray()[0].tolist() == [0, 0, 1, 0]


def test_weights_are_not_used_and_zeros_are_no_edges():
    weighted = sp.coo_array((np.array([2.0, 0.0]), ([0, 1], [1, 2])), shape=(3, 3))
    with pytest.warns(UserWarning, match="weights"):
        graph = Graph(weighted)
    assert graph.num_edges == 1 and graph.degrees.tolist() == [1, 1, 0]


def test_one_node_and_no_edges():
    for edges in ([[], []], np.empty((0, 2)), np.empty((2, 0), dtype=int), sp.csr_array((1, 1))):
        graph = Graph(edges, [[2.0]], [0], nodes=1)
        assert (graph.num_nodes, graph.num_edges, graph.num_classes) == (1, 0, 1)
        assert graph.normalized_adjacency().toarray().tolist() == [[1.0]]
        assert graph.normalized_adjacency(self_loops=False).toarray().tolist() == [[0.0]]
        assert graph.propagated_features().tolist() == [[2.0]]
        assert np.isnan(graph.homophily())


def test_without_features_or_labels_what_needs_them_is_one_sentence():
    for graph in (Graph(PATH, nodes=3), Graph(PATH, np.empty((3, 0)), nodes=3), Graph(PATH, labels=[-1] * 3, nodes=3)):
        assert graph.features is None and graph.num_features == 0
        with pytest.raises(GraphError, match="features"):
            feature_neighbors(graph, k=1)
        with pytest.raises(GraphError, match="labels"):
            graph.homophily()


def test_dense_features_become_sparse_when_mostly_zero():
    assert Graph(PATH, np.eye(3, 40), nodes=3).sparse_features
    assert not Graph(PATH, np.ones((3, 40)), nodes=3).sparse_features
    stored = sp.csr_array((np.array([1.0, 0.0]), ([0, 1], [0, 1])), shape=(3, 2))
    assert Graph(PATH, stored, nodes=3).features.nnz == 1


def test_immutable_and_apart_from_its_input():
    edges, features, labels = np.array(PATH), np.ones((3, 2), dtype=np.float32), np.array([0, 1, 1])
    counts = sp.csr_array(np.eye(3, dtype=np.float32))
    graph, sparse = Graph(edges, features, labels, nodes=3), Graph(edges, counts, nodes=3, class_names=["a"])
    before = graph.hash, sparse.hash
    edges[:], features[:], labels[:], counts.data[:] = 0, 9, 0, 9
    copy = Graph(graph.adjacency, graph.features, graph.labels), Graph(sparse.adjacency, sparse.features)
    assert (copy[0].hash, copy[1].hash) == before
    with pytest.raises(AttributeError, match="immutable"):
        graph.labels = labels
    other = graph.with_labels([0, 0, 0], ["a"])
    arrays = [graph.features, graph.labels, graph.adjacency.data, graph.adjacency.indices, sparse.features.data]
    for array in (*arrays, sparse.class_names, other.labels, other.class_names):
        with pytest.raises(ValueError, match="read-only"):
            array[:1] = array[-1:]


def test_labels_come_and_go():
    graph = Graph(PATH, EYE, [0, 1, -1], nodes=3, class_names=["a", "b"])
    bare = graph.without_labels()
    assert bare.labels is None and bare.class_names is None and bare.num_classes == 0
    assert bare.hash == Graph(PATH, EYE, nodes=3).hash != graph.hash
    assert bare.without_labels() is bare
    assert bare.with_labels([0, 1, -1]).hash == graph.hash
    assert graph.labels.tolist() == [0, 1, -1]
    with pytest.raises(GraphError, match="labels"):
        graph.with_labels([0])
    with pytest.raises(GraphError, match="class_names"):
        graph.with_labels([0, 1, 3], ["a", "b"])


def test_hash_is_that_of_the_content():
    graph = random_graph(seed=5)
    dense = graph.features.toarray()
    base = Graph(graph.adjacency, dense, graph.labels)
    assert base.hash == graph.hash
    assert Graph(graph.adjacency, np.asfortranarray(dense), graph.labels, names=list("x" * 60)).hash == graph.hash
    assert Graph(graph.adjacency, sp.csr_array(dense), graph.labels, name="other").hash == graph.hash
    assert Graph(graph.adjacency, dense.astype(np.uint8), graph.labels.astype(float)).hash == graph.hash
    assert Graph.from_pyg(graph.to_pyg()).hash == graph.hash
    full = random_graph(dense=True)
    assert Graph(full.adjacency, sp.csr_array(full.features), full.labels).hash == full.hash


def test_hash_changes_with_anything_that_matters():
    graph = random_graph(seed=5)
    features, labels = graph.features.toarray(), graph.labels.copy()
    extra = graph.adjacency.tolil()
    extra[58, 59] = 1
    value, moved, wider = features.copy(), np.roll(features, 1, axis=1), np.pad(features, ((0, 0), (0, 1)))
    value[1, 1] += 1
    other = labels.copy()
    other[0] = 2 if labels[0] != 2 else 1
    unknown = np.where(np.arange(60) == 3, -1, labels)
    variants = [graph, Graph(extra, features, labels), Graph(graph.adjacency, None, labels)]
    variants += [Graph(graph.adjacency, one, labels) for one in (value, moved, wider, features[::-1])]
    variants += [Graph(graph.adjacency, features, one) for one in (other, unknown, None)]
    assert len({g.hash for g in variants}) == len(variants)


@pytest.mark.parametrize("dense", [True, False])
def test_pyg_round_trip(dense):
    graph = random_graph(dense=dense)
    data = graph.to_pyg()
    assert data.num_nodes == 60 and data.num_edges == 2 * graph.num_edges and data.is_undirected()
    x = data.x if dense else data.x.to_dense()
    assert np.array_equal(x.numpy(), graph.features if dense else graph.features.toarray())
    again = Graph.from_pyg(data, name="random")
    assert again.hash == graph.hash and repr(again) == repr(graph)
    data.x = data.x.to_sparse_csr() if not dense else data.x
    data.y = data.y[:, None]
    assert Graph.from_pyg(data).hash == graph.hash
    assert graph.features.flags.writeable is False if dense else not graph.features.data.flags.writeable
    data.y[:] = 0
    assert Graph.from_pyg(graph.to_pyg()).hash == graph.hash


def test_pyg_with_little_in_it():
    assert repr(Graph.from_pyg(Data(edge_index=torch.tensor(PATH), num_nodes=4))) == (
        "Graph('graph', nodes=4, edges=2, features=0, classes=0)"
    )
    with pytest.raises(GraphError, match="edge_index"):
        Graph.from_pyg(Data(x=torch.ones(2, 2)))


def test_normalised_adjacency_is_the_formula():
    graph = random_graph()
    plain = graph.adjacency.toarray().astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for self_loops in (True, False):
            matrix = plain + np.eye(60) if self_loops else plain
            degree = matrix.sum(1)
            scale = np.where(degree > 0, 1 / np.sqrt(np.maximum(degree, 1)), 0)
            found = graph.normalized_adjacency(self_loops=self_loops)
            assert found.dtype == np.float32
            assert np.allclose(found.toarray(), scale[:, None] * matrix * scale, atol=1e-7)
    edges, weight = get_laplacian(graph.to_pyg().edge_index, normalization="sym", num_nodes=60)
    laplacian = sp.coo_array((weight.numpy(), edges.numpy()), shape=(60, 60)).toarray()
    assert np.allclose(np.eye(60) - laplacian, graph.normalized_adjacency(self_loops=False).toarray(), atol=1e-6)


@pytest.mark.parametrize("dense", [True, False])
def test_propagated_features_and_their_size(dense):
    graph = random_graph(dense=dense)
    product = graph.propagated_features()
    assert isinstance(product, np.ndarray) == dense
    x = graph.features if dense else graph.features.toarray()
    full = product if dense else product.toarray()
    assert np.allclose(full, graph.normalized_adjacency().toarray() @ x, atol=1e-6)
    assert np.count_nonzero(full) <= graph.propagated_size() <= full.size
    assert graph.propagated_features() is product


def test_homophily_counts_known_edges():
    graph = Graph([[0, 1, 2, 3], [1, 2, 3, 0]], labels=[0, 0, 1, -1], nodes=4)
    assert graph.homophily() == 0.5
    assert graph.num_classes == 2


def test_a_real_graph():
    graph = load(shared("cora.npz"))
    assert repr(graph) == "Graph('cora', nodes=2,708, edges=5,278, features=1,433, classes=7)"
    assert graph.homophily() == pytest.approx(0.81, abs=0.005)
    assert Graph.from_pyg(graph.to_pyg()).hash == graph.hash


@pytest.mark.parametrize("seed", range(3))
def test_structure_and_components_are_those_of_scipy(seed):
    random = np.random.default_rng(seed)
    graph = Graph(random.integers(0, 60, (2, 40)), nodes=60)
    for loops in (False, True):
        indptr, indices = operators.structure(graph.adjacency, self_loops=loops)
        expected = operators.normalized_adjacency(graph.adjacency, self_loops=loops)
        assert (indptr.dtype, indices.dtype) == (np.int64, np.int32)
        np.testing.assert_array_equal(indptr, expected.indptr)
        np.testing.assert_array_equal(indices, expected.indices)
    expected = connected_components(graph.adjacency, directed=False)[1]
    assert len(set(expected)) > 5
    np.testing.assert_array_equal(operators.components(graph.adjacency), expected)


COUNTS = sp.csr_array(np.array([[3.0, 0, 1, 0], [0, 0, 2, 0], [1, 1, 1, 0], [0, 0, 0, 0]]))


def counted(features=COUNTS):
    return Graph([[0, 1], [1, 2]], features, [0, 1, 0, 1], nodes=4, vocab=list("abcd"), names=list("wxyz"))


def test_weightings():
    one = counted()
    found = weighted(one, "tfidf")
    lengths = np.sqrt((found.features.toarray() ** 2).sum(axis=1))
    assert np.allclose(lengths, [np.sqrt(6 / 4)] * 3 + [0], atol=1e-6), "the mean length of binary rows"
    assert found.names.tolist() == list("wxyz") and found.vocab.tolist() == list("abcd")
    assert np.array_equal(found.labels, one.labels)
    assert np.array_equal(weighted(one, "binary").features.toarray(), (COUNTS.toarray() > 0).astype(np.float32))
    assert weighted(one, "raw") is one and resolve(one, "auto") == "tfidf"
    dense, negative = (counted(x) for x in (np.random.default_rng(0).standard_normal((4, 4)), sp.csr_array(-COUNTS)))
    assert resolve(dense, "auto") == resolve(negative, "auto") == "raw"
    for graph, weighting in ((one, "idf"), (negative, "tfidf"), (dense, "tfidf")):
        with pytest.raises(OptionError, match="features"):
            weighted(graph, weighting)
