"""``naq neighbors --engine``: a table made in shards, in this process, in processes or on a Ray cluster."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naq.errors import OptionError

if TYPE_CHECKING:
    from naq.graph import Graph
    from naq.neighbors import NeighborTable


@dataclass(frozen=True)
class Sharding:
    """How shards are computed; none of it changes the table."""

    engine: str
    workers: int
    address: str | None
    shards: int


def check_sharding(out: Path | None, shards: int | None, by: str) -> None:
    """Validate the options before anything is loaded."""
    if out is None:
        raise OptionError("a table in shards needs --out T.npz; its finished shards are kept beside it.")
    if shards is not None and shards < 1:
        raise OptionError(f"--shards is {shards}; expected at least 1.")
    if by not in ("features", "diffusion"):
        raise OptionError(f"--by is {by!r}; expected features or diffusion.")


def shard_folder(out: Path) -> Path:
    return out.with_name(out.name + ".shards")


def remove_shards(out: Path) -> None:
    """Once the table is written they are not needed any more."""
    shutil.rmtree(shard_folder(out), ignore_errors=True)


def make_in_shards(
    graph: Graph, plan: Sharding, out: Path, by: str, k: int, metric: str, alpha: float, self_loops: bool, method: str,
    fill: str, *, imported: bool,
) -> NeighborTable:  # fmt: skip
    """The table that the options describe, as :func:`~naq.cli.inspecting.make_table` makes it in one piece.

    Args:
        imported: the graph came from several files, so that workers are given a copy in the folder of shards.
    """
    from naq.cli.progress import show_progress
    from naq.data import save_graph
    from naq.grid.runners import make_runner
    from naq.grid.shards import shard_cells, sharded_table
    from naq.grid.store import Store
    from naq.neighbors import feature_neighbors
    from naq.neighbors.diffusion import TOLERANCE, diffusion_info
    from naq.neighbors.feature import feature_info
    from naq.neighbors.fill import check_fill, filled

    check_fill(fill, ("none", "lowest", "random") if by == "features" else ("none", "lowest", "random", "feature"))
    if by == "features":
        info = feature_info(graph, k, metric)
    else:
        info = diffusion_info(graph, k, alpha=alpha, self_loops=self_loops, method=method, tolerance=TOLERANCE)
    store = Store(shard_folder(out))
    source = str(graph.source)
    if imported or graph.source is None:
        source = str(save_graph(store.folder / "graph.npz", graph).absolute())
    cells = shard_cells("graph", info, graph.num_nodes, plan.shards)
    with show_progress("neighbours") as listener, make_runner(plan.engine, plan.workers, plan.address) as runner:
        done = 0

        def shown(phase: str, facts: Mapping[str, Any]) -> None:
            nonlocal done
            if phase == "plan":
                done = facts["skipped"]
            elif phase == "finished":
                done += facts["state"] != "failed"
            listener("neighbors", {"done": done * graph.num_nodes // len(cells), "total": graph.num_nodes})

        table = sharded_table(cells, info, graph.num_nodes, runner, store, {"graph": source}, shown)
    return filled(table, fill, feature_ids=lambda: feature_neighbors(graph, k).ids)
