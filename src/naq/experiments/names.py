"""What methods are called in tables and plots."""

from __future__ import annotations

from naq.experiments.tuning import learner_of

KINDS = {"naq-feat": "NaQ-Feat", "naq-diff": "NaQ-Diff", "supervised": "Supervised", "g-umtra": "g-UMTRA"}
LEARNERS = {
    "maml": "MAML",
    "protonet": "ProtoNet",
    "tent": "TENT",
    "gmeta": "G-Meta",
    "glitter": "GLITTER",
    "cosmic": "COSMIC",
    "gpn": "GPN",
    "teg": "TEG",
    "bgrl": "TLP-BGRL",
    "sugrl": "TLP-SUGRL",
    "afgrl": "TLP-AFGRL",
    "vnt": "VNT",
    "cola": "COLA",
    "smooth": "smooth (no training)",
}


def kind_of(method: str) -> str:
    """``NaQ-Feat`` of ``naq-feat/protonet``; "" where there are no episodes."""
    kind, slash, _ = method.partition("/")
    return KINDS.get(kind, kind) if slash else ""


def model_of(method: str) -> str:
    """``ProtoNet`` of ``naq-feat/protonet``."""
    return LEARNERS.get(learner_of(method), learner_of(method))


def full_name(method: str) -> str:
    """``ProtoNet (NaQ-Feat)``."""
    kind = kind_of(method)
    return f"{model_of(method)} ({kind})" if kind else model_of(method)
