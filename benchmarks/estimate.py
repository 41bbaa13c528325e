"""Estimates of ``naq estimate`` beside measured times and memory, on generated graphs in memory and memory-mapped.

    python benchmarks/estimate.py [--out benchmarks/results/estimate.json] [--fit]

Every graph runs in a process of its own. The machine's rates are probed before and after the stages of a graph, since others may use it meanwhile. ``--fit`` prints the factors that the graphs of ``FITTED`` give
(to be copied into naq_scale.estimate); the others are what the estimates are judged on.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from marked_page import write_between
from naq import threads
from scale import Stopwatch

RESULTS = Path(__file__).parent / "results" / "estimate.json"
PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
BEGIN, END = "<!-- estimate:begin -->", "<!-- estimate:end -->"
EPISODES = 20
GRAPHS: dict[str, dict[str, Any]] = {
    "held-20k-sparse": {"nodes": 20_000, "features": 1000, "sparse": True, "mapped": False},
    "mapped-30k-sparse": {"nodes": 30_000, "features": 1000, "sparse": True, "mapped": True},
    "held-40k-dense": {"nodes": 40_000, "features": 80, "mapped": False},
    "mapped-100k-sparse": {"nodes": 100_000, "features": 2000, "sparse": True, "mapped": True},
    "mapped-150k-sparse": {"nodes": 150_000, "features": 1500, "sparse": True, "mapped": True},
    "mapped-200k-dense": {"nodes": 200_000, "features": 48, "mapped": True},
}
DIFFUSED = {
    "diffused-3k": {"nodes": 3000, "features": 8, "mapped": False},
    "diffused-6k": {"nodes": 6000, "features": 8, "mapped": False},
    "diffused-300k": {"nodes": 300_000, "features": 8, "mapped": True},
}
"""Graphs of which only the diffusion table is made: it takes longer than all other stages."""
FITTED = ("held-20k-sparse", "mapped-30k-sparse", "held-40k-dense", "mapped-100k-sparse", "diffused-3k")
STAGES = ("load", "words", "smoothing", "neighbours", "closed form", "prepare", "training", "evaluation")
DIM = 64


def run_stages(
    folder: Path, nodes: int, features: int, sparse: bool, mapped: bool
) -> tuple[Any, dict[str, Callable[[], Any]]]:
    """The graph's sizes and its stages, to be called in order."""
    import naq
    from closed_form_steps import sharpened, without_scatter
    from generate import generate
    from naq.embedders.closed_form import nearest_pairs
    from naq.embedders.node_words import edge_agreement, node_words
    from naq.embedders.smoothing import centred, narrowed, smoothed, unit
    from naq.episodes import Episodes
    from naq.io import load, save_graph
    from naq.learners import LEARNERS
    from naq.neighbors import vector_neighbors
    from naq.run.evaluate import evaluate_heads
    from naq.tasks import dirichlet_queries, sample_tasks
    from naq_scale.blocks import RowPasses, closed_form, narrow_start, smoothed_tiles
    from naq_scale.blocks.shards import InThisProcess
    from naq_scale.estimate import sizes_of

    path = generate(folder / "graph", nodes, 10 * nodes, features=features, sparse=sparse)
    if not mapped:
        path = save_graph(folder / "graph.npz", naq.Graph(*_plain(load(path))))
    sizes, state = sizes_of(path), {}
    block = 1 << 16

    def words() -> None:
        graph = state["graph"]
        if mapped:
            state["parts"] = InThisProcess(graph.without_labels(), folder)
            state["start"] = narrow_start(graph.without_labels(), DIM, 0, state["parts"], block=block, tile=None)
        else:
            state["start"] = unit(narrowed(node_words(graph), DIM, 0))

    def smoothing() -> None:
        graph, start = state["graph"], state["start"]
        if mapped:
            parts = state["parts"]
            tiles, _ = smoothed_tiles(start, graph, parts, steps=10, agreement=True, block=block)
            state["rows"] = RowPasses(parts, tiles, block).centred().centred().kept()
        else:
            edge_agreement(graph, start)
            state["rows"] = centred(smoothed(graph.normalized_adjacency(), start, 10))

    def neighbours() -> None:
        if mapped:
            state["pairs"] = closed_form.near_pairs(state["rows"], 10, "nearest", 0, block, state["parts"])
        else:
            import torch

            state["rows"] = torch.from_numpy(state["rows"])
            state["pairs"] = nearest_pairs(vector_neighbors(state["rows"], 10))

    def closed() -> None:
        if mapped:
            rows = RowPasses(state["parts"], state["rows"], block)
            state["vectors"] = closed_form.without_scatter(rows, state["pairs"], shrink=0.5, power=1.75).grid[0][0]
        else:
            state["vectors"] = sharpened(without_scatter(state["rows"], state["pairs"], 0.5), 1.75).numpy()

    def evaluation() -> None:
        evaluate_heads(state["vectors"], state["tasks"], state["unbalanced"])

    def prepare() -> None:
        graph, pairs = state["graph"], state["pairs"]
        state["tasks"] = sample_tasks(graph, way=5, shot=1, queries=8, count=500, seed=0)
        state["unbalanced"] = dirichlet_queries(state["tasks"], graph.labels)
        order = np.argsort(pairs[:, 0], kind="stable")
        nodes_there, first, counts = np.unique(pairs[order, 0], return_index=True, return_counts=True)
        full = np.flatnonzero(counts == 10)
        drawn = np.random.default_rng(0).choice(full, (EPISODES + 1, 5))
        query = pairs[order, 1][first[drawn][:, :, None] + np.arange(10)]
        state["episodes"] = Episodes(nodes_there[drawn][:, :, None], query, np.ones(query.shape, dtype=bool), {})
        state["model"] = LEARNERS["protonet"](graph.without_labels(), way=5)
        state["optimizer"] = state["model"].optimizer()
        state["model"].step(state["episodes"][:1], 0, state["optimizer"])

    def training() -> None:
        for number in range(1, EPISODES + 1):
            state["model"].step(state["episodes"][number : number + 1], number, state["optimizer"])

    def diffusion() -> None:
        naq.diffusion_neighbors(state["graph"], k=10, method="push")

    def load_it() -> None:
        state["graph"] = load(path)

    return sizes, {
        "load": load_it, "words": words, "smoothing": smoothing, "neighbours": neighbours, "closed form": closed,
        "evaluation": evaluation, "prepare": prepare, "training": training, "diffusion table": diffusion,
    }  # fmt: skip


