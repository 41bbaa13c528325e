"""The last steps of the closed form on the vectors of other methods: scatter of neighbours removed, the rest sharpened.

The training is the same with and without: the refinement comes after it, before the tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from naq.methods import get_method
from naq_paper.experiments.analyses.beyond_accuracy import GRAPHS
from naq_paper.experiments.names import full_name
from naq_paper.experiments.reached import CLOSED
from naq_paper.experiments.request import Request
from naq_paper.experiments.variants import Variant, Variants

METHODS = ("naq-feat/protonet", "naq-feat/cosmic", "bgrl", "sugrl")


class BeyondRefinement(Variants):
    name = "beyond-refinement"
    title = "Refinement of trained vectors"
    question = "Do the last steps of the closed form improve the vectors of methods that are trained?"
    datasets = GRAPHS
    gains = ("gain over the vectors as they are", "gain over naq-plus")
    note = "Refined: mutual nearest neighbours of the trained vectors, their scatter removed, the rest sharpened; the trainings are the same."

    def variants(self, request: Request) -> list[Variant]:
        return plain_and_changed(request, METHODS, "refined", {"refine": True})


def plain_and_changed(
    request: Request, methods: tuple[str, ...], change: str, settings: Mapping[str, Any]
) -> list[Variant]:
    """The closed form, then each method as it is and with the change, which is compared with both."""
    closed = full_name(CLOSED)
    rows = [Variant(closed, CLOSED)]
    for method in label_free(request, methods):
        plain = full_name(method)
        rows += [Variant(plain, method), Variant(f"{plain}, {change}", method, (plain, closed), settings)]
    return rows


def label_free(request: Request, default: tuple[str, ...]) -> list[str]:
    """The request's methods that are trained without labels and whose vectors a head reads; under a thin budget the first of the default."""
    asked = request.methods or (default[:1] if request.limits.thin else default)
    known = dict.fromkeys(map(get_method, asked))
    return [one.name for one in known if one.trains and not one.reads_base_labels and not one.solves_tasks]


class BeyondInputs(Variants):
    name = "beyond-inputs"
    title = "Closed-form vectors as input"
    question = "Does training on the vectors of the closed form add anything to them?"
    datasets = GRAPHS
    gains = ("gain over its own features", "gain over naq-plus")
    note = "On naq-plus vectors: features are replaced by them, for the neighbours of the episodes too."

    def variants(self, request: Request) -> list[Variant]:
        vectors = {"perturbation": {"name": "naq-plus-features", "seed": 0}}
        return plain_and_changed(request, ("naq-feat/protonet", "naq-feat/cosmic"), "on naq-plus vectors", vectors)
