"""NaQ + ProtoNet with a linear encoder, trained from the identity, beside the map that the closed form gives in one step.

    python benchmarks/linear_protonet.py           trains and writes benchmarks/results/linear_protonet.json and docs/closed-form.md
    python benchmarks/linear_protonet.py cora      one graph; the others' results are kept
    python benchmarks/linear_protonet.py --docs    only writes the table of docs/closed-form.md again

Every row starts from the same ``smooth`` vectors. NaQ's episodes draw their queries from the mutual 10 nearest neighbours whose scatter
the closed form takes, or from the 10 nearest by features (NaQ-Feat). Each is also shown with the closed form's last step, the sharpening,
after it. Tasks are drawn from base and validation classes; test classes are not touched. The real graphs are
looked for in ``$NAQ_SHARED_DATA`` or ``../shared/data``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from marked_page import write_between
from naq.threads import prepare_process

prepare_process()  # before torch is loaded

import numpy as np
import torch

import naq
from closed_form_steps import NEIGHBORS, POWER, SHRINK, sharpened, without_scatter
from development import WAYS, development_classes, source_of
from naq.embedders.smoothing import centred
from naq.files import read_json, write_json
from naq.neighbors import NeighborTable, mutual_pairs, vector_neighbors
from naq.random import stream
from naq_paper.statistics import Score, compare, score

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "linear_protonet.json"
DOCS = HERE.parent / "docs" / "closed-form.md"
BEGIN, END = "<!-- linear_protonet:begin -->", "<!-- linear_protonet:end -->"
GRAPHS = ("cora", "citeseer", "coauthor_cs", "amazon_computers")
SEEDS, TASKS, QUERIES, SHOTS = 3, 400, 8, (1, 5)
WAY, RATE, TEMPERATURE = 20, 1e-3, 0.1
CHECKPOINTS = (100, 500, 2500)
TRAININGS = {
    "distance": "squared distance, learned scale; mutual neighbours",
    "cosine": f"cosine, temperature {TEMPERATURE}; mutual neighbours",
    "feature": "squared distance, learned scale; neighbours by features",
}
FIXED = {"smooth": "`smooth`", "step 4": "closed form, scatter removed (steps 3 and 4)"}
SHARPENED = ", sharpened"


def mutual_table(vectors: np.ndarray) -> tuple[NeighborTable, np.ndarray]:
    """The k nearest of every node that also have it among theirs, and the pairs."""
    table = vector_neighbors(vectors, NEIGHBORS)
    pairs = mutual_pairs(table)
    n = table.num_nodes
    codes = np.concatenate([pairs @ [n, 1], pairs @ [1, n]])
    kept = np.isin(np.arange(n)[:, None] * n + table.ids, codes) & (table.ids >= 0)
    return NeighborTable(np.where(kept, table.ids, -1), np.where(kept, table.scores, 0), table.info), pairs


def trained_maps(
    vectors: np.ndarray, table: NeighborTable, training: str, seed: int
) -> Iterator[tuple[int, np.ndarray]]:
    """(d, d) after every checkpoint: Adam on one episode of ``WAY`` nodes and their neighbours at a time, from the identity."""
    episodes = naq.naq_episodes(table, way=WAY, queries=NEIGHBORS, count=CHECKPOINTS[-1], seed=seed)
    rows = torch.from_numpy(vectors)
    weight = torch.eye(rows.shape[1], requires_grad=True)
    # The best scale at the start is that of a temperature; what is learned is its logarithm.
    scale = torch.tensor(-np.log(TEMPERATURE), dtype=torch.float32, requires_grad=training != "cosine")
    optimizer = torch.optim.Adam([weight] if training == "cosine" else [weight, scale], lr=RATE)
    slots = torch.arange(WAY).repeat_interleave(NEIGHBORS)
    for step in range(CHECKPOINTS[-1]):
        there = torch.from_numpy(episodes.mask[step].ravel())
        support = rows[torch.from_numpy(episodes.support[step, :, 0].astype(np.int64))] @ weight
        query = rows[torch.from_numpy(episodes.query[step].ravel().astype(np.int64))[there]] @ weight
        if training == "cosine":
            logits = torch.nn.functional.normalize(query) @ torch.nn.functional.normalize(support).T / TEMPERATURE
        else:
            away = (query**2).sum(1, keepdim=True) - 2 * query @ support.T + (support**2).sum(1)
            logits = -0.5 * scale.exp() * away
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits, slots[there]).backward()
        optimizer.step()
        if step + 1 in CHECKPOINTS:
            yield step + 1, weight.detach().numpy().copy()


def measured(name: str) -> dict[str, Any]:
    """Accuracies of every row on one graph."""
    source = source_of(name)
    graph = naq.load(source)
    classes, way = development_classes(graph, source), WAYS[name]
    tasks = {
        shot: naq.sample_tasks(graph, way=way, shot=shot, queries=QUERIES, count=TASKS, classes=classes, part="valid")
        for shot in SHOTS
    }
    vectors = naq.embed(graph, "smooth")
    vector_neighbors(vectors[:50])  # compiled code is loaded before the clock starts
    start = time.process_time()
    table, pairs = mutual_table(vectors)
    step4 = without_scatter(torch.from_numpy(vectors), pairs, SHRINK).numpy()
    sharpened(torch.from_numpy(step4), POWER)
    closed_seconds = time.process_time() - start
    one, two = stream(0, "linear_protonet/pairs").integers(0, len(vectors), (2, 20_000))

    def cosines(found: np.ndarray) -> np.ndarray:
        unit = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
        return (unit[one] * unit[two]).sum(axis=1)

    def answered(found: np.ndarray) -> dict[int, np.ndarray]:
        return {shot: naq.evaluate(found, drawn, "prototype").per_task for shot, drawn in tasks.items()}

    rows: dict[str, list[dict[int, np.ndarray]]] = {}
    near: dict[str, list[np.ndarray]] = {}

    def add(label: str, found: np.ndarray) -> None:
        rows.setdefault(label, []).append(answered(found))
        near.setdefault(label, []).append(cosines(found))
        sharp = sharpened(centred(torch.from_numpy(found)), POWER).numpy()
        rows.setdefault(label + SHARPENED, []).append(answered(sharp))

    add("smooth", vectors)
    add("step 4", step4)
    goal, seconds = cosines(step4), {}
    for training in TRAININGS:
        source = naq.feature_neighbors(graph, NEIGHBORS) if training == "feature" else table
        start = time.process_time()
        for seed in range(SEEDS):
            for step, weight in trained_maps(vectors, source, training, seed):
                add(f"{training}, {step:,} episodes", vectors @ weight)
        seconds[training] = round((time.process_time() - start) / SEEDS, 1)
    ends = graph.require_labels("the share of pairs of one class")[pairs]
    ends = ends[np.isin(ends, classes).all(axis=1)]
    result: dict[str, Any] = {
        "graph": name, "nodes": graph.num_nodes, "way": way, "classes": len(classes), "pairs": len(pairs),
        "same_class_pairs": round(float((ends[:, 0] == ends[:, 1]).mean()), 4),
        "cpu_seconds": {"closed form": round(closed_seconds, 2), **seconds},
    }  # fmt: skip
    result["agreement"] = {
        label: round(float(np.mean([np.corrcoef(goal, c)[0, 1] for c in many])), 4) for label, many in near.items()
    }
    for shot in SHOTS:
        scores: dict[str, Score] = {
            label: score(np.stack([run[shot] for run in runs]), f"{name}/{shot}", trained=len(runs) > 1)
            for label, runs in rows.items()
        }
        standings = compare(scores, "smooth")
        result[f"{shot}-shot"] = {
            label: {
                "accuracy": round(found.mean, 5),
                "ci95": round(found.ci95, 5),
                "mark": standings[label].mark,
                "against": standings[label].against,
            }
            for label, found in scores.items()
        }
    return result


def table_of(results: list[dict[str, Any]]) -> str:
    """The figures as Markdown."""
    heads = [f"{r['graph']}, {shot}-shot" for r in results for shot in SHOTS]
    lines = [f"| | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for label in results[0]["1-shot"]:
        cells = [r[f"{shot}-shot"][label] for r in results for shot in SHOTS]
        shown = [f"{100 * c['accuracy']:.1f} {c['mark']} {c['against']}".rstrip() for c in cells]
        lines.append(f"| {_title(label)} | {' | '.join(shown)} |")
    lines += ["", *(f"- {_facts(r)}" for r in results), ""]
    lines += ["Correlation of the cosines of 20,000 pairs of nodes with those after steps 3 and 4:", ""]
    lines += ["| | " + " | ".join(r["graph"] for r in results) + " |", "|---|" + "---:|" * len(results)]
    for label in results[0]["agreement"]:
        lines.append(f"| {_title(label)} | " + " | ".join(f"{r['agreement'][label]:.2f}" for r in results) + " |")
    return "\n".join(lines)


def _title(label: str) -> str:
    plain = label.removesuffix(SHARPENED)
    training, _, length = plain.partition(", ")
    title = FIXED.get(plain) or f"{TRAININGS[training]}: {length}"
    return title + (", then sharpened (step 5)" if label != plain else "")


def _facts(r: dict[str, Any]) -> str:
    times = r["cpu_seconds"]
    return (
        f"{r['graph']}: {r['way']}-way tasks of {r['classes']} classes, {r['pairs']:,} pairs, {100 * r['same_class_pairs']:.0f} % of those within these classes of one "
        f"class; steps 3 to 5 took {times['closed form']:.1f} s of one core, one training {max(times[name] for name in TRAININGS):.0f} s with its evaluation."
    )


def write_docs(results: list[dict[str, Any]]) -> None:
    """Put the table between its marks."""
    write_between(DOCS, BEGIN, END, table_of(results))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", action="store_true", help="only write the docs again")
    parser.add_argument("graphs", nargs="*", help=f"some of {', '.join(GRAPHS)}; all by default")
    given = parser.parse_args()
    for name in () if given.docs else given.graphs or GRAPHS:
        found = measured(name)
        print(table_of([found]), flush=True)
        kept = {r["graph"]: r for r in (read_json(RESULTS) if RESULTS.exists() else [])} | {name: found}
        write_json(RESULTS, [kept[graph] for graph in GRAPHS if graph in kept])
    write_docs(read_json(RESULTS))


if __name__ == "__main__":
    main()
