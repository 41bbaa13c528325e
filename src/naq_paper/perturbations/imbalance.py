"""Class imbalance: a few classes stay whole, of the others little stays; the run is given the induced sub-graph.

Classes present are sorted by size, ties by the lower id; with C of them,

    pareto      all nodes of the floor(top * C) largest classes, ``tail`` random nodes of every other
    extreme     all nodes of the ``heads`` largest classes, ``tail`` random nodes of every other
    balanced    the control: as many nodes as under ``like``, but the same share s of every class, at least ``keep`` (or
                all); s * n_c is rounded by largest remainders, so that the total is exact

The graph is also smaller and sparser afterwards, so a drop of accuracy is not imbalance alone: compare with
``balanced``.

Nodes without a label are of no class and are left out, nodes are numbered anew in the order of their old ids, and tasks
have to be drawn anew. Class ids and the split stay, less the classes with fewer than ``keep`` nodes, which hold no
1-shot task. A head class among the test classes keeps all its nodes.

The paper does not say whether classes are ranked over the whole graph or within base, valid and test classes; ``per``
has both. Under ``per="part"`` each part has its own floor(top * C_part) or ``heads`` whole classes, and classes of no
part are tails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from naq.errors import OptionError
from naq.graph import Graph
from naq.options import option
from naq.random import stream
from naq.tasks import ClassSplit
from naq_paper.perturbations import Perturbation, Perturbed, floor_of, register_perturbation

KINDS = ("pareto", "extreme", "balanced")
PER = ("graph", "part")


@register_perturbation
class Imbalance(Perturbation):
    name = "imbalance"
    summary = "Few classes whole, little of the others, as an induced sub-graph."  # cost: linear in nodes, edges and non-zeros

    @dataclass(frozen=True)
    class Options(Perturbation.Options):
        kind: str = option("pareto", choices=KINDS)  # balanced is the control
        top: float = option(0.2, at_least=0, at_most=1)  # share of the classes that stay whole under pareto
        heads: int = option(5, at_least=1)  # classes that stay whole under extreme
        tail: int = option(10, at_least=1)  # nodes of every other class; a smaller class stays whole
        keep: int = option(9, at_least=1)  # nodes a class needs to stay in the split: shots and queries of a task
        like: str = option("pareto", choices=KINDS[:2])  # the kind whose number of nodes balanced keeps
        per: str = option("graph", choices=PER)  # ranks classes of the whole graph, or within each part of the split

    options: Options

    def apply(self, graph: Graph, split: ClassSplit, seed: int) -> Perturbed:
        labels, keep = graph.require_labels("class imbalance"), self.options.keep
        classes, sizes = np.unique(labels[labels >= 0], return_counts=True)
        quota = self.quota(classes, sizes, split)
        # of each class a prefix of its random order
        orders = [
            stream(seed, "change/imbalance/nodes", int(c)).permutation(np.flatnonzero(labels == c)) for c in classes
        ]
        smaller = induced(graph, np.sort(np.concatenate([order[:count] for order, count in zip(orders, quota)])))
        usable = set(classes[quota >= keep].tolist())
        kept = [tuple(c for c in part if c in usable) for part in (split.base, split.valid, split.test)]
        out = sorted(set(split.base + split.valid + split.test) - {c for part in kept for c in part})
        facts: dict[str, Any] = {"classes": len(classes), "classes_whole": int((quota == sizes).sum())}
        facts |= {"classes_left_out": out, "unlabelled_left_out": int((labels < 0).sum())}
        for end, which in (("", smaller), ("_before", graph)):
            facts |= {
                f"nodes{end}": which.num_nodes,
                f"edges{end}": which.num_edges,
                f"mean_degree{end}": 2 * which.num_edges / which.num_nodes,
                f"isolated_share{end}": float((which.degrees == 0).mean()),
            }
        return Perturbed(smaller, split=ClassSplit(*kept), redraw=True, facts=facts)

    def quota(self, classes: np.ndarray, sizes: np.ndarray, split: ClassSplit) -> np.ndarray:
        """(C,) nodes of each class that stay."""
        kind = self.options.kind
        pareto = (self.options.like if kind == "balanced" else kind) == "pareto"
        parts = [classes] if self.options.per == "graph" else [split.base, split.valid, split.test]
        whole = np.zeros(len(classes), dtype=bool)
        for part in parts:
            group = np.intersect1d(classes, part)
            count = floor_of(self.options.top, len(group)) if pareto else self.options.heads
            whole |= np.isin(classes, largest(group, sizes[np.searchsorted(classes, group)], count))
        quota = np.where(whole, sizes, np.minimum(self.options.tail, sizes))
        return balanced_quota(sizes, int(quota.sum()), self.options.keep) if kind == "balanced" else quota


def largest(classes: np.ndarray, sizes: np.ndarray, count: int) -> np.ndarray:
    """The ``count`` largest classes, of equal ones those with the lower id."""
    return classes[np.lexsort((classes, -sizes))[:count]]


def balanced_quota(sizes: np.ndarray, total: int, keep: int) -> np.ndarray:
    """(C,) nodes per class: the same share of each, at least ``keep`` or all, ``total`` together."""
    least = np.minimum(keep, sizes)
    if total < least.sum():
        wanted = f"imbalance was to keep {total:,} nodes in {len(sizes)} classes"
        raise OptionError(f"{wanted}, but {keep} of each (or all) are {least.sum():,}; raise tail or lower keep.")
    quota, held = least.copy(), np.zeros(len(sizes), dtype=bool)
    while not held.all():
        rest, of = total - int(least[held].sum()), int(sizes[~held].sum())
        below = ~held & (rest * sizes < least * of)
        if not below.any():
            whole, remainder = np.divmod(rest * sizes[~held], of)
            most = np.argsort(-remainder, kind="stable")[: rest - int(whole.sum())]
            whole[most] += 1
            quota[~held] = whole
            break
        held |= below
    return quota


def induced(graph: Graph, nodes: np.ndarray) -> Graph:
    """The graph of the given nodes, numbered in this order, and of the edges between them."""
    return Graph(
        graph.adjacency[nodes][:, nodes],
        None if graph.features is None else graph.features[nodes],
        None if graph.labels is None else graph.labels[nodes],
        names=None if graph.names is None else graph.names[nodes],
        class_names=graph.class_names,
        vocab=graph.vocab,
        name=graph.name,
    )
