"""A million nodes, 10 million edges, 300 dense features: import, fit and predict, each in a process of its own.

The files are made with a seed: every node has one of 20 planted classes of unequal size, its degree follows a power law, four edges of five stay within
the class, and its 300 features are the class's centre plus five times as much noise. Five nodes of every class are labelled.

    python benchmarks/million.py [--nodes 1000000] [--edges 10000000] [--folder FOLDER] [--out benchmarks/results/million.json]

With ``--page`` the table of docs/import.md is written from the file that ``--out`` names, and nothing is measured.

Stages are the commands of a user: ``naq import``; ``fit`` and ``save``; ``load``, ``predict`` and the CSV of all predictions. Recorded are the seconds of the whole
process and its largest resident memory, with Python and all libraries in it; and the accuracy on all other nodes.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from marked_page import write_between

CLASSES, SHOTS, WITHIN, NOISE, EXPONENT = 20, 5, 0.8, 5.0, 2.5
RESULTS = Path(__file__).parent / "results" / "million.json"
PAGE = Path(__file__).parents[1] / "docs" / "import.md"
BEGIN, END = "<!-- million:begin -->", "<!-- million:end -->"
STAGES = ("import", "fit", "predict")
WRITE = "write"


def write_files(folder: Path, nodes: int, edges: int, width: int, seed: int = 0) -> None:
    """edges.csv, nodes.csv, vectors.npy, labels.csv and truth.npy."""
    import pyarrow as pa
    import pyarrow.csv

    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.full(CLASSES, 5.0))
    truth = rng.choice(CLASSES, nodes, p=share)
    names = pa.array([f"node-{i:07d}" for i in range(nodes)])

    weight = rng.pareto(EXPONENT - 1.0, nodes) + 1.0
    drawn = int(edges * 1.05)  # some repeat, some join a node to itself
    source = rng.choice(nodes, drawn, p=weight / weight.sum())
    target = rng.choice(nodes, drawn, p=weight / weight.sum())
    home = rng.random(drawn) < WITHIN
    for one in range(CLASSES):
        members = np.flatnonzero(truth == one)
        asked = home & (truth[source] == one)
        target[asked] = rng.choice(members, int(asked.sum()), p=weight[members] / weight[members].sum())
    low, high = np.minimum(source, target), np.maximum(source, target)
    kept = np.unique(low[low != high] * np.int64(nodes) + high[low != high])
    kept = np.sort(rng.permutation(kept)[:edges]) if len(kept) > edges else kept
    kept = rng.permutation(kept)
    table = pa.table({"source": names.take(pa.array(kept // nodes)), "target": names.take(pa.array(kept % nodes))})
    pa.csv.write_csv(table, folder / "edges.csv", pa.csv.WriteOptions(quoting_style="none"))
    pa.csv.write_csv(pa.table({"id": names}), folder / "nodes.csv", pa.csv.WriteOptions(quoting_style="none"))

    centres = rng.standard_normal((CLASSES, width)).astype(np.float32)
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float32, (nodes, width))
    for start in range(0, nodes, 65_536):
        block = truth[start : start + 65_536]
        noise = rng.standard_normal((len(block), width), dtype=np.float32)
        vectors[start : start + 65_536] = centres[block] + np.float32(NOISE) * noise
    vectors.flush()
    np.save(folder / "truth.npy", truth)
    with (folder / "labels.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["node", "class"])
        for one in range(CLASSES):
            for node in rng.choice(np.flatnonzero(truth == one), SHOTS, replace=False):
                writer.writerow([f"node-{node:07d}", f"class-{one:02d}"])


def run_import(folder: Path) -> dict[str, Any]:
    from naq.cli.main import main

    sys.argv = ["naq", "import", str(folder / "edges.csv"), "--nodes", str(folder / "nodes.csv")]
    sys.argv += ["--vector", str(folder / "vectors.npy"), "--out", str(folder / "graph.npz")]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise
    return {}


def run_fit(folder: Path) -> dict[str, Any]:
    import naq

    classifier = naq.FewShotNodeClassifier().fit(naq.load(folder / "graph.npz"))
    classifier.save(folder / "classifier.safetensors")
    return {"chosen": classifier.explain_choice_}


def run_predict(folder: Path) -> dict[str, Any]:
    import naq
    from naq.classifier import read_labels, write_predictions

    graph = naq.load(folder / "graph.npz")
    classifier = naq.FewShotNodeClassifier.load(folder / "classifier.safetensors", graph)
    given = read_labels(folder / "labels.csv", graph)
    began = time.perf_counter()
    found = classifier.set_labels(given).predict()
    seconds = time.perf_counter() - began
    write_predictions(classifier, folder / "predictions.csv")
    truth = np.array([f"class-{one:02d}" for one in range(CLASSES)])[np.load(folder / "truth.npy")]
    other = np.ones(len(truth), dtype=bool)
    other[given.nodes] = False
    return {
        "accuracy": round(float((found == truth)[other].mean()), 4),
        "expected_accuracy": round(float(classifier.expected_accuracy().value), 4),
        "predict_seconds": round(seconds, 2),
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": graph.num_features,
    }


def stage(name: str, folder: Path) -> None:
    """One stage in this process; its facts go to a file, since the stage may print."""
    began, cpu = time.perf_counter(), time.process_time()
    facts = {"import": run_import, "fit": run_fit, "predict": run_predict}[name](folder)
    facts |= {
        "stage": name,
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "peak_gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }
    (folder / f"{name}.json").write_text(json.dumps(facts))


def measure(folder: Path, nodes: int, edges: int, width: int) -> dict[str, Any]:
    sizes = ["--nodes", str(nodes), "--edges", str(edges), "--features", str(width), "--folder", str(folder)]
    if not (folder / "labels.csv").exists():
        subprocess.run([sys.executable, __file__, "--stage", WRITE, *sizes], check=True)
    rows = []
    for name in STAGES:
        subprocess.run([sys.executable, __file__, "--stage", name, "--folder", str(folder)], check=True)
        rows.append(json.loads((folder / f"{name}.json").read_text()))
        print(json.dumps(rows[-1]), flush=True)
    return {
        "cores": os.cpu_count(),
        "load_average": [round(one, 2) for one in os.getloadavg()],
        "seconds": round(sum(row["seconds"] for row in rows), 1),
        "peak_gigabytes": max(row["peak_gigabytes"] for row in rows),
        "stages": rows,
    }


def write_page(facts: dict[str, Any], page: Path = PAGE) -> None:
    """The table of docs/import.md."""
    last = facts["stages"][-1]
    load = facts["load_average"][0]
    lines = [
        f"{last['nodes']:,} nodes, {last['edges']:,} edges, {last['features']} dense features, {facts['cores']} cores that others used too "
        f"(load average {load:g} at the end); {CLASSES} classes with {SHOTS} labels each, {100 * last['accuracy']:.1f} % of the other nodes right.",
        "",
        "| stage | seconds | CPU seconds | memory, GB |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {row['stage']} | {row['seconds']} | {row['cpu_seconds']} | {row['peak_gigabytes']} |"
        for row in facts["stages"]
    ]
    lines.append(f"| together | {facts['seconds']} | | {facts['peak_gigabytes']} |")
    write_between(page, BEGIN, END, "\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=300)
    parser.add_argument("--folder", type=Path, help="where the files go; files that are there are used again")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--stage", choices=(WRITE, *STAGES), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.page:
        write_page(json.loads(given.out.read_text()))
        return
    if given.stage == WRITE:
        write_files(given.folder, given.nodes, given.edges, given.features)
        return
    if given.stage:
        stage(given.stage, given.folder)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = given.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        facts = measure(folder, given.nodes, given.edges, given.features)
    print(f"{facts['seconds']} s, {facts['peak_gigabytes']} GB")
    given.out.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
