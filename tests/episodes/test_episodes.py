"""The episode type: overlaps, drops, shares and files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from scipy.stats import chisquare
from torch.utils.data import DataLoader
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader as PygLoader
from torch_geometric.nn import GraphConv

import naq
from methods_under_test import community_graph
from naq import Episodes
from naq.episodes import load_episodes
from naq.errors import DataError, NaqError, NoSuchItem, OptionError
from naq.files import write_npz


@st.composite
def any_episodes(draw: Any) -> Episodes:
    """Few nodes, so that queries repeat, clash and meet supports; some are missing, some masked."""
    count, way, shot, queries = (draw(st.integers(1, high)) for high in (4, 4, 2, 4))
    n = draw(st.integers(way * shot, way * shot + 6))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    support = np.stack([random.permutation(n)[: way * shot] for _ in range(count)]).reshape(count, way, shot)
    query = random.integers(-1, n, size=(count, way, queries))
    mask = (query >= 0) & (random.random(query.shape) < 0.9)
    return Episodes(support.astype(np.int32), query.astype(np.int32), mask)


def kept(episodes: Episodes, t: int) -> list[list[int]]:
    return [[int(q) for q, m in zip(episodes.query[t, j], episodes.mask[t, j]) if m] for j in range(episodes.way)]


@settings(max_examples=150, deadline=None)
@given(any_episodes(), st.integers(0, 5))
def test_overlaps_and_both_ways_to_drop_against_sets(episodes: Episodes, seed: int) -> None:
    clean, control, ratios = episodes.without_overlap(), episodes.without_random(seed), []
    for t in range(len(episodes)):
        slots, supports = [set(slot) for slot in kept(episodes, t)], set(episodes.support[t].ravel().tolist())
        flat = [q for slot in kept(episodes, t) for q in slot]
        ratios += [1 - len(set(flat)) / len(flat)] if flat else []
        alone = {q for q in flat if q not in supports and sum(q in s for s in slots) == 1}
        assert kept(clean, t) == [[q for q in slot if q in alone] for slot in kept(episodes, t)]
        assert sum(map(len, kept(control, t))) == sum(map(len, kept(clean, t)))
    assert episodes.overlap_ratio() == pytest.approx(np.mean(ratios) if ratios else 0.0)
    for found, name in ((clean, "drop_overlap"), (control, "drop_random")):
        assert found.info == {name: True} and np.array_equal(found.query, episodes.query)
        assert not (found.mask & ~episodes.mask).any()
    assert np.array_equal(clean.without_overlap().mask, clean.mask)


def test_without_random_drops_any_kept_query() -> None:
    """Of six kept queries two are dropped, each equally often, whether they overlap or not."""
    one = Episodes(
        np.array([[[0], [1]]]),
        np.array([[[2, 3, 4, -1], [3, 5, 6, 7]]]),
        np.array([[[True, True, True, False], [True, True, True, False]]]),
    )
    many = Episodes(*(np.repeat(getattr(one, name), 6000, axis=0) for name in ("support", "query", "mask")))
    dropped = (many.mask & ~many.without_random(3).mask).reshape(6000, 8)
    assert (dropped.sum(axis=1) == 2).all()
    times = dropped.sum(axis=0)[many.mask[0].ravel()]
    assert chisquare(times).pvalue > 1e-3
    pairs = np.unique(dropped @ (1 << np.arange(8)), return_counts=True)[1]
    assert len(pairs) == 15 and chisquare(pairs).pvalue > 1e-3
    assert np.array_equal(many[:100].without_random(3).mask, many.without_random(3).mask[:100])
    assert not np.array_equal(many.without_random(4).mask, many.without_random(3).mask)


def test_class_shares_look_at_the_first_support_and_at_known_labels() -> None:
    random = np.random.default_rng(2)
    labels = random.integers(-1, 5, 40)
    support = np.stack([random.permutation(40)[:6] for _ in range(300)]).reshape(300, 2, 3)
    query = random.integers(-1, 40, size=(300, 2, 4))
    episodes = Episodes(support, query, (query >= 0) & (random.random(query.shape) < 0.8))
    pairs = [labels[row[:, 0]].tolist() for row in support]
    assert episodes.distinct_class_share(labels) == pytest.approx(np.mean([a != b for a, b in pairs if min(a, b) >= 0]))
    same = []
    for t in range(300):
        for j in range(2):
            own = labels[support[t, j, 0]]
            for q, kept in zip(query[t, j], episodes.mask[t, j]):
                if kept and own >= 0 and labels[q] >= 0:
                    same.append(own == labels[q])
    assert episodes.same_class_share(labels) == pytest.approx(np.mean(same))
    assert np.isnan(episodes.distinct_class_share(np.full(40, -1)))
    assert np.isnan(episodes.same_class_share(np.full(40, -1)))


def small() -> Episodes:
    query = np.arange(24, dtype=np.int32).reshape(3, 2, 4)
    return Episodes(
        np.arange(30, 42, dtype=np.int32).reshape(3, 2, 2), query, query % 5 > 0, {"kind": "toy", "seed": 3}
    )


def test_sizes_slices_and_repr() -> None:
    episodes = small()
    assert (len(episodes), episodes.way, episodes.shot, episodes.queries) == (3, 2, 2, 4)
    assert repr(episodes) == "Episodes(3 x 2-way 2-shot, 4 queries, toy)"
    part = episodes[1:]
    assert len(part) == 2 and np.array_equal(part.query, episodes.query[1:]) and part.info == episodes.info


def test_episodes_are_a_dataset() -> None:
    episodes = small()
    for number, one in zip((0, 1, -1), [*episodes][:3]):
        for there in (one, episodes[number]):
            for name in ("support", "query", "mask"):
                assert np.array_equal(getattr(there, name), getattr(episodes, name)[number])
    batches = list(DataLoader(episodes, batch_size=2))  # type: ignore[arg-type]
    assert [tuple(batch.query.shape) for batch in batches] == [(2, 2, 4), (1, 2, 4)]
    assert np.array_equal(torch.cat([batch.support for batch in batches]), episodes.support)
    assert batches[0].mask.dtype == torch.bool
    for wrong in (3, -4, "1"):
        with pytest.raises(NoSuchItem, match=f"index is {wrong!r}, but there are 3 episodes") as caught:
            episodes[wrong]  # type: ignore[call-overload]
        assert isinstance(caught.value, IndexError | OptionError)


def test_sub_graphs_for_pyg_give_the_vectors_of_the_whole_graph() -> None:
    graph = community_graph().without_labels()
    episodes = naq.naq_episodes(naq.feature_neighbors(graph, 3), way=2, shot=2, queries=1, count=3)
    mask = episodes.mask & (np.arange(2) == 0)[:, None]
    found = Episodes(episodes.support, np.where(mask, episodes.query, -1), mask).to_pyg(graph)
    whole = graph.to_pyg()
    torch.manual_seed(0)
    layers = [GraphConv(graph.num_features, 5), GraphConv(5, 3)]  # reads two hops

    def encode(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            x = layer(x, edges)
        return x

    expected = encode(whole.x.to_dense(), whole.edge_index)
    batch = next(iter(PygLoader(found, batch_size=3)))
    vectors = encode(batch.x, batch.edge_index)
    assert torch.allclose(vectors[batch.support_index], expected[episodes.support.ravel()], atol=1e-5)
    assert torch.allclose(vectors[batch.query_index], expected[episodes.query[mask]], atol=1e-5)
    assert batch.support_slot.tolist() == [0, 0, 1, 1] * 3 and batch.query_slot.tolist() == [0] * 3
    assert found[0].num_nodes < graph.num_nodes
    assert np.array_equal(graph.features[found[0].node.numpy()].toarray(), found[0].x)
    with pytest.raises(NaqError, match=r"0\.\.140"):
        Episodes(episodes.support + 140, episodes.query, episodes.mask).to_pyg(graph)


def test_exports_are_made_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = community_graph().without_labels()
    episodes = naq.naq_episodes(naq.feature_neighbors(graph, 3), way=2, queries=3, count=100_000)
    for found in (episodes.to_pyg(graph), episodes.to_learn2learn(np.ones((graph.num_nodes, 5)))):
        assert len(found) == 100_000 and len(found[7:10]) == 3
        for one, other in zip(found[7:10], (found[7], found[8], found[-100_000 + 9]), strict=True):
            assert all(torch.equal(a[1], b[1]) for a, b in zip(one, other)) if isinstance(one, Data) else True
        with pytest.raises(IndexError, match="100,000 episodes"):
            found[100_000]
        assert pickle.dumps(found), "for the workers of a loader"
    monkeypatch.setattr("naq.device.SMALL", 0)
    monkeypatch.setattr("naq.device.room", lambda: 100.0)
    with pytest.raises(OptionError, match="lower hops"):
        episodes.to_pyg(graph)[0]


def partition_task(data: Any, labels: Any, shots: int) -> list[tuple[Any, Any]]:
    """As the documentation of learn2learn describes it, by lists."""
    parts: list[tuple[list[Any], list[int]]] = [([], []), ([], [])]
    for label in sorted(set(labels.tolist())):
        rows = [row for row, other in zip(data, labels.tolist()) if other == label]
        for part, some in zip(parts, (rows[:shots], rows[shots:])):
            part[0].extend(some)
            part[1].extend([label] * len(some))
    return [(torch.stack(rows), labels) for rows, labels in parts]


@pytest.mark.parametrize("vectors", [None, np.random.default_rng(0).random((42, 5))])
def test_tasks_of_learn2learn_are_taken_apart_into_supports_and_queries(vectors: Any) -> None:
    episodes = small()
    rows = np.arange(42) if vectors is None else vectors
    for t, (data, labels) in enumerate(episodes.to_learn2learn(vectors)):
        (support, support_labels), (query, query_labels) = partition_task(data, labels, shots=2)
        assert np.array_equal(support, rows[episodes.support[t].ravel()]) and support_labels == [0, 0, 1, 1]
        assert np.array_equal(query, rows[episodes.query[t][episodes.mask[t]]])
        assert query_labels == np.nonzero(episodes.mask[t])[0].tolist()


def test_save_and_load(tmp_path: Path) -> None:
    episodes = small()
    again = load_episodes(episodes.save(tmp_path / "e.npz"))
    for name in ("support", "query", "mask"):
        assert np.array_equal(getattr(again, name), getattr(episodes, name))
        assert getattr(again, name).dtype == getattr(episodes, name).dtype
    assert again.info == episodes.info


def test_files_that_hold_no_episodes(tmp_path: Path) -> None:
    whole = {"support": np.ones((1, 2, 1), int), "query": np.ones((1, 2, 3), int), "mask": np.ones((1, 2, 3), bool),
             "info": np.array("{}")}  # fmt: skip
    for change, words in (
        ({"support": whole["support"] - 2}, "below 0"),
        ({"query": whole["query"] - 2}, "below 0"),
        ({"mask": np.ones((1, 2, 3))}, "types"),
        ({"mask": np.ones((1, 2, 2), bool)}, "mask"),
        ({"info": np.array("{")}, "description"),
    ):
        with pytest.raises(DataError, match=words):
            load_episodes(write_npz(tmp_path / "w.npz", whole | change))
    with pytest.raises(DataError, match="support"):
        load_episodes(write_npz(tmp_path / "a.npz", {"x": np.ones(2)}))
