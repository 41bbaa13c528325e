from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric import datasets
from torch_geometric.data import Data, HeteroData, InMemoryDataset
from torch_geometric.testing import MyFeatureStore, MyGraphStore

from naq import Graph
from naq.errors import DataError, GraphError
from naq.io import load, tasks_path
from naq.io.pyg import graph_of


def test_a_dataset_that_needs_no_network(tmp_path: Path) -> None:
    graph = load("pyg:KarateClub", root=tmp_path, download=False)
    assert (graph.name, graph.num_nodes, graph.num_edges, graph.num_classes) == ("KarateClub", 34, 78, 4)


EYE = torch.eye(3)


class Toy(InMemoryDataset):
    """Stands for any dataset class of PyG."""

    def __init__(self, root: str, name: str) -> None:
        super().__init__(None)
        if name == "offline":
            raise ConnectionRefusedError("no network")
        if name == "broken":
            raise AssertionError("not a name")
        self.seen = (root, name)
        self._data = Data(x=EYE, edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([0, 1, 1]))

    def len(self) -> int:
        return 1

    def get(self, idx: int) -> Any:
        return self._data


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "Toy", Toy, raising=False)
    monkeypatch.setattr(datasets, "__all__", [*datasets.__all__, "Toy"])


@pytest.mark.usefixtures("toy")
def test_named_dataset(tmp_path: Path) -> None:
    graph = load("pyg:Toy/Mini", root=tmp_path)
    assert (graph.name, graph.num_nodes, graph.num_edges) == ("Mini", 3, 2)
    assert tasks_path("pyg:Toy/Mini") is None


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("pyg:Toy", "name.*pyg:Toy/NAME"), ("pyg:Toy/offline", "no network"), ("pyg:Toy/broken", "not a name"),
        ("pyg:Planetoit/Cora", "did you mean Planetoid"), ("pyg:", "dataset ''"), ("pyg:os", "dataset 'os'"),
        ("pyg:KarateClub/x", "takes no name"),
    ],
)  # fmt: skip
def test_bad_names(tmp_path: Path, source: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(source, root=tmp_path)


def test_sub_name_cannot_leave_the_root(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="downloading is switched off") as caught:
        load("pyg:Planetoid/../../x", root=tmp_path, download=False)
    assert "/../" not in str(caught.value).partition(" is not in ")[2]


@pytest.mark.parametrize(
    ("data", "found"),
    [([Data(), Data()], "2 graphs"), ([HeteroData()], "no type of edges"), ([Data(x=EYE)], "edge_index")],
)
def test_what_is_not_a_single_graph(data: Any, found: str) -> None:
    with pytest.raises(DataError, match=f"pyg:X.*{found}"):
        graph_of(data, "pyg:X")


PAPERS, AUTHORS = torch.tensor([[1.0, 5], [3, 7], [5, 9]]), torch.eye(2)
WRITES, CITES = torch.tensor([[0, 1, 1], [0, 1, 2]]), torch.tensor([[0, 1], [1, 2]])


def library() -> HeteroData:
    """Three papers with two numbers each and classes; two authors with counts of 40 words."""
    data = HeteroData()
    data["paper"].x, data["paper"].y = PAPERS, torch.tensor([0, 1, 1])
    data["author"].x = torch.nn.functional.pad(AUTHORS, (0, 38)).to_sparse()
    data["author", "writes", "paper"].edge_index = WRITES
    data["paper", "cites", "paper"].edge_index = CITES
    return data


def test_types_of_nodes_and_edges() -> None:
    graph = Graph.from_pyg(library())
    assert graph.names.tolist() == ["paper/0", "paper/1", "paper/2", "author/0", "author/1"]
    assert graph.labels.tolist() == [0, 1, 1, -1, -1] and graph.directed
    kinds = [(block.kind, block.stop - block.start, block.title) for block in graph.blocks]
    assert kinds == [("categories", 2, "type"), ("numbers", 2, "paper"), ("words", 40, "author")]
    features = graph.features.toarray()
    assert features[:, :2].tolist() == [[1, 0]] * 3 + [[0, 1]] * 2
    np.testing.assert_allclose(features[:3, 2:4], (PAPERS.numpy() - PAPERS.numpy().mean(0)) / PAPERS.numpy().std(0))
    assert not features[3:, 2:4].any() and not features[:3, 4:].any()
    assert (features[3:, 4:6] == AUTHORS.numpy()).all()
    found = {name: list(zip(*(ends.tolist() for ends in matrix.nonzero()))) for name, matrix in graph.relations.items()}
    assert found == {"writes": [(3, 0), (4, 1), (4, 2)], "cites": [(0, 1), (1, 2)]}
    whole = sum(matrix.toarray() for matrix in graph.relations.values())
    assert (graph.arcs.toarray() == whole).all() and (graph.adjacency.toarray() == (whole + whole.T > 0)).all()
    again = Graph.from_pyg(graph.to_pyg())
    assert (again.arcs != graph.arcs).nnz == 0 and list(again.relations) == ["writes", "cites"]


def test_types_with_weights_names_and_equal_titles() -> None:
    data = library()
    data["author"].names = ["Ada", "Bob"]
    data["author", "writes", "paper"].edge_weight = torch.tensor([2.0, 1, 3])
    data["author", "cites", "paper"].edge_index = WRITES[:, :1]
    graph = Graph.from_pyg(data)
    assert graph.names.tolist()[3:] == ["Ada", "Bob"]
    assert list(graph.relations) == ["writes", "paper cites paper", "author cites paper"]
    assert graph.arcs[3, 0] == 3 and graph.relations["writes"].max() == 3 and graph.arcs[0, 1] == 1
    numbered = Data(edge_index=CITES, edge_type=torch.tensor([4, 7]), num_nodes=3)
    assert list(Graph.from_pyg(numbered).relations) == ["4", "7"]
    data["author", "writes", "paper"].edge_index = WRITES + 1
    with pytest.raises(GraphError, match=r"'writes', 'paper'\) join nodes"):
        Graph.from_pyg(data)


def test_types_that_lack_something() -> None:
    data = library()
    del data["paper"].x, data["author"].x, data["paper"].y
    data["paper"].num_nodes, data["author"].num_nodes = 3, 2
    graph = Graph.from_pyg(data)
    assert graph.labels is None and [block.title for block in graph.blocks] == ["type"]
    data["author", "knows", "author"].edge_index = torch.empty((2, 0), dtype=torch.int64)
    with pytest.warns(UserWarning, match="knows"):
        assert Graph.from_pyg(data).hash == graph.hash
    del data["author", "knows", "author"]
    for kind in ("paper", "author"):
        data[kind].y = torch.arange(data[kind].num_nodes)
    with pytest.raises(GraphError, match=r"'paper' and 'author'.*target"):
        Graph.from_pyg(data)
    with pytest.raises(GraphError, match=r"target is 'writer'.*author"):
        Graph.from_pyg(data, target="writer")
    assert Graph.from_pyg(data, target="author").labels.tolist() == [-1, -1, -1, 0, 1]
    data["author"].names = ["Ada"]
    with pytest.raises(GraphError, match="'author' has 1 names"):
        Graph.from_pyg(data, target="author")
    with pytest.raises(GraphError, match="edge_type has shape"):
        Graph.from_pyg(Data(edge_index=CITES, edge_type=torch.tensor([4]), num_nodes=3))


@pytest.mark.parametrize("typed", [True, False])
def test_stores_are_the_data_they_hold(typed: bool) -> None:
    data: Any = library() if typed else Data(x=EYE, y=torch.tensor([0, 1, 1]), edge_index=CITES)
    features, edges = MyFeatureStore(), MyGraphStore()
    for kind in data.node_types if typed else [None]:
        for name in ("x", "y", "time"):
            value = PAPERS if name == "time" else getattr(data[kind] if typed else data, name, None)
            if value is not None:
                features.put_tensor(value.to_dense(), group_name=kind, attr_name=name, index=None)
    for kind in data.edge_types if typed else [None]:
        size = tuple(data[end].num_nodes for end in (kind[0], kind[2])) if typed else (3, 3)
        ends = tuple((data[kind] if typed else data).edge_index)
        edges.put_edge_index(ends, edge_type=kind, layout="coo", size=size)
    with pytest.warns(UserWarning, match="time"):
        found = Graph.from_stores(features, edges)
    assert found.hash == Graph.from_pyg(data).hash
    assert Graph.from_stores(data, data).hash == found.hash
