"""Label scarcity: a supervised method is given some of the base classes and some of their labels.

Of the base classes C_b,

    ceil(classes * |C_b|)                random ones stay, at least ``least`` (the way of the episodes),
    max(keep, ceil(labels * n_c))        random labelled nodes of each, at most its n_c,

where ``keep`` is K + Q of the episodes, 1 + 8. Graph, features and tasks stay whole: only what a supervised method may
read shrinks, and a method that reads no labels gets the same number at every level.

Classes and nodes are ranked once by a random order per seed and a prefix is taken, so that what stays at a lower share
stays at every higher one too. The paper gives four levels (100/100, 80/80, 50/50, 20/20 %) and one draw; several seeds
are advised.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from naq.errors import OptionError
from naq.graph import Graph
from naq.options import option
from naq.random import stream
from naq.tasks import ClassSplit
from naq_paper.perturbations.base import Perturbation, Perturbed, ceil_of, register_perturbation


@register_perturbation
class LabelScarcity(Perturbation):
    """Fewer base classes and fewer labels in each.

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
