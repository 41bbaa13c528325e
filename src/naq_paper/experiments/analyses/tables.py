"""The paper's tables of accuracy: product networks, citation networks, ogbn-arxiv and ogbn-products; each runs on any dataset."""

from __future__ import annotations

from collections.abc import Sequence

from naq_paper.experiments.accuracy_table import AccuracyTable
from naq_paper.experiments.names import NETWORKS

SIX = ("maml", "protonet", "tent", "gmeta", "glitter", "cosmic")
RIVALS = ("bgrl", "sugrl", "afgrl", "vnt")


def every(kinds: Sequence[str], learners: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{kind}/{learner}" for kind in kinds for learner in learners)


class EveryMethod(AccuracyTable):
    name = "methods"
    title = "Every method"
    question = "Which method is best, is the difference significant, and what does it cost?"
    origin = "Tables 15 and 16 at 5-way, with learners and embedders that the paper does not have"
    datasets = NETWORKS
    ways = (5,)
    methods = (
        *every(("supervised",), (*SIX, "gpn", "teg")),
        *RIVALS,
        "cola",
        "naq-plus",
        *every(("naq-feat", "naq-diff"), (*SIX, "gpn", "teg")),
    )


class FullProducts(AccuracyTable):
    name = "full-products"
    title = "Product networks, every base model"
    question = "Which method is best on product networks, with and without labels?"
    origin = "Table 15"
    datasets = ("amazon-clothing", "amazon-electronics")
    methods = (*every(("supervised",), SIX), *RIVALS, *every(("naq-feat", "naq-diff"), SIX))


class FullCitation(AccuracyTable):
    name = "full-citation"
    title = "Citation networks, every base model"
    question = "Which method is best on citation networks, with and without labels?"
    origin = "Table 16"
    datasets = ("cora-full", "dblp")
    methods = FullProducts.methods


class OgbnArxiv(AccuracyTable):
    name = "ogbn-arxiv"
    title = "ogbn-arxiv"
    question = "Does NaQ hold on a graph of 169,343 nodes?"
    origin = "Table 3"
    datasets = ("ogbn-arxiv",)
    ways = (5, 10)
    methods = (*every(("supervised",), SIX), *RIVALS, "naq-feat/protonet", "naq-diff/protonet")


class OgbnProducts(AccuracyTable):
    name = "ogbn-products"
    title = "ogbn-products"
    question = "Does NaQ hold on a graph of 2,449,029 nodes?"
    origin = "Table 11"
    datasets = ("ogbn-products",)
    ways = (5, 10)
    shots = (1,)
    methods = ("supervised/protonet", "supervised/cosmic", "bgrl", "sugrl", "naq-feat/protonet")
