"""``FewShotNodeClassifier`` as it is installed, and the same with the vectors of the ``smooth`` baseline."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from naq.classifier import FewShotNodeClassifier, Labels
from naq.graph import Graph
from naq_paper.peers import Peer


class NaqPlusClassifier(Peer):
    name = "naq-plus"
    title = "naq (FewShotNodeClassifier)"
    reads = "features, edges"
    settings = "as installed: `naq-plus` vectors"
    method: ClassVar[str] = "naq-plus"

    def __init__(self, graph: Graph, seed: int) -> None:
        super().__init__(graph, seed)
        self.classifier = FewShotNodeClassifier(self.method, seed=seed).fit(graph)

    def classify(self, nodes: np.ndarray, slots: np.ndarray, count: int) -> np.ndarray:
        return self.classifier.predict_proba(Labels.of(nodes, slots))


class SmoothClassifier(NaqPlusClassifier):
    name = "smooth"
    title = "naq, smooth vectors"
    settings = '`method="smooth"`'
    method = "smooth"
