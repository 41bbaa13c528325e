"""Features as methods read them, narrowed: learned from a sample of the nodes, then made of rows in blocks.

What is learned of so many nodes (how frequent words are, medians and spreads of columns, principal axes) does not need
all of them: of a graph with no more than :data:`SAMPLE` nodes it is that of the methods in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from naq.embedders.smoothing import (
    WIDTH,
    are_components,
    balance,
    balanced,
    describe_by_diffusion,
    has_kinds,
    in_usual_units,
    truncated_axes,
    unit_sparse_rows,
    usual_units,
)
from naq.graph import Graph
from naq.graph.checks import FEW, FeatureBlock, as_dense
from naq.graph.operators import idf_of, tfidf, unit_rows
from naq.random import stream
from naq.threads import one_blas_thread
from naq_scale.blocks.shards import Block

SAMPLE = 1 << 17
"""Nodes that are learned from, or fewer if their features have more than ``ENTRIES``, but ``FEWEST`` at least."""
FEWEST, ENTRIES = 1 << 13, 1 << 26
Part = Any
"""Some rows of one block of features, CSR or dense."""


@dataclass(frozen=True, eq=False)
class Reading:
    """How rows of features become what a method starts from.

    Attributes:
        facts: JSON values, one mapping for each block of features.
        arrays: what was learned, by name, that of a block with its number in front.
        width: columns of the result.
    """

    facts: list[dict[str, Any]]
    arrays: dict[str, np.ndarray]
    width: int

    @classmethod
    def of(cls, block: Block) -> Reading:
        """That of a shard's inputs."""
        names = [name for name in block.inputs if name[0].isdigit() or name == "axes"]
        return cls(block.facts["reading"], {name: block.array(name) for name in names}, block.facts["width"])

    def rows(self, parts: Sequence[Part]) -> np.ndarray:
        """(rows, width) float32 of some rows of every block."""
        with one_blas_thread():
            made = [self._block(number, part) for number, part in enumerate(parts)]
            rows = made[0] if len(made) == 1 else np.concatenate(made, axis=1)
            if self.facts[0]["balance"]:
                rows = rows / np.float32(np.sqrt(len(made)))
            return np.ascontiguousarray(rows @ self.arrays["axes"] if "axes" in self.arrays else rows)

    def _block(self, number: int, part: Part) -> np.ndarray:
        facts = self.facts[number]
        known = {name.partition("/")[2]: a for name, a in self.arrays.items() if name.startswith(f"{number}/")}
        rows = _weigh(facts["change"], part, known)
        rows = rows @ known["axes"] if "axes" in known else as_dense(rows)
        rows = np.asarray(rows, dtype=np.float32)
        if not facts["balance"]:
            return rows
        return balanced(rows, facts["few"], facts["gaps"], (known["mean"], facts["size"]))


def _weigh(change: str, part: Part, known: Mapping[str, np.ndarray]) -> Part:
    """Rows of a block after a change: ``none``, ``tfidf``, ``unit`` (rows of length one), ``standard`` (columns by mean
    and deviation) or ``usual`` (columns by :func:`~naq.embedders.smoothing.standardised`)."""
    if change == "tfidf":
        return tfidf(sp.csr_array(part), known["idf"])
    if change == "unit":
        return unit_rows(part) if isinstance(part, np.ndarray) else unit_sparse_rows(part)
    if change == "standard":
        apart, spread = part - known["middle"], known["usual"]
        return np.divide(apart, spread, out=np.zeros_like(apart), where=spread > 0)
    if change == "usual":
        return in_usual_units(as_dense(part), known["middle"], known["usual"]) - known["shown"]
    return part


def learn_reading(
    blocks: Sequence[FeatureBlock], parts: Sequence[Part], *, width: int, dim: int, seed: int = 0
) -> Reading:
    """Of features of several kinds, side by side at equal weight, as in :func:`~naq.embedders.smoothing.node_words`.

    Args:
        parts: of each block the rows that are learned from.
        width: columns of a block at most; ``dim`` of all together.
    """
    found: dict[str, np.ndarray] = {}
    facts = []
    for number, (block, part) in enumerate(zip(blocks, parts)):
        kind, dense = block.kind, block.kind in ("numbers", "vectors")
        change = {"numbers": "usual", "vectors": "unit"}.get(kind) or _change_of_words(part)
        part = np.asarray(as_dense(part), dtype=np.float32) if dense else part
        rows = _learn_block(number, change, part, width, 0, found)
        few = kind == "numbers" and block.stop - block.start < FEW
        found[f"{number}/mean"], size = balance(rows, few)
        facts.append(
            {
                "columns": block.stop - block.start,
                "change": change,
                "balance": True,
                "few": few,
                "gaps": kind == "vectors",
                "size": size,
            }
        )
    return _join(facts, found, parts, dim, seed)


