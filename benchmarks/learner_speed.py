"""Seconds and memory of every learner, and MAML beside a plain one.

    python benchmarks/learner_speed.py                    all learners on the bundled graph, MAML against full-graph passes
    python benchmarks/learner_speed.py --device cuda      the same on an accelerator
    python benchmarks/learner_speed.py --only maml tent

Every learner runs in a process of its own, so that its peak memory is its own. One figure is the median over updates after a
warm-up; the ratio is to ProtoNet's episode under the same episodes, measured right before it. Results: benchmarks/results/learner_speed.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naq.threads import prepare_process

prepare_process()  # before torch is loaded

import naq

if TYPE_CHECKING:
    import numpy as np

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("NAQ_SHARED_DATA") or HERE.parents[1] / "shared" / "data")
RESULTS = HERE / "results" / "learner_speed.json"
KINDS = ("naq-feat", "naq-diff", "supervised", "g-umtra")
EPISODES = 96


def episodes_of(kind: str, graph: naq.Graph, learner: str) -> naq.Episodes:
    from naq.files import cache_folder
    from naq.io import split_for
    from naq.run.config import RunConfig
    from naq.run.episodes import draw_episodes

    config = RunConfig.resolve(f"{kind}/{learner}", episodes=2 * EPISODES)
    return draw_episodes(config, graph, split_for(graph.name, graph), cache=cache_folder())


def base_labels(kind: str, graph: naq.Graph) -> np.ndarray | None:
    import numpy as np

    from naq.io import split_for

    if kind != "supervised":
        return None
    return np.where(np.isin(graph.labels, split_for(graph.name, graph).base), graph.labels, -1)


def wait_for(device: str) -> None:
    if device != "cpu":
        import torch

        torch.cuda.synchronize()


def seconds_per_episode(learner_name: str, kind: str, graph: naq.Graph, device: str, **options: Any) -> list[float]:
    """Wall seconds per episode of each update after the first few."""
    from naq.learners import LEARNERS

    drawn = episodes_of(kind, graph, learner_name)
    learner = LEARNERS[learner_name](graph, way=5, device=device, base_labels=base_labels(kind, graph), **options)
    optimizer, size = learner.optimizer(), learner.episodes_per_update
    times = []
    for update in range(len(drawn) // size):
        wait_for(device)
        start = time.perf_counter()
        learner.step(drawn[update * size : (update + 1) * size], update, optimizer)
        wait_for(device)
        times.append((time.perf_counter() - start) / size)
        if update * size >= EPISODES and sum(times) * size > 20:
            break
    return times[max(1, len(times) // 4) :]


def one_learner(name: str, device: str) -> None:
    """In a process of its own: a JSON line per kind of episodes."""
    import numpy as np

    from naq.graph import weighted
    from naq.learners import LEARNERS

    graph = weighted(naq.load("debian"), "auto")
    found = {}
    for kind in KINDS:
        if kind in LEARNERS[name].unfit:
            continue
        times = seconds_per_episode(name, kind, graph, device)
        found[kind] = {
            "ms": 1e3 * float(np.median(times)),
            "low": 1e3 * float(np.quantile(times, 0.1)),
            "high": 1e3 * float(np.quantile(times, 0.9)),
        }
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(json.dumps({"kinds": found, "peak_gb": peak, **device_peak(device)}))


def device_peak(device: str) -> dict[str, float]:
    if device == "cpu":
        return {}
    import torch

    return {"device_gb": torch.cuda.max_memory_allocated() / 1e9}


def plain_maml_update(graph: naq.Graph, drawn: naq.Episodes, device: str) -> float:
    """Seconds of one meta-update as released: every forward pass over the whole graph, one task after the other."""
    import torch
    import torch.nn.functional as F

    from naq.graph.operators import csr_tensor

    adjacency, features = graph.normalized_adjacency(), graph.features
    a = csr_tensor(adjacency.indptr, adjacency.indices, adjacency.data, adjacency.shape, device, torch.float32)
    x = csr_tensor(features.indptr, features.indices, features.data, features.shape, device, torch.float32)
    generator = torch.Generator().manual_seed(0)
    shapes = ((graph.num_features, 128), (128,), (128, 64), (64,), (64, 5), (5,))
    start_weights = [(0.05 * torch.randn(shape, generator=generator)).to(device).requires_grad_() for shape in shapes]
    optimizer = torch.optim.Adam(start_weights, lr=3e-3)

    def forward(w: list[torch.Tensor]) -> torch.Tensor:
        hidden = torch.relu(a @ (x @ w[0]) + w[1])
        return torch.relu(a @ (hidden @ w[2]) + w[3]) @ w[4] + w[5]

    wait_for(device)
    begin = time.perf_counter()
    total: torch.Tensor | float = 0.0
    gradients = [torch.zeros_like(w) for w in start_weights]
    for t in range(len(drawn)):
        support, query = (torch.from_numpy(ids[t].ravel()).long().to(device) for ids in (drawn.support, drawn.query))
        labels, query_labels = (
            torch.arange(5, device=device).repeat_interleave(k) for k in (drawn.shot, drawn.queries)
        )
        weights = [w.detach().requires_grad_() for w in start_weights]
        for _ in range(10):
            inner = torch.autograd.grad(F.cross_entropy(forward(weights)[support], labels), weights)
            weights = [(w - 0.01 * g).detach().requires_grad_() for w, g in zip(weights, inner)]
        loss = F.cross_entropy(forward(weights)[query], query_labels)
        for into, g in zip(gradients, torch.autograd.grad(loss, weights)):
            into += g / len(drawn)
        total += loss.detach()
    for w, g in zip(start_weights, gradients):
        w.grad = g
    optimizer.step()
    wait_for(device)
    return time.perf_counter() - begin


def maml_against_plain(device: str) -> dict[str, Any]:
    """Both on coauthor_cs with the released defaults: 16 tasks, 10 inner steps, 128-64."""
    import numpy as np

    from naq.graph import weighted
    from naq.learners import LEARNERS

    graph = weighted(naq.load(DATA / "coauthor_cs.npz"), "auto").without_labels()
    drawn = naq.naq_episodes(naq.feature_neighbors(graph, 10, fill="random"), count=16 * 24)
    plain = min(plain_maml_update(graph, drawn[:16], device) for _ in range(1 if device == "cpu" else 3))
    found: dict[str, Any] = {"plain_s": plain}
    for order in ("first", "second"):
        learner = LEARNERS["maml"](graph, way=5, device=device, order=order)
        optimizer, times = learner.optimizer(), []
        for update in range(24):
            wait_for(device)
            start = time.perf_counter()
            learner.step(drawn[16 * update : 16 * update + 16], update, optimizer)
            wait_for(device)
            times.append(time.perf_counter() - start)
        found[order] = {"s": float(np.median(times[4:])), "ratio": plain / float(np.median(times[4:]))}
    return found


def main() -> None:
    from naq.learners import LEARNERS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one_learner(given.one, given.device)
        return
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    mine = kept.setdefault(given.device, {"machine": f"{os.cpu_count()} cores, {platform.machine()}"})
    if not given.only or "maml" in given.only:
        mine["maml_coauthor_cs"] = found = maml_against_plain(given.device)
        print(f"MAML on coauthor_cs, one meta-update of 16 tasks: plain full-graph {found['plain_s']:.2f} s; "
              f"first order {1e3 * found['first']['s']:.0f} ms ({found['first']['ratio']:.0f}x), second order {1e3 * found['second']['s']:.0f} ms")  # fmt: skip
    names = [name for name in LEARNERS if not given.only or name in given.only]
    for name in dict.fromkeys(["protonet", *names]):
        command = [sys.executable, __file__, "--one", name, "--device", given.device]
        mine[name] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        base = mine["protonet"]["kinds"]
        for kind, times in mine[name]["kinds"].items():
            times["ratio"] = times["ms"] / base[kind]["ms"]
            print(f"{name:9} {kind:10} {times['ms']:7.1f} ms per episode (10th to 90th percentile {times['low']:.1f} to {times['high']:.1f}), "
                  f"{times['ratio']:.2f} of ProtoNet's; peak of the process {mine[name]['peak_gb']:.2f} GB")  # fmt: skip
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
