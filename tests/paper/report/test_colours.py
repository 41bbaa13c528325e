"""Colours that can be read: the ratios of WCAG 2, level AA."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from naq_paper.report.charts import COLOURS

STYLE = files("naq_paper.report").joinpath("templates", "style.css").read_text(encoding="utf-8")
PAIRS = re.findall(r"--([a-z-]+):light-dark\((#[0-9a-f]+),(#[0-9a-f]+)\);", STYLE)
LIGHT, DARK = ({name: pair[side] for name, *pair in PAIRS} for side in (0, 1))
SERIES = re.findall(r"^\.c(\d+)\{--c:light-dark\((#[0-9a-f]{6}),(#[0-9a-f]{6})\)\}$", STYLE, re.MULTILINE)
SERIES_LIGHT, SERIES_DARK = ([colours[side] for _, *colours in SERIES] for side in (0, 1))


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK])
@pytest.mark.parametrize("ground", ["page", "panel", "raised", "tint"])
@pytest.mark.parametrize("ink", ["ink", "soft", "faint", "link", "good", "bad", "warn"])
def test_text_stands_out(colours, ground, ink):
    assert contrast(colours[ink], colours[ground]) >= 4.5


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_callouts_can_be_read(colours):
    assert contrast(colours["ink"], colours["warn-tint"]) >= 4.5
    assert contrast(colours["warn"], colours["warn-tint"]) >= 3


@pytest.mark.parametrize(("series", "ground"), [(SERIES_LIGHT, LIGHT), (SERIES_DARK, DARK)])
def test_lines_stand_out_and_differ(series, ground):
    assert len(set(series)) == len(series)
    assert all(contrast(colour, ground["page"]) >= 3 for colour in series)


def test_every_colour_the_page_uses_is_defined():
    used = set(re.findall(r"var\(--([a-z0-9-]+)\)", STYLE))
    assert used - {"c"} == LIGHT.keys()
    assert [int(number) for number, *_ in SERIES] == list(range(COLOURS))


def test_paper_is_light_whatever_the_screen_is():
    assert "@media print{:root:root{color-scheme:light}}" in STYLE
    assert "prefers-color-scheme" not in STYLE  # light-dark() follows the reader's setting
