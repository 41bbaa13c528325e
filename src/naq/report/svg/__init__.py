"""Plots as SVG text: no library, colours from the page's variables, so that they follow light, dark and paper."""

from naq.report.svg.bars import draw_bars
from naq.report.svg.lines import draw_lines
from naq.report.svg.scatter import draw_panel

__all__ = ["draw_bars", "draw_lines", "draw_panel"]
