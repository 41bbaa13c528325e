"""How a few-shot task is answered from frozen vectors: linear probe, prototypes, prototypes with the help of other
nodes or of the queries."""

from naq.heads.base import HEADS, Evaluation, Head, evaluate, in_reading_order, make_head, score_answers
from naq.heads.logistic import LogisticHead
from naq.heads.prototype import ExpansionHead, PrototypeHead
from naq.heads.transductive import BalancedHead, EMHead, TransductiveHead

__all__ = [
    "HEADS", "BalancedHead", "EMHead", "Evaluation", "ExpansionHead", "Head", "LogisticHead", "PrototypeHead",
    "TransductiveHead", "evaluate", "in_reading_order", "make_head", "score_answers",
]  # fmt: skip
