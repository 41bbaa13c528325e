"""What benchmarks that choose something share: the graphs, their classes for development, the first form of ``naq-plus``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from naq.graph import Graph
from naq.io.splits import split_for

DATA = Path(os.environ.get("NAQ_SHARED_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
"""The folder of the graphs that are not bundled."""
WAYS = {"debian": 5, "coauthor_cs": 5, "amazon_computers": 5, "cora": 2, "citeseer": 2}
"""The graphs, and how many classes their tasks have."""
FIRST: dict[str, Any] = {"dim": 256, "pairs": "mutual", "power": 1.5}
"""Of ``naq-plus``, before other pairs, width and power were chosen; ``refined`` has these defaults."""


def source_of(name: str, data: Path = DATA) -> str:
    """What :func:`naq.load` takes."""
    return name if name == "debian" else str(data / f"{name}.npz")


def development_classes(graph: Graph, source: str) -> tuple[int, ...]:
    """Base and validation classes: nothing is chosen on test classes."""
    split = split_for(source, graph)
    return (*split.base, *split.valid)
