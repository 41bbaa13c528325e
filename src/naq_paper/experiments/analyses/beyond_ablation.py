"""The closed form with each ingredient taken away, and with other values of what is fixed.

Nothing here is trained: a variant is one cell, and differences are over tasks.
"""

from __future__ import annotations

from typing import Any

from naq.run.evaluate import BASELINE
from naq_paper.experiments.analyses.beyond_accuracy import GRAPHS
from naq_paper.experiments.names import full_name
from naq_paper.experiments.reached import CLOSED
from naq_paper.experiments.request import Request
from naq_paper.experiments.variants import Variant, Variants

NO_SCATTER = 1e6
"""So much of the mean scatter is added to every direction that all are divided by the same."""
CHANGES: dict[str, dict[str, Any]] = {
    "no smoothing": {"steps": 0},
    "no scatter step": {"shrink": NO_SCATTER},
    "no sharpening": {"power": 1.0},
    "5 neighbours": {"neighbors": 5},
    "20 neighbours": {"neighbors": 20},
    "power 1.25": {"power": 1.25},
    "128 dimensions": {"dim": 128},
    "512 dimensions": {"dim": 512},
}


class BeyondAblation(Variants):
    name = "beyond-ablation"
    title = "Ingredients of the closed form"
    question = "Which ingredient of the closed form does the accuracy come from?"
    datasets = GRAPHS
    gains = ("gain over naq-plus",)
    note = "Nothing is trained: one result per row, the same tasks."

    def variants(self, request: Request) -> list[Variant]:
        one: dict[str, Any] = {"seeds": request.all_seeds[:1]}
        changes = request.levels(tuple(CHANGES), tuple(CHANGES)[:3])
        return [
            Variant(full_name(CLOSED), CLOSED, settings=one),
            *(Variant(change, CLOSED, (full_name(CLOSED),), {**one, "options": CHANGES[change]}) for change in changes),
            Variant(full_name(BASELINE), BASELINE, (full_name(CLOSED),), one),
        ]