def _plain(graph: Any) -> tuple[Any, Any, Any]:
    import scipy.sparse as sp

    features = graph.features
    return (
        sp.csr_array(graph.adjacency),
        features if isinstance(features, np.ndarray) else sp.csr_array(features),
        graph.labels,
    )


def worker(name: str, folder: Path) -> None:
    from naq_scale import estimate as model

    given = {"sparse": False, **(GRAPHS | DIFFUSED)[name]}
    keys = STAGES if name in GRAPHS else ("load", "diffusion table")
    small, mine = folder / "small", folder / "run"
    for place in (small, mine):
        place.mkdir()
    _, stages = run_stages(small, **{**given, "nodes": 1500})
    for key in keys:
        stages[key]()
    sizes, stages = run_stages(mine, **given)
    before, watch = model.probe(), Stopwatch()
    for key in keys:
        with watch.stage(key):
            stages[key]()
    model.probe.cache_clear()
    after = model.probe()
    mean = {key: 2 / (1 / value + 1 / vars(after)[key]) for key, value in vars(before).items()}
    rates = replace(before, **mean)
    found = {s.name: s for s in model.estimate(sizes, "naq-plus", options={"dim": DIM}, rates=rates).stages}
    trained = model.estimate(sizes, "naq-diff/protonet", episodes=EPISODES, rates=rates).stages
    found |= {s.name: s for s in trained if s.name in ("training", "diffusion table")}
    rows = [
        {
            "graph": name, "stage": key, "estimated": round(stage.seconds, 3), "measured": watch.rows[key]["seconds"],
            "ratio": round(stage.seconds / max(watch.rows[key]["seconds"], 1e-3), 3), "factor": model.FACTORS[key],
            "estimated_gigabytes": round(stage.memory / 1e9, 3), "measured_gigabytes": watch.rows[key]["gigabytes"],
            "load_average": round(os.getloadavg()[0], 1),
        }
        for key, stage in found.items()
        if key in keys
    ]  # fmt: skip
    (folder / "facts.json").write_text(json.dumps(rows))


def rescaled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same estimates with the factors that are in force now: an estimate is proportional to its factor."""
    from naq_scale.estimate import FACTORS

    for row in rows:
        change = FACTORS[row["stage"]] / row["factor"]
        row |= {
            "estimated": round(row["estimated"] * change, 3),
            "ratio": round(row["ratio"] * change, 3),
            "factor": FACTORS[row["stage"]],
        }
    return rows


def write_page(rows: list[dict[str, Any]]) -> None:
    """The table of docs/scale.md: estimated over measured, of graphs that no factor was fitted on."""
    judged = [row for row in rows if row["graph"] not in FITTED]
    names = list(dict.fromkeys(row["graph"] for row in judged))
    lines = ["| stage | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for stage in dict.fromkeys(row["stage"] for row in judged):
        cells = {
            row["graph"]: f"{row['estimated']:.1f} / {row['measured']:.1f}" for row in judged if row["stage"] == stage
        }
        lines.append(f"| {stage} | " + " | ".join(cells.get(name, "") for name in names) + " |")
    long = [row for row in judged if row["measured"] >= 0.5]
    within = sum(0.5 <= row["ratio"] <= 2 for row in long)
    loads = [row["load_average"] for row in judged]
    lines += [
        "",
        f"Seconds estimated / measured. Of {len(long)} stages of half a second or more, {within} are within a factor of two (load average {min(loads):g} to {max(loads):g}).",
    ]
    write_between(PAGE, BEGIN, END, "\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--only", nargs="*", default=[*GRAPHS, *DIFFUSED])
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--page", action="store_true", help="only write the table of docs/scale.md")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        worker(given.worker, given.folder)
        return
    known = rescaled(json.loads(given.out.read_text())) if given.out.exists() else []
    if given.page:
        given.out.write_text(json.dumps(known, indent=1) + "\n")
        write_page(known)
        return
    for name in given.only:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, "--worker", name, "--folder", folder]
            subprocess.run(command, check=True, env={**os.environ, **threads.SETTINGS})
            rows = json.loads(Path(folder, "facts.json").read_text())
        for row in rows:
            fitted = "fitted" if name in FITTED else ""
            print(
                f"{name:20} {row['stage']:14} {row['estimated']:9.2f} s, measured {row['measured']:9.2f} s: {row['ratio']:.2f} {fitted}"
            )
        known = [row for row in known if row["graph"] != name] + rows
    given.out.write_text(json.dumps(known, indent=1) + "\n")
    if given.fit:
        factors: dict[str, list[float]] = {}
        for row in known:
            if row["graph"] in FITTED and row["measured"] >= 0.05:
                factors.setdefault(row["stage"], []).append(row["factor"] / row["ratio"])
        print({stage: float(f"{np.exp(np.mean(np.log(values))):.3g}") for stage, values in factors.items()})


if __name__ == "__main__":
    main()
