"""Learners that read the vectors of the closed form instead of the words: does training on top of it add anything?"""

from __future__ import annotations

from naq.experiments.analyses.beyond_accuracy import GRAPHS
from naq.experiments.analyses.beyond_refinement import label_free
from naq.experiments.experiment import EXPERIMENTS
from naq.experiments.names import full_name
from naq.experiments.reached import CLOSED
from naq.experiments.request import Request
from naq.experiments.variants import Variant, Variants

METHODS = ("naq-feat/protonet", "naq-feat/cosmic")


@EXPERIMENTS.register
class BeyondInputs(Variants):
    name = "beyond-inputs"
    title = "Closed-form vectors as input"
    question = "Does training on the vectors of the closed form add anything to them?"
    datasets = GRAPHS
    gains = ("gain over its own features", "gain over naq-plus")
    note = "On naq-plus vectors: features are replaced by them, for the neighbours of the episodes too."

    def variants(self, request: Request) -> list[Variant]:
        closed = full_name(CLOSED)
        rows = [Variant(closed, CLOSED)]
        for method in label_free(request, METHODS):
            plain = full_name(method)
            replaced = {"perturbation": {"name": "naq-plus-features", "seed": 0}}
            rows += [
                Variant(plain, method),
                Variant(f"{plain}, on naq-plus vectors", method, (plain, closed), replaced),
            ]
        return rows
