"""Every figure of docs/results.md: its target, what the paper's code takes or gives, and what is measured here.

    python benchmarks/figures.py               all (about an hour on two cores; stopped, it resumes): make bench
    python benchmarks/figures.py tables step   some
    python benchmarks/figures.py --quick       without the long trainings

The real graphs are looked for in ``$NAQ_SHARED_DATA`` or ``../shared/data``. Times of the paper's code were taken on
two cores of the same kind of machine. Results: benchmarks/results/figures.json; exit code 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from naq.threads import prepare_process

prepare_process()  # before torch is loaded

import numpy as np

import naq
from measuring import DATA, RESULTS, machine
from naq.learners import LEARNERS

EPISODES, PATIENCE, RATE = 3200, 6, 2e-5
"""Of the accuracies; the learning rate has the best validation accuracy of 1e-4, 5e-5 and 2e-5."""
OVERLAP = {
    "amazon_clothing_network": (0.998, 2.077, 4.036),
    "amazon_electronics_network": (11.17, 16.96, 21.47),
    "cora_full_structure": (0.474, 1.014, 2.015),
}
"""Query overlap in the paper, in percent, of 5, 10 and 20 classes."""


@dataclass
class Figure:
    """One measured number; ``target`` is its bound, ``paper`` what the paper's code takes or gives."""

    name: str
    value: float
    unit: str
    target: str
    reached: bool
    paper: float | None = None
    note: str = ""


def below(name: str, value: float, unit: str, limit: float, paper: float | None = None, note: str = "") -> Figure:
    return Figure(name, value, unit, f"<= {limit:g} {unit}", value <= limit, paper, note)


def above(name: str, value: float, unit: str, limit: float, paper: float | None = None, note: str = "") -> Figure:
    return Figure(name, value, unit, f">= {limit:g} {unit}", value >= limit, paper, note)


def coauthor() -> naq.Graph:
    return naq.load(DATA / "coauthor_cs.npz")


def coauthor_tasks(part: str) -> naq.Tasks:
    return naq.Tasks.load(DATA / "coauthor_cs.tasks.npz", way=5, shot=1, part=part)


def best_of(repeat: int, call: Callable[[], Any]) -> tuple[float, Any]:
    """The least wall time, since other work on the machine only ever adds; and the last result."""
    times, result = [], None
    for _ in range(repeat):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return min(times), result


def tables() -> Iterator[Figure]:
    """Feature and diffusion tables; memory is the peak of a process that does nothing else."""
    graph = coauthor()
    small = naq.Graph(graph.adjacency[:400, :400], graph.features[:400])
    naq.feature_neighbors(small, 5)
    naq.diffusion_neighbors(small, 5, method="push")
    seconds, _ = best_of(3, lambda: naq.feature_neighbors(graph, 100))
    yield below("feature table, k = 100", seconds, "s", 10, 63)
    code = (
        f"import naq, resource; naq.feature_neighbors(naq.load({str(DATA / 'coauthor_cs.npz')!r}), 100);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)"
    )
    peak = float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
    yield below("feature table, peak memory of the process", peak, "GB", 1.5, note="dense n x n takes 1.34 GB per copy")
    seconds, table = best_of(3, lambda: naq.diffusion_neighbors(graph, 100, method="push"))
    yield below("diffusion table, k = 100, push", seconds, "s", 10, note="the paper's code: dense inverse, not timed")
    seconds, exact = best_of(1, lambda: naq.diffusion_neighbors(graph, 100, method="exact"))
    agree = sum(set(a) == set(b) for a, b in zip(table.ids[:, :10].tolist(), exact.ids[:, :10].tolist()))
    share, note = 100 * agree / graph.num_nodes, f"exact: {seconds:.0f} s"
    yield Figure("push = exact, share of top-10 sets", share, "%", "reported", True, None, note)


def episodes() -> Iterator[Figure]:
    """16,000 NaQ episodes from a table."""
    table = naq.feature_neighbors(coauthor(), 10)
    seconds, _ = best_of(3, lambda: naq.naq_episodes(table, way=5, queries=10, count=16_000))
    yield below("16,000 NaQ episodes", seconds, "s", 0.1, 279)


def step() -> Iterator[Figure]:
    """One training episode of ProtoNet."""
    graph = coauthor()
    for name, neighbors in (("NaQ-Feat", naq.feature_neighbors), ("NaQ-Diff", naq.diffusion_neighbors)):
        drawn = naq.naq_episodes(neighbors(graph, 10), count=210)
        learner = LEARNERS["protonet"](graph.without_labels(), way=5)
        optimizer, times = learner.optimizer(), []
        for i in range(210):
            start = time.perf_counter()
            learner.step(drawn[i : i + 1], i, optimizer)
            times.append(1e3 * (time.perf_counter() - start))
        low, middle, high = np.quantile(times[10:], [0.1, 0.5, 0.9])
        note = f"median of 200; 10th to 90th percentile {low:.0f} to {high:.0f} ms"
        yield below(f"one ProtoNet episode, {name}", float(middle), "ms", 50, 4325, note)


