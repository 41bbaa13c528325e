"""Label noise: some labels of base classes are wrong, once before training; tasks stay clean.

With u_i uniform on [0, 1) for every node i of a base class y_i,

    y'_i = y_i   where u_i >= share,   another base class otherwise:
    symmetric    one of the |C_b| - 1 others, uniformly, per node
    asymmetric   the next class of one random cyclic order of C_b, the same for all nodes of a class

A class retains ``keep`` (K + Q of the episodes, 1 + 8) of its own nodes, or all where it has fewer, which suffices for
episodes whatever becomes of the others: where more would flip, those with the largest u_i are restored. Their number is
in the facts.

u_i and the other class do not depend on ``share``: what is wrong at a lower share is wrong in the same way at every
higher one.

The paper says neither symmetric nor asymmetric, nor whether noise is drawn per class; ``kind`` has both readings, and
every label is drawn on its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from naq.errors import OptionError
from naq.graph import Graph
from naq.options import option
from naq.random import stream
from naq.tasks import ClassSplit
from naq_paper.perturbations import Perturbation, Perturbed, ceil_of, register_perturbation

KINDS = ("symmetric", "asymmetric")


@register_perturbation
class LabelNoise(Perturbation):
    name = "label-noise"
    summary = "Wrong labels in base classes."  # cost: linear in nodes

    @dataclass(frozen=True)
    class Options(Perturbation.Options):
        share: float = option(0.1, at_least=0, at_most=1)  # probability that a label is replaced
        kind: str = option("symmetric", choices=KINDS)  # any other base class, or one fixed other class per class
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
        share = wrong / labelled if labelled else 0.0
        facts = {"labels": labelled, "wrong": wrong, "wrong_share": share, "restored": restored}
        return Perturbed(graph, base_labels=given, facts=facts)


@register_perturbation
class LabelScarcity(Perturbation):
    name = "label-scarcity"
    summary = "Fewer base classes and fewer labels in each."  # cost: linear in nodes

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
            there = len(split.base)
            raise OptionError(
                f"label-scarcity keeps at least {least} base classes, but the split has {there}; lower least."
            )
        order = stream(seed, "change/label-scarcity/classes").permutation(np.sort(split.base))
        stay = np.sort(order[: max(least, ceil_of(classes, len(order)))])
        given = np.full(graph.num_nodes, -1, dtype=np.int64)
        for c in stay.tolist():
            nodes = np.flatnonzero(true == c)
            nodes = stream(seed, "change/label-scarcity/nodes", c).permutation(nodes)
            given[nodes[: max(keep, ceil_of(labels, len(nodes)))]] = c
        facts = {"classes": len(stay), "classes_before": len(split.base)}
        facts |= {"labels": int((given >= 0).sum()), "labels_before": int(np.isin(true, split.base).sum())}
        fewer = ClassSplit(tuple(stay.tolist()), split.valid, split.test)
        return Perturbed(graph, base_labels=given, split=fewer, facts=facts)
