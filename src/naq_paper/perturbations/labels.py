"""Perturbations of labels and classes: fewer labels, wrong labels, classes of other sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from naq.errors import OptionError
from naq.graph import Graph
from naq.options import option
from naq.random import stream
from naq.tasks import ClassSplit
from naq_paper.perturbations import Perturbation, Perturbed, ceil_of, floor_of, sub_graph


class LabelScarcity(Perturbation):
    """Label scarcity: a supervised method is given some of the base classes and some of their labels.

    Of the base classes C_b,

        ceil(classes * |C_b|)                random ones stay, at least ``least`` (the way of the episodes),
        max(keep, ceil(labels * n_c))        random labelled nodes of each, at most its n_c,

    where ``keep`` is K + Q of the episodes, 1 + 8. Graph, features and tasks stay whole: only what a supervised method
    may read shrinks, and a method that reads no labels gets the same number at every level.

    Classes and nodes are ranked once by a random order per seed and a prefix is taken, so that what stays at a lower
    share stays at every higher one too. The paper gives four levels (100/100, 80/80, 50/50, 20/20 %) and one draw;
    several seeds are advised.

    Cost: linear in nodes.
    """

    name = "label-scarcity"
    summary = "Fewer base classes and fewer labels in each."

    @dataclass(frozen=True)
    class Options(Perturbation.Options):
        classes: float = option(1.0, at_least=0, at_most=1)  # share of the base classes that stay
        labels: float = option(1.0, at_least=0, at_most=1)  # share of the labelled nodes that stay in each
        # labelled nodes a class keeps at least, if it has them: shots and queries of an episode
        keep: int = option(9, at_least=1)
        least: int = option(5, at_least=1)  # classes that stay at least: the way of the episodes

    options: Options

    def apply(self, graph: Graph, split: ClassSplit, seed: int) -> Perturbed:
        classes, labels = self.options.classes, self.options.labels
        keep, least = self.options.keep, self.options.least
        true = graph.require_labels("label scarcity")
        if len(split.base) < least:
            raise OptionError(
                f"label-scarcity keeps at least {least} base classes, but the split has {len(split.base)}; lower least."
            )
        order = stream(seed, "change/label-scarcity/classes").permutation(np.sort(split.base))
        stay = np.sort(order[: max(least, ceil_of(classes, len(order)))])
        given = np.full(graph.num_nodes, -1, dtype=np.int64)
        for c in stay.tolist():
            nodes = np.flatnonzero(true == c)
            nodes = stream(seed, "change/label-scarcity/nodes", c).permutation(nodes)
            given[nodes[: max(keep, ceil_of(labels, len(nodes)))]] = c
        return Perturbed(
            graph,
            base_labels=given,
            split=ClassSplit(tuple(stay.tolist()), split.valid, split.test),
            facts={
                "classes": len(stay),
                "classes_before": len(split.base),
                "labels": int((given >= 0).sum()),
                "labels_before": int(np.isin(true, split.base).sum()),
            },
        )


class LabelNoise(Perturbation):
    """Label noise: some labels of base classes are wrong, once before training; tasks stay clean.

    With u_i uniform on [0, 1) for every node i of a base class y_i,

        y'_i = y_i   where u_i >= share,   another base class otherwise:
        symmetric    one of the |C_b| - 1 others, uniformly, per node
        asymmetric   the next class of one random cyclic order of C_b, the same for all nodes of a class

    A class retains ``keep`` (K + Q of the episodes, 1 + 8) of its own nodes, or all if it has fewer, which suffices
    for episodes whatever becomes of the others: where more would flip, those with the largest u_i are restored. Their
    number is in the facts.

    u_i and the other class do not depend on ``share``: what is wrong at a lower share is wrong in the same way at every
    higher one.

    The paper says neither symmetric nor asymmetric, nor whether noise is drawn per class; ``kind`` has both readings,
    and every label is drawn on its own.

    Cost: linear in nodes.
    """

    name = "label-noise"
    summary = "Wrong labels in base classes."

    @dataclass(frozen=True)
    class Options(Perturbation.Options):
        share: float = option(0.1, at_least=0, at_most=1)  # probability that a label is replaced
        # any other base class, or one fixed other class per class
        kind: str = option("symmetric", choices=("symmetric", "asymmetric"))
        # own nodes that a class retains, if it has them: shots and queries of an episode
        keep: int = option(9, at_least=1)

    options: Options

    def apply(self, graph: Graph, split: ClassSplit, seed: int) -> Perturbed:
        share, kind, keep = self.options.share, self.options.kind, self.options.keep
        true = graph.require_labels("label noise")
        base = np.sort(np.asarray(split.base, dtype=np.int64))
        if len(base) < 2:
            raise OptionError(f"label-noise needs two base classes to mix, but the split has {len(base)}.")
        order = stream(seed, "change/label-noise/order").permutation(base)
        next_of = dict(zip(order.tolist(), np.roll(order, -1).tolist()))
        given = np.where(np.isin(true, base), true, -1)
        restored = 0
        for place, c in enumerate(base.tolist()):
            nodes = np.flatnonzero(true == c)
            uniform = stream(seed, "change/label-noise/flip", c).random(len(nodes))
            wanted = int((uniform < share).sum())
            flips = min(wanted, max(0, len(nodes) - keep))
            restored += wanted - flips
            chosen = np.argsort(uniform, kind="stable")[:flips]
            if kind == "symmetric":
                # The other class is drawn for every node, flipped or not, so that it does not depend on the share.
                other = stream(seed, "change/label-noise/other", c).integers(0, len(base) - 1, size=len(nodes))
                other = base[other + (other >= place)]
                given[nodes[chosen]] = other[chosen]
            else:
                given[nodes[chosen]] = next_of[c]
        labelled = int((given >= 0).sum())
        wrong = int(((given >= 0) & (given != true)).sum())
        facts = {
            "labels": labelled, "wrong": wrong, "wrong_share": wrong / labelled if labelled else 0.0,
            "restored": restored,
        }  # fmt: skip
        return Perturbed(graph, base_labels=given, facts=facts)


class Imbalance(Perturbation):
    """Class imbalance: a few classes stay whole, of the others little stays; the run is given the induced sub-graph.

    Classes present are sorted by size, ties by the lower id; with C of them,

        pareto      all nodes of the floor(top * C) largest classes, ``tail`` random nodes of every other
        extreme     all nodes of the ``heads`` largest classes, ``tail`` random nodes of every other
        balanced    the control: as many nodes as under ``like``, but the same share s of every class, at least ``keep``
                    (or all); s * n_c is rounded by largest remainders, so that the total is exact

    The graph is also smaller and sparser afterwards, so a drop of accuracy is not imbalance alone: compare with
    ``balanced``.

    Nodes without a label are of no class and are left out, nodes are numbered anew in the order of their old ids, and
    tasks have to be drawn anew. Class ids and the split stay, less the classes with fewer than ``keep`` nodes, which
    hold no 1-shot task. A head class among the test classes keeps all its nodes.

    The paper does not say whether classes are ranked over the whole graph or within base, valid and test classes;
    ``per`` has both. Under ``per="part"`` each part has its own floor(top * C_part) or ``heads`` whole classes, and
    classes of no part are tails.

    Cost: linear in nodes, edges and non-zeros.
    """

    name = "imbalance"
    summary = "Few classes whole, little of the others, as an induced sub-graph."

    @dataclass(frozen=True)
    class Options(Perturbation.Options):
        kind: str = option("pareto", choices=("pareto", "extreme", "balanced"))  # balanced is the control
        top: float = option(0.2, at_least=0, at_most=1)  # share of the classes that stay whole under pareto
        heads: int = option(5, at_least=1)  # classes that stay whole under extreme
        tail: int = option(10, at_least=1)  # nodes of every other class; a smaller class stays whole
        keep: int = option(9, at_least=1)  # nodes a class needs to stay in the split: shots and queries of a task
        like: str = option("pareto", choices=("pareto", "extreme"))  # the kind whose number of nodes balanced keeps
        # ranks classes of the whole graph, or within each part of the split
        per: str = option("graph", choices=("graph", "part"))

    options: Options

    def apply(self, graph: Graph, split: ClassSplit, seed: int) -> Perturbed:
        labels, keep = graph.require_labels("class imbalance"), self.options.keep
        classes, sizes = np.unique(labels[labels >= 0], return_counts=True)
        quota = self.quota(classes, sizes, split)
        nodes = _drawn(labels, classes, quota, seed)
        smaller = sub_graph(graph, nodes)
        usable = set(classes[quota >= keep].tolist())
        kept = [tuple(c for c in part if c in usable) for part in (split.base, split.valid, split.test)]
        out = sorted(set(split.base + split.valid + split.test) - {c for part in kept for c in part})
        return Perturbed(
            smaller,
            split=ClassSplit(*kept),
            redraw=True,
            facts={
                "nodes": smaller.num_nodes,
                "nodes_before": graph.num_nodes,
                "edges": smaller.num_edges,
                "edges_before": graph.num_edges,
                "classes": len(classes),
                "classes_whole": int((quota == sizes).sum()),
                "mean_degree": 2 * smaller.num_edges / smaller.num_nodes,
                "mean_degree_before": 2 * graph.num_edges / graph.num_nodes,
                "isolated_share": float((smaller.degrees == 0).mean()),
                "isolated_share_before": float((graph.degrees == 0).mean()),
                "unlabelled_left_out": int((labels < 0).sum()),
                "classes_left_out": out,
            },
        )

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
        raise OptionError(
            f"imbalance was to keep {total:,} nodes in {len(sizes)} classes, but {keep} of each (or all) are "
            f"{least.sum():,}; raise tail or lower keep."
        )
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


def _drawn(labels: np.ndarray, classes: np.ndarray, quota: np.ndarray, seed: int) -> np.ndarray:
    """Ids of the nodes that stay, ascending; of each class a prefix of its random order."""
    nodes = [
        stream(seed, "change/imbalance/nodes", c).permutation(np.flatnonzero(labels == c))[:count]
        for c, count in zip(classes.tolist(), quota.tolist())
    ]
    return np.sort(np.concatenate(nodes))
