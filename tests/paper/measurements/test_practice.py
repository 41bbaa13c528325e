"""``practice``: the draw of labels, what is counted, and its costs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naq.errors import OptionError
from naq.graph import Graph
from naq_paper.measurements import practice as peak_memory
from naq_paper.measurements.practice import SHARES, Draw, calibration_error, draw_labels, measures, practice_cell
from naq_paper.peers import PEERS


@given(st.lists(st.integers(-1, 5), min_size=20, max_size=120), st.integers(1, 6), st.integers(0, 5))
def test_every_class_has_its_labels_and_nobody_is_asked_who_has_one(labels, shot, seed):
    labels = np.array([0] * 7 + [1] * 7 + labels)
    draw = draw_labels(labels, shot, seed)
    sizes = {c: int((labels == c).sum()) for c in np.unique(labels[labels >= 0])}
    assert draw.classes.tolist() == [c for c, size in sizes.items() if size > shot]
    assert draw.left_out.tolist() == [c for c, size in sizes.items() if size <= shot]
    assert len(set(draw.nodes)) == len(draw.nodes) == shot * len(draw.classes)
    np.testing.assert_array_equal(draw.classes[draw.slots], labels[draw.nodes])
    assert np.bincount(draw.slots).tolist() == [shot] * len(draw.classes)
    assert not set(draw.nodes) & set(draw.asked)
    assert sorted([*draw.nodes, *draw.asked]) == np.flatnonzero(np.isin(labels, draw.classes)).tolist()
    np.testing.assert_array_equal(draw.classes[draw.truth], labels[draw.asked])


def test_more_labels_are_the_fewer_and_others_and_a_seed_is_a_draw():
    labels = np.repeat(np.arange(4), 30)
    few, more, other = draw_labels(labels, 2, 0), draw_labels(labels, 5, 0), draw_labels(labels, 2, 1)
    assert set(few.nodes) < set(more.nodes) and set(few.nodes) != set(other.nodes)
    assert few.hash == draw_labels(labels, 2, 0).hash
    assert len({few.hash, more.hash, other.hash}) == 3


@given(st.lists(st.integers(-1, 5), min_size=20, max_size=120), st.integers(1, 2), st.integers(0, 5))
def test_labels_at_random_come_as_the_classes_do(labels, shot, seed):
    labels = np.array([0] * 7 + [1] * 7 + labels)
    draw, known = draw_labels(labels, shot, seed, "random"), np.unique(labels[labels >= 0])
    assert len(set(draw.nodes)) == len(draw.nodes) == shot * len(known) and not len(draw.left_out)
    assert len(draw.classes) >= 2, "of one class there is nothing to tell apart"
    np.testing.assert_array_equal(draw.classes[draw.slots], labels[draw.nodes])
    assert sorted([*draw.nodes, *draw.asked]) == np.flatnonzero(labels >= 0).tolist()
    given = draw.truth < len(draw.classes)
    np.testing.assert_array_equal(draw.classes[draw.truth[given]], labels[draw.asked[given]])
    assert not np.isin(labels[draw.asked[~given]], draw.classes).any(), "other classes have numbers from C on"
    assert set(draw_labels(labels, 1, seed, "random").nodes) <= set(draw.nodes)


def test_labels_at_random_have_the_shares_of_the_classes():
    labels = np.repeat([0, 1], [900, 100])
    counts = [np.bincount(draw_labels(labels, 50, seed, "random").slots)[1] for seed in range(30)]
    assert 8 < np.mean(counts) < 12
    with pytest.raises(OptionError, match="labels"):
        draw_labels(labels, 500, 0, "random")
    with pytest.raises(OptionError, match="classes"):
        draw_labels(np.array([0] * 9 + [1] * 4), 4, 0)


def test_the_calibration_error_is_that_of_a_loop_over_bins():
    random = np.random.default_rng(0)
    confidence = np.append(random.random(500), [0.0, 1.0])
    hit = random.random(502) < confidence**2
    expected = 0.0
    for low in range(15):
        inside = [i for i, c in enumerate(confidence) if min(int(c * 15), 14) == low]
        if inside:
            expected += len(inside) / 502 * abs(confidence[inside].mean() - hit[inside].mean())
    assert calibration_error(confidence, hit) == pytest.approx(expected)
    assert calibration_error(np.array([0.75, 0.75, 0.75, 0.75]), np.array([1, 1, 1, 0])) == pytest.approx(0)
    assert calibration_error(np.array([1.0, 1.0]), np.array([0, 1])) == pytest.approx(0.5)
    too_sure_and_too_shy = np.array([0.9, 0.9, 0.1, 0.1]), np.array([0, 1, 1, 0])
    assert calibration_error(*too_sure_and_too_shy) == pytest.approx(0.4)


def test_what_is_counted():
    draw = Draw(np.array([5]), np.array([0]), np.array([2, 7]), np.array([9]), np.arange(5), np.array([0, 0, 0, 0, 1]))
    chances = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.0, 0.0], [0.5, 0.5]])
    found = measures(chances, draw)
    assert found["accuracy"] == pytest.approx(3 / 5), "of equal probabilities the first class is the answer"
    assert found["macro_accuracy"] == pytest.approx((3 / 4 + 0) / 2)
    assert (found["unanswered"], found["classes"], found["left_out"], found["asked"]) == (0.2, 2, [9], 5)
    unmet = Draw(draw.nodes, draw.slots, draw.classes, draw.left_out, draw.asked, np.array([0, 0, 2, 1, 1]))
    sets = np.array([[1, 0], [0, 1], [1, 1], [1, 1], [0, 1]], dtype=bool)
    found = measures(chances, unmet, {"expected": 0.7, "low": 0.5, "high": 0.9, "sets": sets})
    assert found["accuracy"] == pytest.approx(2 / 5), "a class without a label is always missed"
    assert found["macro_accuracy"] == pytest.approx((2 / 2 + 0 + 0) / 3)
    assert (found["set_coverage"], found["set_size"]) == (pytest.approx(3 / 5), pytest.approx(7 / 5))
    assert (found["expected"], found["low"], found["high"]) == (0.7, 0.5, 0.9)
    for wrong in (chances[:, :1], np.full_like(chances, np.nan)):
        with pytest.raises(OptionError, match="expected finite ones, 5 x 2"):
            measures(wrong, draw)


@pytest.mark.parametrize("peer", ["naq-plus", "pagerank", "tfidf-logistic"])
def test_a_cell_answers_every_number_of_labels(context, compute, peer):
    result = compute(practice_cell("communities", peer, shots=[3, 1], seed=2))
    graph = context.dataset_cache.graph("communities")
    assert [(one["shot"], one["shares"]) for one in result["by_shot"]] == [(k, s) for s in SHARES for k in (1, 3)]
    for one in result["by_shot"]:
        draw = draw_labels(graph.labels, one["shot"], 2, one["shares"])
        assert one["draw"] == draw.hash and one["asked"] == graph.num_nodes - 7 * one["shot"]
        chances = PEERS[peer](graph.without_labels(), 2).classify(draw.nodes, draw.slots, len(draw.classes))
        right = [draw.classes[chances[i].argmax()] == graph.labels[i] for i in draw.asked]
        assert one["accuracy"] == pytest.approx(np.mean(right), abs=0.02)
        assert ("set_coverage" in one) == (peer == "naq-plus")
    assert result["seconds"] >= result["prepare_seconds"] >= 0
    assert result["peak_bytes"] is None or result["peak_bytes"] >= 0


def test_a_warm_up_graph_that_is_too_small_for_a_training_is_no_failure(monkeypatch):
    monkeypatch.setattr(peak_memory, "_warm", set())
    with pytest.raises(OptionError, match="clusters"):
        PEERS["sugrl-logistic"](Graph(np.array([[0, 1], [1, 2]]), np.eye(3, dtype=np.float32), nodes=3), 0)
    peak_memory.warm_up(PEERS["sugrl-logistic"])
    assert peak_memory._warm == {(PEERS["sugrl-logistic"], "{}")}


def test_labels_of_others_are_not_seen(context, compute, monkeypatch):
    seen = []

    class Peeking(PEERS["tfidf-logistic"]):
        def __init__(self, graph, seed):
            seen.append(graph.labels)
            super().__init__(graph, seed)

    monkeypatch.setitem(PEERS._items, "tfidf-logistic", Peeking)
    compute(practice_cell("communities", "tfidf-logistic", shots=[1]))
    assert len(seen) == 2 and all(labels is None for labels in seen)


@pytest.mark.skipif(not peak_memory.STATUS.exists(), reason="only Linux says what a process takes")
def test_the_peak_is_what_the_work_took():
    def work():
        held = np.ones(1 << 24)  # 128 MB
        del held
        return np.ones(1 << 21).sum()

    made, peak = peak_memory.with_peak(work)
    assert made == 1 << 21 and 100 << 20 < peak < 200 << 20
    assert peak_memory.with_peak(lambda: None)[1] < 20 << 20, "what was there before does not count"
