"""``naq neighbors --engine`` and ``naq embed --engine``: made in shards, in this process, in processes or on a Ray cluster."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naq.errors import OptionError
from naq_scale.engines import check_engine, make_engine

if TYPE_CHECKING:
    import numpy as np

    from naq.graph import Graph
    from naq.neighbors import NeighborTable
    from naq.progress import Listener


@dataclass(frozen=True)
class Sharding:
    """How shards are computed; none of it changes what is made."""

    engine: str
    workers: int
    address: str | None
    shards: int


def sharding_of(engine: str, workers: int, address: str | None, shards: int | None) -> Sharding | None:
    """What the options ask for; None where nothing is made in shards."""
    if shards is not None and shards < 1:
        raise OptionError(f"--shards is {shards}; expected at least 1.")
    if workers < 1:
        raise OptionError(f"--workers is {workers}; expected at least 1.")
    check_engine(engine, workers, address)
    if engine == "local" and shards is None:
        return None
    return Sharding(engine, workers, address, shards or 8 * (1 if engine == "local" else workers))


def shard_folder(out: Path) -> Path:
    return out.with_name(out.name + ".shards")


def remove_shards(out: Path) -> None:
    """Once what they are parts of is written they are not needed any more."""
    shutil.rmtree(shard_folder(out), ignore_errors=True)


def _source(graph: Graph, folder: Path, imported: bool) -> str:
    """Where workers find the graph: its file or folder, or a copy in the folder of shards if it came from several files."""
    from naq.io import save_graph

    if imported or graph.source is None:
        return str(save_graph(folder / "graph.npz", graph).absolute())
    source = Path(graph.source)
    return str(source.absolute() if source.exists() else graph.source)  # else it is the name of a dataset


def embed_in_shards(
    graph: Graph, plan: Sharding, out: Path, method: str, seed: int, options: Mapping[str, Any], listener: Listener, *,
    imported: bool,
) -> np.ndarray:  # fmt: skip
    """The vectors of :func:`naq.embed` in blocks, bit for bit; the folder of shards goes once they are written."""
    from naq.methods import get_method
    from naq_scale.blocks import IN_BLOCKS, embed_to
    from naq_scale.sharded import ShardedParts

    kind = get_method(method).embedder
    if kind is None or kind.name not in IN_BLOCKS:
        raise OptionError(f"{method} does not work in blocks, so not in shards; use naq-plus or smooth.")
    model, folder = kind(graph, seed=seed, **options), shard_folder(out)

    def tell(stage: str, done: int, total: int) -> None:
        listener("shards", {"stage": stage, "done": done, "total": total})

    with make_engine(plan.engine, plan.workers, plan.address) as engine:
        processes = 1 if plan.engine == "local" else plan.workers
        source = _source(graph, folder, imported)
        parts = ShardedParts(graph, engine, folder, source, shards=plan.shards, processes=processes, tell=tell)
        vectors = embed_to(model, out, parts=parts)
    remove_shards(out)
    return vectors


def make_in_shards(
    graph: Graph, plan: Sharding, out: Path, by: str, k: int, metric: str, search: str, alpha: float, self_loops: bool,
    method: str, fill: str, *, imported: bool,
) -> NeighborTable:  # fmt: skip
    """The table that the options describe, as :func:`~naq.cli.inspecting.make_table` makes it in one piece.

    Args:
        imported: the graph came from several files, so that workers are given a copy in the folder of shards.
    """
    from naq.cli.progress import show_progress
    from naq.neighbors import feature_neighbors
    from naq.neighbors.diffusion import TOLERANCE, diffusion_info
    from naq.neighbors.feature import feature_info
    from naq.neighbors.table import check_fill, filled
    from naq_scale.sharded import sharded_table

    check_fill(fill, ("none", "lowest", "random") if by == "features" else ("none", "lowest", "random", "feature"))
    if by == "features":
        info = feature_info(graph, k, metric, search)
    else:
        info = diffusion_info(graph, k, alpha=alpha, self_loops=self_loops, method=method, tolerance=TOLERANCE)
    folder, n = shard_folder(out), graph.num_nodes
    source = _source(graph, folder, imported)
    with show_progress("neighbours") as listener, make_engine(plan.engine, plan.workers, plan.address) as engine:

        def tell(done: int, total: int) -> None:
            listener("neighbors", {"done": done * n // total, "total": n})

        table = sharded_table(graph, info, plan.shards, engine, folder, source, tell)
    return filled(table, fill, feature_ids=lambda: feature_neighbors(graph, k).ids, graph=graph)
