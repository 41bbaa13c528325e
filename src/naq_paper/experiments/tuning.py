"""Our own candidates for the settings of each method; the paper's grid is in :mod:`naq_paper.experiments.paper.settings`.

The paper tuned every method on every dataset and for every kind of episodes over a grid that it prints; it does not say what was chosen, nor on which
tasks. Here candidates are trained with the first seed; the best accuracy on validation tasks decides, the first of equals. Test tasks choose
nothing. These candidates, up to three per method, are of this package: the paper's profile uses its grid.
"""

from __future__ import annotations

from typing import Any

CANDIDATES: dict[str, list[dict[str, Any]]] = {
    "protonet": [{"lr": 2e-5}, {"lr": 1e-4}, {"lr": 3e-4}],
    "maml": [{"lr": 3e-3}, {"lr": 1e-3}, {"lr": 1e-3, "inner_lr": 0.1}],
    "gmeta": [{"lr": 1e-3}, {"lr": 3e-3}, {"lr": 1e-3, "inner_lr": 0.1}],
    "tent": [{"lr": 1e-4}, {"lr": 1e-3}, {"lr": 5e-3}],
    "glitter": [{}, {"inner_lr": 0.5}],
    "cosmic": [{}, {"use_queries": True}, {"use_queries": True, "lr": 1e-4}],
    "gpn": [{"lr": 5e-3}, {"lr": 5e-4}, {"lr": 5e-4, "dropout": 0.0}],
    "teg": [{"lr": 1e-3}, {"lr": 3e-4}, {"lr": 3e-3}],
    "bgrl": [
        {
            "lr": 1e-4,
            "momentum": 0.99,
            "drop_edge1": 0.3,
            "drop_feature1": 0.3,
            "drop_edge2": 0.2,
            "drop_feature2": 0.4,
        },
        {
            "lr": 2e-3,
            "momentum": 0.99,
            "drop_edge1": 0.7,
            "drop_feature1": 0.7,
            "drop_edge2": 0.7,
            "drop_feature2": 0.7,
        },
        {"lr": 1e-3, "momentum": 0.9, "drop_edge1": 0.5, "drop_feature1": 0.5, "drop_edge2": 0.5, "drop_feature2": 0.5},
    ],
    "sugrl": [{"lr": 1e-3}, {"lr": 5e-3}, {"lr": 1e-3, "l3_reduction": "sum"}],
    "afgrl": [{"lr": 1e-4}, {"lr": 1e-3}, {"lr": 3e-4, "k": 8}],
    "vnt": [{}, {"prompts": 5, "steps": 50}, {"prompts": 20, "tune_lr": 1e-3}],
    "cola": [{"lr": 5e-4}, {"lr": 2e-3}, {"lr": 5e-3}],
}
"""Settings to choose from, by the name of the learner or embedder; the first ones are the released or published defaults."""


def learner_of(method: str) -> str:
    """``protonet`` of ``naq-feat/protonet``; an embedder's own name."""
    return method.rpartition("/")[2]
