"""Colours of the page for a light and a dark background, as CSS variables.

The colours of series start from Okabe and Ito's palette, which people with any colour vision can listener apart; the pale ones are
darkened on white and the deep ones lightened on dark until they stand out from the background. Markers differ as well.
"""

from __future__ import annotations

LIGHT = {
    "page": "#ffffff",
    "panel": "#f6f7f9",
    "raised": "#ffffff",
    "ink": "#1b1f27",
    "soft": "#545c69",
    "faint": "#636b78",
    "rule": "#dfe3e9",
    "grid": "#e9ecf1",
    "axis": "#8b93a1",
    "link": "#0b5cad",
    "tint": "#eaf2fb",
    "good": "#14713f",
    "bad": "#b02a1c",
    "warn": "#855300",
    "warn-tint": "#fdf5e4",
    "shade": "#1b1f2730",
}
DARK = {
    "page": "#12151b",
    "panel": "#191d25",
    "raised": "#1d222b",
    "ink": "#e8ebf0",
    "soft": "#b0b8c5",
    "faint": "#9aa3b1",
    "rule": "#303743",
    "grid": "#282e39",
    "axis": "#6d7685",
    "link": "#7ab8f5",
    "tint": "#172638",
    "good": "#5fce93",
    "bad": "#ff8f80",
    "warn": "#edbc62",
    "warn-tint": "#2a2316",
    "shade": "#000000b0",
}
SERIES_LIGHT = (
    "#0072b2",
    "#d55e00",
    "#008a63",
    "#b8568f",
    "#a07000",
    "#2d8ac7",
    "#555b66",
    "#7650c4",
    "#8a4a12",
    "#0e7f8c",
    "#c22f4b",
    "#6a7a12",
)
SERIES_DARK = (
    "#4aa8e8",
    "#f58b4a",
    "#2fc79b",
    "#e494c0",
    "#e6b13c",
    "#8fd0ff",
    "#b6bcc8",
    "#b59df2",
    "#cf9a6b",
    "#4fc5d3",
    "#ff8397",
    "#bccb5c",
)
COUNT = len(SERIES_LIGHT)


def _block(colours: dict[str, str], series: tuple[str, ...], scheme: str) -> str:
    named = [f"--{name}:{value}" for name, value in colours.items()]
    return ";".join([*named, *(f"--c{i}:{value}" for i, value in enumerate(series)), f"color-scheme:{scheme}"])


def variables() -> str:
    """The rules that define every variable: light, dark by the reader's setting or by the button, light on paper."""
    light, dark = _block(LIGHT, SERIES_LIGHT, "light"), _block(DARK, SERIES_DARK, "dark")
    series = "\n".join(f".c{i}{{--c:var(--c{i})}}" for i in range(COUNT))
    return (
        f":root{{{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}\n"
        f"@media screen{{:root[data-theme=dark]{{{dark}}}}}\n{series}\n"
    )
