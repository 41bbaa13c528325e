"""``FewShotNodeClassifier`` as it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np

from naq.classifier import FewShotNodeClassifier, Labels
from naq.graph import Graph
from naq_paper.peers import Peer

LEVEL = 0.9  # of sets of classes


class NaqClassifier(Peer):
    name = "naq-plus"
    title = "naq (FewShotNodeClassifier)"
    reads = "features, edges"
    settings = "as installed"

    def __init__(self, graph: Graph, seed: int) -> None:
        super().__init__(graph, seed)
        self.classifier = FewShotNodeClassifier(seed=seed).fit(graph)

    def classify(self, nodes: np.ndarray, slots: np.ndarray, count: int) -> np.ndarray:
        self.last = self.classifier.prediction(Labels.of(nodes, slots))
        return self.last.probabilities

    def promise(self, asked: np.ndarray) -> dict[str, Any]:
        expected = self.last.expected
        interval = {"expected": expected.value, "low": expected.low, "high": expected.high}
        return {**interval, "sets": self.last.sets(LEVEL)[asked]}
