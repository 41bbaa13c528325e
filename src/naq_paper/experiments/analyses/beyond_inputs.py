"""Learners that read the vectors of the closed form instead of the words: does training on top of it add anything?"""

from __future__ import annotations

from naq_paper.experiments.analyses.beyond_accuracy import GRAPHS
from naq_paper.experiments.analyses.beyond_refinement import plain_and_changed
from naq_paper.experiments.request import Request
from naq_paper.experiments.variants import Variant, Variants

METHODS = ("naq-feat/protonet", "naq-feat/cosmic")


class BeyondInputs(Variants):
    name = "beyond-inputs"
    title = "Closed-form vectors as input"
    question = "Does training on the vectors of the closed form add anything to them?"
    datasets = GRAPHS
    gains = ("gain over its own features", "gain over naq-plus")
    note = "On naq-plus vectors: features are replaced by them, for the neighbours of the episodes too."

    def variants(self, request: Request) -> list[Variant]:
        vectors = {"perturbation": {"name": "naq-plus-features", "seed": 0}}
        return plain_and_changed(request, METHODS, "on naq-plus vectors", vectors)
