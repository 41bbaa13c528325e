"""``neighbors``: some rows of a neighbour table, so that a table can be made in shards.

The rows travel in the record, as text that JSON can hold, with their checksum: workers need not see the store.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from naq.errors import DataError, OptionError
from naq.graph import Graph
from naq.neighbors.diffusion import PushArrays, diffusion_rows, exact_rows, push_arrays
from naq.neighbors.feature import feature_rows
from naq_paper.cells.cell import Cell
from naq_paper.measurements.base import Context, register_measurement

TYPES = IDS, SCORES = "<i4", "<f4"


def neighbors_cell(dataset: str, info: Mapping[str, Any], first: int, last: int) -> Cell:
    """The rows first..last-1 of the table that ``info`` describes."""
    table = {"solver" if name == "method" else name: value for name, value in info.items()}
    return Cell("neighbors", {"dataset": dataset, "table": table, "rows": [first, last]})


@register_measurement("neighbors")
def neighbors(config: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """``ids`` and ``scores`` of the rows, packed; ``refined``: how many nodes were refined, and of how many, where a push made them; ``recall`` of an approximate table."""
    graph = context.dataset_cache.graph(str(config["dataset"]))
    info, (first, last) = config["table"], config["rows"]
    counts, recall = None, None
    graph.check_files()

    def progress(done: int, total: int) -> None:
        context.listener("neighbors", {"done": done, "total": total})

    if info["kind"] == "feature":
        ids, scores, recall = feature_rows(graph, info, (first, last), progress=progress)
    elif info["solver"] == "push":
        ids, scores, counts = diffusion_rows(_push_arrays(graph, info["self_loops"]), info, (first, last), progress)
    elif (first, last) == (0, graph.num_nodes):
        ids, scores = exact_rows(graph, info, progress=progress)
    else:
        raise OptionError("an exact diffusion table is made whole; expected one shard, or the method push.")
    graph.check_files()
    found = {"ids": packed(ids, IDS), "scores": packed(scores, SCORES), "refined": counts}
    return {**found, "recall": recall} if recall else found


@lru_cache(maxsize=1)
def _push_arrays(graph: Graph, self_loops: bool) -> PushArrays:
    """Once for all shards that a worker makes."""
    return push_arrays(graph, self_loops)


def packed(array: np.ndarray, kind: str) -> dict[str, Any]:
    """An array of numbers as JSON values."""
    content = np.ascontiguousarray(array, dtype=kind).tobytes()
    text = base64.b64encode(content).decode("ascii")
    return {"type": kind, "shape": list(array.shape), "base64": text, "checksum": _checksum(content)}


def unpacked(value: Any) -> np.ndarray:
    """The array of :func:`packed`; ``DataError`` for anything else and for one whose checksum differs."""
    try:
        if value["type"] not in TYPES:
            raise DataError(f"a shard holds numbers of type {value['type']!r}; expected {' or '.join(TYPES)}.")
        content = base64.b64decode(value["base64"], validate=True)
        if _checksum(content) != value["checksum"]:
            raise DataError("the rows of a shard do not fit their checksum.")
        return np.frombuffer(content, dtype=value["type"]).reshape(value["shape"])
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"a shard holds no rows of a table ({error!r}).") from error


def _checksum(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