def _change_of_words(part: Part) -> str:
    return "unit" if isinstance(part, np.ndarray) or (part.data < 0).any() else "tfidf"


def _learn_block(
    number: int, change: str, part: Part, width: int, seed: int, found: dict[str, np.ndarray]
) -> np.ndarray:
    """The rows of a block, narrowed; what is learned of them is put into ``found``."""
    known: dict[str, np.ndarray] = {}
    if change == "tfidf":
        known["idf"] = idf_of(np.bincount(part.indices, minlength=part.shape[1]), part.shape[0])
    elif change == "standard":
        known |= {"middle": part.mean(axis=0, dtype=np.float64), "usual": part.std(axis=0, dtype=np.float64)}
    elif change == "usual":
        known["middle"], known["usual"] = usual_units(part)
        known["shown"] = in_usual_units(part, known["middle"], known["usual"]).mean(axis=0)
    rows = _weigh(change, part, known)
    if rows.shape[1] > width:
        known["axes"] = truncated_axes(rows, min(width, rows.shape[0]), seed)
        rows = rows @ known["axes"]
    found |= {f"{number}/{name}": array for name, array in known.items()}
    return np.asarray(as_dense(rows), dtype=np.float32)


def _join(
    facts: list[dict[str, Any]], found: dict[str, np.ndarray], parts: Sequence[Part], dim: int, seed: int
) -> Reading:
    """The reading with the axes that all blocks together are narrowed along, where they are wider than ``dim``."""
    made = Reading(facts, found, 0)
    rows = made.rows(parts)
    if rows.shape[1] > dim:
        found["axes"] = truncated_axes(rows, min(dim, len(rows)), seed)
    return Reading(facts, found, min(rows.shape[1], found["axes"].shape[1] if "axes" in found else rows.shape[1]))


def read_words(graph: Graph, weighting: str, dim: int, seed: int) -> tuple[Reading, sp.csr_array | None]:
    """How the features are read, and the diffusion that stands for features if there are none that differ.

    Args:
        weighting: ``words`` as naq-plus reads features, ``counts`` as ``smooth`` does, ``none``.
    """
    kinds, features = weighting == "words" and has_kinds(graph), graph.features
    parts = [] if features is None and not kinds else rows_of_blocks(graph, _sample(graph), kinds)
    if kinds:
        return learn_reading(graph.blocks, parts, width=WIDTH, dim=dim, seed=seed), None
    near, change, first = None, "none", parts[0] if parts else None
    if weighting == "words" and (first is None or not _differ(first)):
        near = first = describe_by_diffusion(graph)
    elif first is None:
        graph.require_features("an embedding")
    elif isinstance(first, np.ndarray):
        change = "standard" if weighting == "words" and not are_components(first) else "none"
    elif weighting != "none":
        words = _change_of_words(first)
        change = "none" if weighting == "counts" and words == "unit" else words
    found: dict[str, np.ndarray] = {}
    with one_blas_thread():
        rows = _learn_block(0, change, first, dim, seed, found)
    return Reading([{"change": change, "balance": False}], found, rows.shape[1]), near


def _sample(graph: Graph) -> np.ndarray:
    """Nodes that are learned from, ascending."""
    n, features = graph.num_nodes, graph.features
    entries = 0 if features is None else features.size if isinstance(features, np.ndarray) else features.nnz
    most = min(SAMPLE, max(FEWEST, ENTRIES * n // max(1, entries)))
    return np.arange(n) if n <= most else np.sort(stream(0, "words/sample").choice(n, most, replace=False))


def rows_of_blocks(graph: Graph, nodes: Any, kinds: bool) -> list[Part]:
    """Some rows, a slice or numbers, of all features, or of every block of several ``kinds``."""
    features = None if graph.features is None else graph.features[nodes]
    if not kinds:
        return [features]
    own = graph.blocks[:-1] if graph.reads_text else graph.blocks
    found = [] if features is None else [features[:, block.start : block.stop] for block in own]
    if graph.text is not None and graph.reads_text:
        rows = unit_rows(np.asarray(graph.text.vectors[nodes], dtype=np.float32) - graph.text.mean)
        found.append(rows * graph.text.known[nodes][:, None])
    return found


def _differ(part: Part) -> bool:
    """Whether any row differs from the first."""
    if isinstance(part, np.ndarray):
        return bool((part != part[0]).any())
    return bool((part.max(axis=0) != part.min(axis=0)).nnz)


def read_block(block: Block) -> np.ndarray:
    """(rows, width) float32 of the rows of a shard."""
    reading, rows = Reading.of(block), slice(block.start, block.stop)
    if "indptr" not in block.inputs:
        return reading.rows(rows_of_blocks(block.graph, rows, bool(reading.facts[0]["balance"])))
    n, names = block.graph.num_nodes, ("data", "indices", "indptr")
    near = sp.csr_array(tuple(block.array(name) for name in names), shape=(n, n))
    return reading.rows([near[rows]])
