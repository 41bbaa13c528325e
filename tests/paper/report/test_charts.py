"""Charts: ticks, rows and lines, labels that do not touch, points that cannot be drawn."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naq_paper.experiments.views import BarView, LineView, Panel, ScatterView, Series
from naq_paper.report.charts import COLOURS, SHAPES, Chart, colours, draw_chart, draw_scatter, legend_name, text_width
from naq_paper.report.render import _environment
from pages_under_test import NASTY, line


def lines(*series: Series, **options) -> Chart | None:
    return draw_chart(LineView("l", "Lines", "x", "y", series, **options))


def bars(*series: Series, **options) -> Chart | None:
    return draw_chart(BarView("b", "Bars", "y", series, **options))


def written(macro: str, *given: object) -> str:
    return str(getattr(_environment().get_template("chart.html.j2").module, macro)(*given))


def drawn(chart: Chart | None) -> ET.Element:
    """The parsed chart; every coordinate in it is a number inside its box."""
    assert chart is not None
    svg = written("drawing", chart)
    root = ET.fromstring(svg)
    assert "nan" not in svg.lower() and not re.search(r"\binf\b", svg.lower())
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for element in (*root.iter("text"), *root.iter("use")):
        assert 0 <= float(element.attrib["x"]) <= width and 0 <= float(element.attrib["y"]) <= height
    return root


def of_class(root: ET.Element, kind: str) -> list[ET.Element]:
    return [e for e in root.iter() if kind in e.attrib.get("class", "").split()]


def ticks_of(chart: Chart | None, *, across: bool) -> list[str]:
    """The texts of the ticks under a chart, or at its left."""
    assert chart is not None
    return [label.text for label in chart.labels if label.anchor == ("middle" if across else "end") and not label.kind]


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_of_values_are_few_even_and_hold_every_value(low, span):
    chart = lines(line("a", [1, 2], [low, low + span], interval=None))
    root = drawn(chart)
    at = [float(e.attrib["d"].split()[1].partition("h")[0]) for e in of_class(root, "grid")]
    assert 2 <= len(at) <= 9
    assert all(abs((b - a) - (at[1] - at[0])) < 0.21 for a, b in pairwise(at))
    assert all(at[-1] - 0.11 <= float(e.attrib["y"]) <= at[0] + 0.11 for e in of_class(root, "dot"))


def test_ticks_are_round_and_written_with_the_same_digits():
    assert ticks_of(lines(line("a", [1, 2], [61.3, 78.9], interval=None)), across=False) == [
        "60",
        "65",
        "70",
        "75",
        "80",
    ]
    assert ticks_of(bars(line("a", ["p", "q"], [0.0, 1.0], interval=None)), across=True)[:2] == ["0.0", "0.2"]
    assert ticks_of(bars(line("a", ["p", "q"], [-5000, 5000], interval=None)), across=True)[:2] == ["−6,000", "−2,000"]


def test_few_places_have_a_tick_each_and_many_have_round_ones():
    assert ticks_of(lines(line("a", [5, 10, 20], [1, 2, 3])), across=True) == ["5", "10", "20"]
    assert ticks_of(lines(line("a", [0, 0.1, 0.3], [1, 2, 3])), across=True) == ["0.0", "0.1", "0.3"]
    many = list(range(160, 16001, 160))
    shown = ticks_of(lines(line("a", many, many)), across=True)
    assert 3 <= len(shown) <= 6 and all(text.endswith("000") for text in shown)
    assert ticks_of(lines(line("a", [0.1], [61.0])), across=True) == ["0.1"]


def test_a_log_axis_gives_equal_steps_to_equal_ratios():
    first, middle, last = (
        float(e.attrib["x"]) for e in of_class(drawn(lines(line("a", [1, 10, 100], [1, 2, 3]), log_x=True)), "dot")
    )
    assert middle - first == pytest.approx(last - middle, abs=0.2)
    many = [1.3**i for i in range(40)]
    assert ticks_of(lines(line("a", many, many), log_x=True), across=True)[:3] == ["1", "10", "100"]


def test_a_log_axis_of_zero_falls_back_to_a_linear_one():
    assert len(of_class(drawn(lines(line("a", [0, 1, 100], [1.0, 2.0, 3.0]), log_x=True)), "dot")) == 3


@pytest.mark.parametrize("draw", [lines, bars])
@pytest.mark.parametrize("groups", [1, 2, 5, 14, 40])
@pytest.mark.parametrize("count", [1, 4, 13])
def test_any_number_of_groups_and_series(draw, groups, count):
    names = [f"dataset number {i}" for i in range(groups)]
    series = [line(f"method {i}", names, [50.0 + i + j for j in range(groups)]) for i in range(count)]
    root = drawn(draw(*series, floors={"smooth (training-free)": 51.0, "chance": 50.9}))
    assert len(of_class(root, "series")) == count
    assert len(of_class(root, "whisker")) == len(of_class(root, "dot")) == groups * count
    assert len(of_class(root, "floor")) == 2
    assert len({(e.attrib["x"], e.attrib["y"]) for e in of_class(root, "dot")}) == groups * count


def test_points_that_cannot_be_drawn_leave_a_gap():
    root = drawn(lines(line("a", [1, 2, 3, 4, 5], [1.0, None, 3.0, math.nan, math.inf], interval=None)))
    [path] = of_class(root, "line")
    assert path.attrib["d"].count("M") == 2 and path.attrib["d"].count("L") == 0
    assert len(of_class(root, "dot")) == 2


def test_a_missing_level_of_one_series_keeps_the_others():
    root = drawn(bars(line("a", ["x", "y"], [1.0, None]), line("b", ["y", "z"], [2.0, 3.0])))
    assert len(of_class(root, "dot")) == 3


@pytest.mark.parametrize("draw", [lines, bars])
def test_without_a_number_there_is_no_chart(draw):
    assert draw() is None
    assert draw(Series("a", [], [])) is None
    assert draw(Series("a", ["x", "y"], [None, math.nan])) is None
    assert draw(Series("a", [math.nan, math.inf], [1.0, 2.0])) is None


def test_lines_over_names_connect_the_rows_and_dots_alone_do_not():
    series = line("a", ["100 / 100", "50 / 50", "20 / 20"], [72.0, 70.0, None])
    assert of_class(drawn(lines(series)), "line") and not of_class(drawn(bars(series)), "line")


def test_dots_of_a_row_are_around_its_name_and_a_missing_one_leaves_no_gap():
    root = drawn(bars(line("a", ["p", "q"], [1.0, None]), line("b", ["p", "q"], [2.0, 3.0])))
    first, second, alone = (float(e.attrib["y"]) for e in of_class(root, "dot"))
    names = {e.text: float(e.attrib["y"]) - 4.5 for e in root.iter("text")}
    assert (first + second) / 2 == pytest.approx(names["p"], abs=0.2)
    assert alone == pytest.approx(names["q"], abs=0.2)


def test_many_rows_are_sorted_by_their_highest_value_and_few_keep_their_order():
    def names_of(count: int) -> list[str]:
        names = [f"m{i}" for i in range(count)]
        low = line("low", names, [1.0] * count)
        return ticks_of(bars(low, line("high", names, [float(i) for i in range(count)])), across=False)

    assert names_of(12) == [f"m{i}" for i in range(12)]
    assert names_of(13) == [f"m{i}" for i in range(12, 1, -1)] + ["m0", "m1"]
    levels = [f"l{i}" for i in range(14)]
    assert ticks_of(lines(line("a", levels, [float(i) for i in range(14)])), across=False) == levels


def test_the_papers_numbers_are_hollow_and_have_our_colour():
    ours, paper = line("TENT", ["a", "b"], [1.0, 2.0]), line("TENT, the paper", ["a", "b"], [1.5, 2.5], paper=True)
    other = line("MAML", ["a", "b"], [1.0, 1.0])
    assert colours([paper, other, ours]) == [1, 0, 1]
    for name in ("TENT (paper)", "TENT, the paper (read off its poster)"):
        assert colours([other, ours, line(name, ["a"], [1.0], paper=True)]) == [0, 1, 1]
    assert legend_name(line("TENT", [1], [1], paper=True)) == "TENT (paper)" and legend_name(paper) == "TENT, the paper"
    root = drawn(lines(ours, paper))
    assert len(of_class(root, "hollow")) == len(of_class(root, "dot")) == 2
    assert len(of_class(root, "paper")) == 1
    assert len(of_class(drawn(bars(ours, paper)), "hollow")) == 2


def test_every_series_differs_in_colour_or_marker():
    root = drawn(lines(*(line(str(i), [1, 2], [i, i]) for i in range(COLOURS))))
    assert len({e.attrib["class"] for e in of_class(root, "series")}) == COLOURS
    used = {e.attrib["href"] for e in root.iter("use")}
    assert len(used) == SHAPES and used == {f"#{name}" for name in re.findall(r'id="(m\d)"', written("markers"))}


def test_a_long_curve_has_a_band_and_no_markers():
    many = list(range(0, 16000, 160))
    root = drawn(lines(line("curve", many, [50 + x / 1000 for x in many])))
    assert len(of_class(root, "band")) == 1 and not of_class(root, "dot") and not of_class(root, "whisker")


def test_tooltips_carry_value_and_interval():
    titles = [e.text for e in drawn(lines(line("NaQ", [10, 16000], [61.25, 62.0]))).iter("title")]
    assert "NaQ, 10: 61.25 (60.25 to 62.25)" in titles and any(t.startswith("NaQ, 16,000: 62.00") for t in titles)


def test_a_chart_can_be_read_out():
    root = drawn(lines(line("NaQ", [1, 2], [61.25, 62.0])))
    assert root.attrib["role"] == "img" and "NaQ: 61.25 to 62.00, highest 62.00" in root.attrib["aria-label"]


def test_whiskers_at_one_place_stand_apart():
    root = drawn(lines(line("a", [0, 0.3], [1.0, 2.0]), line("b", [0, 0.3], [1.1, 2.1])))
    assert len({e.attrib["x"] for e in of_class(root, "dot")}) == 4


def test_nasty_names_stay_text():
    root = drawn(bars(line(NASTY, [NASTY, "b"], [1.0, 2.0]), floors={NASTY: 1.0}))
    assert not list(root.iter("img")) and any(e.text == NASTY for e in root.iter("title"))


@given(
    st.lists(st.text(st.characters(categories=["L", "N", "Zs"]), max_size=40), min_size=1, max_size=14, unique=True),
    st.integers(1, 4),
)
def test_names_of_rows_fit_their_margin_and_do_not_touch(names, count):
    chart = bars(*(line(str(i), names, [float(j) for j in range(len(names))]) for i in range(count)))
    assert chart is not None
    shown = [label for label in chart.labels if label.anchor == "end"]
    assert len(shown) == len(names) and all(len(label.text) <= 26 for label in shown)
    assert all(label.x - text_width(label.text) >= 0 for label in shown)
    assert all(b.y - a.y >= 16 for a, b in pairwise(shown))
    below = [label for label in chart.labels if label.anchor == "middle" and not label.kind]
    assert all(b.x - a.x >= (text_width(a.text) + text_width(b.text)) / 2 for a, b in pairwise(below))


def test_long_names_are_cut_in_the_middle_and_whole_in_the_tooltip():
    names = [f"the same long beginning of number {i}" for i in range(3)]
    root = drawn(bars(line("a", names, [1.0, 2.0, 3.0])))
    shown = [e for e in root.iter("text") if e.attrib.get("text-anchor") == "end"]
    assert len({e.text for e in shown}) == 3 and [e.find("title").text for e in shown] == names


def test_floors_differ_in_their_dashes():
    root = drawn(lines(line("a", [1, 2], [1.0, 2.0]), floors={"smooth": 1.5, "gone": math.nan, "chance": 1.0}))
    assert [e.attrib["class"] for e in of_class(root, "floor")] == ["floor f0", "floor f2"]


def test_a_cloud_draws_every_finite_point_by_group():
    panel = Panel("NaQ", [0, 1, 2, math.nan], [0, 5, 1, 1], [0, 1, COLOURS + 1, 1], "purity 1")
    view = ScatterView("s", "S", [panel], ["a", "b"])
    [(_, clouds)] = draw_scatter(view)
    assert [(cloud.group, cloud.name, cloud.count) for cloud in clouds] == [
        (0, "a", 1),
        (1, "b", 1),
        (COLOURS + 1, f"group {COLOURS + 1}", 1),
    ]
    root = ET.fromstring(re.search(r'<svg class="plot".*?</svg>', written("scatter", view, 3), re.DOTALL)[0])
    assert sum(path.attrib["d"].count("M") for path in of_class(root, "points")) == 3
    looks = [cloud.attrib["class"] for cloud in of_class(root, "cloud")]
    assert len(set(looks)) == 3  # after the last colour comes another shape
    assert "3 points in 3 groups" in root.attrib["aria-label"]
    assert "no numbers to draw yet" in written("scatter", ScatterView("s", "S", [Panel("none", [], [], [])], []), 3)


def test_two_thousand_points_are_light():
    panel = Panel(
        "NaQ", [math.sin(i) for i in range(2000)], [math.cos(3 * i) for i in range(2000)], [i % 10 for i in range(2000)]
    )
    assert len(written("scatter", ScatterView("s", "S", [panel], []), 3)) < 40_000
