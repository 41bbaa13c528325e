"""What features, smoothing, closed form and head each give: one table of docs/closed-form.md.

    python benchmarks/decomposition.py [--draws 10] [--graphs cora debian]

The labels are those of ``naq reproduce practice``, draw by draw: 1 and 5 in every class, all other nodes classified.
Class means are those of ``FewShotNodeClassifier`` on one view alone, without and with the help of unlabelled nodes.
Graphs that are measured again replace theirs in benchmarks/results/decomposition.json; ``python tools/pages.py
closed-form`` writes the table.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from naq.threads import prepare_process

prepare_process()  # before torch is loaded

import numpy as np
from sklearn.linear_model import LogisticRegression

import naq
from measuring import DATA, RESULTS, machine
from naq.classifier import Labels
from naq.classifier.confidence import predict
from naq.classifier.views import View
from naq.files import read_json, write_json
from naq_paper.measurements.practice import Draw, draw_labels
from naq_paper.peers import wide_columns
from naq_paper.peers.linear import ROUNDS, STRENGTH, NaqClassifier

PLACE = RESULTS / "decomposition.json"
GRAPHS = ("cora", "citeseer", "amazon_computers", "coauthor_cs", "debian")
SHOTS = (1, 5)
WIDTH = 384  # of naq-plus: the smoothed features that it starts from


def logistic(rows: Any) -> Callable[[Draw], np.ndarray]:
    """As the peers of ``practice`` have it."""
    model = LogisticRegression(C=STRENGTH, max_iter=ROUNDS)
    return lambda draw: np.asarray(model.fit(rows[draw.nodes], draw.slots).predict_proba(rows))


def means(rows: np.ndarray, unlabelled: float) -> Callable[[Draw], np.ndarray]:
    """The classifier with one view: class means, with so many labels of every class for all unlabelled nodes."""
    view = View("naq-plus", rows, True, True)
    given = {"unlabelled": unlabelled, "unknown": False, "unlike": False}
    return lambda draw: predict([view], Labels.of(draw.nodes, draw.slots), **given).probabilities


def methods_of(graph: naq.Graph) -> dict[str, Callable[[Draw], np.ndarray]]:
    smooth, closed = naq.embed(graph, "smooth", dim=WIDTH), naq.embed(graph, "naq-plus")
    whole = NaqClassifier(graph, 0)
    return {
        "features as they are + logistic regression": logistic(graph.features),
        "TF-IDF + logistic regression": logistic(wide_columns(graph)),
        "smoothed TF-IDF + logistic regression": logistic(smooth),
        "smoothed TF-IDF + class means": means(smooth, 0.0),
        "smoothed TF-IDF + class means with unlabelled nodes": means(smooth, 1.0),
        "closed form + logistic regression": logistic(closed),
        "closed form + class means": means(closed, 0.0),
        "closed form + class means with unlabelled nodes": means(closed, 1.0),
        "the classifier: all views": lambda draw: whole.classify(draw.nodes, draw.slots, len(draw.classes)),
    }


def measure(name: str, draws: int) -> dict[str, dict[str, list[float]]]:
    """Accuracy in % of every draw, by method and number of labels."""
    source = naq.load(name if name == "debian" else DATA / f"{name}.npz")
    graph = source.without_labels().with_text(None).with_table(None).with_features(source.features)
    found: dict[str, dict[str, list[float]]] = {}
    for method, answer in methods_of(graph).items():
        for shot in SHOTS:
            given = [draw_labels(source.require_labels("this table"), shot, seed) for seed in range(draws)]
            right = [(answer(draw)[draw.asked].argmax(axis=1) == draw.truth).mean() for draw in given]
            found.setdefault(method, {})[str(shot)] = [round(100 * float(one), 3) for one in right]
        print(name, method, {shot: round(float(np.mean(v)), 1) for shot, v in found[method].items()}, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=GRAPHS)
    parser.add_argument("--draws", type=int, default=10)
    given = parser.parse_args()
    for name in given.graphs:
        kept = read_json(PLACE) if PLACE.is_file() else {"machine": machine(), "graphs": {}}
        kept["graphs"][name] = measure(name, given.draws)
        write_json(PLACE, kept)


if __name__ == "__main__":
    main()
