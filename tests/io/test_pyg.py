from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric import datasets
from torch_geometric.data import Data, HeteroData, InMemoryDataset

from naq.errors import DataError
from naq.io import load, tasks_path
from naq.io.pyg import graph_of


def test_a_dataset_that_needs_no_network(tmp_path: Path) -> None:
    graph = load("pyg:KarateClub", root=tmp_path, download=False)
    assert (graph.name, graph.num_nodes, graph.num_edges, graph.num_classes) == ("KarateClub", 34, 78, 4)


class Toy(InMemoryDataset):
    """Stands for any dataset class of PyG."""

    def __init__(self, root: str, name: str) -> None:
        super().__init__(None)
        if name == "offline":
            raise ConnectionRefusedError("no network")
        if name == "broken":
            raise AssertionError("not a name")
        self.seen = (root, name)
        self._data = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([0, 1, 1]))

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
        ("pyg:Toy", r"cannot be made with these arguments \(.*name.*\); write pyg:Toy/NAME"),
        ("pyg:Toy/offline", r"could not be downloaded to .* \(no network\); check the network"),
        ("pyg:Toy/broken", r"could not be read by PyG \(AssertionError: not a name\)"),
        ("pyg:Planetoit/Cora", "PyG has no dataset 'Planetoit'; nearest: Planetoid"),
        ("pyg:", "PyG has no dataset ''"),
        ("pyg:os", "PyG has no dataset 'os'"),
        ("pyg:KarateClub/x", "takes no name; write pyg:KarateClub"),
    ],
)
def test_bad_names(tmp_path: Path, source: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(source, root=tmp_path)


def test_downloading_switched_off(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"pyg:Planetoid/Cora is not in .* and downloading is switched off"):
        load("pyg:Planetoid/Cora", root=tmp_path, download=False)


def test_sub_name_cannot_leave_the_root(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="downloading is switched off") as caught:
        load("pyg:Planetoid/../../x", root=tmp_path, download=False)
    assert "/../" not in str(caught.value).partition(" is not in ")[2]


def test_what_is_no_single_graph() -> None:
    with pytest.raises(DataError, match="holds 2 graphs; expected a dataset of one graph"):
        graph_of([Data(), Data()], "pyg:X")
    with pytest.raises(DataError, match="holds a HeteroData; expected one homogeneous graph"):
        graph_of([HeteroData()], "pyg:X")
    with pytest.raises(DataError, match="pyg:X: data has no edge_index"):
        graph_of([Data(x=torch.eye(2))], "pyg:X")
