"""What methods are called in tables and plots."""

from __future__ import annotations

from naq_paper.experiments.paper.names import PAPER_EMBEDDERS, PAPER_GENERATORS, PAPER_LEARNERS
from naq_paper.experiments.tuning import learner_of

KINDS = {**PAPER_GENERATORS, "g-umtra": "g-UMTRA"}
MODELS = {
    **PAPER_LEARNERS,
    **PAPER_EMBEDDERS,
    "gpn": "GPN",
    "teg": "TEG",
    "cola": "COLA",
    "chosen": "Best of six by validation",
    "smooth": "smooth (no training)",
    "naq-plus": "naq-plus (no training)",
    "naq-plus/sugrl": "naq-plus with SUGRL",
}
"""The paper's names, and those of what it does not have."""


def kind_of(method: str) -> str:
    """``NaQ-Feat`` of ``naq-feat/protonet``; "" where there are no episodes."""
    kind, slash, _ = method.partition("/")
    return KINDS.get(kind, kind) if slash and method not in MODELS else ""


def model_of(method: str) -> str:
    """``ProtoNet`` of ``naq-feat/protonet``."""
    return MODELS.get(method) or MODELS.get(learner_of(method), learner_of(method))


def full_name(method: str) -> str:
    """``ProtoNet (NaQ-Feat)``."""
    kind = kind_of(method)
    return f"{model_of(method)} ({kind})" if kind else model_of(method)
