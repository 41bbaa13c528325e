"""A checked, immutable graph."""

from naq.graph.checks import FeatureBlock, arcs_of
from naq.graph.graph import Graph
from naq.graph.operators import WEIGHTINGS, resolve, tfidf, weighted

__all__ = ["WEIGHTINGS", "FeatureBlock", "Graph", "arcs_of", "resolve", "tfidf", "weighted"]
