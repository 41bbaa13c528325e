"""TF-IDF and logistic regression of scikit-learn: what is tried first where nodes have words."""

from __future__ import annotations

import numpy as np

from naq.errors import OptionError
from naq.graph import Graph
from naq_paper.peers.base import Peer, words_of

MOST_ROUNDS = 1000
"""Of L-BFGS; scikit-learn's 100 end with a warning before it has converged."""


class TfidfLogistic(Peer):
    name = "tfidf-logistic"
    title = "TF-IDF + logistic regression"
    reads = "features"
    settings = "scikit-learn: `TfidfTransformer(sublinear_tf=True)`, `LogisticRegression(max_iter=1000)`, else defaults"

    def __init__(self, graph: Graph, seed: int) -> None:
        from sklearn.feature_extraction.text import TfidfTransformer

        super().__init__(graph, seed)
        words = words_of(graph)
        if words.data.min(initial=0.0) < 0:
            raise OptionError(f"graph {graph.name!r} has features below 0; TF-IDF needs counts of words.")
        self.words = TfidfTransformer(sublinear_tf=True).fit_transform(words)

    def classify(self, nodes: np.ndarray, slots: np.ndarray, count: int) -> np.ndarray:
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(max_iter=MOST_ROUNDS, random_state=self.seed)
        return model.fit(self.words[nodes], slots).predict_proba(self.words)
