r"""Time and memory of each stage of a run before it is run.

Memory follows from sizes. A stage takes :math:`\text{factor} \cdot \text{work} / \text{rate}` seconds: work follows
from the sizes of the graph and the method's options, rates are of this machine at this moment, from a probe of about a
second. Factors are how far the stage's own code is from the probe's; they were measured once (docs/scale.md
compares estimates with measured times) and change with the code, not with the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from operator import mul
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from naq.graph import Graph
from naq.io import load
from naq.io.tables.roles import id_columns
from naq.methods import Method, get_method
from naq.neighbors.vectors import EXACT_NODES
from naq.options import check_whole
from naq.run.config import EPISODES
from naq.run.episodes import check_takes_table
from naq_scale import near_vectors
from naq_scale.block_views import WIDTH
from naq_scale.blocks.closed_form import CENTRES, PROBES, SEARCHED
from naq_scale.parts import TEXTS, ParquetParts

FACTORS: dict[str, float] = {
    "load": 3.7, "words": 0.9, "smoothing": 1.9, "neighbours": 0.81, "closed form": 3.5, "diffusion table": 45.0,
    "training": 1.3, "evaluation": 0.12,
}  # fmt: skip
"""Measured seconds of a stage over work / rate."""
PROCESS = 0.35e9
"""Bytes of a process with torch and numba in it."""
TASKS, TASK_NODES = 550, 45
"""Validation and test tasks, and nodes of one."""


@dataclass(frozen=True)
class Sizes:
    """What costs depend on: ``entries`` of the adjacency are two per edge, ``feature_entries`` the non-zeros of sparse
    features; ``end_degree`` is the mean degree of the node at the end of an edge, since hubs are met more often."""

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
    """Of a graph, or of what :func:`naq.load` reads."""
    graph = source if isinstance(source, Graph) else load(source)
    degrees, features = graph.degrees.astype(np.float64), graph.features
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
    """About a second of the kinds of work that stages do."""
    import torch

    from naq_scale.tiles import multiply_tile

    random, n, width = np.random.default_rng(0), 100_000, 64
    graph = Graph(random.integers(0, n, (2, 5 * n)), nodes=n)
    held, block = random.random((n, width), dtype=np.float32), np.empty(1 << 23, dtype=np.float32)
    left, right, weight = torch.rand(1024, 384), torch.rand(384, 1024), torch.rand(64, 64, requires_grad=True)

    def steps() -> None:
        for _ in range(50):
            torch.relu(weight @ weight).sum().backward()

    return Rates(
        gather=4.0 * width * (graph.adjacency.nnz + n) / _seconds(lambda: multiply_tile(graph, held)),
        matmul=2.0 * 1024 * 384 * 1024 / _seconds(lambda: left @ right),
        copy=2.0 * block.nbytes / _seconds(block.copy),
        steps=50 / _seconds(steps),
    )


def _seconds(work: Callable[[], Any], budget: float = 0.25) -> float:
    """Mean of one call after the first, over a quarter of a second."""
    work()
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
        return {**asdict(self), "seconds": self.seconds, "memory": self.memory}

    def __str__(self) -> str:
        disk = max(stage.disk for stage in self.stages)
        rows = [*self.stages, Stage("together", self.seconds, self.memory, disk)]
        cells = [("stage", "seconds", "memory, GB", "disk, GB")]
        cells += [(s.name, f"{s.seconds:,.1f}", f"{s.memory / 1e9:.2f}", f"{s.disk / 1e9:.2f}") for s in rows]
        where = "memory-mapped" if self.sizes.mapped else "in memory"
        sizes = f"{self.sizes.nodes:,} nodes and {self.sizes.entries // 2:,} edges ({where})"
        head = f"{self.method} on {sizes}; a factor of two either way is possible:"
        return "\n".join([head, *(f"{a:<18}{b:>12}{c:>13}{d:>11}" for a, b, c, d in cells)])


def estimate(
    sizes: Sizes, method: str = "naq-plus", *, episodes: int = EPISODES, options: Mapping[str, Any] | None = None,
    rates: Rates | None = None, table: bool = False,
) -> Estimate:  # fmt: skip
    """Stages of a run of ``method``; ``rates`` are probed if not given; with ``table`` none is made."""
    found, episodes = get_method(method), check_whole("episodes", episodes)
    if table:
        check_takes_table(found)
    model = object.__new__(found.model)
    vars(model)["graph"] = SimpleNamespace(num_nodes=sizes.nodes, num_features=sizes.features, name="graph")
    model.configure(options or {})
    chosen, rates = {**found.model.defaults, **dict(model.options)}, probe() if rates is None else rates
    learns = found.learner is not None
    given = found, sizes, rates, chosen
    stages = _trained(*given, episodes, table) if learns else _embedded(*given)
    return Estimate(found.name, sizes, (_load(sizes, rates), *stages))


def _stage(name: str, ideal: float, memory: float, disk: float = 0.0) -> Stage:
    return Stage(name, FACTORS[name] * ideal, PROCESS + memory, disk)


def _load(s: Sizes, r: Rates) -> Stage:
    if s.mapped:
        index = 4.0 * s.entries + (4.0 * s.feature_entries if s.sparse else 0.0)
        return _stage("load", 2.0 * index / r.copy, 20.0 * s.nodes)
    held = 12.0 * s.entries + (12.0 if s.sparse else 4.0) * s.feature_entries
    return _stage("load", 60.0 * held / r.copy, 5.0 * held)


def _embedded(method: Method, s: Sizes, r: Rates, options: Mapping[str, Any]) -> list[Stage]:
    """Neighbours are cosines of pairs of rows, offered to the lists of the nearest (some 64 bytes of work each); the
    closed form pairs and the Gram matrix in float64, which takes twice as long, and two products of all rows."""
    dim, steps, n = int(options.get("dim", 384)), int(options.get("steps", 10)), float(s.nodes)
    width = min(dim, s.features or dim, s.nodes)
    rows, narrow = 4.0 * s.nodes * width, s.features > width
    passes = (32 if s.mapped and s.sparse else 8) * (width + 16) if narrow else 1  # mapped: X^T X row by row
    words = 5.8 * s.feature_entries * passes / r.gather if s.sparse else 800.0 * s.feature_entries / r.copy
    if narrow and not s.sparse:
        words += 2.0 * s.feature_entries * passes / r.matmul
    smoothing = (steps + 1) * 4.0 * (s.entries + s.nodes) * width / r.gather
    disk = 2.0 * rows if s.mapped else 0.0
    block = 4.0 * 65_536 * (width + (0 if s.sparse else s.features))
    a_hat = 0.0 if s.mapped else 36.0 * (s.entries + s.nodes)
    if s.mapped and n > SEARCHED:
        offered = SEARCHED * PROBES * n / CENTRES
        search = 2.0 * width * (n * CENTRES + offered) / r.matmul + 320.0 * offered / r.copy  # members are gathered
    elif n <= EXACT_NODES["cpu"]:
        search = width * n * n / r.matmul + 64.0 * n * n / r.copy
    else:  # clusters, and half as much for the passes
        offered = 1.5 * n * near_vectors.PROBES * near_vectors.MEMBERS
        search = 2.0 * width * offered / r.matmul + 64.0 * offered / r.copy
    multiplied = (4.0 * 10.0 * (min(s.nodes, SEARCHED) if s.mapped else s.nodes) + 8.0 * n) * width * width
    closed = multiplied / r.matmul + 64.0 * rows / r.copy
    stages = [
        _stage("words", words, 4 * block if s.mapped else 24.0 * s.feature_entries + 2 * rows, disk / 2),
        _stage("smoothing", smoothing, 3.0 * rows + a_hat + 28.0 * s.nodes, disk),  # start, now and next
        _stage("neighbours", search, 2 * block if s.mapped else 3 * rows, disk),
        _stage("closed form", closed, 6 * block if s.mapped else 3 * rows, disk),
        _evaluation(s, r, width),
    ]
    return [stage for stage in stages if method.name != "smooth" or stage.name not in ("neighbours", "closed form")]


def sizes_of_parts(folder: Path) -> Sizes:
    """Of a folder of Parquet parts, from what the files say about themselves."""
    nodes, edges = ParquetParts(folder, "nodes"), ParquetParts(folder, "edges")
    kinds = [kind for name, kind in nodes.columns.items() if name != id_columns(list(nodes.columns))[0]]
    wide = sum(getattr(kind, "list_size", 1) if kind not in TEXTS else WIDTH for kind in kinds)
    return Sizes(nodes.rows, 2 * edges.rows, wide, nodes.rows * wide, False, True, 2.0 * edges.rows / nodes.rows)


MEASURED = Rates(gather=16.8e9, matmul=94e9, copy=13.9e9, steps=2.1e4)
"""Of one core of the machine that :data:`PARTS` were measured on, at ten million nodes (docs/scale.md)."""
PARTS: dict[str, tuple[str, tuple[float, ...], tuple[float, ...], tuple[float, ...]]] = {
    "ids": ("copy", (2e8, 170, 0, 0, 0), (1e8, 20, 0, 0), (0, 16, 0, 0)),
    "sample of features": ("copy", (1e9, 0, 13, 0, 0), (5e8, 20, 0, 0), (0, 16, 0, 0)),
    "edges": ("copy", (0, 0, 0, 480, 0), (4e8, 20, 0, 0), (0, 24, 0, 32)),
    "features": ("copy", (0, 0, 57, 0, 0), (8e8, 0, 0, 0), (0, 28, 4, 8)),
    "smoothing": ("gather", (0, 0, 0, 0, 3.8), (4e8, 28, 12, 0), (0, 28, 8, 8)),
    "neighbours": ("gather", (0, 0, 0, 0, 2.1), (4e8, 28, 12, 0), (0, 40, 16, 8)),
    "views": ("matmul", (1e10, 0, 0, 0, 0), (9e8, 0, 0, 0), (0, 40, 16, 8)),
    "labels": ("matmul", (4e8, 350, 0, 0, 0), (8e8, 8, 0, 0), (0, 40, 16, 8)),
    "predictions": ("matmul", (0, 0, 89, 0, 0), (8e8, 0, 0, 0), (0, 80, 16, 8)),
}
"""Stages of ``naq predict FOLDER``: the rate that decides; nanoseconds at all, for each node, number of its row, edge
and number that an edge fetches; bytes of memory, and on disk with all that was there before, of the first four."""


def estimate_parts(sizes: Sizes, rates: Rates | None = None) -> Estimate:
    """Stages of ``naq predict FOLDER``."""
    rates, n = probe() if rates is None else rates, float(sizes.nodes)
    numbers = n * min(WIDTH, sizes.features or WIDTH)
    units, stages = (1.0, n, numbers, sizes.entries / 2, numbers * sizes.degree), []
    for name, (rate, *costs) in PARTS.items():
        nanoseconds, held, stored = (sum(map(mul, each, units)) for each in costs)
        seconds = 1e-9 * nanoseconds * getattr(MEASURED, rate) / getattr(rates, rate)
        stages.append(Stage(name, seconds, PROCESS + held, stored))
    return Estimate("naq predict", sizes, tuple(stages))


def _evaluation(s: Sizes, r: Rates, width: int) -> Stage:
    return _stage("evaluation", TASKS * 20 / r.steps + 4.0 * s.nodes * width / r.copy, 8.0 * TASKS * TASK_NODES * width)


def _trained(method: Method, s: Sizes, r: Rates, options: Mapping[str, Any], episodes: int, table: bool) -> list[Stage]:
    latent, cap = int(options.get("latent", 256)), float(options.get("hub_cap", 0)) or float("inf")
    stages = []
    if method.episodes == "naq-diff" and not table:
        visits = 20_000.0 * (1.0 + s.degree / 10.0)
        stages.append(_stage("diffusion table", 4.0 * s.nodes * visits / r.gather, 4.0 * s.entries + 170.0 * s.nodes))
    nodes = min(float(s.nodes), 55.0 * (1 + min(s.degree, cap)))
    inputs = nodes * (1 + min(s.end_degree, cap)) * 4.0 * min(s.features, 64) if s.mapped else 0.0
    row = s.feature_entries / s.nodes * (1 + min(s.degree, cap)) if s.sparse else float(s.features)
    row = min(float(s.features), 10 * row)  # a sparse product is about ten times slower per multiplication
    flops = 6.0 * nodes * 2 * latent * (row + latent)
    update = 20 / r.steps + inputs / r.gather + flops / r.matmul + 40.0 * s.features * 2 * latent / r.copy
    memory = 8.0 * nodes * 3 * latent + 16.0 * s.features * 2 * latent + 24.0 * s.nodes
    stages.append(_stage("training", episodes * update, memory + (0.0 if s.mapped else 36.0 * s.entries)))
    tasks, rows = _evaluation(s, r, latent), 4.0 * s.nodes * latent
    encoding = FACTORS["evaluation"] * 2.0 * s.nodes * 2 * latent * (row + latent) / r.matmul
    disk = 2 * rows if s.mapped else 0.0
    return [*stages, Stage("evaluation", tasks.seconds + encoding, tasks.memory + 3 * rows, disk)]
