from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import naq
from naq import Graph
from naq.errors import DataError
from naq.io import DATASETS, listing, load, save_graph
from naq.io.catalog import find


def test_npz_by_string_and_path(small: Graph, tmp_path: Path) -> None:
    path = save_graph(tmp_path / "mine.npz", small)
    assert naq.load(str(path)).hash == naq.load(path).hash == small.hash
    assert load(path).name == "mine"


def test_a_graph_knows_where_it_came_from(small: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_graph("mine.npz", small)
    graph = load("mine.npz")
    assert graph.source == str(tmp_path / "mine.npz")
    assert small.source is None and graph.hash == small.hash
    assert graph.without_labels().source == graph.with_features(None).source == graph.source
    assert graph.with_labels(graph.labels).source is None
    assert load("Debian").source == "debian"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "coar-full",
            r"there is no dataset 'coar-full' \(nearest: cora-full.*\), and no such file; give a name",
        ),
        ("Amazon_cloth", r"nearest: amazon-clothing"),
        ("zzzz", r"\(known: debian, amazon-clothing, .*ogbn-products\)"),
        ("", "there is no dataset ''"),
        ("x" * 5000, "there is no dataset 'xxx"),
        ("here/nothing.npz", "here/nothing.npz does not exist; expected a graph npz"),
        ("nothing.npz", "nothing.npz does not exist"),
        ("some/folder", "some/folder does not exist"),
    ],
)
def test_unknown(name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=message):
        load(name)


def test_other_formats(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not in a format that can be read; expected a graph npz"):
        load(tmp_path)
    (tmp_path / "a.dat").write_text("1,2\n")
    with pytest.raises(DataError, match=r"a.dat is not in a format that can be read; .*an edge list \(.csv, "):
        load(tmp_path / "a.dat")
    (tmp_path / "odd.mat").write_bytes(b"")
    with pytest.raises(DataError, match=r"odd.mat is not part of a GPN dataset; expected NAME_train.mat"):
        load(tmp_path / "odd.mat")


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


def test_names_in_any_spelling() -> None:
    assert find("Cora_full") is DATASETS["cora-full"]
    assert find("cora/full") is None


def test_catalogue(tmp_path: Path) -> None:
    assert set(DATASETS) >= {
        "debian",
        "amazon-clothing",
        "amazon-electronics",
        "dblp",
        "cora-full",
        "ogbn-arxiv",
    }
    for name, dataset in DATASETS.items():
        assert dataset.name == name and name == name.lower() and dataset.description
        assert bool(dataset.files) != (dataset.reader == "bundled")
        for remote in dataset.files:
            assert remote.url.startswith("http") and remote.url.endswith(remote.file)
            assert remote.sha256 is None or len(remote.sha256) == 64


def test_listing(small: Graph, tmp_path: Path) -> None:
    rows = {row["name"]: row for row in listing(tmp_path)}
    assert list(rows) == list(DATASETS)
    assert rows["debian"]["state"] == "bundled" and rows["debian"]["nodes"] > 0
    assert rows["dblp"]["state"] == "to download"
    save_graph(tmp_path / "dblp.npz", small)
    assert {row["name"]: row for row in listing(tmp_path)}["dblp"]["state"] == "on disk"
