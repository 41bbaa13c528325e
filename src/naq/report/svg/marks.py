"""The elements of a plot: paths, texts and the marker of each series."""

from __future__ import annotations

from collections.abc import Sequence

from naq.experiments.views import Series
from naq.report.html import text as escaped
from naq.report.palette import COUNT

FONT = 13.0
"""Size of every text in a plot, in units of its view box."""

LINE = 15.5
"""Height of a line of text."""

_NARROW, _WIDE = set("iljtfrI.,:;|!()[]'` -/"), set("mwMW@%—&")


def width_of(text: str, size: float = FONT) -> float:
    """About how wide a text is; on the generous side, for fonts differ."""
    units = sum(0.38 if c in _NARROW else 0.95 if c in _WIDE or ord(c) > 0x2E80 else 0.64 for c in text)
    return units * size


def num(value: float) -> str:
    """A coordinate with one decimal at most."""
    shown = f"{value:.1f}"
    return shown[:-2] if shown.endswith(".0") else shown


def label(x: float, y: float, content: str, anchor: str = "start", kind: str = "", turn: float = 0.0) -> str:
    """A line of text, its baseline at y."""
    turned = f' transform="rotate({num(turn)} {num(x)} {num(y)})"' if turn else ""
    side = "" if anchor == "start" else f' text-anchor="{anchor}"'
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{num(x)}" y="{num(y)}"{side}{named}{turned}>{escaped(content)}</text>'


def rule(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<path class="{kind}" d="M{num(x1)} {num(y1)}L{num(x2)} {num(y2)}"/>'


def titled(markup: str, title: str) -> str:
    """A group whose tooltip is ``title``."""
    return f"<g><title>{escaped(title)}</title>{markup}</g>"


def frame(width: float, height: float, body: Sequence[str], name: str) -> str:
    """The ``svg`` element; ``name`` is read out in place of the picture. Below ``min-width`` its box scrolls: text stays legible."""
    size = f'viewBox="0 0 {num(width)} {num(height)}" width="{num(width)}" height="{num(height)}"'
    least = f'style="min-width:{num(0.76 * width)}px"'
    return f'<svg class="plot" {size} {least} role="img" aria-label="{escaped(name)}">{"".join(body)}</svg>'


_SHAPES: tuple[tuple[tuple[float, float], ...], ...] = (
    (),  # a circle
    ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    ((0, -1.25), (1.15, 0.75), (-1.15, 0.75)),
    ((0, -1.35), (1.35, 0), (0, 1.35), (-1.35, 0)),
    ((0, 1.25), (1.15, -0.75), (-1.15, -0.75)),
    (
        (-0.4, -1.3),
        (0.4, -1.3),
        (0.4, -0.4),
        (1.3, -0.4),
        (1.3, 0.4),
        (0.4, 0.4),
        (0.4, 1.3),
        (-0.4, 1.3),
        (-0.4, 0.4),
        (-1.3, 0.4),
        (-1.3, -0.4),
        (-0.4, -0.4),
    ),
    ((-1, -0.6), (0, -1.2), (1, -0.6), (1, 0.6), (0, 1.2), (-1, 0.6)),
    ((-1.3, -0.6), (1.3, -0.6), (1.3, 0.6), (-1.3, 0.6)),
    ((-0.6, -1.3), (0.6, -1.3), (0.6, 1.3), (-0.6, 1.3)),
    ((-0.85, -1.1), (1.3, 0), (-0.85, 1.1)),
    ((0.85, -1.1), (-1.3, 0), (0.85, 1.1)),
    ((-1.1, -1.1), (0, -0.5), (1.1, -1.1), (0.5, 0), (1.1, 1.1), (0, 0.5), (-1.1, 1.1), (-0.5, 0)),
)


def _outline(x: float, y: float, shape: int, r: float) -> str:
    corners = _SHAPES[shape % len(_SHAPES)]
    if not corners:
        arc = f"a{num(r)} {num(r)} 0 1 0 "
        return f"M{num(x - r)} {num(y)}{arc}{num(2 * r)} 0{arc}{num(-2 * r)} 0z"
    return "M" + "L".join(f"{num(x + r * dx)} {num(y + r * dy)}" for dx, dy in corners) + "z"


def marker(x: float, y: float, shape: int, *, hollow: bool = False, r: float = 3.8) -> str:
    """The marker of a series; hollow for the paper's numbers."""
    return f'<path class="{"hollow" if hollow else "dot"}" d="{_outline(x, y, shape, r)}"/>'


def base_name(name: str) -> str:
    """The name without the words that say it is the paper's."""
    for word in (" (paper)", ", paper", " paper", "paper: ", "paper "):
        name = name.removesuffix(word) if word.startswith((" ", ",")) else name.removeprefix(word)
    return name


def colours(series: Sequence[Series]) -> list[int]:
    """A colour per series; the paper's line of a method has the colour of our line of it."""
    given: dict[str, int] = {}
    for item in sorted(series, key=lambda s: s.paper):
        given.setdefault(base_name(item.name), len(given))
    return [given[base_name(item.name)] % COUNT for item in series]
