"""How a few-shot task is answered from frozen vectors: linear probe, prototypes, prototypes with the queries' help."""

from naq.heads.base import HEADS, Head, make_head, register_head
from naq.heads.evaluation import Evaluation, evaluate, scored
from naq.heads.logistic import LogisticHead
from naq.heads.prototype import PrototypeHead
from naq.heads.transductive import TransductiveHead

__all__ = [
    "HEADS",
    "Evaluation",
    "Head",
    "LogisticHead",
    "PrototypeHead",
    "TransductiveHead",
    "evaluate",
    "make_head",
    "register_head",
    "scored",
]
