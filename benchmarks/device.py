"""CUDA beside the CPU: the same run on both, and how far apart the numbers are.

    python benchmarks/device.py [--graph PATH --tasks PATH] [--episodes 640]

Prints the agreement of neighbour tables, of one encoding with equal weights, of a short training, and the time of a run.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import naq


def agreement(graph: naq.Graph, tasks: Path | None, episodes: int) -> dict[str, Any]:
    import numpy as np
    import torch

    from naq.encoders import GCN, GraphOperator

    found: dict[str, Any] = {"device": torch.cuda.get_device_name(0), "torch": str(torch.__version__)}
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
            start = time.perf_counter()
            results[device] = naq.run(
                graph, method, features="auto", episodes=episodes, device=device, tasks=tasks, cache=None
            )
            if device == "cuda":
                torch.cuda.synchronize()
            found[f"{method} {device}: seconds"] = round(time.perf_counter() - start, 2)
            found[f"{method} {device}: training seconds"] = round(results[device].seconds["train"], 2)
            found[f"{method} {device}: accuracy"] = results[device].accuracy
            found[f"{method} {device}: validation"] = results[device].history.valid_accuracy
        scale = float(np.abs(results["cpu"].embedding).max())
        gap = float(np.abs(results["cpu"].embedding - results["cuda"].embedding).max())
        same = results["cpu"].facts["best_step"] == results["cuda"].facts["best_step"]
        found[f"{method}: largest difference of embeddings after training, relative"] = gap / scale if same else None
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--graph", default="debian")
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--episodes", type=int, default=640)
    parser.add_argument("--full", action="store_true", help="also the paper's whole schedule on CUDA")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    graph = naq.load(given.graph)
    found = agreement(graph, given.tasks, given.episodes)
    print(json.dumps(found, indent=2), flush=True)
    if given.full:
        for method in ("naq-feat/protonet", "naq-diff/protonet"):
            values = []
            for seed in range(3):
                result = naq.run(
                    graph, method, features="auto", seed=seed, episodes=3200, device="cuda", tasks=given.tasks
                )
                values.append(round(100 * result.accuracy, 2))
                print(method, seed, str(result), {k: round(v, 1) for k, v in result.seconds.items()}, flush=True)
            found[f"{method} cuda, 3,200 episodes, three seeds"] = values
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
