"""What datasets and methods are called in tables and plots, and in the paper."""

from __future__ import annotations

from pathlib import PurePath

PAPER_DATASETS = {
    "amazon-clothing": "Amazon-Clothing",
    "amazon-electronics": "Amazon-Electronics",
    "cora-full": "Cora-Full",
    "dblp": "DBLP",
    "ogbn-arxiv": "ogbn-arxiv",
    "ogbn-products": "ogbn-products",
}
"""Our names of the paper's datasets, and the paper's."""
PARTS = {"amazon-clothing-half": "amazon-clothing"}
"""Graphs that are a part of one of the paper's: they have its settings, and its numbers only where a table says so."""
PAPER_LEARNERS = {
    "maml": "MAML",
    "protonet": "ProtoNet",
    "tent": "TENT",
    "gmeta": "G-Meta",
    "glitter": "GLITTER",
    "cosmic": "COSMIC",
    "best": "Best of six",
}
PAPER_EMBEDDERS = {"bgrl": "TLP-BGRL", "sugrl": "TLP-SUGRL", "afgrl": "TLP-AFGRL", "vnt": "VNT"}
PAPER_GENERATORS = {"supervised": "Supervised", "naq-feat": "NaQ-Feat", "naq-diff": "NaQ-Diff"}
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


def learner_of(method: str) -> str:
    """``protonet`` of ``naq-feat/protonet``; an embedder's own name."""
    return method.rpartition("/")[2]


def kind_of(method: str) -> str:
    """``NaQ-Feat`` of ``naq-feat/protonet``; "" without episodes."""
    kind, slash, _ = method.partition("/")
    return KINDS.get(kind, kind) if slash and method not in MODELS else ""


def model_of(method: str) -> str:
    """``ProtoNet`` of ``naq-feat/protonet``."""
    return MODELS.get(method) or MODELS.get(learner_of(method), learner_of(method))


def full_name(method: str) -> str:
    """``ProtoNet (NaQ-Feat)``."""
    kind = kind_of(method)
    return f"{model_of(method)} ({kind})" if kind else model_of(method)


def paper_name(dataset: str) -> str | None:
    """The paper's name of a dataset given by our name, a graph's name or a path; None if the paper does not have it.

    >>> paper_name("data/cora_full_structure.npz"), paper_name("Amazon_clothing"), paper_name("cora")
    ('Cora-Full', 'Amazon-Clothing', None)
    """
    plain = PurePath(dataset).name.lower().removesuffix(".npz").replace("_", "-").replace(" ", "-")
    plain = plain.removesuffix("-network").removesuffix("-structure")
    return PAPER_DATASETS.get("cora-full" if plain == "corafull" else plain)


def paper_generator(name: str) -> str | None:
    """The paper's name of a way to make episodes: ``naq-feat`` is ``NaQ-Feat``; its own names are kept."""
    return name if name in PAPER_GENERATORS.values() else PAPER_GENERATORS.get(name)


def paper_method(method: str) -> tuple[str, str] | None:
    """(method, episodes) as in the paper's tables; None for what it did not run.

    >>> paper_method("naq-feat/protonet"), paper_method("bgrl"), paper_method("smooth")
    (('ProtoNet', 'NaQ-Feat'), ('TLP-BGRL', '-'), None)
    """
    if method in PAPER_EMBEDDERS:
        return PAPER_EMBEDDERS[method], "-"
    episodes, _, learner = method.partition("/")
    if episodes in PAPER_GENERATORS and learner in PAPER_LEARNERS:
        return PAPER_LEARNERS[learner], PAPER_GENERATORS[episodes]
    return None
