"""A perturbation: the same dataset with fewer labels, with noise, or with other class sizes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from naq.graph import Graph
from naq.options import Configurable, Registry, Value, merge_options
from naq.tasks import ClassSplit
from naq.text import NodeTable

PERTURBATIONS: Registry[type[Perturbation]] = Registry(
    "a perturbation",
    {
        "feature-noise": "naq_paper.perturbations.inputs:FeatureNoise",
        "feature-noise-smoothed": "naq_paper.perturbations.inputs:SmoothedFeatureNoise",
        "imbalance": "naq_paper.perturbations.labels:Imbalance",
        "label-noise": "naq_paper.perturbations.labels:LabelNoise",
        "label-scarcity": "naq_paper.perturbations.labels:LabelScarcity",
        "naq-plus-features": "naq_paper.perturbations.inputs:NaqPlusFeatures",
        "structure-noise": "naq_paper.perturbations.inputs:StructureNoise",
    },
)


@dataclass(frozen=True, eq=False)
class Perturbed:
    """What a run is given instead of the dataset.

    Attributes:
        graph: with true labels: tasks are made from them.
        base_labels: (n,) what a supervised method may read, -1 for nothing; None: all labels of base classes.
        split: classes if the perturbation removes some; None: as they were.
        redraw: whether nodes were removed, so that tasks have to be drawn again.
        facts: what was done, for the report; JSON values.
    """

    graph: Graph
    base_labels: np.ndarray | None = None
    split: ClassSplit | None = None
    redraw: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


class Perturbation(Configurable, ABC):
    """Changes a dataset before a run. A subclass names itself, lists its ``Options``, and gives :meth:`apply`."""

    def __init__(self, **options: Any) -> None:
        self.configure(options)

    @abstractmethod
    def apply(self, graph: Graph, split: ClassSplit, seed: int) -> Perturbed:
        """What a run is given; everything random is drawn from ``naq.random.stream`` of ``seed``."""


def resolve_perturbation(given: Mapping[str, Any] | None) -> dict[str, Value] | None:
    """``{"name": ..., options..., "seed": 0}`` with every option written out and checked; None stays None."""
    if given is None:
        return None
    perturbation, seed = _make(given)
    return {"name": perturbation.name, **perturbation.options, "seed": seed}


def apply_perturbation(graph: Graph, split: ClassSplit, given: Mapping[str, Any]) -> Perturbed:
    """Apply the perturbation that ``{"name": ..., ...}`` describes."""
    perturbation, seed = _make(given)
    return perturbation.apply(graph, split, seed)


def _make(given: Mapping[str, Any]) -> tuple[Perturbation, int]:
    kind = PERTURBATIONS.find(str(given.get("name", "")))
    seed = merge_options(kind.name, {"seed": 0}, {"seed": given.get("seed", 0)})["seed"]
    return kind(**{name: value for name, value in given.items() if name not in ("name", "seed")}), int(seed)


def sub_graph(graph: Graph, nodes: np.ndarray) -> Graph:
    """The given nodes, numbered in this order, with all that the graph has of them and the edges between them."""
    table, text = graph.table, graph.text
    smaller = Graph(
        graph.adjacency[nodes][:, nodes], None if graph.features is None else graph.features[nodes],
        None if graph.labels is None else graph.labels[nodes],
        names=None if graph.names is None else graph.names[nodes], class_names=graph.class_names, vocab=graph.vocab,
        name=graph.name, blocks=graph.stated_blocks, arcs=None if graph.arcs is None else graph.arcs[nodes][:, nodes],
    )  # fmt: skip
    if text is not None:
        smaller = smaller.with_text(replace(text, vectors=text.vectors[nodes]))
    if table is not None:
        cells = {str(name): [table.cell(int(v), i) for v in nodes] for i, name in enumerate(table.columns)}
        smaller = smaller.with_table(replace(NodeTable.of(cells), uses=table.uses))
    return smaller


def with_edges(graph: Graph, ends: np.ndarray) -> Graph:
    """The graph with further edges (2, edges), which go both ways and weigh 1, and all else as it was."""
    n, both = graph.num_nodes, np.concatenate([ends, ends[::-1]], axis=1)

    def added(matrix: sp.csr_array) -> sp.csr_array:
        return sp.csr_array(matrix + sp.csr_array((np.ones(both.shape[1], np.float32), tuple(both)), shape=(n, n)))

    larger = Graph(
        added(graph.adjacency), graph.features, graph.labels, names=graph.names, class_names=graph.class_names,
        vocab=graph.vocab, name=graph.name, source=graph.source, blocks=graph.stated_blocks,
        arcs=None if graph.arcs is None else added(graph.arcs),
    )  # fmt: skip
    return larger.with_text(graph.text).with_table(graph.table)


def ceil_of(share: float, count: int) -> int:
    """The ceiling of ``share * count`` for the share as it is written: 0.07 of 100 are 7, though 0.07 * 100 > 7."""
    return math.ceil(round(share * count, 9))


def floor_of(share: float, count: int) -> int:
    """The floor of ``share * count`` for the share as it is written: 0.29 of 100 are 29."""
    return math.floor(round(share * count, 9))
