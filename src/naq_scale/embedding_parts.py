"""``embedding``: a part of a stage of an embedding in blocks, so that one can be made in shards.

Its arrays are too large for a record: they go to a folder that everyone sees, and the record names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from naq.errors import DataError
from naq_paper.cells.cell import Cell
from naq_paper.measurements.base import Context, register_measurement
from naq_scale.array_folder import ArrayFile
from naq_scale.arrays import SharedArrays, disk_error
from naq_scale.blocks import Pieces, Work, computed


def embedding_cell(
    dataset: str, stage: str, part: tuple[int, int], facts: Mapping[str, Any], inputs: Mapping[str, str]
) -> Cell:
    """Part first..last-1 of a stage (:mod:`naq_scale.blocks.parts`), from these grids of arrays."""
    config = {"dataset": dataset, "stage": stage, "part": list(part), "facts": dict(facts), "inputs": dict(inputs)}
    return Cell("embedding", config)


@register_measurement("embedding")
def embedding(config: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """``arrays``: what describes each array of the part."""
    if context.arrays is None or context.scratch is None or not context.arrays.is_dir():
        raise DataError(
            f"this worker does not see the folder {context.arrays}, through which the shards of an embedding pass; choose --out on a file system that all machines share."
        )
    graph = context.dataset_cache.graph(str(config["dataset"])).without_labels()
    graph.check_files()
    shared = SharedArrays(context.arrays)
    inputs = {name: _opened(shared.folder, digest) for name, digest in config["inputs"].items()}
    files: dict[str, ArrayFile] = {}
    try:
        for piece in computed(str(config["stage"]), Work(graph, config["facts"], inputs), *config["part"]):
            for name, array in piece.items():
                if name not in files:
                    files[name] = shared.writer(context.scratch, name, array)
                files[name].append(array)
        graph.check_files()
        return {"arrays": {name: shared.keep(file) for name, file in files.items()}}
    except OSError as error:
        raise disk_error(error, shared.folder) from error
    finally:
        for file in files.values():
            file.abandon()


@lru_cache(maxsize=16)
def _opened(folder: Path, digest: str) -> Pieces:
    """Once for all shards of a stage that a worker makes."""
    return SharedArrays(folder).open_grid(digest)
