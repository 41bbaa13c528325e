"""A checked, immutable graph."""

from naq.graph.graph import Graph

__all__ = ["Graph"]
