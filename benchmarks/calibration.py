"""What the probabilities of FewShotNodeClassifier are worth: a few labels in every class, all other nodes classified.

    python benchmarks/calibration.py --data FOLDER
    python benchmarks/calibration.py --graphs cora,citeseer --draws 3

Measured at 1, 2, 5 and 10 labels per class: accuracy, expected calibration error (15 bins), how far the expected accuracy is from the true one, how many
90 % prediction sets hold the class and how large they are, for sets as wide as the probabilities say and for wider ones. The prior of the temperature is that of the *other* graphs (the
median of their best temperatures, draws 100 to 103), so nothing is tried on the graph it was found on. Every graph is also measured without its edges and without its features, and a sixth
has none: their errors widen the interval of the expected accuracy. Then the nodes of unknown classes (half of the classes are named), and nodes
that come later (a tenth), against a full fit. Results: ``benchmarks/results/calibration.json``; from them
``benchmarks/classifier_page.py`` fills the tables of ``docs/classifier.md`` and writes what ships, ``src/naq/classifier/measured.json``.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from naq.threads import prepare_process

prepare_process()  # before torch is loaded

import naq
from naq.classifier import FewShotNodeClassifier, with_nodes
from naq.classifier.confidence import GRID, belongs_nowhere, fitted_temperature, set_thresholds, widened
from naq.classifier.prototypes import Prototypes, centred_units, probabilities, solve
from naq.files import read_json, write_json

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("NAQ_SHARED_DATA") or HERE.parents[1] / "shared" / "data")
RESULTS = HERE / "results" / "calibration.json"
GRAPHS = ("cora", "citeseer", "amazon_computers", "coauthor_cs", "debian")
SHOTS = (1, 2, 5, 10)
WEIGHTS = (0.0, 1.0, 2.0, 3.0)
FACTORS = [round(0.8 + 0.05 * i, 2) for i in range(19)]
"""How much wider prediction sets are tried (:func:`naq.classifier.confidence.widened`)."""
UNKNOWN_FROM = 200
"""First draw of those with unnamed classes; how their threshold is found was chosen on others."""
BINS = 10
"""Of the reliability plot."""
BARE = "cora_full_structure"
"""A graph without features."""
DEVELOPMENT = range(100, 104)
"""Draws that the prior is found on and the weight of nodes without a label chosen; reported are draws from 0 on."""


def draw(truth: np.ndarray, shot: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Labelled nodes and classes: ``shot`` of every class that has more."""
    random = np.random.default_rng(seed)
    chosen = [
        random.choice(members, shot, replace=False)
        for c in np.unique(truth[truth >= 0])
        if len(members := np.flatnonzero(truth == c)) > shot
    ]
    nodes = np.concatenate(chosen)
    return nodes, truth[nodes]


def calibration_error(sure: np.ndarray, hit: np.ndarray, bins: int = 15) -> float:
    """Expected calibration error: the mean distance of confidence and accuracy over bins of equal width."""
    place = np.minimum((sure * bins).astype(int), bins - 1)
    return sum(abs(float(sure[place == b].sum() - hit[place == b].sum())) for b in range(bins)) / len(sure)


def cases(
    units: np.ndarray, truth: np.ndarray, shot: int, seeds: Any
) -> Iterator[tuple[Prototypes, np.ndarray, np.ndarray, np.ndarray]]:
    """Answers, the slots of the labels, the nodes that are counted and the slots of their true classes."""
    for seed in seeds:
        nodes, labels = draw(truth, shot, seed)
        classes, slots = np.unique(labels, return_inverse=True)
        counted = np.isin(truth, classes)
        counted[nodes] = False
        counted = np.flatnonzero(counted)
        yield solve(units, nodes, slots, len(classes), 1.0), slots, counted, np.searchsorted(classes, truth[counted])


def best_temperature(cosines: np.ndarray, own: np.ndarray) -> float:
    """That under which the true classes are most likely."""
    scores = cosines.astype(np.float64)
    right = scores[np.arange(len(own)), own]

    def loss(t: float) -> float:
        top = scores.max(axis=1)
        return float((top / t + np.log(np.exp((scores - top[:, None]) / t).sum(axis=1)) - right / t).mean())

    return float(min(GRID[::2], key=loss))


