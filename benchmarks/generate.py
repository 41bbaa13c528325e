r"""Large random graphs with power-law degrees, planted classes and features that know them, saved as a graph folder.

    python benchmarks/generate.py --nodes 10000000 --edges 100000000 --out try

- Classes have unequal sizes. Member r of the m members of a class has an expected degree proportional to
  :math:`(r + r_0 m)^{-1/(\gamma - 1)}`, a power law with exponent :math:`\gamma`; :math:`r_0` keeps the largest near
  :math:`\sqrt{2 M}`, above which pairs would repeat.
- An edge starts at a member of a class drawn by size and ends, with probability ``within``, in the same class, else in
  any. Repeats and loops are dropped.
- Dense features are the class's centre plus ``noise`` times a normal deviate. Sparse ones count words: half of a node's
  words are of its class's own list, half of a common one, where the frequency of word w is like :math:`1/\sqrt{w}`.

The graph is made in memory, about 40 bytes per entry of its adjacency and features.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from naq.errors import OptionError
from naq.graph import Graph
from naq.random import stream
from naq_scale.mapped import save_mapped

PIECE = 1 << 22
"""Edges that are drawn at once."""
ROWS = 1 << 18
"""Nodes whose words are drawn at once."""
SHORTEST, LONGEST = 8, 32
"""Words of a node with sparse features."""


def generate(
    out: str | Path,
    nodes: int,
    edges: int,
    *,
    classes: int = 20,
    features: int = 64,
    sparse: bool = False,
    exponent: float = 2.5,
    within: float = 0.8,
    noise: float = 5.0,
    seed: int = 0,
) -> Path:
    """Write a random graph as a folder that :func:`naq.load` maps.

    Args:
        out: the folder.
        nodes, edges: how many; loops and repeats are dropped, so that a few edges fewer remain.
        classes: planted; every class has a share of at least half of 1 / classes.
        features: columns.
        sparse: counts of words in place of dense numbers.
        exponent: of the degrees, more than 2.
        within: probability that an edge stays in its class.
        noise: of dense features, as a multiple of the spread of the class centres.
        seed: of everything.
    """
    if nodes < 2 * classes:
        raise OptionError(f"classes is {classes}, but there are {nodes:,} nodes; give two nodes or more per class.")
    if exponent <= 2.0:
        raise OptionError(f"exponent is {exponent!r}; expected more than 2, e.g. 2.5.")
    labels, members, bounds = draw_classes(nodes, classes, seed)
    adjacency = _draw_edges(members, bounds, edges, exponent, within, seed)
    if sparse:
        attributes = _draw_words(labels, classes, features, seed)
    else:
        centres = stream(seed, "generator/centres").standard_normal((classes, features), dtype=np.float32)
        attributes = stream(seed, "generator/noise").standard_normal((nodes, features), dtype=np.float32)
        attributes *= np.float32(noise)
        for start in range(0, nodes, ROWS):
            attributes[start : start + ROWS] += centres[labels[start : start + ROWS]]
    names = [f"class-{number:03d}" for number in range(classes)]
    return save_mapped(out, Graph(adjacency, attributes, labels, class_names=names, name=Path(out).name))


def _draw_edges(
    members: np.ndarray, bounds: np.ndarray, edges: int, exponent: float, within: float, seed: int
) -> sp.csr_array:
    n, keys = len(members), []
    for one, two in draw_pairs(members, bounds, edges, exponent, within, seed):
        keys += [one * n + two, two * n + one]
    entries = np.unique(np.concatenate(keys))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(entries // n, minlength=n))])
    return sp.csr_array((np.ones(len(entries), dtype=np.float32), entries % n, indptr), shape=(n, n))


def draw_pairs(
    members: np.ndarray, bounds: np.ndarray, edges: int, exponent: float, within: float, seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The ends of edges, in pieces; loops are left out, repeats are not."""
    n, slope, sizes = len(members), 1.0 - 1.0 / (exponent - 1.0), np.diff(bounds)
    offset = _offset(n, edges, slope)
    low, high = offset**slope, (1.0 + offset) ** slope
    for start in range(0, edges, PIECE):
        draw, count = stream(seed, "generator/edges", start).random, min(PIECE, edges - start)
        first, other = (np.searchsorted(bounds, draw(count) * n, side="right") - 1 for _ in range(2))
        ends = []
        for chosen in (first, np.where(draw(count) < within, first, other)):
            rank = (low + draw(count) * (high - low)) ** (1.0 / slope) - offset
            place = np.clip((rank * sizes[chosen]).astype(np.int64), 0, sizes[chosen] - 1)
            ends.append(members[bounds[chosen] + place])
        apart = ends[0] != ends[1]
        yield ends[0][apart], ends[1][apart]


def draw_classes(nodes: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The class of every node; the nodes by class, those with most edges first; and where classes begin."""
    share = 0.5 / classes + 0.5 * stream(seed, "generator/classes").dirichlet(np.full(classes, 5.0))
    bounds = np.concatenate([[0], np.round(np.cumsum(share) * nodes)]).astype(np.int64)
    bounds[-1] = nodes
    members = stream(seed, "generator/members").permutation(nodes)
    labels = np.empty(nodes, dtype=np.int64)
    labels[members] = np.repeat(np.arange(classes), np.diff(bounds))
    return labels, members, bounds


def _offset(nodes: int, edges: int, slope: float) -> float:
    """r_0: the member of rank 0 has an expected degree of sqrt(2 M)."""
    low, high = 1e-15, 1.0
    for _ in range(200):
        middle = math.sqrt(low * high)
        share = ((middle + 1.0 / nodes) ** slope - middle**slope) / ((1.0 + middle) ** slope - middle**slope)
        low, high = (middle, high) if 2.0 * edges * share > math.sqrt(2.0 * edges) else (low, middle)
    return high


def _draw_words(labels: np.ndarray, classes: int, width: int, seed: int) -> sp.csr_array:
    blocks, own = [], max(1, width // (2 * classes))
    for start in range(0, len(labels), ROWS):
        draw, here = stream(seed, "generator/words", start), labels[start : start + ROWS]
        rows = np.repeat(np.arange(len(here)), draw.integers(SHORTEST, LONGEST + 1, len(here)))
        share = draw.random(len(rows))
        words = np.where(draw.random(len(rows)) < 0.5, here[rows] * own + share * own, share**2 * width).astype(
            np.int64
        )
        counts = np.ones(len(rows), dtype=np.float32)
        blocks.append(sp.csr_array((counts, (rows, np.minimum(words, width - 1))), shape=(len(here), width)))
    return sp.csr_array(sp.vstack(blocks))


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a random graph with power-law degrees and planted classes.")
    parser.add_argument("--nodes", type=int, required=True, help="how many nodes")
    parser.add_argument("--edges", type=int, required=True, help="how many edges; repeats among them are dropped")
    parser.add_argument("--out", type=Path, required=True, help="graph folder to write")
    parser.add_argument("--classes", type=int, default=20, help="planted classes")
    parser.add_argument("--features", type=int, default=64, help="columns of features")
    parser.add_argument("--sparse", action="store_true", help="counts of words in place of dense features")
    parser.add_argument("--seed", type=int, default=0, help="of everything")
    given = vars(parser.parse_args())
    started, out = time.perf_counter(), given["out"]
    generate(**given)
    size = sum(file.stat().st_size for file in out.iterdir())
    print(f"Written: {out} ({size / 1e9:.2f} GB) in {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
