"""``naq predict`` for a folder of Parquet parts: from files to a class for every node, in shards that are kept."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from typer import echo

from naq.classifier.confidence import Pool, learn
from naq.classifier.labels import Labels, check_enough, label_columns
from naq.classifier.page import verdicts
from naq.classifier.views import describe
from naq.device import checked_device
from naq.errors import DataError, OptionError
from naq.files import NO_SPACE, own_folder, read_json, recover, replace_folder, temporary_path, write_json
from naq.graph import Graph
from naq.graph.checks import FEW
from naq.io.tables.reading import open_table
from naq.io.tables.roles import Choice, find_column
from naq.io.tables.table import is_missing
from naq_scale.array_folder import MANIFEST
from naq_scale.block_views import SPREADS, WIDTH, BlockViews, learn_views, views_of, weights_of_rows
from naq_scale.blocks.shards import Arrays, Block, BlockArray, Shards
from naq_scale.blocks.smoothing import start_tiles
from naq_scale.cli import remove_shards, sharding_of
from naq_scale.engines import make_engine
from naq_scale.import_parts import ROWS, IdColumns, describe_nodes, join_edges, number_nodes, start_of_nodes
from naq_scale.mapped import open_graph
from naq_scale.node_ids import find_rows, keys_of
from naq_scale.parts import ParquetParts, graph_parts
from naq_scale.sharded import FileShards, shard_name
from naq_scale.tiles import columns_that_fit

DEFAULTS: dict[str, Any] = {
    "classes": None, "nodes": None, "text_encoder": None, "method": "naq-plus", "unknown": False, "level": 0.9,
    "report": None, "new": None, "edges": None,
}  # fmt: skip
"""Options that a folder of parts cannot have, and their values when they are not given."""
SUMMARY = "_summary.json"
"""In the folder of predictions; readers of Parquet leave out names that begin with _."""
AT_ONCE = 1 << 14
"""Nodes that are scored at once."""


def predict_parts(
    graph: str, out: Path, labels: Path | None, label: str | None, ignore: list[str], seed: int, device: str,
    as_json: bool, engine: str, workers: int, address: str | None, shards: int | None, **others: Any,
) -> None:  # fmt: skip
    """The command, with the options of :func:`~naq.cli.predicting.predict_command`; ``out`` is a folder."""
    from naq.cli.predicting import print_summary
    from naq.cli.terminal import show_progress

    for name, value in others.items():
        if value != DEFAULTS[name]:
            flag = "--" + name.replace("_", "-")
            raise OptionError(f"{flag} is not for a folder of Parquet parts; leave it out, or use naq import first.")
    if labels is None and label is None:
        raise OptionError("there are neither --labels nor --label; give some nodes' classes.")
    folder, out = Path(graph).absolute(), out.absolute()
    _check_out(out, folder)
    checked_device(device)
    plan = sharding_of(engine, workers, address, shards)
    processes = 1 if plan is None or plan.engine == "local" else plan.workers
    choice = Choice(label=label, ignore=tuple(ignore))
    with show_progress(str(out)) as listener:

        def tell(step: str, done: int, total: int) -> None:
            listener("shards", {"stage": step, "done": done, "total": total, "unit": "parts"})

        with make_engine(engine, workers, address) as chosen:
            job = Job(folder, out, choice, seed, device, processes, plan.shards if plan else 8, chosen, tell)
            facts = job.run(labels)
    remove_shards(out)
    facts |= {"written": str(out)}
    if as_json:
        echo(json.dumps(facts, indent=2))
        return
    print_summary(facts)
    echo(f"Written: {out}")


def _check_out(out: Path, folder: Path) -> None:
    recover(out)
    if out == folder or folder in out.parents:
        raise OptionError(f"--out is {out}, in the folder that is read; choose another place.")
    if out.exists() and not (out.is_dir() and ((out / SUMMARY).is_file() or not any(out.iterdir()))):
        raise OptionError(f"--out is {out}, which is there and holds no predictions; choose another name.")
    place = next(one for one in out.parents if one.exists())
    if not place.is_dir() or not os.access(place, os.W_OK):
        raise OptionError(f"--out is {out}, but you may not write to {place}; choose another place.")


class Job:
    """From parts to predictions, each step in shards next to ``out`` until the last."""

    def __init__(
        self, folder: Path, out: Path, choice: Choice, seed: int, device: str, processes: int, shards: int,
        engine: Any, tell: Callable[[str, int, int], None],
    ) -> None:  # fmt: skip
        self.out, self.choice, self.seed, self.device, self._tell = out, choice, seed, device, tell
        self.nodes, self.edges = ParquetParts(folder, "nodes"), ParquetParts(folder, "edges")
        self.columns = IdColumns.of(self.nodes, self.edges)
        self.files = {"folder": str(folder), "nodes": self.nodes.stamp, "edges": self.edges.stamp}
        self.work = own_folder(out.with_name(out.name + ".shards"))
        self.key = shard_name("parts", self.files)
        self.stages: list[dict[str, Any]] = []
        self._engine, self._shards, self._processes = engine, shards, processes

    def shards(self, graph: Graph | None = None, source: Path | None = None) -> Shards:
        source_of = "" if source is None else str(source)
        count = {"shards": self._shards, "processes": self._processes}
        return FileShards(graph, self._engine, self.work, source_of, key=self.key, tell=self._tell, **count)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        began, clock = time.time(), time.perf_counter()
        yield
        self.stages.append({"stage": name, "began": began, "seconds": time.perf_counter() - clock})

    def run(self, labels: Path | None) -> dict[str, Any]:
        """Write the predictions; what there is to say of them."""
        with self._stage("ids"):
            table = number_nodes(self.nodes, self.columns, self.shards(), self.files)
            given = self._labels(labels, table)
        with self._stage("sample of features"):
            described = describe_nodes(self.nodes, self.columns, self.choice, WIDTH)
        with self._stage("edges"):
            place = self.work / f"graph-{self.key}"
            if not (place / MANIFEST).is_file():
                join_edges(self.edges, self.nodes.rows, self.columns, table, self.shards(), self.files, place)
            del table
            graph = open_graph(place)
        shards = self.shards(graph, place)
        with self._stage("features"):
            if described.reading is None:
                start = start_tiles(graph, WIDTH, self.seed, shards, block=ROWS, tile=self._tile(WIDTH))
                length, few = BlockArray([[np.ones(graph.num_nodes, dtype=np.float32)]]), False
            else:
                tile = self._tile(described.reading.width)
                start, length = start_of_nodes(self.nodes, described, shards, self.files, tile)
                few = described.reading.width < FEW
        stored = {"start": start, "length": length}
        for name, spread in SPREADS.items():
            with self._stage(name):
                stored |= spread(stored, graph, shards, self.device)
        with self._stage("views"):
            views = learn_views(stored, described.sample, graph, few=few, seed=self.seed, device=self.device)
        with self._stage("labels"), torch.no_grad():
            pool = learn(views_of(views, stored), given, unlabelled=1.0, unlike=views.facts["unlike"])
        with self._stage("predictions"):
            summary, scored = self._score(pool, views, stored, shards)
        summary["stages"] = self.stages
        self._write(summary, scored)
        return summary

    def _tile(self, width: int) -> int:
        """IdColumns that are smoothed at once, as many as fit when the command is first started."""
        file = self.work / f"tile-{self.key}.json"
        if not file.is_file():
            each, fits = -(-width // self._processes), columns_that_fit(self.nodes.rows * self._processes, width)
            write_json(file, min(width, -(-each // 16) * 16, fits))
        return int(read_json(file))

    def _labels(self, path: Path | None, table: Mapping[str, np.ndarray]) -> Labels:
        """Those of a file or of a column of nodes."""
        if path is None:
            column = find_column(str(self.choice.label), list(self.nodes.columns), "--label", self.nodes.title)
            known: dict[int, str] = {}
            row = 0
            for batch in self.nodes.read(0, self.nodes.rows, [column]):
                cells = batch[column].cast(pa.string()).to_pylist()
                known |= {
                    row + i: cell.strip() for i, cell in enumerate(cells) if cell and not is_missing(cell.strip())
                }
                row += len(batch)
            return check_enough(Labels.of(list(known), list(known.values())), f"{column}: ")
        source = open_table(path, header=True)
        rows = source.read(label_columns(path, source.columns))
        ids, classes = (np.array([cell.strip() for cell in rows.texts(name)], object) for name in rows.columns)
        at = np.array([row for row, one in enumerate(classes) if one], dtype=np.int64)
        numbers = np.full(len(at), -1)
        fits = [self.columns.text or ids[row].removeprefix("-").isdigit() for row in at]
        if any(fits):
            texts = pa.chunked_array([pa.array(ids[at[fits]].tolist())])
            wanted = texts if self.columns.text else texts.cast(pa.int64())
            numbers[fits] = find_rows(table["keys"], table["slots"], keys_of(wanted, self.columns.text)[0])
        if (numbers < 0).any():
            lost = at[numbers < 0]
            some = ", ".join(f"{ids[row]!r} ({place})" for row, place in zip(lost[:3], rows.places(lost[:3].tolist())))
            raise DataError(f"{len(lost):,} of {len(at):,} labels are of no node of the graph: {some}; correct them.")
        found: dict[int, tuple[str, int]] = {}
        for row, number in zip(at.tolist(), numbers.tolist()):
            other, before = found.setdefault(number, (classes[row], row))
            if other != classes[row]:
                two = f"the class {classes[row]!r}, but {other!r} before ({rows.place(before)})"
                raise DataError(f"{rows.place(row)}: node {ids[row]!r} has {two}; keep one of them.")
        return check_enough(Labels.of(list(found), [one for one, _ in found.values()]), f"{path}: ")

    def _score(
        self, pool: Pool, views: BlockViews, stored: Mapping[str, BlockArray], shards: Shards
    ) -> tuple[dict[str, Any], list[Arrays]]:
        """What there is to say of all predictions, and Parquet parts, each scored by a shard."""
        weights, offsets = weights_of_rows(pool)
        labels, needed = pool.labels, views.needs(list(weights))
        classes = labels.classes.tolist()
        inputs: dict[str, Any] = {name: stored[name] for name in needed} | dict(views.arrays)
        inputs |= {f"weights/{name}": part for name, part in weights.items()}
        inputs |= {"offsets/": offsets, "labels/nodes": labels.nodes, "labels/classes": labels.class_index}
        facts: dict[str, Any] = {**self.files, "id": self.columns.id, "views": dict(views.facts), "rows": list(weights)}
        facts |= {"classes": classes, "exponent": pool.exponent, "device": self.device, "rows_at_once": AT_ONCE}
        scored = shards.run(_score, self.nodes.bounds(ROWS), facts, inputs)
        nodes, sums = (sum(part[name][0] for part in scored) for name in ("nodes", "sums"))
        found = pool.prediction(np.empty((0, len(classes)), dtype=np.float32))
        given, expected = np.bincount(labels.class_index, minlength=len(classes)), pool.expected
        return {
            "graph": self.nodes.folder.name,
            "nodes": self.nodes.rows,
            "classes": [
                {"class": name, "labels": int(a), "nodes": int(b), "mean_probability": float(c / b) if b else None}
                for name, a, b, c in zip(classes, given, nodes, sums)
            ],
            "unknown": 0,
            "expected_accuracy": None if expected is None else asdict(expected) | {"text": str(expected)},
            "views": {describe(name): weight for name, weight in found.view_weights().items()},
            "verdicts": verdicts(found),
        }, scored

    def _write(self, summary: Mapping[str, Any], scored: list[Arrays]) -> None:
        try:
            with temporary_path(self.out, folder=True) as folder:
                for number, part in enumerate(scored):
                    (folder / f"part-{number:05d}.parquet").write_bytes(part["file"][:].data)
                write_json(folder / SUMMARY, summary)
                replace_folder(folder, self.out)
        except OSError as error:
            raise DataError(f"cannot write {self.out}: {error.strerror or error}; {NO_SPACE}.") from error


def _score(block: Block) -> Arrays:
    """A Parquet file of the ids of some nodes and the classes they are given; and of each class, its nodes and the sum
    of their probabilities."""
    facts, device = block.facts, torch.device(block.facts["device"])
    learned = {name: block.array(name) for name in block.inputs if "/" in name}
    views, wanted = BlockViews(facts["views"], learned, facts["device"]), facts["rows"]
    weights = [torch.from_numpy(np.array(learned[f"weights/{name}"])).to(device) for name in wanted]
    offsets = torch.from_numpy(np.array(learned["offsets/"])).to(device)
    needed, names = views.needs(wanted), pa.array([str(one) for one in facts["classes"]])
    nodes, sums = np.zeros(len(names), dtype=np.int64), np.zeros(len(names))
    file, writer, row = io.BytesIO(), None, block.start
    for batch in graph_parts(facts["folder"], "nodes", facts["nodes"]).read(block.start, block.stop, [facts["id"]]):
        found = []
        for first in range(row, row + len(batch), facts["rows_at_once"]):
            last = min(first + facts["rows_at_once"], row + len(batch))
            made = views.rows({name: block.inputs[name].rows(first, last) for name in needed}, wanted)
            logs = sum((made[name] @ part for name, part in zip(wanted, weights)), offsets)
            found.append(torch.softmax(facts["exponent"] * logs, dim=1).cpu().numpy())
        table, chosen, sure = _table(np.concatenate(found), names, learned, row)
        nodes += np.bincount(chosen, minlength=len(names))
        sums += np.bincount(chosen, sure, minlength=len(names))
        table = table.add_column(0, facts["id"], batch[facts["id"]])
        writer = writer or pq.ParquetWriter(file, table.schema)
        writer.write_table(table)
        row += len(batch)
    assert writer is not None
    writer.close()
    return {"file": np.frombuffer(file.getvalue(), dtype=np.uint8), "nodes": nodes[None], "sums": sums[None]}


def _table(
    probabilities: np.ndarray, names: Any, labels: Mapping[str, np.ndarray], row: int
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Columns of predictions of nodes from ``row`` on; the class of each, the one given for labels, and how likely."""
    count = np.arange(len(probabilities))
    chosen = probabilities.argmax(axis=1)
    low, high = np.searchsorted(labels["labels/nodes"], [row, row + len(count)])
    own = labels["labels/nodes"][low:high] - row
    chosen[own] = labels["labels/classes"][low:high]
    given = np.zeros(len(count), dtype=bool)
    given[own] = True
    sure = probabilities[count, chosen]
    others = probabilities.copy()
    others[count, chosen] = -1
    second = others.argmax(axis=1)

    def named(places: np.ndarray) -> Any:
        return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), names)

    columns: dict[str, Any] = {"class": named(chosen), "probability": sure, "runner_up": named(second)}
    columns |= {"runner_up_probability": probabilities[count, second], "given": given}
    return pa.table(columns), chosen, sure