def measured(
    answer: Prototypes, slots: np.ndarray, nodes: np.ndarray, own: np.ndarray, centre: float | None
) -> dict[str, Any]:
    found = fitted_temperature(answer, slots, centre)
    chances = probabilities(answer.cosines[nodes], found.value)
    sure, right = chances.max(axis=1), chances[np.arange(len(own)), own]
    hit = chances.argmax(axis=1) == own
    place = np.minimum((sure * BINS).astype(int), BINS - 1)
    thresholds = set_thresholds(chances, [widened(0.9, factor) for factor in FACTORS])
    return {
        "accuracy": float(hit.mean()),
        "macro": float(np.mean([hit[own == c].mean() for c in np.unique(own)])),
        "ece": calibration_error(sure, hit),
        "off": float(sure.mean(dtype=np.float64) - hit.mean()),
        "coverage": [round(float(((right >= t) | hit).mean()), 4) for t in thresholds],
        "size": [round(float(((chances >= t).sum(axis=1) + (sure < t)).mean()), 3) for t in thresholds],
        "bins": [np.bincount(place, weights, BINS).round(1).tolist() for weights in (np.ones(len(own)), sure, hit)],
        "temperature": found.value,
    }


def variants(name: str, graph: naq.Graph) -> Iterator[tuple[str, naq.Graph]]:
    """The graph without edges and without features, as people also have them."""
    yield f"{name} without edges", naq.Graph(np.empty((2, 0), int), graph.features, nodes=graph.num_nodes)
    yield f"{name} without features", naq.Graph(graph.adjacency, nodes=graph.num_nodes)


def helped_by(units: np.ndarray, truth: np.ndarray, shot: int) -> list[dict[str, float]]:
    """Accuracy where the nodes without a label count as none, one, two or three of every class: what the default was chosen on."""
    rows = []
    for weight in WEIGHTS:
        found = []
        for seed in DEVELOPMENT:
            nodes, labels = draw(truth, shot, seed)
            classes, slots = np.unique(labels, return_inverse=True)
            hit = classes[solve(units, nodes, slots, len(classes), weight).cosines.argmax(axis=1)] == truth
            counted = np.isin(truth, classes)
            counted[nodes] = False
            each = [hit[counted & (truth == c)].mean() for c in np.unique(truth[counted])]
            found.append((hit[counted].mean(), np.mean(each)))
        accuracy, macro = np.mean(found, axis=0)
        rows.append({"shot": shot, "weight": weight, "accuracy": float(accuracy), "macro": float(macro)})
    return rows


