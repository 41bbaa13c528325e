from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphs import islands, random_graph
from naq import Graph, NeighborTable, diffusion_neighbors, feature_neighbors
from naq.errors import DataError, OptionError
from naq.files import cache_folder, write_npz
from naq.neighbors import diffusion, feature, table
from naq.neighbors.table import FILLS

IDS = np.array([[1, 2], [0, -1], [1, 0]], dtype=np.int32)
SCORES = np.array([[0.5, 0.25], [0.5, 0], [1, 0.5]])


def test_shape_counts_and_repr() -> None:
    small = NeighborTable(IDS, SCORES, {"kind": "toy"})
    assert (small.num_nodes, small.k, small.counts.tolist()) == (3, 2, [2, 1, 2])
    assert repr(small) == "NeighborTable(nodes=3, k=2, toy)"
    assert small.scores.dtype == np.float32
    with pytest.raises(ValueError, match="read-only"):
        small.ids[0, 0] = 2
    first = small.first(1)
    assert first.ids.tolist() == [[1], [0], [1]] and first.info == {"kind": "toy", "k": 1}
    for k in (0, 3):
        with pytest.raises(OptionError, match=f"first {k} neighbours were asked for, but the table holds 2"):
            small.first(k)


@pytest.mark.parametrize(
    ("ids", "scores"),
    [
        (IDS[0], SCORES[0]),
        (IDS, SCORES[:, :1]),
        (IDS.astype(float), SCORES),
        (IDS + 1, SCORES),
        (IDS - 1, SCORES),
    ],
)
def test_what_is_no_table(ids: np.ndarray, scores: np.ndarray) -> None:
    with pytest.raises(DataError, match=r"no neighbour table|the table names node"):
        NeighborTable(ids, scores)


def test_save_and_load(tmp_path: Path) -> None:
    made = diffusion_neighbors(random_graph(), k=4)
    again = NeighborTable.load(made.save(tmp_path / "t.npz"))
    assert np.array_equal(again.ids, made.ids) and np.array_equal(again.scores, made.scores)
    assert again.ids.dtype == made.ids.dtype and again.info == made.info


def test_files_that_hold_no_table(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is no neighbour table; .*found \['x'\]"):
        NeighborTable.load(write_npz(tmp_path / "a.npz", {"x": np.ones(2)}))
    with pytest.raises(DataError, match="damaged description"):
        NeighborTable.load(write_npz(tmp_path / "b.npz", {"ids": IDS, "scores": SCORES, "info": np.array("{")}))


@pytest.mark.parametrize(
    ("k", "message"),
    [
        (0, "k is 0; expected a whole number of at least 1"),
        (-1, "k is -1"),
        (2.0, "k is 2.0"),
        (True, "k is True"),
        ("3", "k is '3'"),
        (60, "k is 60, but graph 'random' has 60 nodes, so a node has 59 others at most"),
    ],
)
def test_k_is_checked(k: Any, message: str) -> None:
    for make in (feature_neighbors, diffusion_neighbors):
        with pytest.raises(OptionError, match=message):
            make(random_graph(), k=k)
    assert feature_neighbors(random_graph(), k=np.int64(59)).k == 59


def fail(*_: Any, **__: Any) -> Any:
    raise AssertionError("computed again")


def equal(one: NeighborTable, two: NeighborTable) -> bool:
    return np.array_equal(one.ids, two.ids) and np.array_equal(one.scores, two.scores) and one.info == two.info


def test_cache_round_trip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph()
    plain = [diffusion_neighbors(graph, k=4), feature_neighbors(graph, k=4, metric="jaccard")]
    for _ in range(2):
        kept = [
            diffusion_neighbors(graph, k=4, cache=tmp_path),
            feature_neighbors(graph.without_labels(), k=4, metric="jaccard", cache=tmp_path),
        ]
        assert all(map(equal, kept, plain))
        assert len(list((tmp_path / "tables").iterdir())) == 2
        monkeypatch.setattr(diffusion, "exact_topk", fail)
        monkeypatch.setattr(feature, "inverted_index_topk", fail)
    for change in ({"k": 3}, {"alpha": 0.2}, {"self_loops": False}):
        with pytest.raises(AssertionError, match="computed again"):
            diffusion_neighbors(graph, **({"k": 4, "cache": tmp_path} | change))
    with pytest.raises(AssertionError, match="computed again"):
        diffusion_neighbors(random_graph(seed=1), k=4, cache=tmp_path)


def test_one_cached_table_serves_all_features_labels_and_fills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = islands()
    others = [graph.without_labels(), graph.with_features(graph.features[::-1]), Graph(graph.adjacency)]
    diffusion_neighbors(graph, k=8, cache=tmp_path)
    (only,) = (tmp_path / "tables").iterdir()
    plain = {fill: diffusion_neighbors(others[1], k=8, fill=fill) for fill in FILLS}
    monkeypatch.setattr(diffusion, "exact_topk", fail)
    for other in others:
        assert np.array_equal(diffusion_neighbors(other, k=8, cache=tmp_path).ids, plain["none"].ids)
    for fill, expected in plain.items():
        assert equal(diffusion_neighbors(others[1], k=8, fill=fill, cache=tmp_path), expected)
        assert only.exists()
    assert not np.array_equal(plain["feature"].ids, diffusion_neighbors(graph, k=8, fill="feature", cache=tmp_path).ids)


@pytest.mark.parametrize(
    "damage", ["truncated", "junk", "empty", "other size", "no info", "shuffled", "another graph's"]
)
def test_a_corrupted_cache_file_is_made_again(tmp_path: Path, damage: str) -> None:
    graph = random_graph()
    good = diffusion_neighbors(graph, k=4, cache=tmp_path)
    (path,) = (tmp_path / "tables").iterdir()
    whole = path.read_bytes()
    if damage == "other size":
        good.first(2).save(path)
    elif damage == "shuffled":
        NeighborTable(good.ids[::-1], good.scores, good.info).save(path)
    elif damage == "another graph's":
        diffusion_neighbors(random_graph(seed=1), k=4, cache=tmp_path / "other")
        (other,) = (tmp_path / "other" / "tables").iterdir()
        other.replace(path)
    elif damage == "no info":
        write_npz(path, {"ids": good.ids, "scores": good.scores})
    else:
        path.write_bytes({"truncated": whole[: len(whole) // 2], "junk": b"junk" * 50, "empty": b""}[damage])
    with pytest.warns(UserWarning, match="a neighbour table of the cache is not used and is made again"):
        assert equal(diffusion_neighbors(graph, k=4, cache=tmp_path), good)
    assert path.read_bytes() == whole


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NAQ_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("NAQ_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "naq"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(table.Path, "home", lambda: tmp_path)
    assert cache_folder() == tmp_path / ".cache" / "naq"
