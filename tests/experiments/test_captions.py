"""Captions: scores as entries of tables, and differences in words."""

from __future__ import annotations

import pytest

from fake_records import nothing
from naq.experiments.captions import dataset_slug, findings, gain, number, points, table_name
from naq.experiments.experiment import expand
from naq.experiments.request import Request
from naq.statistics import Difference, compare, score


def test_a_number_is_in_percent():
    a, b = score([[0.5, 0.7], [0.6, 0.8]], "t"), score([[0.1, 0.2], [0.1, 0.2]], "t")
    standing = compare({"a": a, "b": b})
    found = number(a, standing["a"], paper="OOM", paper_ci=None, keys=["k"])
    assert found.value == pytest.approx(65) and found.ci == pytest.approx(100 * a.ci95)
    assert found.spread == pytest.approx(100 * a.spread) and found.seeds == 2
    assert found.rank == 1 and found.mark == standing["a"].mark and found.paper == "OOM" and found.keys == ("k",)
    alone = number(score([[0.5, 0.7]]))
    assert alone.spread is None and alone.rank == 0 and alone.mark == ""
    third = compare({"a": a, "b": b, "c": score([[0.0, 0.1], [0.0, 0.1]], "t")})["c"]
    assert number(b, third).rank == 0, "only the best two are marked"


def test_points_are_words():
    assert points(Difference(0.031, 0.008, 0.01, True, True)) == "3.1 ± 0.8 points (p < 0.05)"
    assert points(Difference(-0.031, 0.04, 0.5, True, True)) == "3.1 ± 4.0 points (no significant difference)"
    assert points(Difference(0.0, 0.0, 1.0, True, True)).endswith("(no significant difference)")
    assert "one training each" in points(Difference(0.031, 0.008, 0.01, True, False))


def test_gains_have_a_direction():
    high, low = score([[0.9, 0.8, 0.7], [0.9, 0.8, 0.7]], "t"), score([[0.5, 0.4, 0.3], [0.5, 0.4, 0.3]], "t")
    assert gain(high, low).startswith("above by 40.0") and gain(low, high).startswith("below by 40.0")


def test_sentences_name_the_dataset_where_there_are_several():
    one, *_ = expand(Request("times", ("debian",)), nothing)
    several = expand(Request("times", ("debian", "my graph.npz")), nothing)
    assert findings(one, ["It is so."]).sentences == ["It is so."]
    assert [findings(study, ["It is so."]).sentences for study in several] == [
        ["debian: It is so."],
        ["my graph.npz: It is so."],
    ]
    assert [table_name(study, "part") for study in several] == ["times-part-debian", "times-part-my-graph"]


def test_a_dataset_is_part_of_a_file_name():
    assert dataset_slug("data/My Graph.npz") == "my-graph" and dataset_slug("pyg:Planetoid/Cora") == "cora"
    assert dataset_slug("C:\\data\\g.npz") == "g" and dataset_slug("...") == "graph"
