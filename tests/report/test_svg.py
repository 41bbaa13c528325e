"""Plots: ticks, scales, labels that do not touch, points that cannot be drawn."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naq.experiments.views import BarView, LineView, Panel, Series
from naq.report.palette import COUNT
from naq.report.svg import draw_bars, draw_lines, draw_panel
from naq.report.svg.axes import Scale, log_ticks, nice_ticks, tick_texts
from naq.report.svg.field import lay_levels, spread
from naq.report.svg.marks import LINE, colours, width_of
from pages_under_test import NASTY, line


def lines(*series: Series, **options) -> str:
    return draw_lines(LineView("l", "Lines", "x", "y", series, **options))


def bars(*series: Series, **options) -> str:
    return draw_bars(BarView("b", "Bars", "y", series, **options))


def drawn(svg: str) -> ET.Element:
    """The parsed plot; every coordinate in it is a number inside its box."""
    root = ET.fromstring(svg)
    assert "nan" not in svg.lower() and "inf" not in re.sub("[a-z ]*information", "", svg.lower())
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for text in root.iter("text"):
        assert 0 <= float(text.attrib["x"]) <= width and 0 <= float(text.attrib["y"]) <= height
    return root


def of_class(root: ET.Element, kind: str) -> list[ET.Element]:
    return [e for e in root.iter() if kind in e.attrib.get("class", "").split()]


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_hold_the_range_evenly_and_are_few(low, span):
    high = low + span
    ticks = nice_ticks(low, high)
    step = ticks[1] - ticks[0]
    slack = 1e-6 * step + 1e-9 * max(abs(low), abs(high))
    assert ticks[0] <= low + slack and ticks[-1] >= high - slack
    assert 2 <= len(ticks) <= 9
    assert ticks[0] > low - step - slack and ticks[-1] < high + step + slack
    assert all(math.isclose(b - a, step, rel_tol=1e-3, abs_tol=slack) for a, b in pairwise(ticks))


def test_ticks_are_round():
    assert nice_ticks(61.3, 78.9) == [60, 65, 70, 75, 80]
    assert nice_ticks(0, 0.3) == [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]
    assert nice_ticks(5, 5) == [4.4, 4.6, 4.8, 5.0, 5.2, 5.4, 5.6]
    assert log_ticks(1, 100) == [1, 2, 5, 10, 20, 50, 100]
    assert log_ticks(1, 1e9) == [1, 100, 1e4, 1e6, 1e8]


def test_ticks_are_written_alike():
    assert tick_texts([0.0, 0.5, 1.0]) == ["0.0", "0.5", "1.0"]
    assert tick_texts([0, 5000, 10000]) == ["0", "5,000", "10,000"]
    assert tick_texts([0, 2e6]) == ["0", "2M"]
    assert len(set(tick_texts([0, 2e-5, 4e-5]))) == 3


def test_a_log_scale_gives_equal_steps_to_equal_ratios():
    scale = Scale(1, 100, 0, 200, log=True)
    assert scale(10) == pytest.approx(100)


@pytest.mark.parametrize("draw", [lines, bars])
@pytest.mark.parametrize("groups", [1, 2, 5, 14])
@pytest.mark.parametrize("count", [1, 4, 12])
def test_any_number_of_groups_and_series(draw, groups, count):
    names = [f"dataset number {i}" for i in range(groups)]
    series = [line(f"method {i}", names, [50.0 + i + j for j in range(groups)]) for i in range(count)]
    root = drawn(draw(*series, floors={"smooth (training-free)": 51.0, "chance": 50.9}))
    assert len(of_class(root, "series")) >= count
    assert len(of_class(root, "whisker")) == groups * count
    assert len(of_class(root, "floor")) == 2


def test_points_that_cannot_be_drawn_leave_a_gap():
    root = drawn(lines(line("a", [1, 2, 3, 4, 5], [1.0, None, 3.0, math.nan, math.inf], interval=None)))
    [path] = of_class(root, "line")
    assert path.attrib["d"].count("M") == 2 and path.attrib["d"].count("L") == 0
    assert len(of_class(root, "dot")) == 2


def test_a_missing_level_of_one_series_keeps_the_others():
    root = drawn(bars(line("a", ["x", "y"], [1.0, None]), line("b", ["y", "z"], [2.0, 3.0])))
    assert len(of_class(root, "bar")) == 3


@pytest.mark.parametrize("draw", [lines, bars])
def test_without_a_number_there_is_no_plot(draw):
    assert draw() == ""
    assert draw(Series("a", [], [])) == ""
    assert draw(Series("a", ["x", "y"], [None, math.nan])) == ""


def test_bars_start_at_zero_and_go_below_it():
    root = drawn(bars(line("a", ["x", "y"], [-2.0, 4.0], interval=None)))
    below, above = of_class(root, "bar")
    zero = float(below.attrib["y"])
    assert float(above.attrib["y"]) + float(above.attrib["height"]) == pytest.approx(zero, abs=0.2)
    assert float(above.attrib["height"]) == pytest.approx(2 * float(below.attrib["height"]), abs=0.3)


def test_the_papers_numbers_are_hollow_and_have_our_colour():
    ours, paper = line("TENT", ["a", "b"], [1.0, 2.0]), line("TENT (paper)", ["a", "b"], [1.5, 2.5], paper=True)
    other = line("MAML", ["a", "b"], [1.0, 1.0])
    assert colours([paper, other, ours]) == [1, 0, 1]
    root = drawn(lines(ours, paper))
    assert len(of_class(root, "hollow")) == len(of_class(root, "dot")) == 2
    assert len(of_class(root, "paper")) == 1
    assert len(of_class(drawn(bars(ours, paper)), "paper")) == 2


def test_a_long_curve_has_a_band_and_no_markers():
    many = list(range(0, 16000, 160))
    root = drawn(lines(line("curve", many, [50 + x / 1000 for x in many])))
    assert len(of_class(root, "band")) == 1 and not of_class(root, "dot") and not of_class(root, "whisker")


def test_a_log_axis_of_zero_falls_back_to_a_linear_one():
    root = drawn(lines(line("a", [0, 1, 100], [1.0, 2.0, 3.0]), log_x=True))
    assert len(of_class(root, "dot")) == 3


def test_tooltips_carry_value_and_interval():
    titles = [e.text for e in drawn(lines(line("NaQ", [10, 16000], [61.25, 62.0]))).iter("title")]
    assert "NaQ, 10: 61.25 (60.25 to 62.25)" in titles and any(t.startswith("NaQ, 16,000: 62.00") for t in titles)


def test_a_plot_can_be_read_out():
    root = drawn(lines(line("NaQ", [1, 2], [61.25, 62.0])))
    assert root.attrib["role"] == "img" and "NaQ: 61.25 to 62.00, highest 62.00" in root.attrib["aria-label"]


def test_whiskers_at_one_place_stand_apart():
    root = drawn(lines(line("a", [0, 0.3], [1.0, 2.0]), line("b", [0, 0.3], [1.1, 2.1])))
    starts = [path.attrib["d"].split()[0] for path in of_class(root, "whisker")]
    assert len(set(starts)) == 4


def test_a_single_point_has_its_own_tick():
    texts = [e.text for e in drawn(lines(line("a", [0.1], [61.0]))).iter("text")]
    assert texts.count("0.1") == 1 and "0.095" not in texts


def test_nasty_names_stay_text():
    root = drawn(bars(line(NASTY, [NASTY, "b"], [1.0, 2.0]), floors={NASTY: 1.0}))
    assert not list(root.iter("img")) and any(e.text == NASTY for e in root.iter("title"))


@given(st.lists(st.tuples(st.floats(0, 230), st.sampled_from([LINE, 2 * LINE])), max_size=6))
def test_labels_of_floors_are_moved_apart_in_their_order(blocks):
    blocks.sort()
    heights = [height for _, height in blocks]
    centers = spread([center for center, _ in blocks], heights, 0, 260)
    for i in range(len(centers) - 1):
        assert centers[i + 1] - centers[i] >= (heights[i] + heights[i + 1]) / 2 - 1e-6


@given(
    st.lists(st.text(st.characters(categories=["L", "N", "Zs"]), max_size=40), min_size=1, max_size=14),
    st.floats(30, 120),
)
def test_names_of_levels_fit_their_slot_or_are_tilted(names, slot):
    laid = lay_levels(names, slot)
    assert laid.tilted or all(width_of(part) <= slot - 8 for parts in laid.lines for part in parts)
    assert all(len(name) <= 26 for name in laid.names)


def test_a_cloud_draws_every_finite_point_by_group():
    panel = Panel("NaQ", [0, 1, 2, math.nan], [0, 5, 1, 1], [0, 1, COUNT + 1, 1], "purity 1")
    root = drawn(draw_panel(panel, ["a", "b"]))
    clouds = of_class(root, "cloud")
    assert [cloud.attrib["data-s"] for cloud in clouds] == ["0", "1", str(COUNT + 1)]
    assert sum(path.attrib["d"].count("M") for path in of_class(root, "points")) == 3
    assert clouds[1].attrib["class"] != clouds[2].attrib["class"]
    assert "3 points in 3 groups" in root.attrib["aria-label"]
    assert draw_panel(Panel("none", [], [], []), []) == ""


def test_two_thousand_points_are_light():
    panel = Panel(
        "NaQ", [math.sin(i) for i in range(2000)], [math.cos(3 * i) for i in range(2000)], [i % 10 for i in range(2000)]
    )
    assert len(draw_panel(panel, [])) < 40_000


def test_a_series_without_a_bar_in_a_group_leaves_no_gap():
    root = drawn(bars(line("a", ["x", "y"], [1.0, None]), line("b", ["x", "y"], [2.0, 3.0])))
    first, second, alone = (float(e.attrib["x"]) + float(e.attrib["width"]) / 2 for e in of_class(root, "bar"))
    names = {e.text: float(e.attrib["x"]) for e in root.iter("text")}
    assert (first + second) / 2 == pytest.approx(names["x"], abs=0.2)
    assert alone == pytest.approx(names["y"], abs=0.2)


def test_many_bars_take_the_whole_row_and_few_do_not():
    def width_with(groups: int) -> tuple[float, float]:
        names = [f"m{i}" for i in range(groups)]
        root = drawn(bars(*(line(s, names, [50.0] * groups) for s in "abc"), floors={"smooth": 51.0}))
        return float(root.attrib["width"]), float(of_class(root, "bar")[0].attrib["width"])

    assert width_with(4)[0] < 560
    width, bar = width_with(14)
    assert 860 < width < 1100 and bar > 10
