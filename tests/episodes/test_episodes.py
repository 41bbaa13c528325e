from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import chisquare

from naq import Episodes
from naq.episodes import load_episodes
from naq.errors import DataError, OptionError
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
@given(any_episodes())
def test_overlap_ratio_is_one_minus_distinct_over_all(episodes: Episodes) -> None:
    ratios = []
    for t in range(len(episodes)):
        flat = [q for slot in kept(episodes, t) for q in slot]
        if flat:
            ratios.append(1 - len(set(flat)) / len(flat))
    assert episodes.overlap_ratio() == pytest.approx(np.mean(ratios) if ratios else 0.0)


@settings(max_examples=150, deadline=None)
@given(any_episodes())
def test_without_overlap_keeps_what_one_class_has_and_no_support(episodes: Episodes) -> None:
    clean = episodes.without_overlap()
    for t in range(len(episodes)):
        slots = [set(slot) for slot in kept(episodes, t)]
        supports = set(episodes.support[t].ravel().tolist())
        expected = [
            [q for q in slot if q not in supports and sum(q in s for s in slots) == 1] for slot in kept(episodes, t)
        ]
        assert kept(clean, t) == expected
    assert clean.info["drop_overlap"] is True
    assert np.array_equal(clean.query, episodes.query) and not (clean.mask & ~episodes.mask).any()
    again = clean.without_overlap()
    assert np.array_equal(again.mask, clean.mask)


@settings(max_examples=150, deadline=None)
@given(any_episodes(), st.integers(0, 5))
def test_without_random_drops_as_many_in_every_episode(episodes: Episodes, seed: int) -> None:
    clean, control = episodes.without_overlap(), episodes.without_random(seed)
    for t in range(len(episodes)):
        assert sum(map(len, kept(control, t))) == sum(map(len, kept(clean, t)))
    assert not (control.mask & ~episodes.mask).any() and np.array_equal(control.query, episodes.query)
    assert control.info["drop_random"] is True and "drop_overlap" not in control.info


def test_without_random_drops_any_kept_query() -> None:
    """Of six kept queries two are dropped, each equally often, whether they overlap or not; the first episodes stay what they are."""
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


def test_overlap_by_hand() -> None:
    episodes = Episodes(
        np.array([[[0], [1]]]),
        np.array([[[2, 3, 4, -1], [3, 5, 0, 5]]]),
        np.array([[[True, True, True, False], [True, True, True, True]]]),
    )
    assert episodes.overlap_ratio() == pytest.approx(1 - 5 / 7)
    assert episodes.without_overlap().mask.tolist() == [[[True, False, True, False], [False, True, False, True]]]


def test_distinct_class_share_matches_sets() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 4, 30)
    support = np.stack([random.permutation(30)[:3] for _ in range(200)])[:, :, None]
    query = np.zeros((200, 3, 1), dtype=int)
    share = np.mean([len(set(labels[row[:, 0]])) == 3 for row in support])
    assert 0.1 < share < 0.9
    assert Episodes(support, query, query >= 0).distinct_class_share(labels) == pytest.approx(share)


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
    with pytest.raises(OptionError, match=r"taken by slices, e\.g\. episodes\[3:4\]; got 1"):
        episodes[1]  # type: ignore[index]


def test_save_and_load(tmp_path: Path) -> None:
    episodes = small()
    again = load_episodes(episodes.save(tmp_path / "e.npz"))
    for name in ("support", "query", "mask"):
        assert np.array_equal(getattr(again, name), getattr(episodes, name))
        assert getattr(again, name).dtype == getattr(episodes, name).dtype
    assert again.info == episodes.info


def test_files_that_hold_no_episodes(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is no episode file; .*found \['x'\]"):
        load_episodes(write_npz(tmp_path / "a.npz", {"x": np.ones(2)}))
    arrays = {"support": np.ones((1, 2, 1), int), "query": np.ones((1, 2, 3), int), "mask": np.ones((1, 2, 3), bool)}
    for name, wrong in (
        ("support", arrays["support"] - 2),
        ("query", arrays["query"] - 2),
        ("mask", np.ones((1, 2, 3))),
    ):
        with pytest.raises(DataError, match=r"nodes below 0|have types"):
            load_episodes(write_npz(tmp_path / "w.npz", arrays | {name: wrong, "info": np.array("{}")}))
    with pytest.raises(DataError, match="damaged description"):
        load_episodes(write_npz(tmp_path / "b.npz", arrays | {"info": np.array("{")}))
    arrays["mask"] = np.ones((1, 2, 2), bool)
    with pytest.raises(DataError, match="are no episodes"):
        load_episodes(write_npz(tmp_path / "c.npz", arrays | {"info": np.array("{}")}))
