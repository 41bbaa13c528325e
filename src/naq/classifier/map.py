"""A picture of the nodes: places from vectors, colours and shapes of classes, drawn by matplotlib."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from naq.errors import plain

if TYPE_CHECKING:
    from naq.classifier.prediction import Prediction

COLOURS = (
    "#0072b2", "#e69f00", "#009e73", "#cc3311", "#aa4499", "#56b4e9", "#4b00d2", "#e100ff", "#1ef087", "#693c5a",
    "#96b487", "#960000", "#9687b4", "#d2d200", "#c3783c", "#a5d2e1", "#78694b", "#870087", "#0000ff", "#c369e1",
    "#d296c3", "#ff2d78", "#5a3ca5", "#d21ec3", "#007800", "#ff87ff", "#69d2b4", "#874b78", "#3c5a3c", "#69c34b",
    "#b49600", "#f05ac3", "#4b78ff", "#5a8787", "#a52de1", "#69a596", "#965ad2", "#b487ff", "#96d269", "#c3c3ff",
    "#f0b4c3", "#963c4b", "#0096e1", "#c3c396", "#b44b69", "#e1785a", "#b4695a", "#d28796", "#c30078", "#4b6996",
)  # fmt: skip
"""Of classes. The first six are well known for being safe; each other one is as far as possible from those before for
people with normal vision and without red, green or blue cones (Machado et al., IEEE TVCG 15, 2009; distances in OKLab),
on light and on dark ground. Colours that are close have different shapes."""
SHAPES = (
    0, 1, 2, 3, 4, 0, 1, 2, 3, 2, 4, 0, 1, 0, 0, 1, 1, 3, 4, 3, 2, 1, 2, 0, 2,
    4, 4, 0, 4, 2, 4, 4, 1, 3, 3, 3, 4, 2, 4, 3, 2, 3, 4, 1, 2, 3, 3, 0, 1, 3,
)  # fmt: skip
"""By colour: 0 circle, 1 square, 2 triangle, 3 diamond, 4 cross."""
MARKERS = "os^DP"  # of matplotlib, by shape
SAMPLE = 4096  # rows from which principal axes are taken
MOST_DRAWN = 60_000  # nodes; of more, every second one, third one, ...
EDGE = 1.06  # of the picture; places are from -1 to 1, a few a little outside
MOST_NAMED = 14  # classes whose name is in the picture
GROUNDS = {"light": ("#ffffff", "#1d2125"), "dark": ("#14171b", "#e8eaed")}  # and ink


def principal_places(vectors: np.ndarray) -> np.ndarray:
    """(n, 2) float32: the two directions in which vectors vary most, :func:`spread_out`."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    some = vectors[:: -(-len(vectors) // SAMPLE)] - mean
    axes = np.linalg.eigh(some.T @ some)[1][:, :-3:-1]
    axes *= np.where(np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], 0) < 0, -1, 1)
    return spread_out((vectors - mean) @ axes)


def spread_out(places: np.ndarray) -> np.ndarray:
    """(n, 2) float32 in the square from -1 to 1: half by value and half by rank along each axis, so that dense groups
    get room; an axis that is missing is 0."""
    n = len(places)
    full = np.zeros((n, 2), dtype=np.float64)
    full[:, : places.shape[1]] = np.nan_to_num(places)
    if n == 1:
        return full.astype(np.float32)
    for axis in full.T:
        low, high = np.quantile(axis, (0.002, 0.998))
        value = np.clip((axis - low) / (high - low) if high > low else np.full(n, 0.5), -0.05, 1.05)
        _, place, count = np.unique(axis, return_inverse=True, return_counts=True)
        rank = (np.cumsum(count) - (count + 1) / 2)[place] / (n - 1)  # equal values stay together
        axis[:] = value + rank - 1.0
    return full.astype(np.float32)


def draw_map(found: Prediction, places: np.ndarray, colours: Sequence[int], theme: str) -> str:
    """A PNG in a data address: a dot per node in the colour of its class, paler the less sure it is; labels are larger
    and have a rim, doubtful ones a ring as well; nodes of no class are grey.

    Args:
        places: (n, 2) from -1 to 1.
        colours: of each class, places in :data:`COLOURS`.
        theme: ``light`` or ``dark``.
    """
    from matplotlib.figure import Figure

    ground, ink = GROUNDS[theme]
    figure = Figure(figsize=(9, 6), dpi=130, facecolor=ground)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(-EDGE, EDGE), ylim=(-EDGE, EDGE))
    axes.axis("off")
    drawn = np.arange(found.first, len(places), -(-len(places) // MOST_DRAWN))
    chosen, labelled = found.two_likeliest[0], found.labels.nodes
    size = float(np.clip(20_000 / len(drawn), 1.5, 20))

    def dots(nodes: np.ndarray, **look: Any) -> None:
        if len(nodes):  # of none, matplotlib refuses the alpha
            axes.scatter(*places[nodes].T, **({"s": size, "linewidths": 0} | look))

    outside = np.zeros(len(places), bool) if found.outside is None else found.outside
    dots(drawn[outside[drawn]], c="#9aa0a6")
    order = np.argsort(np.bincount(chosen, minlength=len(colours)), kind="stable")[::-1].tolist()
    for place in order:
        look = {"c": COLOURS[colours[place]], "marker": MARKERS[SHAPES[colours[place]]]}
        members = drawn[(chosen[drawn] == place) & ~outside[drawn]]
        dots(members, **look, alpha=0.25 + 0.75 * found.probabilities[members, place])
        dots(labelled[found.labels.class_index == place], **look, s=34, linewidths=0.9, edgecolors=ink)
    doubtful = np.array([one.node for one in found.doubtful_labels()], dtype=np.int64)
    dots(doubtful, s=130, linewidths=1.6, facecolors="none", edgecolors=ink)
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def name_places(found: Prediction, places: np.ndarray) -> list[tuple[str, float, float]]:
    """The names of the largest classes where their surest nodes are densest, if there is room; each with its distance
    from the left and from the top of the picture in percent."""
    (chosen, _), shown = found.two_likeliest, list[tuple[str, float, float]]()
    order = np.argsort(-np.bincount(chosen, minlength=len(found.labels.classes)), kind="stable")
    for place in order[:MOST_NAMED].tolist():
        members = found.first + np.flatnonzero(chosen[found.first :] == place)
        if not len(members):
            continue
        sure = members[found.probabilities[members, place] >= np.median(found.probabilities[members, place])]
        _, cells, counts = np.unique(np.floor(6 * places[sure]), axis=0, return_inverse=True, return_counts=True)
        x, y = places[sure[cells.ravel() == counts.argmax()]].mean(axis=0).tolist()
        left, top = 50 * (1 + x / EDGE), 50 * (1 - y / EDGE)
        if all(abs(top - v) > 4 or abs(left - u) > 16 for _, u, v in shown):
            shown.append((plain(str(found.labels.classes[place]), 28), left, top))
    return shown
