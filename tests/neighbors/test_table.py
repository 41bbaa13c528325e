"""The table of neighbours: checks, file, cache, and rows that are completed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphs import islands, random_counts, random_edges, random_graph
from naq import Graph, NeighborTable, diffusion_neighbors, feature_neighbors, vector_neighbors
from naq.errors import DataError, GraphError, OptionError
from naq.files import cache_folder, write_npz
from naq.neighbors import diffusion, feature, table
from naq.neighbors.power import ppr_subgraphs
from naq.neighbors.table import FILLS

IDS = np.array([[1, 2], [0, -1], [1, 0]], dtype=np.int32)
SCORES = np.array([[0.5, 0.25], [0.5, 0], [1, 0.5]])
K = 8


def test_shape_counts_and_repr() -> None:
    small = NeighborTable(IDS, SCORES, {"kind": "toy"})
    assert (small.num_nodes, small.k, small.counts.tolist()) == (3, 2, [2, 1, 2])
    assert repr(small) == "NeighborTable(nodes=3, k=2, toy)"
    assert small.scores.dtype == np.float32 and not small.ids.flags.writeable
    first = small.first(1)
    assert first.ids.tolist() == [[1], [0], [1]] and first.info == {"kind": "toy", "k": 1}
    for k in (0, 3):
        with pytest.raises(OptionError, match="k="):
            small.first(k)


@pytest.mark.parametrize(
    ("ids", "scores"),
    [(IDS[0], SCORES[0]), (IDS, SCORES[:, :1]), (IDS.astype(float), SCORES), (IDS + 1, SCORES), (IDS - 1, SCORES)],
)
def test_what_is_not_a_table(ids: np.ndarray, scores: np.ndarray) -> None:
    with pytest.raises(DataError, match="table"):
        NeighborTable(ids, scores)


def test_save_and_load(tmp_path: Path) -> None:
    made = diffusion_neighbors(random_graph(), k=4)
    again = NeighborTable.load(made.save(tmp_path / "t.npz"))
    assert equal(again, made) and again.ids.dtype == made.ids.dtype
    for arrays in ({"x": np.ones(2)}, {"ids": IDS, "scores": SCORES, "info": np.array("{")}):
        with pytest.raises(DataError, match="npz"):
            NeighborTable.load(write_npz(tmp_path / "t.npz", arrays))


COUNTS = Graph(random_edges(700, 1000, seed=6), random_counts(700, 50, heavy=3), nodes=700)
ROWS = np.random.default_rng(0).standard_normal((12, 64))[np.arange(700) % 12] + 0.25 * np.random.default_rng(
    1
).standard_normal((700, 64))
TABLES: dict[str, Callable[..., NeighborTable]] = {
    "features, by columns": partial(feature_neighbors, COUNTS, k=10),
    "features, in blocks": partial(feature_neighbors, COUNTS, k=10, device="cpu:0"),
    "diffusion, exact": partial(diffusion_neighbors, COUNTS, k=10, method="exact"),
    "diffusion, pushed": partial(diffusion_neighbors, COUNTS, k=10, method="push"),
    "vectors, exact": partial(vector_neighbors, ROWS, k=10, exact=True),
    "vectors, by clusters": partial(vector_neighbors, ROWS, k=10, exact=False),
    "sub-graphs, exact": partial(ppr_subgraphs, COUNTS, method="exact"),
    "sub-graphs, pruned": partial(ppr_subgraphs, COUNTS, method="pruned"),
}


@pytest.mark.parametrize("name", TABLES)
def test_progress_reaches_the_end_and_threads_do_not_matter(name: str, threads: Callable[[int], None]) -> None:
    before, tables = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            threads(count)
            torch.set_num_threads(count)
            seen: list[tuple[int, int]] = []
            tables.append(TABLES[name](progress=lambda done, of, seen=seen: seen.append((done, of))))
            assert seen == sorted(seen) and seen[-1] == (700, 700)
    finally:
        torch.set_num_threads(before)
    assert equal(*tables)


@pytest.mark.parametrize(("kind", "wrong"), [
    *((kind, {"k": k}) for kind in ("features", "diffusion", "vectors") for k in (0, -1, 2.0, True, "3", 700)),
    *(("features", wrong) for wrong in ({"metric": "cosin"}, {"search": "fast"}, {"fill": "feature"})),
    *(("diffusion", {"alpha": alpha}) for alpha in (0.0, 1.0, float("nan"))),
    *(("diffusion", wrong) for wrong in ({"tolerance": 0.0}, {"tolerance": -1}, {"method": "fast"})),
    *(("sub-graphs", wrong) for wrong in ({"size": 0}, {"size": 2.0}, {"method": "fast"})),
    *(("vectors", {"vectors": x}) for x in (np.ones(4), np.ones((2, 2, 2)), np.full((13, 1), np.nan))),
    ("vectors", {"vectors": np.full((13, 1), np.inf)}),
])  # fmt: skip
def test_options_are_checked(kind: str, wrong: dict[str, Any]) -> None:
    made = TABLES[f"{kind}, {'by columns' if kind == 'features' else 'exact'}"]
    given = {**made.keywords, "k": 5, **wrong} if kind != "sub-graphs" else {**made.keywords, **wrong}
    rows = [given.pop("vectors")] if "vectors" in given else made.args
    with pytest.raises(OptionError, match=next(iter(wrong))):
        made.func(*rows, **given)


def test_k_may_be_any_whole_number() -> None:
    assert feature_neighbors(random_graph(), k=np.int64(59)).k == 59
    with pytest.raises(OptionError, match="k is"):
        diffusion_neighbors(Graph([[], []], nodes=1), k=1)
    rows = torch.from_numpy(ROWS)
    assert equal(vector_neighbors(rows, 3), vector_neighbors(ROWS, 3))


def equal(one: NeighborTable, two: NeighborTable) -> bool:
    return np.array_equal(one.ids, two.ids) and np.array_equal(one.scores, two.scores) and one.info == two.info


def test_a_cached_table_is_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph()
    plain = [diffusion_neighbors(graph, k=4), feature_neighbors(graph, k=4, metric="jaccard")]
    for _ in range(2):
        kept = [
            diffusion_neighbors(graph, k=4, cache=tmp_path),
            feature_neighbors(graph.without_labels(), k=4, metric="jaccard", cache=tmp_path),
        ]
        assert all(map(equal, kept, plain)) and len(list((tmp_path / "tables").iterdir())) == 2
        monkeypatch.setattr(diffusion, "exact_topk", None)
        monkeypatch.setattr(feature, "inverted_index_topk", None)
    for other, change in ((graph, {"k": 3}), (graph, {"alpha": 0.2}), (graph, {"self_loops": False}), (islands(), {})):
        with pytest.raises(TypeError):  # computed again
            diffusion_neighbors(other, **({"k": 4, "cache": tmp_path} | change))


def test_one_cached_table_serves_all_features_labels_and_fills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = islands()
    others = [graph.without_labels(), graph.with_features(graph.features[::-1]), Graph(graph.adjacency)]
    diffusion_neighbors(graph, k=8, cache=tmp_path)
    plain = {fill: diffusion_neighbors(others[1], k=8, fill=fill) for fill in FILLS}
    monkeypatch.setattr(diffusion, "exact_topk", None)
    for other in others:
        assert np.array_equal(diffusion_neighbors(other, k=8, cache=tmp_path).ids, plain["none"].ids)
    for fill, expected in plain.items():
        assert equal(diffusion_neighbors(others[1], k=8, fill=fill, cache=tmp_path), expected)
    assert not np.array_equal(plain["feature"].ids, diffusion_neighbors(graph, k=8, fill="feature", cache=tmp_path).ids)


@pytest.mark.parametrize("damage", ["truncated", "junk", "empty", "other size", "no info", "shuffled", "other graph"])
def test_a_corrupted_cache_file_is_made_again(tmp_path: Path, damage: str) -> None:
    graph = random_graph()
    good = diffusion_neighbors(graph, k=4, cache=tmp_path)
    (path,) = (tmp_path / "tables").iterdir()
    whole = path.read_bytes()
    if damage == "other size":
        good.first(2).save(path)
    elif damage == "shuffled":
        NeighborTable(good.ids[::-1], good.scores, good.info).save(path)
    elif damage == "other graph":
        diffusion_neighbors(random_graph(seed=1), k=4, cache=tmp_path / "other")
        (other,) = (tmp_path / "other" / "tables").iterdir()
        other.replace(path)
    elif damage == "no info":
        write_npz(path, {"ids": good.ids, "scores": good.scores})
    else:
        path.write_bytes({"truncated": whole[: len(whole) // 2], "junk": b"junk" * 50, "empty": b""}[damage])
    with pytest.warns(UserWarning, match="made again"):
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


@pytest.fixture(scope="module")
def short() -> list[list[int]]:
    """Components of islands(): 0 5 9 2, 1 7, 10..21, and 3 4 6 8 alone."""
    ids = diffusion_neighbors(islands(), k=K).ids
    sizes = np.bincount(islands().components)[islands().components]
    assert (ids >= 0).sum(axis=1).tolist() == np.minimum(sizes - 1, K).tolist(), "none leaves what is missing"
    return [[j for j in row if j >= 0] for row in ids.tolist()]


def test_lowest_completes_with_the_lowest_ids_and_may_name_the_node_itself(short: list[list[int]]) -> None:
    filled = diffusion_neighbors(islands(), k=K, fill="lowest")
    for i, have in enumerate(short):
        assert filled.ids[i].tolist() == have + [j for j in range(22) if j not in have][: K - len(have)]
        assert (filled.scores[i, len(have) :] == 0).all()
    assert 3 in filled.ids[3] and 10 not in filled.ids[10]


def test_random_is_seeded_distinct_and_never_the_node(short: list[list[int]]) -> None:
    one, two, other = (diffusion_neighbors(islands(), k=K, fill="random", seed=s).ids for s in (0, 0, 1))
    assert np.array_equal(one, two) and not np.array_equal(one, other)
    for i, have in enumerate(short):
        assert one[i, : len(have)].tolist() == have
        assert len(set(one[i].tolist())) == K and i not in one[i] and (one[i] >= 0).all()


def test_random_on_a_larger_graph_is_uniform_and_each_nodes_own() -> None:
    empty = Graph([[0], [1]], nodes=400)
    ids = diffusion_neighbors(empty, k=5, fill="random").ids
    assert all(len(set(row)) == 5 for row in ids.tolist()) and not (ids == np.arange(400)[:, None]).any()
    assert ids[0, 0] == 1 and ids[1, 0] == 0
    assert np.bincount(ids[2:].ravel(), minlength=400).std() == pytest.approx(np.sqrt(5), rel=0.2)
    assert len(np.unique(ids[2:], axis=0)) == 398
    every = diffusion_neighbors(empty, k=399, fill="random").ids
    assert np.array_equal(np.sort(every[7]), np.delete(np.arange(400), 7))


def test_feature_completes_in_the_order_of_the_features(short: list[list[int]]) -> None:
    filled, near = diffusion_neighbors(islands(), k=K, fill="feature"), feature_neighbors(islands(), k=K).ids
    for i, have in enumerate(short):
        expected = (have + [j for j in near[i].tolist() if j >= 0 and j not in have])[:K]
        assert filled.ids[i].tolist() == expected + [-1] * (K - len(expected))
    with pytest.raises(GraphError, match="fill"):
        diffusion_neighbors(Graph(islands().adjacency), k=3, fill="feature")
    with pytest.raises(OptionError, match="fill"):
        diffusion_neighbors(random_graph(), k=3, fill="zero")
