r"""Time and memory of each stage of a run before it is run.

A stage costs :math:`\text{factor} \cdot \text{work} / \text{rate}`. Work follows from the sizes of the graph and the method's options. Rates are of this machine at this moment, from
a probe of about a second: bytes that a product with a sparse matrix gathers, multiplications of dense matrices, bytes that are copied, and small steps of torch. Factors are how far the stage's own code
is from the probe's; they were measured once (``benchmarks/estimate.py``, which also checks estimates against measured times) and change with the code, not with the machine.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from naq.graph import Graph
from naq.io import load
from naq.methods import Method, get_method
from naq.neighbors import approximate
from naq.neighbors.sampled import CENTRES, PROBES
from naq.neighbors.vectors import EXACT_NODES
from naq.options import merge_options
from naq.run.config import EPISODES
from naq.run.given_table import check_takes_table
from naq_scale.array_folder import read_manifest
from naq_scale.mapped import FORMAT, VERSION, FolderReader

FACTORS: dict[str, float] = {
    "load": 3.7,
    "words": 0.9,
    "smoothing": 1.9,
    "neighbours": 0.81,
    "closed form": 3.5,
    "diffusion table": 45.0,
    "training": 1.3,
    "evaluation": 0.12,
}
"""Measured seconds of a stage over work / rate."""
PROCESS = 0.35e9
"""Bytes of a process with torch and numba in it."""
TASKS, TASK_NODES = 550, 45
"""Validation and test tasks, and nodes of one."""


@dataclass(frozen=True)
class Sizes:
    """What costs depend on.

    Attributes:
        entries: of the adjacency, two per edge.
        feature_entries: non-zeros, or all where features are dense.
        end_degree: mean degree of the node at the end of an edge, :math:`\\sum d^2 / \\sum d`: hubs are met more often.
    """

    nodes: int
    entries: int
    features: int
    feature_entries: int
    sparse: bool
    mapped: bool
    end_degree: float

    @property
    def degree(self) -> float:
        return self.entries / self.nodes


def sizes_of(source: str | Path | Graph) -> Sizes:
    """Of a graph folder without reading it, but for its row pointers; of anything else by loading it."""
    path = Path(source) if not isinstance(source, Graph) else None
    if path is not None and FolderReader().fits(path):
        read_manifest(path, FORMAT, VERSION)
    graph = source if isinstance(source, Graph) else load(source)
    degrees = graph.degrees.astype(np.float64)
    features = graph.features
    entries = 0 if features is None else int(features.size if isinstance(features, np.ndarray) else features.nnz)
    ends = float((degrees**2).sum() / max(1.0, degrees.sum()))
    return Sizes(
        graph.num_nodes, graph.adjacency.nnz, graph.num_features, entries, graph.sparse_features, graph.mapped, ends
    )


@dataclass(frozen=True)
class Rates:
    """Of this machine, per second: bytes gathered, multiplications and additions, bytes copied, small torch steps."""

    gather: float
    matmul: float
    copy: float
    steps: float


@cache
def probe() -> Rates:
    """About a second of the kinds of work that stages do, each the best of some tries."""
    import torch

    from naq_scale.tiles import multiply

    random = np.random.default_rng(0)
    n, width = 100_000, 64
    graph = Graph(random.integers(0, n, (2, 5 * n)), nodes=n)
    held, a = random.random((n, width), dtype=np.float32), torch.rand(1024, 384)
    right, block = torch.rand(384, 1024), np.empty(1 << 23, dtype=np.float32)
    weight = torch.rand(64, 64, requires_grad=True)

    def step() -> None:
        for _ in range(50):
            torch.relu(weight @ weight).sum().backward()

    seconds = {}
    for name, work in {
        "gather": lambda: multiply(graph, held),
        "matmul": lambda: a @ right,
        "copy": lambda: block.copy(),
        "steps": step,
    }.items():
        work()
        seconds[name] = _best(work)
    return Rates(
        gather=4.0 * width * (graph.adjacency.nnz + n) / seconds["gather"],
        matmul=2.0 * 1024 * 384 * 1024 / seconds["matmul"],
        copy=2.0 * block.nbytes / seconds["copy"],
        steps=50 / seconds["steps"],
    )


def _best(work: Any, budget: float = 0.25) -> float:
    """Mean seconds of one call, over a quarter of a second: what a long stage meets beside other programs."""
    began, calls = time.perf_counter(), 0
    while calls < 3 or time.perf_counter() - began < budget:
        work()
        calls += 1
    return (time.perf_counter() - began) / calls


@dataclass(frozen=True)
class Stage:
    """One stage: seconds, bytes of memory at its peak, and bytes it leaves on disk or needs there."""

    name: str
    seconds: float
    memory: float
    disk: float = 0.0


@dataclass(frozen=True)
class Estimate:
    """All stages of one run."""

    method: str
    sizes: Sizes
    stages: tuple[Stage, ...]

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages)

    @property
    def memory(self) -> float:
        return max(stage.memory for stage in self.stages)

    def to_json(self) -> dict[str, Any]:
        stages = [vars(stage) for stage in self.stages]
        return {
            "method": self.method,
            "sizes": vars(self.sizes),
            "seconds": self.seconds,
            "memory": self.memory,
            "stages": stages,
        }

    def __str__(self) -> str:
        rows = [("stage", "seconds", "memory, GB", "disk, GB")]
        rows += [(s.name, f"{s.seconds:,.1f}", f"{s.memory / 1e9:.2f}", f"{s.disk / 1e9:.2f}") for s in self.stages]
        disk = max(stage.disk for stage in self.stages)
        rows.append(("together", f"{self.seconds:,.1f}", f"{self.memory / 1e9:.2f}", f"{disk / 1e9:.2f}"))
        lines = [f"{a:<18}{b:>12}{c:>13}{d:>11}" for a, b, c, d in rows]
        where = "memory-mapped" if self.sizes.mapped else "in memory"
        head = f"{self.method} on {self.sizes.nodes:,} nodes and {self.sizes.entries // 2:,} edges ({where}); a factor of two either way is possible:"
        return "\n".join([head, *lines])


def estimate(
    sizes: Sizes,
    method: str = "naq-plus",
    *,
    episodes: int = EPISODES,
    options: Mapping[str, Any] | None = None,
    rates: Rates | None = None,
    table: bool = False,
) -> Estimate:
    """Stages of a run of ``method``; ``rates`` are probed where they are not given. With ``table`` episodes are drawn from one that was made before."""
    found = get_method(method)
    if table:
        check_takes_table(found)
    chosen = merge_options(found.name, found.model.defaults, options or {})
    rates = probe() if rates is None else rates
    stages = [_load(sizes, rates)]
    if found.learner is not None:
        stages += _trained(found, sizes, rates, chosen, episodes, table)
    else:
        stages += _embedded(found, sizes, rates, chosen)
    return Estimate(found.name, sizes, tuple(stages))


def _stage(name: str, ideal: float, memory: float, disk: float = 0.0) -> Stage:
    return Stage(name, FACTORS[name] * ideal, PROCESS + memory, disk)


def _load(s: Sizes, r: Rates) -> Stage:
    index = 4.0 * s.entries + (4.0 * s.feature_entries if s.sparse else 0.0)
    if s.mapped:
        return _stage("load", 2.0 * index / r.copy, 20.0 * s.nodes)
    held = 12.0 * s.entries + (12.0 if s.sparse else 4.0) * s.feature_entries
    return _stage("load", 60.0 * held / r.copy, 5.0 * held)


def _embedded(method: Method, s: Sizes, r: Rates, options: Mapping[str, Any]) -> list[Stage]:
    width = min(int(options.get("dim", 384)), s.features or int(options.get("dim", 384)), s.nodes)
    rows, steps = 4.0 * s.nodes * width, int(options.get("steps", 10))
    narrow = s.features > width
    passes = (
        (32 if s.mapped and s.sparse else 8) * (width + 16) if narrow else 1
    )  # in blocks X^T X is applied row by row
    work = 5.8 * s.feature_entries * passes / r.gather if s.sparse else 800.0 * s.feature_entries / r.copy
    if narrow and not s.sparse:
        work += 2.0 * s.feature_entries * passes / r.matmul
    disk = 2.0 * rows if s.mapped else 0.0
    block = 4.0 * 65_536 * (width + (0 if s.sparse else s.features))
    held = 3.0 * rows  # start, now and next; a mapped graph takes narrower tiles where this is more than is free
    a_hat = 4.0 * s.entries if s.mapped else 36.0 * (s.entries + s.nodes)  # mapped: edges between places
    stages = [
        _stage("words", work, 4 * block if s.mapped else 24.0 * s.feature_entries + 2 * rows, disk / 2),
        _stage(
            "smoothing",
            (steps + 1) * 4.0 * (s.entries + s.nodes) * width / r.gather,
            held + a_hat + 28.0 * s.nodes,
            disk,
        ),
    ]
    if method.name != "smooth":
        stages.append(_stage("neighbours", _search(s, width, r), 2 * block if s.mapped else 3 * rows, disk))
        stages.append(
            _stage(
                "closed form",
                _multiplied(s, width) / r.matmul + 64.0 * rows / r.copy,
                6 * block if s.mapped else 3 * rows,
                disk,
            )
        )
    stages.append(_evaluation(s, r, width))
    return stages


def _multiplied(s: Sizes, width: int) -> float:
    """Multiplications and additions of the closed form: pairs and the Gram matrix in float64, which takes twice as long, and two products of all rows."""
    from naq_scale.blocks.closed_form import SEARCHED

    pairs = 10.0 * (min(s.nodes, SEARCHED) if s.mapped else s.nodes)
    return (4.0 * pairs + 8.0 * s.nodes) * width * width


def _search(s: Sizes, width: int, r: Rates) -> float:
    """Seconds to compute cosines of pairs of rows and to offer them to the lists of the nearest, some 64 bytes of work each."""
    from naq_scale.blocks.closed_form import SEARCHED

    n = float(s.nodes)
    if s.mapped and n > SEARCHED:
        offered = SEARCHED * PROBES * n / CENTRES
        compared = n * CENTRES + offered
        return 2.0 * width * compared / r.matmul + 320.0 * offered / r.copy  # members of clusters are gathered
    if n <= EXACT_NODES["cpu"]:
        compared, offered = n * n / 2, n * n
    else:
        compared = offered = (
            1.5 * n * approximate.PROBES * approximate.MEMBERS
        )  # clusters, and half as much for the passes
    return 2.0 * width * compared / r.matmul + 64.0 * offered / r.copy


def _evaluation(s: Sizes, r: Rates, width: int) -> Stage:
    return _stage("evaluation", TASKS * 20 / r.steps + 4.0 * s.nodes * width / r.copy, 8.0 * TASKS * TASK_NODES * width)


def _trained(method: Method, s: Sizes, r: Rates, options: Mapping[str, Any], episodes: int, table: bool) -> list[Stage]:
    latent = int(options.get("latent", 256))
    stages = []
    if method.episodes == "naq-diff" and not table:
        visits = 20_000.0 * (1.0 + s.degree / 10.0)
        stages.append(_stage("diffusion table", 4.0 * s.nodes * visits / r.gather, 4.0 * s.entries + 170.0 * s.nodes))
    cap = float(options.get("hub_cap", 0)) or float("inf")
    nodes = min(float(s.nodes), 55.0 * (1 + min(s.degree, cap)))
    inputs = nodes * (1 + min(s.end_degree, cap)) * 4.0 * min(s.features, 64) if s.mapped else 0.0
    row = s.feature_entries / s.nodes * (1 + min(s.degree, cap)) if s.sparse else float(s.features)
    row = min(float(s.features), 10 * row)  # a sparse product is about ten times slower per multiplication
    flops = 6.0 * nodes * 2 * latent * (row + latent)
    adam = 40.0 * s.features * 2 * latent / r.copy
    memory = 8.0 * nodes * 3 * latent + 16.0 * s.features * 2 * latent + 24.0 * s.nodes
    memory += 0.0 if s.mapped else 36.0 * s.entries
    stages.append(_stage("training", episodes * (20 / r.steps + inputs / r.gather + flops / r.matmul + adam), memory))
    evaluation = _evaluation(s, r, latent)
    whole = 2.0 * s.nodes * 2 * latent * (row + latent) / r.matmul
    rows = 4.0 * s.nodes * latent
    stages.append(
        Stage(
            "evaluation",
            evaluation.seconds + FACTORS["evaluation"] * whole,
            evaluation.memory + 3 * rows,
            2 * rows if s.mapped else 0.0,
        )
    )
    return stages