def unknown_errors(units: np.ndarray, truth: np.ndarray, shot: int, draws: int) -> dict[str, float]:
    """Half of the classes named: nodes of the others that are found, nodes of the named that are wrongly said to belong nowhere, and how well the cosine ranks both."""
    measures = []
    for seed in range(UNKNOWN_FROM, UNKNOWN_FROM + draws):
        every = np.unique(truth[truth >= 0])
        named = np.random.default_rng(seed).choice(every, len(every) // 2, replace=False)
        nodes, labels = draw(np.where(np.isin(truth, named), truth, -1), shot, seed)
        classes, slots = np.unique(labels, return_inverse=True)
        cosines = solve(units, nodes, slots, len(classes), 0.0).cosines
        free = truth >= 0
        free[nodes] = False
        other, nowhere = ~np.isin(truth, classes)[free], belongs_nowhere(cosines, nodes)[free]
        area = roc_auc_score(other, -cosines.max(axis=1)[free])
        measures.append((nowhere[other].mean(), nowhere[~other].mean(), area))
    found, wrong, area = np.mean(measures, axis=0)
    return {"found": float(found), "wrong": float(wrong), "auroc": float(area)}


def later_nodes(graph: naq.Graph) -> dict[str, float]:
    """A tenth of the nodes comes later: agreement with a full fit, and accuracy of both on these nodes."""
    random, n = np.random.default_rng(0), graph.num_nodes
    order = random.permutation(n)
    old = n - n // 10
    adjacency, features = graph.adjacency[order][:, order], graph.features[order]
    ends = np.stack(adjacency.nonzero())
    new = (ends >= old).any(axis=0)
    small = naq.Graph(adjacency[:old][:, :old], features[:old])
    larger = with_nodes(small, features[old:], ends[:, new])
    truth = graph.labels[order]
    nodes, labels = draw(np.where(np.arange(n) < old, truth, -1), 5, 0)
    one = FewShotNodeClassifier().fit(small)
    mark = time.perf_counter()
    grown = one.extend(larger)
    seconds = time.perf_counter() - mark
    first, second = (
        c.predict(support=nodes, labels=labels)[old:] for c in (grown, FewShotNodeClassifier().fit(larger))
    )
    known = np.isin(truth[old:], labels)
    return {
        "agreement": float((first == second).mean()),
        "accuracy": float((first == truth[old:])[known].mean()),
        "accuracy_full_fit": float((second == truth[old:])[known].mean()),
        "seconds": seconds,
    }


def timed(graph: naq.Graph) -> tuple[FewShotNodeClassifier, dict[str, float]]:
    """A fitted classifier, and seconds for fitting, for the first answer for all nodes from five labels per class, for another, and for one with another label."""
    mark = time.perf_counter()
    classifier = FewShotNodeClassifier().fit(graph)
    seconds = {"fit": time.perf_counter() - mark}
    nodes, labels = draw(graph.labels, 5, 0)
    for what, few in (("predict", slice(1, None)), ("again", slice(2, None)), ("new_label", slice(None))):
        mark = time.perf_counter()
        classifier.predict(support=nodes[few], labels=labels[few])
        seconds[what] = time.perf_counter() - mark
    return classifier, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--speed", action="store_true", help="measure seconds only, into the results that are there")
    given = parser.parse_args()
    graphs = given.graphs.split(",")
    loaded = {name: naq.load(name if name == "debian" else given.data / f"{name}.npz") for name in graphs}
    if given.speed:
        speed = {name: timed(graph)[1] for name, graph in loaded.items()}
        print(speed)
        write_json(given.out, read_json(given.out) | {"speed": speed})
        return
    units, truth, speed, later, best, helped = {}, {}, {}, {}, {}, {}
    for name in graphs:
        graph = loaded[name]
        classifier, seconds = timed(graph)
        speed[name], units[name], truth[name] = seconds, centred_units(classifier.vectors_), graph.labels
        for shot in SHOTS:
            tried = cases(units[name], truth[name], shot, DEVELOPMENT)
            best[name, shot] = [best_temperature(a.cosines[nodes], own) for a, _, nodes, own in tried]
        helped[name] = [row for shot in SHOTS for row in helped_by(units[name], truth[name], shot)]
        later[name] = later_nodes(graph)
        print(name, seconds, later[name], {s: np.round(best[name, s], 3).tolist() for s in SHOTS}, flush=True)
    results: list[dict[str, Any]] = []
    unknown = []
    centres = {}
    for name in graphs:
        for shot in SHOTS:
            others = [t for other in graphs if other != name for t in best[other, shot]]
            centres[name, shot] = float(np.median(others)) if others else None
            for seed in range(given.draws):
                for case in cases(units[name], truth[name], shot, [seed]):
                    kept = {"graph": name, "of": name, "shot": shot, "draw": seed}
                    results.append(kept | measured(*case, centres[name, shot]))
            unknown.append({"graph": name, "shot": shot} | unknown_errors(units[name], truth[name], shot, given.draws))
        print(name, "measured", flush=True)
    del units
    bare = given.data / f"{BARE}.npz"
    more = [(name, variant, changed) for name in graphs for variant, changed in variants(name, loaded[name])]
    for name, variant, changed in [*more, *([(BARE, BARE, naq.load(bare))] if bare.is_file() else [])]:
        rows = centred_units(FewShotNodeClassifier().fit(changed).vectors_)
        classes = truth.get(name, changed.labels)
        for shot in SHOTS:
            centre = centres.get((name, shot)) or float(np.median([t for other in graphs for t in best[other, shot]]))
            for seed in range(given.draws):
                for case in cases(rows, classes, shot, [seed]):
                    found = measured(*case, centre)
                    kept = {key: found[key] for key in ("accuracy", "macro", "ece", "off", "temperature")}
                    results.append({"graph": variant, "of": name, "shot": shot, "draw": seed} | kept)
        print(variant, "measured", flush=True)
    write_json(given.out, {"speed": speed, "later": later, "unlabelled": helped, "unknown": unknown, "factors": FACTORS, "calibration": results,
                           "best": [{"graph": n, "shot": s, "temperatures": t} for (n, s), t in best.items()]})  # fmt: skip


if __name__ == "__main__":
    main()
