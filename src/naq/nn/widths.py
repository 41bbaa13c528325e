"""What a model's widths take of memory, before any of it is taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from naq.graph import Graph
from naq.memory import require

COPIES = 4
"""A weight, its gradient and two moments of the optimiser."""


def check_widths(graph: Graph, options: Mapping[str, Any]) -> None:
    """Raise an ``OptionError`` where weights of these widths, or a vector for every node, do not fit into memory."""
    latent = int(options.get("latent", 0))
    hidden = int(options.get("hidden", 0)) or 2 * latent
    widest = max(latent, hidden)
    if widest < 1:
        return
    weights = COPIES * (max(graph.num_features, 1) * min(widest, hidden) + hidden * max(latent, 1))
    vectors = graph.num_nodes * max(latent, 1)
    what = " and ".join(f"{name}={options[name]:,}" for name in ("latent", "hidden") if name in options)
    require(min(4 * (weights + vectors), 10**300), f"a model with {what}", "lower them")
