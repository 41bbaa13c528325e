"""FewShotNodeClassifier from one label on: accuracy and what it says of itself, doubtful labels, what to label next,
unknown classes, nodes that come later, seconds.

    python benchmarks/classifier.py --data FOLDER [--parts expect,suggest] [--graphs cora] [--draws 10] [--first 0]
    python benchmarks/classifier.py --page          # the tables of docs/classifier.md, from the results

Rows that are measured again replace those of the same part and graph in ``benchmarks/results/classifier.json``. Choices
are made with draws from 100 on (``--first 100 --out elsewhere``), what the page shows is of draws from 0 on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from naq.threads import prepare_process

prepare_process()  # before torch is loaded

import numpy as np

import naq
from measuring import write_between
from naq.classifier import FewShotNodeClassifier, with_nodes
from naq.classifier.confidence import edges_do_not_help
from naq.classifier.prediction import Prediction
from naq.classifier.suggest import choose_nodes, doubt
from naq.files import read_json, write_json
from naq_paper.perturbations import sub_graph
from naq_paper.statistics import difference, score

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "results" / "classifier.json", HERE.parent / "docs" / "classifier.md"
DATA = HERE.parents[1] / "shared" / "data"
GRAPHS = (
    "cora", "citeseer", "amazon_computers", "coauthor_cs", "blogcatalog", "minesweeper", "actor", "payments", "debian",
)  # fmt: skip
SETTINGS = ("1", "2", "3", "5", "10", "20", "50", "random 5", "random 20")
FLIPPED, FIRST = (0.05, 0.2), 10
ASKED = (2, 3, 5, 10)
BINS = 15
Row = dict[str, Any]


def margin(found: Prediction) -> np.ndarray:
    top = np.partition(found.probabilities, -2, axis=1)
    return top[:, -2] - top[:, -1]


RULES: dict[str, Callable[[Prediction], np.ndarray | None]] = {
    "suggest": doubt, "margin": margin, "disagreement": Prediction.disagreement, "medoids": lambda found: None,
}  # fmt: skip
"""What makes a node doubtful; the first is what ships."""


def drawn(truth: np.ndarray, setting: str, seed: int) -> np.ndarray:
    """Labelled nodes: so many of every class (at most half of it), or as many on average of all nodes."""
    random, known = np.random.default_rng([seed, 25]), np.flatnonzero(truth >= 0)
    classes, count = np.unique(truth[known]), int(setting.split()[-1])
    if setting.startswith("random"):
        while len(np.unique(truth[found := random.choice(known, count * len(classes), replace=False)])) < 2:
            pass
        return found
    members = [np.flatnonzero(truth == c) for c in classes]
    return np.concatenate([random.choice(own, min(count, max(len(own) // 2, 1)), replace=False) for own in members])


def given(truth: np.ndarray, nodes: np.ndarray) -> dict[int, int]:
    return dict(zip(nodes.tolist(), truth[nodes].tolist()))


def calibration_error(sure: np.ndarray, right: np.ndarray) -> float:
    """The mean distance of confidence and accuracy in bins of the confidence."""
    place = np.minimum((sure * BINS).astype(int), BINS - 1)
    apart = np.bincount(place, right.astype(float) - sure, BINS)
    return float(np.abs(apart).sum() / len(sure))


def correct(found: np.ndarray, truth: np.ndarray, nodes: np.ndarray) -> tuple[float, float, np.ndarray]:
    """Accuracy, its mean over classes, and which of the nodes without a label that have a class are right."""
    free = np.setdiff1d(np.flatnonzero(truth >= 0), nodes)
    right = found[free] == truth[free]
    return float(right.mean()), float(np.mean([right[truth[free] == c].mean() for c in np.unique(truth[free])])), right


def expect(clf: FewShotNodeClassifier, truth: np.ndarray, draws: range) -> Iterator[Row]:
    for setting in SETTINGS:
        for seed in draws:
            nodes = drawn(truth, setting, seed)
            start = time.perf_counter()
            found = clf.prediction(given(truth, nodes))
            seconds = time.perf_counter() - start
            accuracy, macro, right = correct(found.predicted, truth, nodes)
            free = np.setdiff1d(np.flatnonzero(truth >= 0), nodes)
            sets = found.sets(0.9)[free]
            place = np.searchsorted(found.labels.classes, truth[free])
            held = sets[np.arange(len(free)), np.minimum(place, sets.shape[1] - 1)] & np.isin(truth[free], truth[nodes])
            expected = found.expected
            yield {
                "labels": setting, "draw": seed, "accuracy": accuracy, "macro": macro, "expected": expected.value,
                "low": expected.low, "high": expected.high, "seconds": seconds, "held": float(held.mean()),
                "size": float(sets.sum(axis=1).mean()),
                "ece": calibration_error(found.probabilities[free].max(axis=1), right),
                "edges do not help": edges_do_not_help(found), "guessing": found.no_better_than_guessing(),
            }  # fmt: skip


def doubtful(clf: FewShotNodeClassifier, truth: np.ndarray, draws: range) -> Iterator[Row]:
    """Labels of which some have another class: how many of the most doubtful are those."""
    for setting in ("5", "10", "20"):
        for share in FLIPPED:
            for seed in draws:
                random, nodes = np.random.default_rng([seed, 26]), drawn(truth, setting, seed)
                wrong = random.choice(len(nodes), max(1, round(share * len(nodes))), replace=False)
                labels, classes = given(truth, nodes), np.unique(truth[nodes])
                for node in nodes[wrong]:
                    labels[int(node)] = int(random.choice(classes[classes != truth[node]]))
                found = [one.node for one in clf.prediction(labels).doubtful_labels()][:FIRST]
                hits = int(np.isin(found, nodes[wrong]).sum())
                row = {"found": hits, "shown": len(found), "wrong": len(wrong), "all": len(nodes)}
                yield {"labels": setting, "flipped": share, "draw": seed, **row}


def suggest(clf: FewShotNodeClassifier, truth: np.ndarray, draws: range) -> Iterator[Row]:
    """As many labels as classes at a time, asked for by each rule."""
    known = np.flatnonzero(truth >= 0)
    each, units = len(np.unique(truth[known])), clf.views_[0].rows
    for rule in ("random", *RULES):
        for seed in draws[: max(len(draws) // 2, 2)]:
            random, nodes = np.random.default_rng([seed, 27]), np.empty(0, dtype=np.int64)
            doubtful = None
            while len(nodes) < max(ASKED) * each:
                if rule == "random":
                    new = random.choice(np.setdiff1d(known, nodes), each, replace=False)
                else:
                    new = choose_nodes(units, each, nodes, doubtful, seed)
                nodes = np.concatenate([nodes, new[truth[new] >= 0]])
                if len(np.unique(truth[nodes])) < 2:
                    continue
                found = clf.prediction(given(truth, nodes))
                doubtful = None if rule == "random" else RULES[rule](found)
                if len(nodes) // each in ASKED and len(nodes) % each == 0:
                    accuracy, macro, _ = correct(found.predicted, truth, nodes)
                    row = {"rule": rule, "labels": len(nodes) // each, "draw": seed}
                    yield {**row, "accuracy": accuracy, "macro": macro}


def unknown(clf: FewShotNodeClassifier, truth: np.ndarray, draws: range) -> Iterator[Row]:
    """Half of the classes are named; the others' nodes should belong to none."""
    classes = np.unique(truth[truth >= 0])
    if len(classes) < 4:
        return
    clf.unknown = True
    for setting in ("1", "5", "20"):
        for seed in draws:
            named = np.random.default_rng([seed, 28]).choice(classes, len(classes) // 2, replace=False)
            nodes = drawn(np.where(np.isin(truth, named), truth, -1), setting, seed)
            outside = clf.prediction(given(truth, nodes)).outside
            free = np.setdiff1d(np.flatnonzero(truth >= 0), nodes)
            ours = np.isin(truth[free], named)
            row = {"found": float(outside[free][~ours].mean()), "lost": float(outside[free][ours].mean())}
            yield {"labels": setting, "draw": seed, **row}
    clf.unknown = False


def later(clf: FewShotNodeClassifier, truth: np.ndarray, draws: range) -> Iterator[Row]:
    """A tenth of the nodes comes later; five labels in every class."""
    graph = clf.graph_
    if graph.features is None:
        return
    order = np.random.default_rng(29).permutation(graph.num_nodes)
    first, last = np.sort(order[: -len(order) // 10]), np.sort(order[-len(order) // 10 :])
    both = np.concatenate([first, last])
    place = np.argsort(both)
    small = sub_graph(graph, first)
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.adjacency.indptr))
    edges = np.stack([place[rows], place[graph.adjacency.indices]])
    names = None if graph.names is None else graph.names[last].tolist()
    larger = with_nodes(small, graph.features[last], edges[:, edges.max(axis=0) >= len(first)], names=names)
    own = truth[both]
    short, full = FewShotNodeClassifier().fit(small), FewShotNodeClassifier().fit(larger)
    for seed in draws:
        nodes = drawn(own[: len(first)], "5", seed)
        labels = given(own, nodes)
        one, two = short.set_labels(labels).predict(graph=larger), full.predict(labels)
        new = np.flatnonzero(own >= 0)
        new = new[new >= len(first)]
        row = {"agreement": float((one == two)[new].mean()), "full": float((two == own)[new].mean())}
        yield {"draw": seed, "accuracy": float((one == own)[new].mean()), **row}


def speed(graph: naq.Graph, truth: np.ndarray) -> Row:
    start = time.perf_counter()
    clf = FewShotNodeClassifier().fit(graph)
    row = {"fit": time.perf_counter() - start}
    for name, nodes in {
        "first prediction": drawn(truth, "5", 0), "a new label": drawn(truth, "5", 0)[1:],
        "5,000 labels": np.random.default_rng(0).permutation(np.flatnonzero(truth >= 0))[:5000],
    }.items():  # fmt: skip
        labels = given(truth, nodes)
        start = time.perf_counter()
        clf.set_labels(labels).predict()
        row[name] = time.perf_counter() - start
    return row


PARTS: dict[str, Callable[[FewShotNodeClassifier, np.ndarray, range], Iterator[Row]]] = {
    "expect": expect, "doubtful": doubtful, "suggest": suggest, "unknown": unknown, "later": later,
}  # fmt: skip


def table(titles: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [titles, ["---"] * len(titles), *rows])


def mean(rows: list[Row], key: str) -> float:
    return float(np.mean([row[key] for row in rows]))


def points(rows: list[Row], key: str) -> str:
    return f"{100 * mean(rows, key):.1f}"


def pages(results: list[Row]) -> dict[str, str]:
    """Every table of the page, by its mark."""

    def some(part: str, **wanted: Any) -> list[Row]:
        return [r for r in results if r["part"] == part and all(r[key] == value for key, value in wanted.items())]

    names = [name for name in GRAPHS if some("expect", graph=name)]
    by_graph = [[g, *(points(some("expect", graph=g, labels=s), "accuracy") for s in SETTINGS)] for g in names]
    itself = []
    for setting in SETTINGS:
        rows = some("expect", labels=setting)
        error = np.mean([abs(r["expected"] - r["accuracy"]) for r in rows])
        inside = np.mean([r["low"] <= r["accuracy"] <= r["high"] for r in rows])
        worst = max(r["expected"] - r["accuracy"] for r in rows)
        wide = np.mean([r["high"] - r["low"] for r in rows])
        figures = [f"{100 * error:.1f}", f"{100 * worst:.0f}", f"{100 * inside:.0f} %", f"{100 * wide:.0f}"]
        itself.append([setting, *figures, f"{mean(rows, 'ece'):.3f}", f"{points(rows, 'held')} %"])
    flips = [(setting, share) for setting in ("5", "10", "20") for share in FLIPPED]
    doubts = []
    for name in names:
        cells = []
        for setting, share in flips:
            rows = some("doubtful", graph=name, labels=setting, flipped=share)
            shown = sum(min(r["wrong"], FIRST) for r in rows)
            cells.append(f"{100 * sum(r['found'] for r in rows) / shown:.0f} %" if shown else "-")
        doubts.append([name, *cells])
    asked = []
    for name in [name for name in GRAPHS if some("suggest", graph=name)]:
        for labels in ASKED:
            runs = {
                r: [x["accuracy"] for x in some("suggest", graph=name, rule=r, labels=labels)]
                for r in ("random", *RULES)
            }
            scores = {rule: score([values], "seeds", trained=False) for rule, values in runs.items()}
            own = scores["suggest"]
            marks = {r: "" if s is own or difference(s, own).p >= 0.05 else " *" for r, s in scores.items()}
            asked.append([name, str(labels), *(f"{100 * s.mean:.1f}{marks[r]}" for r, s in scores.items())])
    strange = [
        [name, *(f"{points(rows, 'found')} / {points(rows, 'lost')}" for s in ("1", "5", "20")
                 if (rows := some("unknown", graph=name, labels=s)))]
        for name in names if some("unknown", graph=name)
    ]  # fmt: skip
    came = [
        [g, *(points(rows, key) for key in ("agreement", "accuracy", "full"))]
        for g in names
        if (rows := some("later", graph=g))
    ]
    times = [[g, *(f"{row[key]:.2f}" for key in ("fit", "first prediction", "a new label", "5,000 labels"))]
             for g in names for row in some("speed", graph=g)]  # fmt: skip
    return {
        "accuracy": table(["graph", *SETTINGS], by_graph),
        "itself": table(
            ["labels in every class", "mean error (points)", "most promised too much", "interval held", "its width",
             "calibration error", "90 % sets held"], itself),
        "doubtful": table(["graph", *(f"{s} labels, {100 * share:.0f} %" for s, share in flips)], doubts),
        "suggest": table(["graph", "labels per class", "random", *RULES], asked),
        "unknown": table(["graph", "1 label", "5", "20"], strange),
        "later": table(["graph", "same class as after a full fit (%)", "accuracy", "accuracy after a full fit"], came),
        "speed": table(["graph", "fit (s)", "first prediction", "after a new label", "5,000 labels"], times),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--parts", default=",".join([*PARTS, "speed"]))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    if asked.page:
        for name, text in pages(read_json(asked.out)).items():
            write_between(PAGE, name, text)
        return
    draws, parts = range(asked.first, asked.first + asked.draws), asked.parts.split(",")
    for name in asked.graphs.split(","):
        graph = naq.load(name if name == "debian" else asked.data / f"{name}.npz")
        truth = np.asarray(graph.labels)
        clf = FewShotNodeClassifier().fit(graph)
        for part in parts:
            rows = [speed(graph, truth)] if part == "speed" else list(PARTS[part](clf, truth, draws))
            before = read_json(asked.out) if asked.out.is_file() else []
            kept = [row for row in before if (row["part"], row["graph"]) != (part, name)]
            write_json(asked.out, kept + [{"part": part, "graph": name, **row} for row in rows])
            print(name, part, len(rows), flush=True)


if __name__ == "__main__":
    main()
