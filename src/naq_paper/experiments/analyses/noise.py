"""Fewer labels, wrong labels, noise in edges and features, and imbalanced classes, level by level.

Every seed draws its own perturbation, the same for all methods; the paper draws once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from naq.run.evaluate import BASELINE
from naq_paper.experiments.analyses.variants import CLOSED, GRAPHS, way_of
from naq_paper.experiments.captions import SMOOTH, Level, from_paper, gain
from naq_paper.experiments.experiment import Contest, Study
from naq_paper.experiments.names import NETWORKS, full_name
from naq_paper.experiments.paper import paper_figure
from naq_paper.experiments.request import Request
from naq_paper.experiments.sweep import FOUR, Conditions, Found, Pairs, Sweep, Tests, change_words, trained
from naq_paper.experiments.views import Series

POSTER = "the paper (read off its poster)"
UNREAD = "NaQ reads no label, so its row is the same training at every level."
KINDS = ("supervised", "naq-feat", "naq-diff")


def perturbed(name: str, **how: Any) -> dict[str, Any]:
    """The settings of a point; a level without values is that of the data as they are."""
    return {"perturbation": {"name": name, **how}} if all(how.values()) and how else {}


class LabelScarcity(Sweep):
    """At level c / l a supervised learner keeps ceil(c |base|) random base classes and, in each, max(K + Q, ceil(l n_c))
    random labelled nodes; the graph and the tasks stay whole.
    """

    name = "label-scarcity"
    title = "Label scarcity"
    question = "What happens to supervised meta-learning when labelled base classes and labelled nodes become few?"
    origin = "Figures 1a and 15a"
    x_label = "classes % / labels %"
    note = UNREAD
    labels_only = True
    levels = (1.0, 0.8, 0.5, 0.2)
    queries = 8

    def methods(self, request: Request) -> list[str]:
        return trained(request, "supervised", default=FOUR)

    def conditions(self, request: Request, dataset: str) -> Conditions:
        keep = request.shot + self.queries
        return {
            f"{100 * c:.0f} / {100 * c:.0f}": perturbed("label-scarcity", classes=c, labels=c, keep=keep)
            if c < 1
            else {}
            for c in request.levels(self.levels)
        }

    def paper_series(self, request: Request, dataset: str) -> list[Series]:
        shares, levels = request.levels(self.levels), list(self.conditions(request, dataset))
        series: list[Series] = []
        for method in self.methods(request):
            bars = [f"class{100 * share:.0f}_label{100 * share:.0f}" for share in shares]
            known = [paper_figure("label_scarcity", dataset, method, bar) for bar in bars]
            series += from_paper(f"{full_name(method)}, {POSTER}", levels, known)
        return series


class LabelNoise(Sweep):
    """Each base-class label is replaced, with probability p, by a uniformly drawn different base class before training.

    Tasks stay clean. The paper's levels on Cora-Full are 0 to 0.3, "as it is smaller than Electronics", whose levels it does
    not name: there they go to 0.5. Whether its noise is symmetric is not stated: the perturbation has both kinds.
    """

    name = "label-noise"
    title = "Label noise"
    question = "What happens to supervised meta-learning when labels of base classes are wrong?"
    origin = "Figures 1b and 15b"
    x_label = "share of wrong labels"
    note = UNREAD
    labels_only = True

    def methods(self, request: Request) -> list[str]:
        return trained(request, "supervised", default=FOUR)

    def conditions(self, request: Request, dataset: str) -> Conditions:
        shares = (0.0, 0.1, 0.3, 0.5) if dataset == "amazon-electronics" else (0.0, 0.1, 0.2, 0.3)
        return {share: perturbed("label-noise", share=share) for share in request.levels(shares)}


class StructureNoise(Sweep):
    """p |E| random edges are added; the noisy graph is used for training and testing.

    NaQ-Diff diffuses on the noisy graph; the neighbours of NaQ-Feat do not change, its encoder does. The paper does not name
    the datasets of its figure: all four networks are run.
    """

    name = "structure-noise"
    title = "Structure noise"
    question = "How much do random edges hurt, and whom?"
    origin = "Figure 9a"
    datasets = NETWORKS
    x_label = "added edges, share of |E|"
    thin = ("supervised", "naq-diff")
    """Kinds of episodes under a thin budget."""

    def methods(self, request: Request) -> list[str]:
        return trained(request, *self.thin) if request.limits.thin else [*trained(request, *KINDS), "bgrl"]

    def conditions(self, request: Request, dataset: str) -> Conditions:
        return {share: perturbed(self.name, share=share) for share in request.levels((0.0, 0.1, 0.3))}


class FeatureNoise(StructureNoise):
    """In a share p of the nodes each feature is flipped with probability (share of the node's non-zero features).

    The neighbours of NaQ-Feat are found in the noisy features. The paper's sentence has a second reading (replace the row by
    such draws): the perturbation has both.
    """

    name = "feature-noise"
    title = "Feature noise"
    question = "How much do flipped features hurt, and whom?"
    origin = "Figure 9b"
    x_label = "noisy nodes, share of n"
    thin = ("supervised", "naq-feat")


class Imbalance(Sweep):
    """A few classes stay whole, every other one keeps ten nodes.

    Pareto keeps the largest fifth of the classes, Extreme the five largest; the graph is the induced sub-graph, so ids,
    neighbours and tasks are made anew. Such a graph is also smaller and sparser: the control removes as many nodes, but
    spreads them over classes in proportion to their sizes, and shows how much of the drop is imbalance.

    Two methods at one level are compared draw by draw and task by task. Two levels are other graphs with other tasks, so
    their difference is unpaired.
    """

    name = "imbalance"
    title = "Class imbalance"
    question = "How much accuracy does class imbalance cost, and how much of that is only the smaller graph?"
    origin = "Figures 1c and 11"
    x_label = "graph"
    bars = True
    note = (
        "Control: as many nodes removed, spread over classes in proportion to their sizes. Every seed draws its own sub-graph and tasks, "
        "the same for all methods: the spread in parentheses is over draws and trainings. Most test classes of the imbalanced graphs have ten nodes, "
        "so the interval over tasks understates the uncertainty."
    )
    levels: Mapping[str, Mapping[str, str]] = {
        "original": {},
        "Pareto": {"kind": "pareto"},
        "Pareto control": {"kind": "balanced", "like": "pareto"},
        "Extreme": {"kind": "extreme"},
        "Extreme control": {"kind": "balanced", "like": "extreme"},
    }

    def methods(self, request: Request) -> list[str]:
        return [*trained(request, *KINDS), *request.levels(("bgrl", "sugrl", "afgrl", "vnt"), ("bgrl",))]

    def conditions(self, request: Request, dataset: str) -> Conditions:
        asked = request.levels(tuple(self.levels), ("original", "Pareto"))
        return {level: perturbed("imbalance", **self.levels[level]) for level in asked}

    def paper_series(self, request: Request, dataset: str) -> list[Series]:
        levels = list(self.conditions(request, dataset))
        found = []
        for method in self.methods(request):
            known = [paper_figure("class_imbalance", dataset, method, str(level).lower()) for level in levels]
            found += from_paper(f"{full_name(method)}, {POSTER}", levels, known)
        return found

    def steps(self, levels: Sequence[Level]) -> list[tuple[Level, Level]]:
        return [(levels[0], level) for level in levels if level in ("Pareto", "Extreme") and levels[0] == "original"]

    def comparisons(self, study: Study, found: Found) -> Pairs:
        """The imbalanced graphs against a control of the same size."""
        return {
            (row, kind): (ours, control)
            for row in dict.fromkeys(row for row, _ in found)
            for kind in ("Pareto", "Extreme")
            if (ours := found.get((row, kind))) and (control := found.get((row, f"{kind} control")))
        }

    def remarks(self, study: Study, found: Found, tests: Tests) -> list[str]:
        gains = {
            row: [f"{kind} {gain(tests[row, kind])}" for kind in ("Pareto", "Extreme") if (row, kind) in tests]
            for row, _ in found
        }
        return [f"{row}, against a control of the same size: {'; '.join(said)}." for row, said in gains.items() if said]


class BeyondRobustness(Sweep):
    """The closed form under noise and imbalance, beside ``smooth`` and NaQ-Feat."""

    name = "beyond-robustness"
    title = "NaQ in closed form under noise and imbalance"
    question = "How much do noise and imbalance cost the closed form, and is it still above the others?"
    origin = "not in the paper"
    group = "beyond"
    datasets = GRAPHS
    x_label = "graph"
    bars = True
    baseline = False  # a row like the others: ways differ by dataset
    note = "Every seed draws its own noise or sub-graph, the same for all methods. Imbalanced graphs have other nodes and tasks than the clean one."
    levels: Mapping[str, Mapping[str, Any]] = {
        "clean": {},
        "feature noise 0.3": perturbed("feature-noise", share=0.3),
        "edge noise 0.3": perturbed("structure-noise", share=0.3),
        "Pareto": perturbed("imbalance", kind="pareto"),
        "Extreme": perturbed("imbalance", kind="extreme"),
    }

    def methods(self, request: Request) -> list[str]:
        return [CLOSED, *trained(request, "naq-feat"), BASELINE]

    def conditions(self, request: Request, dataset: str) -> Conditions:
        way = {"way": way_of(request, dataset)}
        return {level: {**way, **self.levels[level]} for level in request.levels(tuple(self.levels))}

    def steps(self, levels: Sequence[Level]) -> list[tuple[Level, Level]]:
        return [("clean", level) for level in levels if level != "clean" and "clean" in levels]

    def headline(self, study: Study) -> list[Contest]:
        return []  # the table of accuracies has the clean graph

    def comparisons(self, study: Study, found: Found) -> Pairs:
        """The losses of ``smooth``, and the closed form against the others on each graph."""
        closed, levels = full_name(CLOSED), dict.fromkeys(level for _, level in found)
        losses = {
            (SMOOTH, "clean", level): (found[SMOOTH, level], found[SMOOTH, "clean"])
            for level in levels
            if level != "clean" and {(SMOOTH, level), (SMOOTH, "clean")} <= set(found)
        }
        above = {
            (closed, level, row, "against"): (found[closed, level], found[row, level])
            for row, level in found
            if row != closed and (closed, level) in found
        }
        return {**losses, **above}

    def remarks(self, study: Study, found: Found, tests: Tests) -> list[str]:
        closed, said = full_name(CLOSED), []
        for row, level in found:
            if row == SMOOTH and (row, "clean", level) in tests:
                said.append(change_words(row, "clean", level, found, tests))
        for level in dict.fromkeys(level for _, level in found):
            rows = [row for row in dict.fromkeys(row for row, _ in found) if (closed, level, row, "against") in tests]
            parts = [f"{row} {gain(tests[closed, level, row, 'against'])}" for row in rows]
            if parts:
                said.append(f"{closed} on the graph {level}, against {'; against '.join(parts)}.")
        return said
