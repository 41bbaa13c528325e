"""A cloud of points. Both directions have one scale and no ticks: the axes of a projection mean nothing."""

from __future__ import annotations

from collections.abc import Sequence

from naq.experiments.views import Panel
from naq.report.html import text as escaped
from naq.report.palette import COUNT
from naq.report.svg.axes import finite
from naq.report.svg.marks import frame, num

SIDE = 320.0
_MARGIN = 14.0


def look(group: int) -> str:
    """Classes of a group's points: a colour, and after the last colour another shape."""
    shapes = ("round", "square", "round open", "square open")
    return f"c{group % COUNT} {shapes[group // COUNT % len(shapes)]}"


def draw_panel(panel: Panel, groups: Sequence[str]) -> str:
    """One cloud, or "" without a point."""
    points = [
        (float(x), float(y), int(g)) for x, y, g in zip(panel.x, panel.y, panel.group) if len(finite([x, y])) == 2
    ]
    if not points:
        return ""
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    unit = (SIDE - 2 * _MARGIN) / (max(max(xs) - min(xs), max(ys) - min(ys)) or 1.0)
    mid_x, mid_y = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2
    dots: dict[int, list[str]] = {}
    for x, y, group in points:
        at = f"M{num(SIDE / 2 + (x - mid_x) * unit)} {num(SIDE / 2 - (y - mid_y) * unit)}h.01"
        dots.setdefault(group, []).append(at)
    size = 5.2 if len(points) <= 700 else 4.2 if len(points) <= 1500 else 3.4
    body = [f'<rect class="panel" x=".5" y=".5" width="{num(SIDE - 1)}" height="{num(SIDE - 1)}" rx="6"/>']
    for group in sorted(dots):
        name = groups[group] if 0 <= group < len(groups) else f"group {group}"
        body.append(_cloud("".join(dots[group]), group, f"{name}: {len(dots[group]):,} points", size))
    parts = ", ".join(f"{groups[g] if 0 <= g < len(groups) else g} {len(d)}" for g, d in sorted(dots.items()))
    return frame(
        SIDE, SIDE, body, f"{panel.title}: {len(points):,} points in {len(dots)} groups ({parts}). {panel.caption}"
    )


def _cloud(path: str, group: int, title: str, size: float) -> str:
    """Zero-length strokes with round or square ends: a point costs a dozen bytes."""
    inner = f'<path class="hole" stroke-width="{num(size - 2.4)}" d="{path}"/>' if "open" in look(group) else ""
    return (
        f'<g class="series cloud {look(group)}" data-s="{group}"><title>{escaped(title)}</title>'
        f'<path class="points" stroke-width="{num(size)}" d="{path}"/>{inner}</g>'
    )
