"""Tables and embeddings in shards, computed by any engine and put together here: the bits are those of one process.

A shard of a table is a range of its rows, one of an embedding is of one of its steps (:mod:`naq_scale.blocks`). Each is
a folder of arrays with checksums, named by a hash of everything that it is made from, and is there whole or not at all:
one that is there already is not made again, a damaged one is.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

import naq
from naq.errors import DataError, NaqError, OptionError
from naq.files import write_atomically
from naq.graph import Graph
from naq.neighbors import NeighborTable
from naq.neighbors.diffusion import PushArrays, diffusion_rows, exact_rows, push_arrays, share_refined
from naq.neighbors.feature import complete_info, feature_rows
from naq_scale.array_folder import FolderWriter, check_sums, new_folder, read_manifest
from naq_scale.blocks.shards import Arrays, BlockArray, Bounds, Inputs, Shards, Step, as_block_arrays, compute_blocks
from naq_scale.engines import Call, Engine, Smaller, no_smaller

KIND, VERSION = "naq-shard", 1
HALVED, FEWEST = ("rows_at_once", "columns_at_once"), 8
"""Facts that shards are not named by, since results do not depend on them but for the last bits: halved where memory is
short, but not below the fewest."""
Source = tuple[str, str]
"""Where workers find the graph, "" if there is none yet, and its hash without labels, "" if it is not compared."""
Tell = Callable[[int, int], None]
"""Is called with (shards done, shards in all)."""


class FileArray:
    """An array in a file that is open only while it is read: a process may not open as many as there are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        array = self._open()
        self.shape, self.ndim, self.dtype = array.shape, array.ndim, array.dtype

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: Any) -> np.ndarray:
        return self._open()[rows]

    def _open(self) -> np.ndarray:
        try:
            found: np.ndarray = np.load(self.path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise DataError(f"{self.path} cannot be read ({error}); start again: it is computed anew.") from error
        return found


Shard = tuple[dict[str, Any], dict[str, FileArray]]
"""Its manifest and its arrays."""


def shard_name(*description: Any) -> str:
    """The name of what is made, by this version, from what is described by JSON values."""
    text = json.dumps([naq.__version__, *description], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def read_shard(folder: Path, *, verify: bool = True) -> Shard | None:
    """Manifest and arrays of a shard; None, and what is left of it removed, where it is missing or damaged."""
    try:
        manifest = read_manifest(folder, KIND, VERSION)
        if verify:
            check_sums(folder, manifest)
        arrays = {name: FileArray(folder / f"{name}.npy") for name in manifest["arrays"]}
        for name, entry in manifest["arrays"].items():
            if list(arrays[name].shape) != entry["shape"] or arrays[name].dtype.str != entry["dtype"]:
                raise DataError(f"{arrays[name].path} holds another array.")
    except (DataError, KeyError, TypeError):
        shutil.rmtree(folder, ignore_errors=True)
        return None
    return manifest, arrays


def make_shards(
    engine: Engine, function: Callable[..., Any], calls: Mapping[Path, tuple[Any, ...]],
    keep: Callable[[Path, Any], None] | None = None, tell: Tell = lambda done, total: None,
    smaller: Smaller = no_smaller,
) -> list[Shard]:  # fmt: skip
    """The shards of the folders in ``calls``; missing ones are made by ``function``, written by it or ``keep``."""
    found = {folder: read_shard(folder) for folder in calls}
    left = [folder for folder, shard in found.items() if shard is None]
    tell(len(calls) - len(left), len(calls))
    try:
        made = engine.run(function, [calls[folder] for folder in left], smaller)
        for done, (number, result) in enumerate(made, 1):
            if keep is not None:
                keep(left[number], result)
            found[left[number]] = read_shard(left[number], verify=False)
            tell(len(calls) - len(left) + done, len(calls))
    except Exception as error:
        if isinstance(error, NaqError):
            raise
        raise NaqError(f"a shard failed: {type(error).__name__}: {error}") from error
    shards = [shard for shard in found.values() if shard is not None]
    if len(shards) < len(calls):
        raise DataError("shards are damaged as soon as they are written; check the disk or choose another folder.")
    return shards


def make_table_in_shards(
    graph: Graph, info: Mapping[str, Any], shards: int, engine: Engine, folder: Path, source: str,
    tell: Tell = lambda done, total: None,
) -> NeighborTable:  # fmt: skip
    """The table that ``info`` describes; rows come back from the workers, which need not see ``folder``.

    Args:
        info: see :func:`~naq.neighbors.diffusion.diffusion_info` and :func:`~naq.neighbors.feature.feature_info`.
        shards: ranges of rows; an exact diffusion table and an approximate feature table are made whole.
        source: where workers find the graph.
    """
    n, whole = graph.num_nodes, info.get("method") == "exact" or info.get("search") == "approximate"
    bounds = np.linspace(0, n, 1 + (1 if whole else min(shards, n))).astype(int).tolist()
    origin = source, graph.without_labels().hash
    calls = {
        folder / shard_name("rows", origin[1], dict(info), part): (origin, dict(info), part)
        for part in pairwise(bounds)
    }

    def keep(place: Path, rows: tuple[np.ndarray, np.ndarray, dict[str, Any]]) -> None:
        with new_folder(place, KIND, VERSION) as writer:
            writer.put("ids", rows[0])
            writer.put("scores", rows[1])
            writer.facts |= rows[2]

    made = make_shards(engine, table_rows, calls, keep, tell)
    ids, scores = (np.concatenate([arrays[name][:] for _, arrays in made]) for name in ("ids", "scores"))
    about = complete_info(info) if info["kind"] == "feature" else dict(info)
    if info.get("method") == "push":
        about |= share_refined((sum(m["refined"][0] for m, _ in made), sum(m["refined"][1] for m, _ in made)))
    return NeighborTable(ids, scores, {**about, **made[0][0].get("recall", {})})


def table_rows(source: Source, info: Mapping[str, Any], rows: tuple[int, int]) -> tuple[Any, Any, dict[str, Any]]:
    """ids and scores of the rows first..last-1, and ``refined`` (how many nodes, of how many) or ``recall``."""
    graph = _graph(source)
    graph.check_files()
    facts: dict[str, Any] = {}
    if info["kind"] == "feature":
        ids, scores, recall = feature_rows(graph, info, rows)
        facts = {"recall": recall} if recall else {}
    elif info["method"] == "push":
        ids, scores, facts["refined"] = diffusion_rows(_push_arrays(source, info["self_loops"]), info, rows)
    elif rows == (0, graph.num_nodes):
        ids, scores = exact_rows(graph, info)
    else:
        raise OptionError("an exact diffusion table is made whole; expected one shard, or the method push.")
    graph.check_files()
    return ids, scores, facts


@lru_cache(maxsize=1)
def _graph(source: Source) -> Graph:
    """Once for all shards that a worker makes."""
    graph = naq.load(source[0]).without_labels()
    if source[1] and graph.hash != source[1]:
        raise DataError(f"{source[0]} is not the graph that the shards are made of; start again.")
    return graph


@lru_cache(maxsize=1)
def _push_arrays(source: Source, self_loops: bool) -> PushArrays:
    return push_arrays(_graph(source), self_loops)


class FileShards(Shards):
    """The shards of an embedding, in ``folder``, which every worker has to see.

    Args:
        graph: what shards are made of; None while there is none.
        source: where workers find the graph.
        shards: of a step at most.
        processes: workers that share the memory of this machine.
        tell: is called with (step, shards done, shards in all).
        key: what shards are named by in place of the graph's hash, for a graph that only this folder has.
    """

    def __init__(
        self, graph: Graph | None, engine: Engine, folder: Path, source: str, *, shards: int, processes: int = 1,
        tell: Callable[[str, int, int], None] = lambda step, done, total: None, key: str = "",
    ) -> None:  # fmt: skip
        self.shards, self.processes = shards, processes
        self._engine, self._folder, self._tell = engine, folder.absolute(), tell
        self._source = source, "" if key or graph is None else graph.without_labels().hash
        self._key = key or self._source[1]
        self._folder.mkdir(parents=True, exist_ok=True)

    def run(self, step: Step, bounds: Bounds, facts: Mapping[str, Any], inputs: Inputs) -> list[Arrays]:
        name, paths = step.__name__.strip("_").replace("_", " "), {}
        grids = {
            key: BlockArray([[self._in_file(array) for array in line] for line in pieces.grid])
            for key, pieces in as_block_arrays(inputs).items()
        }
        for key, pieces in grids.items():
            paths[key] = [[str(array.path.relative_to(self._folder)) for array in line] for line in pieces.grid]
        calls = {}
        for part in bounds:
            named = {fact: value for fact, value in facts.items() if fact not in HALVED}
            place = self._folder / shard_name("part", self._key, name, part, named, paths)
            calls[place] = (self._source, place, step, part, dict(facts), grids)
        tell = partial(self._tell, name)
        made = make_shards(self._engine, write_part, calls, tell=tell, smaller=_smaller_call)
        return [arrays for _, arrays in made]  # type: ignore[misc]

    def forget(self, made: Sequence[Arrays]) -> None:
        for part in made:
            for array in part.values():
                shutil.rmtree(array.path.parent, ignore_errors=True)  # type: ignore[attr-defined]

    def _in_file(self, array: np.ndarray | FileArray) -> FileArray:
        """The array in a file named by its content; columns stay together where they are together in memory, since BLAS
        adds in an order that depends on it."""
        if isinstance(array, FileArray):
            return array
        turned = array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous
        kept = np.asfortranarray(array) if turned else np.ascontiguousarray(array)
        digest = hashlib.blake2b(f"{kept.shape}{kept.dtype.str}{turned}".encode(), digest_size=16)
        digest.update((kept.T if turned else kept).data.cast("B") if kept.size else b"")
        path = self._folder / f"{digest.hexdigest()}.npy"

        def write(file: Path) -> None:
            with file.open("wb") as stream:
                np.save(stream, kept, allow_pickle=False)

        write_atomically(path, write)
        return FileArray(path)


def write_part(
    source: Source,
    place: Path,
    step: Step,
    part: tuple[int, int],
    facts: Mapping[str, Any],
    inputs: Mapping[str, BlockArray],
) -> None:
    """Compute a shard of a step and write its arrays to the folder ``place``."""
    if not place.parent.is_dir():
        raise DataError(
            f"this worker does not see the folder {place.parent}, through which the shards of an embedding pass; "
            "choose --out on a file system that all machines share."
        )
    graph = _graph(source) if source[0] else None
    while True:
        try:
            with new_folder(place, KIND, VERSION) as writer:
                _write_blocks(step, graph, facts, inputs, part, writer)
            return
        except (MemoryError, RuntimeError) as error:
            short = isinstance(error, MemoryError | torch.OutOfMemoryError) or "allocate memory" in str(error)
            if not short or (smaller := _halved(facts)) is None:
                raise
            facts = smaller


def _write_blocks(
    step: Step, graph: Any, facts: Mapping[str, Any], inputs: Mapping[str, BlockArray], part: tuple[int, int],
    writer: FolderWriter,
) -> None:  # fmt: skip
    if graph is not None:
        graph.check_files()
    files: dict[str, Any] = {}
    for block in compute_blocks(step, graph, facts, inputs, *part):
        for name, array in block.items():
            if name not in files:
                files[name] = writer.array(name, array.dtype, array.shape[1:])
            files[name].append(array)
    if graph is not None:
        graph.check_files()


def _halved(facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """The facts with half as many rows or columns at once; None where that is not possible."""
    name = next((one for one in HALVED if facts.get(one, 0) > FEWEST), None)
    return None if name is None else {**facts, name: facts[name] // 2}


def _smaller_call(call: Call) -> Call:
    """Of :func:`write_part`."""
    facts = _halved(call[4])
    return call if facts is None else (*call[:4], facts, *call[5:])
