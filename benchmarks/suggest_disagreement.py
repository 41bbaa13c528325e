"""What to label next: does disagreement add to small margins? On base and validation classes of three graphs.

    python benchmarks/suggest_disagreement.py --data FOLDER

``suggest`` alternates medoids with nodes of small margins. Here the second kind is chosen among the same candidates by: the margin alone (what ships); the votes of five classifiers, each
from half of the labels (query by committee); margin and votes, by the sum of their ranks; margin and how far prototypes with and without the help of other
nodes disagree, likewise. As many labels as classes at a time; mean accuracy per class at 2, 3 and 5 per class, 6 seeds. Results: ``benchmarks/results/suggest_disagreement.json``;
``benchmarks/classifier_page.py`` fills the table of ``docs/classifier.md``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import naq
from calibration import DATA
from naq.classifier import FewShotNodeClassifier
from naq.classifier.prototypes import centred_units, probabilities, solve
from naq.classifier.suggest import FINER, MOST_CLUSTERS, alternating, medoids
from naq.files import write_json
from naq.io.splits import split_for
from suggest import accuracy, answer

RESULTS = Path(__file__).resolve().parent / "results" / "suggest_disagreement.json"
GRAPHS = ("debian", "coauthor_cs", "amazon_computers")
RULES = ("margin", "committee", "margin and committee", "margin and two methods")
ROUNDS = (2, 3, 5)
CLASSES, NODES, MEMBERS, SEEDS = 15, 5000, 5, 6
"""At most so many classes, the largest; at most so many nodes of them; classifiers of a committee."""


def votes(units: np.ndarray, nodes: np.ndarray, slots: np.ndarray, seed: int) -> np.ndarray:
    """(n,) entropy of the votes of classifiers that see half of the labels each."""
    count, random = int(slots.max()) + 1, np.random.default_rng([seed, len(nodes)])
    found = np.zeros((len(units), count))
    for _ in range(MEMBERS):
        kept = np.concatenate(
            [random.choice(own, (len(own) + 1) // 2, replace=False) for c in range(count) for own in [np.flatnonzero(slots == c)]]
        )  # fmt: skip
        chosen = solve(units, nodes[kept], slots[kept], count, 1.0).cosines.argmax(axis=1)
        found[np.arange(len(units)), chosen] += 1 / MEMBERS
    return -(found * np.log(np.maximum(found, 1e-9))).sum(axis=1)


def apart(units: np.ndarray, nodes: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """(n,) how far the probabilities with and without the help of nodes without a label are from each other."""
    count = int(slots.max()) + 1
    one, two = (probabilities(solve(units, nodes, slots, count, weight).cosines, 0.1) for weight in (0.0, 1.0))
    return np.abs(one - two).sum(axis=1) / 2


def rank(values: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(values, kind="stable"), kind="stable")


def ask(units: np.ndarray, k: int, nodes: np.ndarray, truth: np.ndarray, seed: int, rule: str) -> np.ndarray:
    """As :func:`naq.classifier.suggest.suggested`, but for the order of doubtful nodes."""
    free = np.ones(len(units), dtype=bool)
    free[nodes] = False
    count = min(len(units), max(k, min(MOST_CLUSTERS, k + len(nodes))))
    middle, home = medoids(units, count, seed)
    empty = np.ones(len(middle), dtype=bool)
    empty[home[nodes]] = False
    central = [int(node) for node in [*middle[empty], *middle[~empty]] if free[node]]
    doubtful: list[int] = []
    classes, slots = np.unique(truth[nodes], return_inverse=True)
    if len(classes) > 1:
        finer, _ = medoids(units, min(len(units), max(k, min(MOST_CLUSTERS, FINER * count))), seed)
        top = np.partition(answer(units, nodes, truth)[0][finer], -2, axis=1)
        margin = top[:, -1] - top[:, -2]
        doubt = margin
        if rule == "committee":
            doubt = 1e-3 * margin - votes(units, nodes, slots, seed)[finer]
        elif rule == "margin and committee":
            doubt = rank(margin) + rank(-votes(units, nodes, slots, seed)[finer])
        elif rule == "margin and two methods":
            doubt = rank(margin) + rank(-apart(units, nodes, slots)[finer])
        doubtful = [int(node) for node in finer[np.argsort(doubt, kind="stable")] if free[node]]
    return np.array(alternating(central, doubtful, np.flatnonzero(free).tolist(), k))


def measured(name: str, source: str | Path) -> list[dict[str, Any]]:
    graph = naq.load(source)
    split = split_for(source, graph)
    sizes = np.bincount(graph.labels[graph.labels >= 0])
    classes = sorted([*split.base, *split.valid], key=lambda c: -sizes[c])[:CLASSES]
    pool = np.flatnonzero(np.isin(graph.labels, classes))
    if len(pool) > NODES:
        pool = np.sort(np.random.default_rng(0).choice(pool, NODES, replace=False))
    units, truth = centred_units(FewShotNodeClassifier().fit(graph).vectors_)[pool], graph.labels[pool]
    k = len(classes)
    found: dict[tuple[str, int], list[float]] = {(rule, count): [] for rule in RULES for count in ROUNDS}
    for seed in range(SEEDS):
        first = ask(units, k, np.empty(0, dtype=np.int64), truth, seed, "margin")
        for rule in RULES:
            nodes = first
            while len(nodes) < max(ROUNDS) * k:
                nodes = np.concatenate([nodes, ask(units, k, nodes, truth, seed, rule)])
                if (rule, len(nodes) // k) in found:
                    found[rule, len(nodes) // k].append(accuracy(units, nodes, truth))
    print(name, {key: round(100 * float(np.mean(scores)), 1) for key, scores in found.items()}, flush=True)
    return [{"graph": name, "rule": rule, "labels": count, "accuracy": s} for (rule, count), s in found.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    sources = {name: name if name == "debian" else given.data / f"{name}.npz" for name in GRAPHS}
    write_json(given.out, [row for name, source in sources.items() for row in measured(name, source)])


if __name__ == "__main__":
    main()
