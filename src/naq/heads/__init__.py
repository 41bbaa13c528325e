"""How a few-shot task is answered from frozen vectors: linear probe, prototypes, prototypes with the queries' help."""

from naq.heads.base import HEADS, Evaluation, Head, evaluate, make_head, register_head, scored
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
