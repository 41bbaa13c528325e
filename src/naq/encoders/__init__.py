"""Node features and structure to vectors, for a set of nodes or for all."""

from naq.encoders.augment import AugmentedOperator
from naq.encoders.gcn import GCN, Encoder
from naq.encoders.local import LocalOperator
from naq.encoders.operator import DenseOperator, GraphOperator, Operator

__all__ = ["GCN", "AugmentedOperator", "DenseOperator", "Encoder", "GraphOperator", "LocalOperator", "Operator"]
