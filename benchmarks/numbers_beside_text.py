"""What a number column beside text does to predictions: the words alone, the numbers scaled, the numbers as five ranges (what an import makes of them).

    python benchmarks/numbers_beside_text.py --data DATA

Real graphs whose words are written out as text, imported from tables with three numbers more: a node's links, its number of words, and a price drawn at random, which says
nothing. Three labels in every class, three draws, all other nodes predicted. Results: benchmarks/results/numbers_beside_text.json.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import naq
from naq.files import write_json
from naq.io.tables import features

RESULTS = Path(__file__).resolve().parent / "results" / "numbers_beside_text.json"
GRAPHS = ("cora", "citeseer", "coauthor_cs", "amazon_computers", "debian")
NUMBERS = ("links", "length", "price")
FORMS = {
    "words alone": ((), features.RANGES_FROM),
    "scaled": (NUMBERS, 10**9),
    "ranges": (NUMBERS, features.RANGES_FROM),
}
"""The numbers beside the text, and from how many nodes on they become ranges."""
DRAWS, SHOTS = 3, 3


def word(number: int) -> str:
    """Letters that stand for a number."""
    text = ""
    for _ in range(4):
        number, digit = divmod(number, 26)
        text += chr(97 + digit)
    return text


def tables(graph: naq.Graph) -> tuple[dict[str, Any], dict[str, Any]]:
    """Edges and nodes as a person would have them."""
    x = graph.features.tocsr()
    ends = graph.adjacency.nonzero()
    once = ends[0] < ends[1]
    nodes = {
        "id": np.arange(graph.num_nodes),
        "text": [" ".join(map(word, x.indices[low:high])) for low, high in zip(x.indptr[:-1], x.indptr[1:])],
        "links": np.asarray(graph.degrees),
        "length": np.diff(x.indptr),
        "price": np.round(np.exp(np.random.default_rng(0).normal(3, 1, graph.num_nodes)), 2),
    }
    return {"source": ends[0][once], "target": ends[1][once]}, nodes


def accuracies(graph: naq.Graph, labels: np.ndarray) -> list[float]:
    """In percent, one for every draw of labels."""
    found = []
    for draw in range(DRAWS):
        random = np.random.default_rng(draw)
        known = np.unique(labels[labels >= 0])
        given = np.concatenate([random.choice(np.flatnonzero(labels == one), SHOTS, replace=False) for one in known])
        predicted = naq.FewShotNodeClassifier().fit(graph, {str(i): str(labels[i]) for i in given}).predict()
        rest = np.setdiff1d(np.flatnonzero(labels >= 0), given)
        found.append(round(100 * float(np.mean([predicted[i] == str(labels[i]) for i in rest])), 1))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the graph files")
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    for name in given.graphs:
        graph = naq.load(name if name == "debian" else given.data / f"{name}.npz")
        edges, nodes = tables(graph)
        found[name] = {}
        for form, (numbers, begin) in FORMS.items():
            features.RANGES_FROM = begin
            imported = naq.from_tables(edges, {column: nodes[column] for column in ("id", "text", *numbers)})
            found[name][form] = accuracies(imported, np.asarray(graph.labels))
            print(f"{name}, {form}: {found[name][form]}", flush=True)
    write_json(RESULTS, found)


if __name__ == "__main__":
    main()