def evaluation() -> Iterator[Figure]:
    """One evaluation of 50 + 500 tasks: embed everything, then the probe."""
    learner = LEARNERS["protonet"](coauthor().without_labels(), way=5)
    parts = [coauthor_tasks(part) for part in ("valid", "test")]

    def once() -> None:
        vectors = learner.encode_all()
        for tasks in parts:
            naq.evaluate(vectors, tasks, "logistic")

    once()
    yield below("one evaluation of 550 tasks, logistic", best_of(3, once)[0], "s", 5, 1165)


def smooth() -> Iterator[Figure]:
    """The `smooth` baseline."""
    graph, test = coauthor(), coauthor_tasks("test")
    seconds, vectors = best_of(1, lambda: naq.embed(graph, "smooth"))
    for head, limit in (("prototype", 95.5), ("transductive", 98.0)):
        found = naq.evaluate(vectors, test, head)
        note = f"± {100 * found.ci95:.2f}; embedding in {seconds:.1f} s"
        yield above(f"smooth + {head}, 5-way 1-shot", 100 * found.accuracy, "%", limit, note=note)


def overlap() -> Iterator[Figure]:
    """Query overlap of NaQ-Diff on the paper's networks."""
    options = {"self_loops": False, "fill": "lowest", "method": "exact"}
    for name, paper in OVERLAP.items():
        table = naq.diffusion_neighbors(naq.load(DATA / f"{name}.npz"), 10, **options)
        for way, value in zip((5, 10, 20), paper):
            ours = 100 * naq.naq_episodes(table, way=way, queries=10, count=60_000).overlap_ratio()
            title = f"overlap, {name.split('_network')[0]}, {way}-way"
            note = f"difference {ours - value:+.3f}"
            yield Figure(title, ours, "%", f"{value} ± 0.15 %", abs(ours - value) <= 0.15, value, note)


def protocol() -> Iterator[Figure]:
    """The whole protocol once, on features as they are: 16,000 episodes, 100 validations, 500 test tasks."""
    result = _train("naq-feat/protonet", 0, 16_000, features="raw")
    seconds = sum(v for k, v in result.seconds.items() if k != "baseline")
    note = f"{100 * result.accuracy:.2f} ± {100 * result.ci95:.2f} % at {result.facts['best_step']:,} episodes"
    yield below("whole protocol, NaQ-Feat + ProtoNet", seconds, "s", 600, 51 * 3600, note)


def accuracy() -> Iterator[Figure]:
    """Mean test accuracy of three seeds."""
    for kind, paper in (("naq-feat", 93.29), ("naq-diff", 93.33)):
        found = [_train(f"{kind}/protonet", seed, EPISODES, RATE, PATIENCE) for seed in range(3)]
        values = [100 * r.accuracy for r in found]
        note = "seeds " + ", ".join(f"{v:.2f}" for v in values) + f"; interval over tasks ± {100 * found[0].ci95:.2f}"
        yield above(f"accuracy {kind} + protonet, logistic", sum(values) / 3, "%", 92.3, paper, note)


def _train(
    method: str, seed: int, count: int, lr: float = 1e-4, patience: int | None = None, features: str = "auto"
) -> naq.Result:
    folder = RESULTS / "runs" / f"{method.replace('/', '-')}-{count}-lr{lr:g}-{features}-seed{seed}"
    return naq.run(
        coauthor(), method, seed=seed, episodes=count, patience=patience, features=features, options={"lr": lr},
        tasks=DATA / "coauthor_cs.tasks.npz", out=folder, cache=None,
    )  # fmt: skip


QUICK = (tables, episodes, step, evaluation, smooth, overlap)
GROUPS = {group.__name__: group for group in (*QUICK, accuracy, protocol)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(GROUPS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="without accuracy and protocol")
    given = parser.parse_args()
    if not DATA.is_dir():
        parser.error(f"there is no folder {DATA}; set NAQ_SHARED_DATA to the folder with coauthor_cs.npz.")
    results = RESULTS / "figures.json"
    kept, missed = json.loads(results.read_text()) if results.exists() else {}, 0
    usual = [group.__name__ for group in QUICK] if given.quick else list(GROUPS)
    for name in given.names or usual:
        figures = []
        for one in GROUPS[name]():
            figures.append(asdict(one))
            missed += not one.reached
            paper = f", the paper's code {one.paper:,g} {one.unit}" if one.paper is not None else ""
            verdict = "" if one.reached else "  MISSED"
            print(f"{one.name:52}{one.value:>12,.3f} {one.unit}, {one.target}{paper}{verdict}  {one.note}", flush=True)
        kept[name] = {"machine": machine(), "figures": figures}
        results.write_text(json.dumps(kept, indent=2) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
