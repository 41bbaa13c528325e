"""NaQ: few-shot node classification without labels to train on.

Names are imported when first used, so that ``import naq`` and ``naq --help`` are quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "Graph": "naq.graph",
    "load": "naq.io",
    "from_tables": "naq.io",
    "from_networkx": "naq.io",
    "Tasks": "naq.tasks",
    "ClassSplit": "naq.tasks",
    "sample_tasks": "naq.tasks",
    "split_classes": "naq.tasks",
    "NeighborTable": "naq.neighbors",
    "feature_neighbors": "naq.neighbors",
    "diffusion_neighbors": "naq.neighbors",
    "Episodes": "naq.episodes",
    "naq_episodes": "naq.episodes",
    "supervised_episodes": "naq.episodes",
    "umtra_episodes": "naq.episodes",
    "evaluate": "naq.heads",
    "Evaluation": "naq.heads",
    "embed": "naq.run",
    "run": "naq.run",
    "Result": "naq.run",
    "FewShotNodeClassifier": "naq.classifier",
    "NaqError": "naq.errors",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'naq' has no attribute {name!r}")
    value = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
