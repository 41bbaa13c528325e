"""Where the closed form holds and where it does not: other pairs, useless edges, no features, dense features, noise, imbalance.

    python benchmarks/closed_form.py --data FOLDER                      all sections, all graphs
    python benchmarks/closed_form.py edges noise --graphs cora,citeseer

Accuracy of the prototype head, on tasks of base and validation classes only: nothing here is chosen on test classes. Every
difference is paired over the same tasks (``naq_paper.statistics``); what is random in a perturbation is drawn once, seed 0.
``naq-plus`` is its first form here (mutual pairs, width 256, p 1.5).
Results: ``benchmarks/results/closed_form.json``; ``benchmarks/closed_form_page.py`` fills the tables of
``docs/robustness.md`` and draws its picture from them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg

from naq.threads import prepare_process

prepare_process()  # before torch is loaded

import torch

import naq
from closed_form_steps import POWER, SHRINK, refined, sharpened, without_scatter
from development import DATA, FIRST, WAYS, development_classes, source_of
from naq.embedders.naq_plus import NaqPlus
from naq.embedders.node_words import are_components, diffused, edge_agreement, node_words
from naq.embedders.smooth import Smooth
from naq.embedders.smoothing import centred, narrowed, smoothed, unit
from naq.graph import weighted
from naq.graph.weighting import tfidf
from naq.neighbors.vectors import mutual_pairs, vector_neighbors
from naq.random import stream
from naq_paper.measurements.class_similarity import class_cosines
from naq_paper.perturbations import apply_perturbation
from naq_paper.statistics import difference, score

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "closed_form.json"
SHOTS, QUERIES, TASKS, SEED = (1, 5), 8, 400, 77
REWIRED = (
    ("random", 0.0),
    ("random", 0.25),
    ("random", 0.5),
    ("random", 0.75),
    ("random", 1.0),
    ("other", 0.5),
    ("other", 1.0),
    ("ring", 1.0),
)
PERTURBED: dict[str, dict[str, Any]] = {
    "feature noise 0.3": {"name": "feature-noise", "share": 0.3},
    "edge noise 0.3": {"name": "structure-noise", "share": 0.3},
    "imbalance, pareto": {"name": "imbalance", "kind": "pareto", "tail": 20},
    "imbalance, extreme": {"name": "imbalance", "kind": "extreme", "tail": 20, "heads": 2},
}
VARIANTS: dict[str, dict[str, Any]] = {"steps=20": {"steps": 20}, "shrink=2": {"shrink": 2.0}, "dim=128": {"dim": 128}}

Accuracies = dict[int, np.ndarray]
"""Per shot, the accuracy of every task."""


class Case:
    """A graph and tasks of its base and validation classes."""

    def __init__(self, graph: naq.Graph, classes: list[int], way: int) -> None:
        self.graph, self.classes, self.way = graph, classes, way
        sizes = np.bincount(graph.labels[graph.labels >= 0], minlength=max(classes) + 1)
        self.tasks = {}
        for shot in SHOTS:
            enough = [c for c in classes if sizes[c] >= shot + QUERIES]
            if len(enough) >= 2:
                self.tasks[shot] = naq.sample_tasks(
                    graph, way=min(way, len(enough)), shot=shot, queries=QUERIES, count=TASKS, seed=SEED, classes=enough
                )

    def accuracies(self, vectors: np.ndarray | torch.Tensor) -> Accuracies:
        rows = vectors.cpu().numpy() if isinstance(vectors, torch.Tensor) else vectors
        return {shot: naq.evaluate(rows, tasks, head="prototype").per_task for shot, tasks in self.tasks.items()}

    def start(self, words: sp.csr_array | np.ndarray) -> torch.Tensor:
        """Z_0."""
        return unit(torch.from_numpy(narrowed(words, 256, 0)))

    def smoothed(self, start: torch.Tensor, steps: int = 10, graph: naq.Graph | None = None) -> torch.Tensor:
        adjacency = (graph or self.graph).normalized_adjacency()
        return centred(torch.from_numpy(smoothed(adjacency, start.numpy(), steps)))

    def plus(self, graph: naq.Graph | None = None, **options: Any) -> np.ndarray:
        return NaqPlus(graph or self.graph, **{**FIRST, **options}).embed()

    def smooth(self, graph: naq.Graph | None = None) -> np.ndarray:
        return Smooth(graph or self.graph).embed()


def compared(results: dict[str, Accuracies], base: str) -> dict[str, Any]:
    """Accuracy in percent per method and shot, and its paired difference from ``base`` with the 95 % interval over tasks."""
    table: dict[str, Any] = {}
    for method, by_shot in results.items():
        row: dict[str, Any] = {}
        for shot, runs in by_shot.items():
            row[f"{shot}-shot"] = {"accuracy": round(100 * float(runs.mean()), 2)}
            if method != base:
                gap = difference(
                    score([runs], "same", trained=False), score([results[base][shot]], "same", trained=False)
                )
                row[f"{shot}-shot"] |= {
                    "difference": round(100 * gap.mean, 2),
                    "ci95": round(100 * gap.ci95, 2),
                    "p": gap.p,
                }
        table[method] = row
    return {"against": base, "methods": table}


def rewired(graph: naq.Graph, share: float, kind: str) -> naq.Graph:
    """The graph with a share of its edges leading elsewhere; ends are drawn in proportion to their degree.

    Args:
        kind: the new end is any node (``random``), one of another class (``other``), or one of the next or previous class (``ring``:
            edges that join different classes and still tell the class).
    """
    random = stream(0, f"closed-form/rewired/{kind}")
    upper = sp.triu(graph.adjacency, 1).tocoo()
    one, two = upper.row.astype(np.int64), upper.col.astype(np.int64)
    ends = np.concatenate([one, two])
    moved = random.permutation(len(one))[: round(share * len(one))]
    labels, classes = graph.require_labels("rewiring"), int(graph.labels.max()) + 1
    todo = moved
    for _ in range(1000):
        two[todo] = ends[random.integers(len(ends), size=len(todo))]
        apart = (labels[one[todo]] - labels[two[todo]]) % classes
        wrong = {"random": one[todo] == two[todo], "other": apart == 0, "ring": (apart != 1) & (apart != classes - 1)}[
            kind
        ]
        todo = todo[wrong]
        if not len(todo):
            break
    return naq.Graph(np.stack([one, two]), graph.features, graph.labels, nodes=graph.num_nodes, name=graph.name)


def edges(case: Case) -> dict[str, Any]:
    """Accuracy against the share of edges that lead elsewhere."""
    start = case.start(node_words(case.graph))
    features = case.accuracies(refined(centred(start)))
    found = []
    for kind, share in REWIRED:
        graph = rewired(case.graph, share, kind)
        results = {"features alone": features, "smooth": case.accuracies(case.smooth(graph))}
        results |= {f"edges {how}": case.accuracies(case.plus(graph, edges=how)) for how in ("trusted", "doubted")}
        agreement = round(edge_agreement(graph, start.numpy()), 4)
        found.append({"kind": kind, "share": share, "agreement": agreement, **compared(results, "features alone")})
    return {"rewired": found}


def without_features(graph: naq.Graph) -> naq.Graph:
    return naq.Graph(graph.adjacency, None, graph.labels, name=graph.name)


def structure(case: Case) -> dict[str, Any]:
    """Edges without features: what the nodes should be described by."""
    graph, n = without_features(case.graph), case.graph.num_nodes
    loops = sp.csr_array(graph.adjacency + sp.eye_array(n, format="csr", dtype=np.float32))
    drawn = stream(0, "closed-form/projection").standard_normal((n, 256)).astype(np.float32)
    _, spectral = scipy.sparse.linalg.eigsh(
        graph.normalized_adjacency().astype(np.float64), k=32, which="LA", tol=1e-3, v0=np.ones(n)
    )
    diffusion = case.start(diffused(graph))
    starts = {
        "neighbours as words": (10, case.start(tfidf(loops))),
        "random projection": (10, unit(torch.from_numpy(drawn))),
        "32 eigenvectors": (0, unit(torch.from_numpy(spectral.astype(np.float32)))),
        "diffusion, not smoothed": (0, diffusion),
        "diffusion": (10, diffusion),
    }
    results = {
        name: case.accuracies(refined(case.smoothed(start, steps, graph))) for name, (steps, start) in starts.items()
    }
    return compared(results, "neighbours as words")


def dense(case: Case) -> dict[str, Any]:
    """Dense real-valued features: what should be done to the columns."""
    random = stream(0, "closed-form/dense")
    words = node_words(case.graph)
    narrow = narrowed(words, 256, 0)
    loud = 0.5 * float(np.sqrt(narrow.var(axis=0).mean()))
    rotation = np.linalg.qr(random.standard_normal((narrow.shape[1],) * 2))[0].astype(np.float32)
    units = np.exp(1.5 * random.standard_normal(narrow.shape[1])).astype(np.float32)
    projection = random.standard_normal((words.shape[1], 256)).astype(np.float32)
    tables = {
        "components with noise": narrow + loud * random.standard_normal(narrow.shape).astype(np.float32),
        "mixed columns in other units": (narrow @ rotation) * units,
        "random projection": np.asarray(words @ projection),
    }
    found = {}
    for kind, table in tables.items():
        middle, spread = table - table.mean(axis=0), table.std(axis=0)
        ways = {
            "standardised": middle / spread,
            "as they are": table,
            "divided by the root of the spread": middle / np.sqrt(spread),
        }
        if kind != "components with noise":
            ways["whitened"] = whitened(middle)
        results = {
            name: case.accuracies(
                refined(case.smoothed(unit(torch.from_numpy(np.ascontiguousarray(one, dtype=np.float32)))))
            )
            for name, one in ways.items()
        }
        found[kind] = {"components": are_components(table), **compared(results, "standardised")}
    return found


def whitened(middle: np.ndarray) -> np.ndarray:
    values, directions = np.linalg.eigh(np.cov(middle.T.astype(np.float64)))
    return middle @ (directions * np.maximum(values, values.max() * 1e-6) ** -0.5)


def noise(case: Case) -> dict[str, Any]:
    """Noisy features, noisy edges, other class sizes."""
    split = naq.ClassSplit(tuple(case.classes), (), ())
    found = {"clean": with_variants(case, case.graph)}
    for name, given in PERTURBED.items():
        changed = apply_perturbation(case.graph, split, given)
        there = Case(changed.graph, case.classes, case.way) if changed.redraw else case
        found[name] = with_variants(there, changed.graph)
    return found


def with_variants(case: Case, graph: naq.Graph) -> dict[str, Any]:
    results = {"naq-plus": case.accuracies(case.plus(graph)), "smooth": case.accuracies(case.smooth(graph))}
    results |= {name: case.accuracies(case.plus(graph, **options)) for name, options in VARIANTS.items()}
    return {"nodes": graph.num_nodes, **compared(results, "naq-plus")}


def neighbors(case: Case) -> dict[str, Any]:
    """Which pairs count as members of one class."""
    graph, n = case.graph, case.graph.num_nodes
    rows = case.smoothed(case.start(node_words(graph)))
    features = naq.feature_neighbors(weighted(graph, "auto"), k=10)
    diffusion, near = naq.diffusion_neighbors(graph, k=10), vector_neighbors(rows, 10)
    upper = sp.triu(graph.adjacency, 1).tocoo()
    lists = {
        "smoothed, mutual": mutual_pairs(near),
        "smoothed, one way": one_way(near.ids),
        "features, one way": one_way(features.ids),
        "features, mutual": mutual_pairs(features),
        "diffusion, one way": one_way(diffusion.ids),
        "diffusion, mutual": mutual_pairs(diffusion),
        "edges": np.stack([upper.row, upper.col], axis=1).astype(np.int64),
    }
    codes, counts = np.unique(
        np.concatenate([one_way(table.ids) @ (n, 1) for table in (features, diffusion, near)]), return_counts=True
    )
    lists["in two of three"] = np.stack([codes[counts > 1] // n, codes[counts > 1] % n], axis=1)
    results = {"smooth": case.accuracies(case.smooth()), "no pairs, sharpened": case.accuracies(sharpened(rows, POWER))}
    facts = {}
    labels = graph.labels
    classes = np.unique(labels[labels >= 0])
    cosines, place = class_cosines(graph, classes), np.searchsorted(classes, labels)
    for name, pairs in lists.items():
        known = pairs[(labels[pairs] >= 0).all(axis=1)]
        ends = place[known]
        facts[name] = {
            "pairs": len(pairs),
            "same_class": round(float((ends[:, 0] == ends[:, 1]).mean()), 4) if len(ends) else None,
            "class_similarity": round(float(cosines[ends[:, 0], ends[:, 1]].mean()), 4) if len(ends) else None,
        }
        results[name] = case.accuracies(sharpened(without_scatter(rows, pairs, SHRINK), POWER))
    return compared(results, "smooth") | {"pairs": facts}


def one_way(ids: np.ndarray) -> np.ndarray:
    """(pairs, 2) every pair of a node and a node of its list once, the lower id first."""
    n, k = ids.shape
    one, two = np.repeat(np.arange(n, dtype=np.int64), k), ids.ravel().astype(np.int64)
    one, two = one[two >= 0], two[two >= 0]
    codes = np.unique(np.minimum(one, two) * n + np.maximum(one, two))
    return np.stack([codes // n, codes % n], axis=1)


SECTIONS: dict[str, Callable[[Case], dict[str, Any]]] = {
    f.__name__: f for f in (neighbors, edges, structure, dense, noise)
}


def cases(names: list[str], folder: Path) -> Iterator[tuple[str, Case]]:
    for name in names:
        source = source_of(name, folder)
        graph = naq.load(source)
        yield name, Case(graph, list(development_classes(graph, source)), WAYS[name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(SECTIONS)}; all by default")
    parser.add_argument("--graphs", default=",".join(WAYS))
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the .npz files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    record = json.loads(given.out.read_text()) if given.out.is_file() else {}
    for name, case in cases(given.graphs.split(","), given.data):
        for section in given.sections or SECTIONS:
            start = time.perf_counter()
            found = SECTIONS[section](case)
            record.setdefault(name, {})[section] = found | {"seconds": round(time.perf_counter() - start, 1)}
            given.out.parent.mkdir(parents=True, exist_ok=True)
            given.out.write_text(json.dumps(record, indent=1) + "\n")
            print(f"{name:18s}{section:12s}{time.perf_counter() - start:7.1f} s", flush=True)


if __name__ == "__main__":
    main()
