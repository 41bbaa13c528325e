r"""Classifiers of scikit-learn and least squares on columns that are made without labels, and this library's
classifier.

With :math:`X` the features (:func:`~naq_paper.peers.columns`), :math:`S` the adjacency with loops, normalised
symmetrically, and :math:`P` without loops, divided by its row sums:

===================  ==================================================================================
``tfidf-logistic``   :math:`X`, as wide as it is
``hops-logistic``    :math:`X \mid P X \mid (P^2 - \mathrm{diag}\,P^2) X`: the node and its neighbours
``smooth-logistic``  ten steps of :math:`Z \leftarrow 0.85\, S Z + 0.15\, X` (``naq.embed(graph, "smooth")``)
``sgc``              :math:`S^2 X` (Wu et al., `ICML 2019 <https://arxiv.org/abs/1902.07153>`_)
``ssgc``             :math:`\frac1{16} \sum_{k=1}^{16} 0.95\, S^k X + 0.05\, X` (Zhu and Koniusz, ICLR 2021)
``cleora``           pycleora's vectors of the edges next to :math:`X`
===================  ==================================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import softmax

from naq.classifier import FewShotNodeClassifier, Labels
from naq.classifier.views import means, surroundings
from naq.embedders.smoothing import center, smooth
from naq.graph import Graph
from naq.run.embed import embed
from naq_paper.peers import Peer, columns, missing, wide_columns

STRENGTH = 10.0
"""C of logistic regression on rows of length one: of 1, 10 and 100 the best average on other draws of labels."""
ROUNDS = 300  # of L-BFGS; scikit-learn's 100 end with a warning before it has converged


class LinearPeer(Peer):
    """Logistic regression on columns of the nodes."""

    reads = "features, edges"
    settings = f"scikit-learn: `LogisticRegression(C={STRENGTH:g}, max_iter={ROUNDS})`"

    def __init__(self, graph: Graph, seed: int) -> None:
        super().__init__(graph, seed)
        self.columns = self.read(graph)

    def read(self, graph: Graph) -> Any:
        """(n, d) the columns; rows of length one."""
        raise NotImplementedError

    def model(self) -> Any:
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(C=STRENGTH, max_iter=ROUNDS, random_state=self.seed)

    def classify(self, nodes: np.ndarray, slots: np.ndarray, count: int) -> np.ndarray:
        return np.asarray(self.model().fit(self.columns[nodes], slots).predict_proba(self.columns))


class FeaturesLogistic(LinearPeer):
    name, title, reads = "tfidf-logistic", "TF-IDF + logistic regression", "features"

    def read(self, graph: Graph) -> Any:
        return wide_columns(graph)


class HopsLogistic(LinearPeer):
    name, title = "hops-logistic", "features and neighbours' features + logistic regression"

    def read(self, graph: Graph) -> np.ndarray:
        return surroundings(graph.weighted_adjacency, columns(graph))


class SmoothLogistic(LinearPeer):
    name, title = "smooth-logistic", "smoothed features + logistic regression"

    def read(self, graph: Graph) -> np.ndarray:
        return center(smooth(graph.normalized_adjacency(), columns(graph), 10))


class SGC(LinearPeer):
    name, title = "sgc", "SGC"

    def read(self, graph: Graph) -> np.ndarray:
        return center(smooth(graph.normalized_adjacency(), columns(graph), 2, "hops"))


class SSGC(LinearPeer):
    name, title = "ssgc", "SSGC"

    def read(self, graph: Graph) -> np.ndarray:
        average, start = graph.normalized_adjacency(), columns(graph)
        total, power = np.zeros_like(start), start
        for _ in range(16):
            power = average @ power
            total += power
        return center(0.95 * total / 16 + 0.05 * start)


class Cleora(LinearPeer):
    name, title = "cleora", "pycleora vectors and features + logistic regression"

    def read(self, graph: Graph) -> np.ndarray:
        try:
            import pycleora
        except ImportError as error:
            raise missing("pycleora", error) from error
        ends = graph.adjacency.tocoo()
        lines = (f"{a} {b}" for a, b in zip(ends.row.tolist(), ends.col.tolist()) if a < b)
        made = pycleora.SparseMatrix.from_iterator(lines, "complex::reflexive::product")  # type: ignore[attr-defined]
        start, few = columns(graph), min(WIDEST, len(made.entity_ids) - 1)
        rows = np.zeros((graph.num_nodes, few), dtype=np.float32)
        rows[[int(name) for name in made.entity_ids]] = pycleora.embed(made, few)
        return np.concatenate([center(rows), start], axis=1)


WIDEST = 256  # columns of pycleora's vectors, its default


class SelfTraining(SmoothLogistic):
    name, title = "self-training", "self-training on smoothed features"
    settings = "scikit-learn: `SelfTrainingClassifier(max_iter=3)`, else defaults, around the logistic regression"

    def classify(self, nodes: np.ndarray, slots: np.ndarray, count: int) -> np.ndarray:
        from sklearn.semi_supervised import SelfTrainingClassifier

        given = np.full(self.graph.num_nodes, -1)
        given[nodes] = slots
        return np.asarray(
            SelfTrainingClassifier(self.model(), max_iter=3).fit(self.columns, given).predict_proba(self.columns)
        )


class SUGRLLogistic(LinearPeer):
    """Trained once without labels, the checkpoint by tasks of clusters: ``naq.embed``."""

    name, title, method = "sugrl-logistic", "SUGRL + logistic regression", "sugrl"
    settings = f"`naq.embed` with its defaults, features weighted as for all, then {LinearPeer.settings}"

    def read(self, graph: Graph) -> np.ndarray:
        weighted = graph.with_features(wide_columns(graph))
        return center(embed(weighted, self.method, seed=self.seed))


class BGRLLogistic(SUGRLLogistic):
    name, title, method = "bgrl-logistic", "BGRL + logistic regression", "bgrl"


class Boosting(HopsLogistic):
    name, title = "boosting", "features and neighbours' features + boosting"
    settings = (
        "scikit-learn: `HistGradientBoostingClassifier(min_samples_leaf=2, max_iter=50)`, else defaults; "
        "32 columns of each"
    )

    def read(self, graph: Graph) -> np.ndarray:
        return surroundings(graph.weighted_adjacency, columns(graph)[:, :32])[:, :64]

    def model(self) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(min_samples_leaf=2, max_iter=50, random_state=self.seed)


class GraphAny(Peer):
    r"""GraphAny's five linear networks (Zhao et al., `ICLR 2025 <https://arxiv.org/abs/2405.20445>`_):
    :math:`F W,\ W = F_L^+ Y_L` for :math:`F` of :math:`X, P X, P^2 X, (I - P) X, (I - P)^2 X`, averaged; the attention
    that weighs them was trained on another graph and is not shipped."""

    name, title, reads = "graphany", "GraphAny's least squares", "features, edges"
    settings = "the five least squares of its authors, averaged"

    def __init__(self, graph: Graph, seed: int) -> None:
        super().__init__(graph, seed)
        start, walk = columns(graph), means(graph.weighted_adjacency)
        one = walk @ start
        apart = start - one
        self.channels = [start, one, walk @ one, apart, apart - walk @ apart]

    def classify(self, nodes: np.ndarray, slots: np.ndarray, count: int) -> np.ndarray:
        given = np.eye(count)[slots]
        total = sum(
            rows @ (np.linalg.pinv(rows[nodes].astype(np.float64), rcond=1e-6) @ given) for rows in self.channels
        )
        return np.asarray(softmax(total, axis=-1))


LEVEL = 0.9  # of sets of classes


class NaqClassifier(Peer):
    """``FewShotNodeClassifier`` with its defaults."""

    name, title, reads = "naq-plus", "naq (FewShotNodeClassifier)", "features, edges"
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
