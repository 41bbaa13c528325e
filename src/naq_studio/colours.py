"""Fifty colours for classes, and a shape for each.

The first six are well known for being safe; the others were chosen one by one, each as far as possible from those before as people see them with normal vision, without red,
green or blue cones (Machado et al., IEEE TVCG 15, 2009; distances in OKLab), on light and on dark ground. Fifty colours cannot all be far apart for a colour-blind person: colours that are close have
different shapes, and the page names the class of a point when it is pointed at.
"""

COLOURS = (
    "#0072b2", "#e69f00", "#009e73", "#cc3311", "#aa4499", "#56b4e9", "#4b00d2", "#e100ff", "#1ef087", "#693c5a",
    "#96b487", "#960000", "#9687b4", "#d2d200", "#c3783c", "#a5d2e1", "#78694b", "#870087", "#0000ff", "#c369e1",
    "#d296c3", "#ff2d78", "#5a3ca5", "#d21ec3", "#007800", "#ff87ff", "#69d2b4", "#874b78", "#3c5a3c", "#69c34b",
    "#b49600", "#f05ac3", "#4b78ff", "#5a8787", "#a52de1", "#69a596", "#965ad2", "#b487ff", "#96d269", "#c3c3ff",
    "#f0b4c3", "#963c4b", "#0096e1", "#c3c396", "#b44b69", "#e1785a", "#b4695a", "#d28796", "#c30078", "#4b6996",
)  # fmt: skip
SHAPES = (
    0, 1, 2, 3, 4, 0, 1, 2, 3, 2, 4, 0, 1, 0, 0, 1, 1, 3, 4, 3, 2, 1, 2, 0, 2,
    4, 4, 0, 4, 2, 4, 4, 1, 3, 3, 3, 4, 2, 4, 3, 2, 3, 4, 1, 2, 3, 3, 0, 1, 3,
)  # fmt: skip
"""By colour: 0 circle, 1 square, 2 triangle, 3 diamond, 4 cross."""
SHAPE_NAMES = ("circle", "square", "triangle", "diamond", "cross")
