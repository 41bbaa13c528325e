"""Node features and structure to vectors, for a set of nodes or for all."""

from naq.encoders.gcn import GCN, Encoder
from naq.encoders.operator import GraphOperator

__all__ = ["GCN", "Encoder", "GraphOperator"]
