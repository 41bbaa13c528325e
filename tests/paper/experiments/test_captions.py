"""Captions: scores as entries of tables, and differences in words."""

from __future__ import annotations

import numpy as np
import pytest

from fake_records import nothing
from naq_paper.experiments.captions import dataset_slug, findings, gain, number, points, power_note, table_name
from naq_paper.experiments.experiment import expand
from naq_paper.experiments.request import Request
from naq_paper.statistics import Comparison, Difference, compare, detectable, score


def test_a_number_is_in_percent():
    a, b = score([[0.5, 0.7], [0.6, 0.8]], "t"), score([[0.1, 0.2], [0.1, 0.2]], "t")
    standing = compare({"a": a, "b": b}, "b")
    found = number(a, standing["a"], paper="OOM", paper_ci=None, keys=["k"])
    assert found.value == pytest.approx(65) and found.ci == pytest.approx(100 * a.ci95)
    assert found.spread == pytest.approx(100 * a.spread) and found.seeds == 2
    assert (
        found.rank == 1
        and found.mark == standing["a"].mark
        and found.against == standing["a"].against
        and found.paper == "OOM"
        and found.keys == ("k",)
    )
    alone = number(score([[0.5, 0.7]]))
    assert alone.spread is None and alone.rank == 0 and alone.mark == ""
    third = compare({"a": a, "b": b, "c": score([[0.0, 0.1], [0.0, 0.1]], "t")})["c"]
    assert number(b, third).rank == 0, "only the best two are marked"


def shown(mean: float, ci95: float, p: float | None) -> Comparison:
    return Comparison(Difference(mean, ci95, 0.01, 0.01, True, p is not None), p)


def test_points_are_words():
    assert points(shown(0.031, 0.008, 0.02)) == "3.1 ± 0.8 points (significantly better, p < 0.05, Holm)"
    assert points(shown(-0.031, 0.008, 0.02)) == "3.1 ± 0.8 points (significantly worse, p < 0.05, Holm)"
    assert points(shown(0.031, 0.008, 0.05)) == "3.1 ± 0.8 points (no significant difference)"
    assert points(shown(0.031, 0.008, None)) == "3.1 ± 0.8 points (one seed: no significance is claimed)"


def test_gains_have_a_direction():
    assert gain(shown(0.4, 0.01, 0.2)).startswith("above by 40.0")
    assert gain(shown(-0.4, 0.01, 0.2)).startswith("below by 40.0")


def test_a_table_says_what_it_can_show():
    random = np.random.default_rng(0)
    a, b = (score(0.6 + random.normal(0, 0.1, (3, 200)), "t") for _ in range(2))
    least = detectable({"a": a, "b": b})
    assert f"a difference of {100 * least:.1f} points between" in power_note([{"a": a, "b": b}, {"a": a}])
    c = score(a.runs + random.normal(0, 0.3, (3, 200)), "t")
    assert "points, by column, between" in power_note([{"a": a, "b": b}, {"a": a, "b": c}])
    one = {"a": score(a.runs[:1], "t"), "b": b}
    assert power_note([one]).startswith("One seed: ") and power_note([{"a": a}]) == power_note([]) == ""


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
