"""Node features and structure to vectors, for a set of nodes or for all."""

from naq.nn.augment import AugmentedOperator
from naq.nn.gcn import GCN, OneLayerGCN
from naq.nn.local import LocalOperator
from naq.nn.operator import DenseOperator, GraphOperator, Operator

__all__ = [
    "GCN",
    "AugmentedOperator",
    "DenseOperator",
    "GraphOperator",
    "LocalOperator",
    "OneLayerGCN",
    "Operator",
]
