"""A checked, immutable graph."""

from naq.graph.graph import Graph
from naq.graph.weighting import WEIGHTINGS, resolve, tfidf, weighted

__all__ = ["WEIGHTINGS", "Graph", "resolve", "tfidf", "weighted"]
