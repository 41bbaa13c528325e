"""What a GPU does: the same numbers as the CPU, and the time of each stage.

    python benchmarks/device.py --graph coauthor_cs.npz --tasks coauthor_cs.tasks.npz           every part
    python benchmarks/device.py --only protocol --graph ... --tasks ... --out protocol.json     one of them
    python benchmarks/device.py --page                                                          the table of docs/scale.md

| part | what is measured |
|---|---|
| agreement | tables, one encoding and a short training on CPU and GPU |
| protocol | naq-feat/protonet: 16,000 episodes and 100 evaluations of validation and test tasks, with recorded steps and with plain ones; accuracy with its interval; one whole run |
| precision | naq-feat/protonet on each graph of --graphs: five seeds in float32 and with products in TF32 (torch's own switch), seconds and test accuracy |
| maml | naq-feat/maml: 1,000 meta-updates of 16 tasks and 100 evaluations of the validation tasks |
| naq-plus | vectors of debian, median of three |
| euclidean | exact top-100 of 2.45 million rows of 100 numbers |
| learners | `naq reproduce model-agnostic`, 5-way 1-shot, two seeds: 36 cells of the standard budget, some at a time (start `nvidia-cuda-mps-control -d` first, so that they share the GPU) |
| diffusion | top-100 by push on a graph with power-law degrees, 2.45 million nodes and 62 million edges, all cores; the whole table, or with --rows a sample and what the table would take |

Everything is compiled before it is timed. Checkpoints are chosen by validation tasks alone; test tasks are solved at every evaluation only to spend the time that the
released code spends on them. Results: benchmarks/results/device.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import naq
from marked_page import write_between
from naq.files import write_json
from naq.heads import evaluate
from naq.run.config import RunConfig
from naq.run.evaluate import validation_accuracy
from naq.run.run import training_steps
from naq.run.tasks import EvaluationTasks, evaluation_tasks
from naq.training import EpisodeTraining, fit

SWITCH = "NAQ_CUDA_GRAPHS"

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "results" / "device.json", HERE.parent / "docs" / "scale.md"
BEGIN, END = "<!-- device:begin -->", "<!-- device:end -->"


def now() -> float:
    torch.cuda.synchronize()
    return time.perf_counter()


def agreement(given: argparse.Namespace) -> dict[str, Any]:
    from naq.nn import GCN, GraphOperator

    graph, found = naq.load(given.graph), {}
    for metric in ("cosine", "euclidean", "jaccard"):
        one, two = (naq.feature_neighbors(graph, 10, metric=metric, device=d) for d in ("cpu", "cuda"))
        found[f"feature table {metric}: equal ids"] = float((one.ids == two.ids).mean())
    one, two = (naq.diffusion_neighbors(graph, 10, method="exact", device=d) for d in ("cpu", "cuda"))
    found["diffusion table: equal ids"] = float((one.ids == two.ids).mean())
    cpu, cuda = (GCN(GraphOperator(graph, d), 256, seed=1).encode_all().cpu() for d in ("cpu", "cuda"))
    found["encode_all: largest difference"] = float((cpu - cuda).abs().max())
    found["encode_all: largest value"] = float(cpu.abs().max())
    for method in ("naq-feat/protonet", "naq-diff/protonet"):
        results = {}
        for device in ("cpu", "cuda"):
            start = now()
            results[device] = naq.run(
                graph, method, features="auto", episodes=640, device=device, tasks=given.tasks, cache=None
            )
            found[f"{method} {device}: seconds"] = round(now() - start, 2)
            found[f"{method} {device}: training seconds"] = round(results[device].seconds["train"], 2)
            found[f"{method} {device}: accuracy"] = results[device].accuracy
            found[f"{method} {device}: validation"] = results[device].history.valid_accuracy
        scale = float(np.abs(results["cpu"].embedding).max())
        gap = float(np.abs(results["cpu"].embedding - results["cuda"].embedding).max())
        same = results["cpu"].facts["best_step"] == results["cuda"].facts["best_step"]
        found[f"{method}: largest difference of embeddings after training, relative"] = gap / scale if same else None
    return found


def trained(config: RunConfig, graph: naq.Graph, source: EvaluationTasks, *, test: bool) -> dict[str, Any]:
    """Seconds of each stage of one training, and the accuracy of what was chosen."""
    begin, seconds = now(), {}
    steps = training_steps(config, graph, source, seconds=seconds)
    built, model, solver = now(), steps.model, config.solver
    assert solver is not None
    spent = 0.0

    def validate() -> float:
        nonlocal spent
        start = time.perf_counter()
        found = validation_accuracy(model, source.valid, solver)
        if test:
            validation_accuracy(model, source.test, solver)
        spent += time.perf_counter() - start
        return found

    chosen = fit(steps, validate, config.schedule)
    end = now()
    with torch.no_grad():
        answer = evaluate(model.encode_all(), source.test, solver)
    return {
        "recorded": type(steps) is not EpisodeTraining,
        "episodes": len(steps.episodes) if isinstance(steps, EpisodeTraining) else 0,
        "table and episodes": round(seconds["episodes"], 2),
        "model": round(built - begin - seconds["episodes"], 2),
        "training with evaluations": round(end - built, 2),
        "host in evaluations": round(spent, 2),
        "all": round(end - begin, 2),
        "evaluations": len(chosen.history.steps),
        "best step": chosen.best_step,
        "accuracy": round(100 * answer.accuracy, 2),
        "interval": round(100 * answer.ci95, 2),
    }


def protocol(given: argparse.Namespace) -> dict[str, Any]:
    graph = naq.load(given.graph)
    source = evaluation_tasks(graph, None, given.tasks, way=5, shot=1)
    resolve = lambda episodes: RunConfig.resolve("naq-feat/protonet", episodes=episodes, device="cuda")  # noqa: E731
    trained(resolve(320), graph, source, test=True)  # compiles
    found: dict[str, Any] = {}
    for name, switch in {"recorded": "1", "plain": "0"}.items():
        if name not in given.steps:
            continue
        os.environ[SWITCH] = switch
        found[name] = trained(resolve(given.episodes), graph, source, test=True)
        print(name, json.dumps(found[name]), flush=True)
    os.environ[SWITCH] = "1"
    if "recorded" not in given.steps:
        return found
    start = now()
    result = naq.run(graph, episodes=given.episodes, device="cuda", tasks=given.tasks, cache=None)
    found["one whole run"] = {"all": round(now() - start, 2)} | {k: round(v, 2) for k, v in result.seconds.items()}
    if given.profile is not None:
        profiled(resolve(1600), graph, source, given.profile)
    return found


def profiled(config: RunConfig, graph: naq.Graph, source: EvaluationTasks, path: Path) -> None:
    """Which kernels the recorded steps spend their time in."""
    steps = training_steps(config, graph, source)
    for update in range(400):
        steps.step(update)
    torch.cuda.synchronize()
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as profile:
        for update in range(400, 600):
            steps.step(update)
        torch.cuda.synchronize()
    path.write_text(profile.key_averages().table(sort_by="cuda_time_total", row_limit=40, max_name_column_width=90))


def of_seeds(graph: naq.Graph, source: EvaluationTasks, episodes: int, seeds: range, way: int) -> dict[str, Any]:
    """Trainings of some seeds one after the other; what is recorded is recorded by a short training before."""
    configs = [
        RunConfig.resolve("naq-feat/protonet", way=way, episodes=episodes, seed=seed, device="cuda") for seed in seeds
    ]
    trained(RunConfig.resolve("naq-feat/protonet", way=way, episodes=320, device="cuda"), graph, source, test=False)
    found = [trained(config, graph, source, test=False) for config in configs]
    seconds = sum(one["training with evaluations"] for one in found)
    return {
        "seeds": len(seeds),
        "episodes": episodes,
        "seconds": round(seconds, 2),
        "microseconds an update": round(1e6 * seconds / (episodes * len(seeds))),
        "accuracy": [one["accuracy"] for one in found],
    }


def precision(given: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in given.graphs:
        graph = naq.load(path)
        way = 5 if len(np.unique(graph.require_labels("this benchmark"))) > 10 else 2
        source = evaluation_tasks(graph, str(path), None, way=way, shot=1)
        found[graph.name] = {"way": way}
        for name, tf32 in (("float32", False), ("tf32", True)):
            torch.backends.cuda.matmul.allow_tf32 = tf32
            found[graph.name][name] = of_seeds(graph, source, 3200, range(5), way)
        torch.backends.cuda.matmul.allow_tf32 = False
        print(graph.name, json.dumps(found[graph.name]), flush=True)
    return found


def maml(given: argparse.Namespace) -> dict[str, Any]:
    graph = naq.load(given.graph)
    source = evaluation_tasks(graph, None, given.tasks, way=5, shot=1)
    trained(RunConfig.resolve("naq-feat/maml", episodes=320, device="cuda"), graph, source, test=False)
    config = RunConfig.resolve("naq-feat/maml", episodes=16 * given.updates, device="cuda")
    if given.profile is not None:
        kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        steps = training_steps(config, graph, source)
        with torch.profiler.profile(activities=kinds) as profile:
            for update in range(10):
                steps.step(update)
            torch.cuda.synchronize()
        table = profile.key_averages().table
        text = table(sort_by="cuda_time_total", row_limit=25) + table(sort_by="cpu_time_total", row_limit=25)
        given.profile.write_text(text)
    return {"meta-updates": given.updates} | trained(config, graph, source, test=False)


def naq_plus(given: argparse.Namespace) -> dict[str, Any]:
    graph, seconds = naq.load("debian"), []
    for _ in range(4):
        start = now()
        naq.embed(graph, "naq-plus", device="cuda")
        seconds.append(now() - start)
    return {"first": round(seconds[0], 2), "median of three": round(statistics.median(seconds[1:]), 2)}


def euclidean(given: argparse.Namespace) -> dict[str, Any]:
    from naq.neighbors.feature_exact import block_topk
    from naq_scale.screened import euclidean_topk

    n, found = given.nodes, {}
    rows = np.random.default_rng(0).standard_normal((n, 100), dtype=np.float32)
    euclidean_topk(rows[:20_000], 100, "cuda")
    start = now()
    ids, scores = euclidean_topk(rows, 100, "cuda")
    found["seconds"] = round(now() - start, 2)
    few = (n // 2, n // 2 + 64)
    true_ids, true_scores = block_topk(rows, 100, "euclidean", "cuda", None, seeds=few)
    found["equal ids on 64 rows"] = float((ids[slice(*few)] == true_ids).mean())
    found["largest relative difference of distances"] = float(
        np.abs(scores[slice(*few)] / true_scores - 1).max(initial=0)
    )
    return {"rows": n, **found, "tera-operations a second": round(2e-12 * n * n * 100 / found["seconds"], 1)}


def learners(given: argparse.Namespace) -> dict[str, Any]:
    """The table of six learners with labels, NaQ-Feat and NaQ-Diff, as a user computes it; a cell that fails ends the benchmark."""
    naq_command = [sys.executable, "-m", "naq", "reproduce", "model-agnostic", "-d", given.graph, "--device", "cuda"]
    naq_command += ["--way", "5", "--shot", "1", "--seeds", "2"]
    plan = subprocess.run([*naq_command, "--plan", "--json"], check=True, capture_output=True, text=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        subprocess.run([*naq_command, "--workers", str(given.workers), "--out", folder], check=True)
        seconds = time.perf_counter() - start
    return {"cells": len(json.loads(plan)["cells"]), "at a time": given.workers, "seconds": round(seconds, 1)}


def diffusion(given: argparse.Namespace) -> dict[str, Any]:
    import numba

    from diffusion_scale import power_law
    from naq.neighbors.diffusion import push_arrays
    from naq.neighbors.push import push_topk

    start = time.perf_counter()
    graph = power_law(given.nodes, round(given.nodes * 62 / 2.45))
    made = time.perf_counter() - start
    found: dict[str, Any] = {"nodes": given.nodes, "edges": graph.num_edges, "seconds to generate": round(made, 1)}
    start = time.perf_counter()
    indptr, indices, others, twin = push_arrays(graph, self_loops=True)
    found["arrays"] = round(time.perf_counter() - start, 2)
    there = np.flatnonzero(others)
    took = []
    for rows in (
        64,
        64,
        given.rows or len(there),
    ):  # the first compiles, the second is what a table takes whatever its rows
        asked = np.zeros_like(others)
        chosen = there[np.linspace(0, len(there) - 1, min(rows, len(there))).astype(int)]
        asked[chosen] = others[chosen]
        start = time.perf_counter()
        ids = push_topk(indptr, indices, asked, twin, 100, 0.1, 1e-4)[0]
        took.append(time.perf_counter() - start)
    once, each = took[1], (took[2] - took[1]) / (len(chosen) - 64)
    whole = len(chosen) == len(there)
    return found | {
        "rows": len(chosen),
        "seconds": round(took[2], 2),
        "once": round(once, 2),
        "threads": numba.get_num_threads(),
        "neighbours": int((ids >= 0).sum()),
        "seconds of the table": round(found["arrays"] + (took[2] if whole else once + each * len(there))),
        "whole": whole,
    }


PARTS = {
    "agreement": agreement, "protocol": protocol, "precision": precision, "maml": maml, "naq-plus": naq_plus, "euclidean": euclidean, "diffusion": diffusion, "learners": learners,
}  # fmt: skip


def table(found: dict[str, Any]) -> str:
    """The results as a table in Markdown; what was not measured is left out."""
    rows: list[tuple[str, str]] = []
    for name, words in {"recorded": "recorded steps", "plain": "plain steps"}.items():
        if (one := found.get("protocol", {}).get(name)) is not None:
            rows.append((
                f"naq-feat/protonet on coauthor_cs, {one['episodes']:,} episodes and {one['evaluations']} evaluations of 550 tasks, {words}",
                f"{one['training with evaluations']} s, the host spends {one['host in evaluations']} s of it on evaluations; with table, episodes and model {one['all']} s; accuracy {one['accuracy']} ± {one['interval']} %",
            ))  # fmt: skip
    if (run := found.get("protocol", {}).get("one whole run")) is not None:
        parts = ", ".join(f"{name} {value}" for name, value in run.items() if name != "all")
        rows.append(("the whole run (50 tasks at each evaluation, 500 at the end by every head, and the baseline)", f"{run['all']} s: {parts}"))  # fmt: skip
    if (some := found.get("together")) is not None:
        each = ", ".join(f"{one['microseconds an update']} μs with {count}" for count, one in some.items())
        rows.append(("naq-feat/protonet, an update of a seed, seeds side by side in one process", each))
    if (one := found.get("maml")) is not None:
        rows.append((f"naq-feat/maml on coauthor_cs, {one['meta-updates']:,} meta-updates and {one['evaluations']} evaluations of 50 tasks", f"{one['training with evaluations']} s"))  # fmt: skip
    if (one := found.get("naq-plus")) is not None:
        rows.append(("naq-plus on debian, median of three", f"{one['median of three']} s"))
    if (one := found.get("euclidean")) is not None:
        rows.append((f"exact Euclidean top-100 of {one['rows']:,} x 100", f"{one['seconds']} s, {one['tera-operations a second']} tera-operations a second"))  # fmt: skip
    if (one := found.get("diffusion")) is not None:
        what = f"{one['seconds of the table']:,} s" if one["whole"] else f"{one['seconds']} s for {one['rows']:,} rows; the table would take {one['seconds of the table']:,} s"  # fmt: skip
        rows.append((f"diffusion top-100, {one['nodes']:,} nodes and {one['edges']:,} edges, {one['threads']} threads", what))  # fmt: skip
    if (one := found.get("learners")) is not None:
        rows.append((f"six learners with labels, NaQ-Feat and NaQ-Diff, {one['cells']} cells of the standard budget, {one['at a time']} at a time", f"{one['seconds']} s"))  # fmt: skip
    if (one := found.get("precision")) is not None:
        for graph, some in one.items():
            full, short = (np.array(some[name]["accuracy"]) for name in ("float32", "tf32"))
            change = short - full
            rows.append((
                f"products in TF32 instead of float32, five seeds side by side on {graph}, {some['way']}-way 1-shot",
                f"{some['tf32']['microseconds an update']} instead of {some['float32']['microseconds an update']} μs an update; accuracy {short.mean():.2f} instead of {full.mean():.2f} %, of a seed {change.min():+.2f} to {change.max():+.2f} points",
            ))  # fmt: skip
    if (one := found.get("agreement")) is not None:
        ids = ", ".join(f"{name.split(':')[0]} {100 * value:.3f} %" for name, value in one.items() if name.endswith("equal ids"))  # fmt: skip
        rows.append(("CPU and GPU, equal entries of the tables of 10 neighbours", ids))
        for method in ("naq-feat/protonet", "naq-diff/protonet"):
            rows.append((f"CPU and GPU, {method} after 640 episodes, the same test tasks", f"{100 * one[f'{method} cpu: accuracy']:.2f} and {100 * one[f'{method} cuda: accuracy']:.2f} %"))  # fmt: skip
    lines = [f"| {what} | {seconds} |" for what, seconds in rows]
    head = f"{found['device']}, torch {found['torch']}, {found['cores']} cores:\n\n| what | measured |\n|---|---|\n"
    return head + "\n".join(lines)


def write_page() -> None:
    write_between(PAGE, BEGIN, END, table(json.loads(RESULTS.read_text())))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--graph", default="debian")
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--episodes", type=int, default=16_000, help="of the protocol")
    parser.add_argument("--steps", nargs="+", choices=("recorded", "plain"), default=["recorded", "plain"])
    parser.add_argument("--updates", type=int, default=1000, help="of maml")
    parser.add_argument("--nodes", type=int, default=2_450_000, help="of euclidean and diffusion")
    parser.add_argument("--rows", type=int, default=0, help="of diffusion; 0 for all")
    parser.add_argument(
        "--graphs", nargs="+", default=["debian"], help="of precision: names, or paths with tasks beside them"
    )
    parser.add_argument("--workers", type=int, default=8, help="cells of learners at a time")
    parser.add_argument("--profile", type=Path, help="a file for the kernels of protocol or maml")
    parser.add_argument("--out", type=Path, default=RESULTS, help="JSON; parts that are there and not asked for stay")
    parser.add_argument("--page", action="store_true", help="measure nothing, write the table of docs/scale.md")
    given = parser.parse_args()
    if given.page:
        return write_page()
    found: dict[str, Any] = json.loads(given.out.read_text()) if given.out.exists() else {}
    found |= {"device": torch.cuda.get_device_name(0), "torch": str(torch.__version__), "cores": os.cpu_count()}
    for name in given.only:
        found[name] = found.get(name, {}) | PARTS[name](given)
        print(name, json.dumps(found[name], indent=2), flush=True)
        write_json(given.out, found)
    return None


if __name__ == "__main__":
    main()
