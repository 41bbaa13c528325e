"""NaQ: few-shot node classification without labels to train on.

Names are imported when first used, so that ``import naq`` and ``naq --help`` are quick.
"""

from __future__ import annotations

from naq.options import on_first_use

__version__ = "0.1.0"

_PUBLIC = {
    "Graph": "naq.graph:Graph",
    "load": "naq.io:load",
    "from_tables": "naq.io:from_tables",
    "from_networkx": "naq.io:from_networkx",
    "Tasks": "naq.tasks:Tasks",
    "ClassSplit": "naq.tasks:ClassSplit",
    "sample_tasks": "naq.tasks:sample_tasks",
    "split_classes": "naq.tasks:split_classes",
    "NeighborTable": "naq.neighbors:NeighborTable",
    "feature_neighbors": "naq.neighbors:feature_neighbors",
    "diffusion_neighbors": "naq.neighbors:diffusion_neighbors",
    "vector_neighbors": "naq.neighbors:vector_neighbors",
    "Episodes": "naq.episodes:Episodes",
    "naq_episodes": "naq.episodes:naq_episodes",
    "supervised_episodes": "naq.episodes:supervised_episodes",
    "umtra_episodes": "naq.episodes:umtra_episodes",
    "ClosedForm": "naq.embedders.closed_form:ClosedForm",
    "evaluate": "naq.heads:evaluate",
    "Evaluation": "naq.heads:Evaluation",
    "embed": "naq.run.embed:embed",
    "run": "naq.run:",  # the package itself, which is called
    "RunConfig": "naq.run.config:RunConfig",
    "Result": "naq.run.result:Result",
    "FewShotNodeClassifier": "naq.classifier:FewShotNodeClassifier",
    "cross_validate": "naq.classifier.validation:cross_validate",
    "Learner": "naq.learners:Learner",
    "Embedder": "naq.embedders:Embedder",
    "Head": "naq.heads:Head",
    "register": "naq.methods:register",
    "listeners": "naq.listeners:",
    "testing": "naq.testing:",
    "NaqError": "naq.errors:NaqError",
}

__all__ = ["__version__", *_PUBLIC]
__getattr__ = on_first_use(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return sorted(__all__)
