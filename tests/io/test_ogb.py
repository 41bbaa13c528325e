from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from naq.errors import DataError
from naq.io import load

Write = Callable[..., Path]


def zipped(folder: Path, prefix: str = "arxiv/") -> Path:
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted((folder / "raw").iterdir()):
            archive.write(file, f"{prefix}raw/{file.name}")
        archive.writestr("../../outside.txt", "never written")
        archive.writestr(f"{prefix}split/time/train.csv.gz", b"not needed")
    return path


def test_reads_folder_raw_folder_and_zip(write_ogb: Write) -> None:
    folder = write_ogb()
    graph = load(folder)
    assert (graph.name, graph.num_nodes, graph.num_edges) == ("arxiv", 4, 3)
    assert graph.labels.tolist() == [0, 1, 1, 0]
    assert np.array_equal(graph.features, np.float32([[0.5, -1e-3], [1.25, 2], [-0.0625, 3], [7, 8.5]]))
    assert load(folder / "raw").hash == graph.hash
    assert load(zipped(folder)).hash == graph.hash
    assert not (folder.parent.parent / "outside.txt").exists()


def test_members_may_have_hostile_prefixes(write_ogb: Write, tmp_path: Path) -> None:
    folder = write_ogb(tmp_path / "deep" / "arxiv")
    before = set(tmp_path.rglob("*"))
    path = zipped(folder, prefix="../../../x/")
    assert load(path).num_nodes == 4
    assert set(tmp_path.rglob("*")) - before == {path}


def test_optional_files(write_ogb: Write) -> None:
    graph = load(write_ogb(num_edge_list=None, node_feat=None, node_label="0\nnan\n1.0\n0\n"))
    assert graph.features is None
    assert graph.labels.tolist() == [0, -1, 1, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"node_feat": "1,2\n3,4\n"}, "node-feat.csv.gz has 2 rows; expected 4: it may be damaged"),
        ({"node_label": "0\n1\n1\n0\n1\n"}, "node-label.csv.gz has more than 4 rows"),
        ({"node_label": None}, "0 files raw/node-label.csv.gz"),
        ({"node_label": "0\n1\n1\n0.5\n"}, "labels are not whole numbers"),
        ({"node_label": "0\n1\n1\n1e9\n"}, "number the classes"),
        ({"edge": "0,1\n1,2\n3,4\n"}, "edge 2"),
        ({"edge": "0,1\n1,2\n"}, "edge.csv.gz has 2 rows; expected 3"),
        ({"edge": "0,1\n1,2\n3\n"}, "edge.csv.gz, line 3: '3' cannot be read; expected 2 whole numbers"),
        ({"num_node_list": "4\n4\n"}, "num-node-list.csv.gz holds 2 rows; expected one graph"),
        ({"num_node_list": "1000000000000\n"}, "expected one graph with one number below"),
        ({"num_node_list": "2000000000\n"}, "arxiv: node-feat.csv.gz"),
        ({"node_feat": "1,nan\n1,2\n1,2\n1,2\n"}, "features"),
    ],
)
def test_bad_content(write_ogb: Write, change: dict[str, str | None], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(write_ogb(**change))


def test_truncated_and_damaged(write_ogb: Write) -> None:
    folder = write_ogb()
    feature_file = folder / "raw" / "node-feat.csv.gz"
    whole = feature_file.read_bytes()
    for damaged in (whole[:-12], b"plain text", whole[:12] + b"\xff" * 10):
        feature_file.write_bytes(damaged)
        with pytest.raises(DataError, match=r"node-feat.csv.gz is damaged or truncated"):
            load(folder)
    feature_file.write_bytes(whole)
    path = zipped(folder)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match="is not a readable zip"):
        load(path)


def test_zip_with_two_graphs_or_none(write_ogb: Write, tmp_path: Path) -> None:
    path = zipped(write_ogb())
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("second/raw/edge.csv.gz", gzip.compress(b"0,1\n"))
    with zipfile.ZipFile(tmp_path / "none.zip", "w") as archive:
        archive.writestr("a.txt", "")
    for place, found in ((path, "2 files raw/edge"), (tmp_path / "none.zip", "0 files raw/num-node-list")):
        with pytest.raises(DataError, match=found):
            load(place)
