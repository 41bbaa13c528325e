"""The whole protocol: train, select, test; and grids of it: the paper's tables and analyses.

Names are imported when first used: a list of experiments or an empty cell needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from naq.experiments.protocol import embed, run
    from naq.experiments.result import Result

_PUBLIC = {"Result": "naq.experiments.result", "embed": "naq.experiments.protocol", "run": "naq.experiments.protocol"}

__all__ = ["Result", "embed", "run"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'naq.experiments' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
