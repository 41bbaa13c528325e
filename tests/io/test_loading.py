from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import naq
from naq import Graph
from naq.errors import DataError, TaskError
from naq.io import DATASETS, listing, load, save_graph, split_for
from naq.io.catalog import find
from naq_paper.experiments.experiment import EXPERIMENTS
from naq_paper.experiments.names import PAPER_DATASETS
from shared_data import shared


def test_a_graph_knows_where_it_came_from(small: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_graph("mine.npz", small)
    graph = naq.load("mine.npz")
    assert load(tmp_path / "mine.npz").hash == graph.hash and graph.name == "mine"
    assert graph.source == str(tmp_path / "mine.npz")
    assert small.source is None and graph.hash == small.hash
    assert graph.without_labels().source == graph.with_features(None).source == graph.source
    assert graph.with_labels(graph.labels).source is None
    assert load("Debian").source == "debian"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("coar-full", "did you mean cora-full"), ("Amazon_cloth", "did you mean amazon-clothing"),
        ("zzzz", "debian, amazon-clothing, .*ogbn-products"), ("", "''"), ("x" * 5000, "'xxx"),
        ("here/nothing.npz", "here/nothing.npz does not exist"), ("nothing.npz", "nothing.npz does not exist"),
        ("some/folder", "some/folder does not exist"),
    ],
)  # fmt: skip
def test_unknown(name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=message):
        load(name)


@pytest.mark.parametrize("name", ["a.dat", "odd.mat", "folder"])
def test_other_formats(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for file in ("a.dat", "odd.mat"):
        (tmp_path / file).write_text("1,2\n")
    with pytest.raises(DataError, match=f"{name} .*; expected"):
        load(tmp_path / name)


def test_a_graph_file_in_the_root_answers_for_a_name(small: Graph, tmp_path: Path) -> None:
    save_graph(tmp_path / "amazon-clothing.npz", small)
    graph = load("Amazon_clothing", root=tmp_path, download=False)
    assert (graph.name, graph.hash) == ("amazon-clothing", small.hash)


def test_ogb_is_read_once(tmp_path: Path, write_ogb: Callable[..., Path]) -> None:
    folder = tmp_path / "ogbn-arxiv"
    raw = write_ogb(tmp_path / "raw_files")
    folder.mkdir()
    with zipfile.ZipFile(folder / "arxiv.zip", "w") as archive:
        for file in (raw / "raw").iterdir():
            archive.write(file, f"arxiv/raw/{file.name}")
    graph = load("ogbn-arxiv", root=tmp_path, download=False)
    assert (tmp_path / "ogbn-arxiv.npz").is_file()
    (folder / "arxiv.zip").unlink()
    again = load("ogbn-arxiv", root=tmp_path, download=False)
    assert (again.hash, again.name) == (graph.hash, "ogbn-arxiv")


def test_catalogue(tmp_path: Path) -> None:
    assert set(DATASETS) >= {"debian", "amazon-clothing", "amazon-electronics", "dblp", "cora-full", "ogbn-arxiv"}
    assert find("Cora_full") is DATASETS["cora-full"] and find("cora/full") is None
    for name, dataset in DATASETS.items():
        assert dataset.name == name and name == name.lower() and dataset.description
        by_hand = name in ("payments", "amazon-clothing-half")
        assert bool(dataset.files) != (by_hand or dataset.reader in ("bundled", "pyg"))
        assert dataset.split is None or sum(dataset.split) in (dataset.classes, 47)
        for remote in dataset.files:
            assert remote.url.startswith("https://") and remote.url.endswith(remote.file)
            assert remote.mirror == "" or remote.mirror.startswith("https://")
            assert remote.sha256 is None or len(remote.sha256) == 64


def test_every_dataset_of_the_paper_and_of_practice_has_a_name() -> None:
    assert set(PAPER_DATASETS) | set(EXPERIMENTS["practice"].datasets) <= set(DATASETS)


@pytest.mark.parametrize("name", [name for name, dataset in DATASETS.items() if dataset.hash and name != "debian"])
def test_the_catalogue_has_the_facts_of_the_graphs(name: str, tmp_path: Path) -> None:
    dataset, path = DATASETS[name], shared(f"{name.replace('-', '_')}.npz")
    graph = load(name, root=path.parent)
    facts = [graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes]
    assert facts == [dataset.nodes, dataset.edges, dataset.features, dataset.classes] and graph.hash == dataset.hash
    assert round(graph.homophily(), 2) == dataset.homophily and (graph.name, graph.source) == (name, name)
    if dataset.split is not None:
        split = split_for(name, graph, root=path.parent)
        assert (len(split.base), len(split.valid), len(split.test)) == tuple(dataset.split)
    else:
        with pytest.raises(TaskError):
            split_for(name, graph, root=path.parent)


@pytest.mark.parametrize("name", ["payments", "cora", "citeseer"])
def test_a_dataset_that_cannot_be_downloaded_says_where_its_file_goes(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        load(name, root=tmp_path, download=False)
    assert str(tmp_path) in str(error.value) and f"{name}.npz" in str(error.value)


def test_listing(small: Graph, tmp_path: Path) -> None:
    rows = {row["name"]: row for row in listing(tmp_path)}
    assert list(rows) == list(DATASETS)
    assert rows["debian"]["state"] == "bundled" and rows["debian"]["nodes"] > 0
    assert rows["dblp"]["state"] == "to download"
    assert (rows["cora"]["state"], rows["payments"]["state"]) == ("to download", "by hand")
    save_graph(tmp_path / "dblp.npz", small)
    assert {row["name"]: row for row in listing(tmp_path)}["dblp"]["state"] == "on disk"
    (tmp_path / "amazon_computers.npz").write_bytes(b"no graph")
    found = {row["name"]: row["state"] for row in listing(tmp_path, measure=True)}
    assert f"{small.num_nodes:,} nodes" in found["dblp"] and "amazon_computers.npz" in found["amazon-computers"]


@pytest.mark.parametrize(
    ("given", "named"), [({"label": "x"}, "label= is"), ({"ignore": ["a"]}, "ignore= is"),
                         ({"label": "x", "ignore": "a"}, "label= and ignore= are"), ({"nodes": "n.csv"}, "nodes= is")],
)  # fmt: skip
def test_options_of_tables_are_not_for_a_graph_file(given: dict[str, Any], named: str, tmp_path: Path) -> None:
    save_graph(tmp_path / "g.npz", naq.Graph([[0], [1]], nodes=2))
    with pytest.raises(DataError, match=f"{named} given") as error:
        naq.load(tmp_path / "g.npz", **given)
    assert all((f"{name}=" in str(error.value)) == (name in given) for name in ("label", "ignore", "nodes"))
