"""What to label next: FewShotNodeClassifier.suggest against others, on the nodes of debian's 15 largest classes.

    python benchmarks/suggest.py

Labels are asked for 15 at a time, 75 in all; mean accuracy per class after 15, 30 and 75, over all nodes of these classes that have no label. A class that no label was asked of is
never right. ``suggest`` is what ships; ``medoids`` and ``TypiClust`` (Hacohen et al., https://arxiv.org/abs/2202.02794) divide into as many clusters as there are labels in all and take
one node of each that holds none; ``margin`` begins at random. Results: ``benchmarks/results/suggest.json``;
``benchmarks/classifier_page.py`` fills the table of ``docs/classifier.md``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from naq.threads import prepare_process

prepare_process()  # before torch is loaded

import naq
from naq.classifier import FewShotNodeClassifier
from naq.classifier.confidence import fitted_temperature
from naq.classifier.prototypes import centred_units, probabilities, solve
from naq.classifier.suggest import medoids, suggested
from naq.files import write_json

RESULTS = Path(__file__).resolve().parent / "results" / "suggest.json"
CLASSES, BATCH, BUDGETS = 15, 15, (15, 30, 75)
NEAR = 20
"""Neighbours within the cluster that make a node typical (TypiClust)."""


def answer(units: np.ndarray, nodes: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (n, classes) and the classes, from the labels of ``nodes``."""
    classes, slots = np.unique(truth[nodes], return_inverse=True)
    solved = solve(units, nodes, slots, len(classes), 1.0)
    return probabilities(solved.cosines, fitted_temperature(solved, slots).value), classes


def accuracy(units: np.ndarray, nodes: np.ndarray, truth: np.ndarray) -> float:
    """Mean over the true classes of the share that is right, of nodes without a label."""
    chances, classes = answer(units, nodes, truth)
    right = classes[chances.argmax(axis=1)] == truth
    right, left = np.delete(right, nodes), np.delete(truth, nodes)
    return float(np.mean([right[left == c].mean() for c in np.unique(truth)]))


def in_empty_clusters(units: np.ndarray, nodes: np.ndarray, seed: int, typical: bool) -> np.ndarray:
    """One node of each of the largest clusters without a label: the medoid, or the one with the nearest neighbours."""
    middle, home = medoids(units, BATCH + len(nodes), seed)
    empty = [c for c in range(len(middle)) if not np.isin(nodes, np.flatnonzero(home == c)).any()]
    if not typical:
        return middle[empty[:BATCH]]
    chosen = []
    for cluster in empty[:BATCH]:
        members = np.flatnonzero(home == cluster)
        cosines = units[members] @ units[members].T
        near = min(NEAR, len(members) - 1)
        typicality = np.sort(cosines, axis=1)[:, -near - 1 : -1].mean(axis=1) if near else np.zeros(1)
        chosen.append(members[typicality.argmax()])
    return np.array(chosen)


def ask(strategy: str, units: np.ndarray, nodes: np.ndarray, truth: np.ndarray, seed: int) -> np.ndarray:
    """The next nodes to label; fewer than ``BATCH`` are filled up at random."""
    random = np.random.default_rng([seed, len(nodes)])
    if strategy == "suggest":
        chances = answer(units, nodes, truth)[0] if len(np.unique(truth[nodes])) > 1 else None
        return suggested(units, BATCH, nodes, chances, seed)
    free = np.setdiff1d(np.arange(len(units)), nodes)
    found = np.empty(0, dtype=np.int64)
    if strategy == "margin" and len(nodes):
        best = np.sort(answer(units, nodes, truth)[0][free], axis=1)
        found = free[np.argsort(best[:, -1] - best[:, -2], kind="stable")[:BATCH]]
    elif strategy in ("medoids", "TypiClust"):
        found = np.setdiff1d(in_empty_clusters(units, nodes, seed, strategy == "TypiClust"), nodes)
    rest = random.permutation(np.setdiff1d(free, found))
    return np.concatenate([found, rest])[:BATCH]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    graph = naq.load("debian")
    largest = np.argsort(-np.bincount(graph.labels[graph.labels >= 0]))[:CLASSES]
    pool = np.flatnonzero(np.isin(graph.labels, largest))
    units = centred_units(FewShotNodeClassifier().fit(graph).vectors_)[pool]
    truth = graph.labels[pool]
    found: dict[str, dict[int, list[float]]] = {}
    for strategy in ("random", "margin", "TypiClust", "medoids", "suggest"):
        found[strategy] = {budget: [] for budget in BUDGETS}
        for seed in range(given.seeds):
            nodes = np.empty(0, dtype=np.int64)
            while len(nodes) < max(BUDGETS):
                nodes = np.concatenate([nodes, ask(strategy, units, nodes, truth, seed)])
                if len(nodes) in BUDGETS:
                    found[strategy][len(nodes)].append(accuracy(units, nodes, truth))
        print(strategy, {b: round(100 * float(np.mean(v)), 1) for b, v in found[strategy].items()}, flush=True)
    rows: list[dict[str, Any]] = [
        {"strategy": s, "budget": b, "accuracy": scores} for s, table in found.items() for b, scores in table.items()
    ]
    write_json(given.out, rows)


if __name__ == "__main__":
    main()
