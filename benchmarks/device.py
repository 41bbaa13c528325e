"""What a GPU does: the same numbers as the CPU, and the time of each stage.

    python benchmarks/device.py --graph coauthor_cs.npz --tasks coauthor_cs.tasks.npz     every part
    python benchmarks/device.py --only protocol --graph ... --tasks ...                   one of them
    python benchmarks/device.py --page          the table of docs/scale.md

| part | what is measured |
|---|---|
| protocol | naq-feat/protonet: 16,000 episodes, 100 evaluations of 550 tasks, recorded and plain steps; one whole run |
| maml | naq-feat/maml: 1,000 meta-updates of 16 tasks and 100 evaluations of the validation tasks |
| naq-plus | vectors of debian, median of three |
| euclidean | exact top-100 of 2.45 million rows of 100 numbers |
| diffusion | top-100 by push, 2.45 million nodes and 62 million edges, all cores |
| agreement | tables and a short training on CPU and GPU |

Everything is compiled before it is timed. Checkpoints are chosen by validation tasks alone; test tasks are solved at
every evaluation only to spend the time that the released code spends on them. Results: benchmarks/results/device.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import numba
import numpy as np
import torch

import naq
from generate import generate
from measuring import DOCS, RESULTS, markdown, write_between
from naq.files import write_json
from naq.heads import evaluate
from naq.neighbors.diffusion import push_arrays
from naq.neighbors.push import push_topk
from naq.run.config import RunConfig
from naq.run.evaluate import EvaluationTasks, evaluation_tasks, validation_accuracy
from naq.run.run import training_steps
from naq.training import EpisodeTraining, fit
from naq_scale.screened import euclidean_topk

Rows = list[tuple[str, str]]


def now() -> float:
    torch.cuda.synchronize()
    return time.perf_counter()


def train(
    method: str, episodes: int, graph: naq.Graph, tasks: EvaluationTasks, *, test: bool
) -> tuple[EpisodeTraining, dict[str, float]]:
    """A training, and the seconds of its parts; the accuracy of what was chosen."""
    config = RunConfig.resolve(method, episodes=episodes, device="cuda")
    begin, seconds, spent = now(), {}, 0.0
    steps = training_steps(config, graph, tasks, seconds=seconds)
    built, model, head = now(), steps.model, config.solver
    assert head is not None

    def validate() -> float:
        nonlocal spent
        start = time.perf_counter()
        found = validation_accuracy(model, tasks.valid, head)
        if test:
            validation_accuracy(model, tasks.test, head)
        spent += time.perf_counter() - start
        return found

    chosen = fit(steps, validate, config.schedule)
    end = now()
    with torch.no_grad():
        answer = evaluate(model.encode_all(), tasks.test, head)
    facts = {"train": end - built, "evaluate": spent, "all": end - begin, "evaluations": len(chosen.history.steps)}
    return steps, facts | {"accuracy": 100 * answer.accuracy, "ci95": 100 * answer.ci95}


def protocol(given: argparse.Namespace) -> Rows:
    graph = naq.load(given.graph)
    tasks = evaluation_tasks(graph, given.tasks, way=5, shot=1)
    train("naq-feat/protonet", 320, graph, tasks, test=True)  # compiles
    rows = []
    for kind, switch in {"recorded": "1", "plain": "0"}.items():
        os.environ["NAQ_CUDA_GRAPHS"] = switch
        steps, found = train("naq-feat/protonet", given.episodes, graph, tasks, test=True)
        assert (type(steps) is not EpisodeTraining) == (kind == "recorded")
        what = f"naq-feat/protonet on {graph.name}, {given.episodes:,} episodes and {found['evaluations']} evaluations"
        spent = f"{found['train']:.2f} s, the host spends {found['evaluate']:.2f} s of it on evaluations"
        score = f"accuracy {found['accuracy']:.2f} ± {found['ci95']:.2f} %"
        text = f"{spent}; with table, episodes and model {found['all']:.2f} s; {score}"
        rows.append((f"{what} of 550 tasks, {kind} steps", text))
    os.environ["NAQ_CUDA_GRAPHS"] = "1"
    start = now()
    result = naq.run(graph, episodes=given.episodes, device="cuda", tasks=given.tasks, cache=None)
    parts = ", ".join(f"{name} {value:.2f}" for name, value in result.seconds.items())
    what = "the whole run (50 tasks at each evaluation, 500 at the end by every head, and the baseline)"
    return [*rows, (what, f"{now() - start:.2f} s: {parts}")]


def maml(given: argparse.Namespace) -> Rows:
    graph = naq.load(given.graph)
    tasks = evaluation_tasks(graph, given.tasks, way=5, shot=1)
    train("naq-feat/maml", 320, graph, tasks, test=False)
    found = train("naq-feat/maml", given.episodes, graph, tasks, test=False)[1]
    updates = f"{given.episodes // 16:,} meta-updates and {found['evaluations']} evaluations of 50 tasks"
    return [(f"naq-feat/maml on {graph.name}, {updates}", f"{found['train']:.2f} s")]


def naq_plus(given: argparse.Namespace) -> Rows:
    graph, seconds = naq.load("debian"), []
    for _ in range(4):
        start = now()
        naq.embed(graph, "naq-plus", device="cuda")
        seconds.append(now() - start)
    return [("naq-plus on debian, median of three", f"{statistics.median(seconds[1:]):.2f} s")]


def euclidean(given: argparse.Namespace) -> Rows:
    n = given.nodes
    rows = np.random.default_rng(0).standard_normal((n, 100), dtype=np.float32)
    euclidean_topk(rows[:20_000], 100, "cuda")
    start = now()
    ids, _ = euclidean_topk(rows, 100, "cuda")
    seconds = now() - start
    few = slice(n // 2, n // 2 + 64)
    squares = (rows.astype(np.float64) ** 2).sum(axis=1)
    for row, found in zip(rows[few].astype(np.float64), ids[few]):
        distances = squares - 2 * rows @ row
        nearest = np.argpartition(distances, 101)[:101]
        assert set(found) < set(nearest), "the table is not exact"
    rate = f"{2e-12 * n * n * 100 / seconds:.1f} tera-operations a second"
    return [(f"exact Euclidean top-100 of {n:,} x 100", f"{seconds:.2f} s, {rate}")]


def diffusion(given: argparse.Namespace) -> Rows:
    with tempfile.TemporaryDirectory() as folder:
        graph = naq.load(generate(f"{folder}/graph", given.nodes, round(given.nodes * 62 / 2.45), features=1))
    start = time.perf_counter()
    indptr, indices, others, twin = push_arrays(graph, self_loops=True)
    arrays = time.perf_counter() - start
    few = np.where(np.arange(len(others)) < 64, others, 0)
    for asked in (few, others):  # the first compiles
        start = time.perf_counter()
        push_topk(indptr, indices, asked, twin, 100, 0.1, 1e-4)
    what = f"diffusion top-100, {given.nodes:,} nodes and {graph.num_edges:,} edges, {numba.get_num_threads()} threads"
    return [(what, f"{arrays + time.perf_counter() - start:,.0f} s")]


def agreement(given: argparse.Namespace) -> Rows:
    graph, equal = naq.load(given.graph), {}
    for metric in ("cosine", "euclidean", "jaccard"):
        one, two = (naq.feature_neighbors(graph, 10, metric=metric, device=d) for d in ("cpu", "cuda"))
        equal[f"feature table {metric}"] = float((one.ids == two.ids).mean())
    one, two = (naq.diffusion_neighbors(graph, 10, method="exact", device=d) for d in ("cpu", "cuda"))
    equal["diffusion table"] = float((one.ids == two.ids).mean())
    ids = ", ".join(f"{name} {100 * share:.3f} %" for name, share in equal.items())
    rows = [("CPU and GPU, equal entries of the tables of 10 neighbours", ids)]
    for method in ("naq-feat/protonet", "naq-diff/protonet"):
        usual = {"features": "auto", "episodes": 640, "tasks": given.tasks, "cache": None}
        one, two = (100 * naq.run(graph, method, device=d, **usual).accuracy for d in ("cpu", "cuda"))
        rows.append((f"CPU and GPU, {method} after 640 episodes, the same test tasks", f"{one:.2f} and {two:.2f} %"))
    return rows


PARTS = {
    "protocol": protocol, "maml": maml, "naq-plus": naq_plus, "euclidean": euclidean, "diffusion": diffusion,
    "agreement": agreement,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--graph", default="debian")
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--episodes", type=int, default=16_000, help="of protocol and maml")
    parser.add_argument("--nodes", type=int, default=2_450_000, help="of euclidean and diffusion")
    parser.add_argument("--out", type=Path, default=RESULTS / "device.json", help="other parts that it has are kept")
    parser.add_argument("--page", action="store_true", help="measure nothing, write the table of docs/scale.md")
    given = parser.parse_args()
    found = json.loads(given.out.read_text()) if given.out.exists() else {"rows": {}}
    if given.page:
        rows = [row for part in PARTS for row in found["rows"].get(part, [])]
        write_between(
            DOCS / "scale.md", "device", f"{found['machine']}:\n\n" + markdown(("what", "measured"), rows, "|---|---|")
        )
        return
    found["machine"] = f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}, {os.cpu_count()} cores"
    for name in given.only:
        found["rows"][name] = PARTS[name](given)
        print(found["rows"][name], flush=True)
        write_json(given.out, found)


if __name__ == "__main__":
    main()
