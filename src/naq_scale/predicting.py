"""``naq predict`` for a folder of Parquet parts: from files to a class for every node, in shards that are kept."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from typer import echo

from naq.classifier import FewShotNodeClassifier
from naq.classifier.confidence import Pool, learn
from naq.classifier.labels import Labels, check_enough, check_one_class, read_labels
from naq.classifier.page import verdicts
from naq.classifier.views import LARGE, describe
from naq.cli.predicting import summary_of
from naq.device import checked_device, require
from naq.errors import DataError, OptionError, warn
from naq.files import NO_SPACE, own_folder, read_json, recover, replace_folder, temporary_path, write_json
from naq.graph import Graph
from naq.graph.checks import FEW
from naq.io.tables.nodes import encode_labels
from naq.io.tables.roles import Choice, find_column
from naq.io.tables.table import frame_table
from naq.random import stream
from naq_scale.array_folder import MANIFEST
from naq_scale.block_views import SPREADS, WIDTH, BlockViews, learn_views, views_of, weights_of_rows
from naq_scale.blocks.shards import Arrays, Block, BlockArray, Shards
from naq_scale.blocks.smoothing import start_tiles
from naq_scale.cli import processes_of, remove_shards, sharding_of
from naq_scale.engines import make_engine
from naq_scale.import_parts import ROWS, Described, IdColumns, describe_nodes, join_edges, number_nodes, start_of_nodes
from naq_scale.mapped import open_graph
from naq_scale.node_ids import find_ids
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
IN_MEMORY, LEVEL = LARGE, 0.9
"""Nodes up to which the classifier of graphs in memory answers, and the share that its prediction sets shall hold."""
MOST_LABELS, FEWEST_LABELS, BYTES_OF_LABEL = 50_000, 20, 14_000.0
"""Labels that are learned from in blocks, those of a class at least, and what one takes of memory."""
Scored = tuple[dict[str, Any], list[Arrays]]
"""What there is to say of all predictions, and Parquet files as arrays of bytes."""


def predict_parts(
    graph: str, out: Path, labels: Path | None, label: str | None, ignore: list[str], seed: int, device: str,
    as_json: bool, engine: str, workers: int, address: str | None, shards: int | None,
    no_cache: bool = False, **others: Any,
) -> None:  # fmt: skip
    """The command, with the options of :func:`~naq.cli.predicting.predict_command`; ``out`` is a folder.

    Nothing is cached here, with ``no_cache`` or without.
    """
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
    choice = Choice(label=label, ignore=tuple(ignore))
    with show_progress(str(out)) as listener:

        def tell(step: str, done: int, total: int) -> None:
            listener("shards", {"stage": step, "done": done, "total": total, "unit": "parts"})

        with make_engine(engine, workers, address) as chosen:
            count = plan.shards if plan else 8
            job = Job(folder, out, choice, seed, device, processes_of(plan, chosen), count, chosen, tell)
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


def drawn_labels(labels: Labels) -> Labels:
    """About ``MOST_LABELS`` of them, of every class its share, but ``FEWEST_LABELS`` where it has as many."""
    sizes, count = np.bincount(labels.class_index, minlength=len(labels.classes)), len(labels.nodes)
    if count <= MOST_LABELS:
        return labels
    order = stream(0, "parts/labels").permutation(count)
    order = order[np.argsort(labels.class_index[order], kind="stable")]
    place = np.arange(count) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    most = np.maximum(np.minimum(sizes, FEWEST_LABELS), sizes * MOST_LABELS // count)
    some = np.sort(order[place < np.repeat(most, sizes)])
    return Labels(labels.nodes[some], labels.classes, labels.class_index[some])


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
        self._tell(name, 0, 1)
        yield
        self.stages.append({"stage": name, "began": began, "seconds": time.perf_counter() - clock})

    def run(self, labels: Path | None) -> dict[str, Any]:
        """Write the predictions; what there is to say of them."""
        with self._stage("ids"):
            table = number_nodes(self.nodes, self.columns, self.shards(), self.files)
            given = self._labels(labels, table)
        whole = self.nodes.rows <= IN_MEMORY
        with self._stage("sample of features"):
            described = describe_nodes(self.nodes, self.columns, self.choice, given, whole)
        for note in described.notes:
            warn(note)
        with self._stage("edges"):
            place = self.work / f"graph-{self.key}"
            if not (place / MANIFEST).is_file():
                join_edges(self.edges, self.nodes.rows, self.columns, table, self.shards(), self.files, place)
            del table
            graph = open_graph(place)
        how = self._in_memory if whole else self._in_blocks
        summary, scored = how(given, described, graph, self.shards(graph, place))
        summary["stages"] = self.stages
        self._write(summary, scored)
        return summary

    def _in_memory(self, given: Labels, described: Described, graph: Graph, shards: Shards) -> Scored:
        """By the classifier of graphs in memory."""
        matrix, vocab, blocks = described.features
        name = self.nodes.folder.name
        with self._stage("views"):
            graph = Graph(graph.adjacency, matrix, vocab=vocab, blocks=blocks, name=name)
            classifier = FewShotNodeClassifier(seed=self.seed, device=self.device).fit(graph)
        with self._stage("labels"):
            found = classifier.set_labels(given).prediction()
        with self._stage("predictions"):
            ids = pa.concat_tables(self.nodes.read(0, self.nodes.rows, [self.columns.id]))
            rows, known = [(ids, found.probabilities)], (given.nodes, given.class_index)
            return summary_of(classifier, LEVEL), [_file_of(rows, self.columns.id, given.classes.tolist(), *known, 0)]

    def _in_blocks(self, given: Labels, described: Described, graph: Graph, shards: Shards) -> Scored:
        """By the same classifier of fewer views, none of which is held whole."""
        with self._stage("features"):
            reading = described.reading(WIDTH)
            if reading is None:
                start = start_tiles(graph, WIDTH, self.seed, shards, block=ROWS, tile=self._tile(WIDTH))
                length, few = BlockArray([[np.ones(graph.num_nodes, dtype=np.float32)]]), False
            else:
                tile, few = self._tile(reading.width), reading.width < FEW
                start, length = start_of_nodes(self.nodes, described, reading, shards, self.files, tile)
        stored = {"start": start, "length": length}
        for name, spread in SPREADS.items():
            with self._stage(name):
                stored |= spread(stored, graph, shards, self.device)
        with self._stage("views"):
            views = learn_views(stored, described.sample, graph, few=few, seed=self.seed, device=self.device)
        with self._stage("labels"), torch.no_grad():
            made, some = views_of(views, stored), drawn_labels(given)
            if len(some.nodes) < len(given.nodes):
                warn(f"{len(given.nodes):,} labels: {len(some.nodes):,} of them, drawn by class, are learned from.")
            needed = len(some.nodes) * (BYTES_OF_LABEL + 56.0 * (len(made) + 2) * len(some.classes))
            what = f"a prediction from {len(some.nodes):,} labels of {len(some.classes):,} classes"
            require(needed, what, "join classes or give fewer labels")
            pool = learn(made, some, unlabelled=1.0, unlike=views.facts["unlike"])
        with self._stage("predictions"):
            return self._score(pool, given, views, stored, shards)

    def _tile(self, width: int) -> int:
        """Columns of a tile, as many as fit when the command is first started."""
        file = self.work / f"tile-{self.key}.json"
        if not file.is_file():
            each, fits = -(-width // self._processes), columns_that_fit(self.nodes.rows * self._processes, width)
            write_json(file, min(width, -(-each // 16) * 16, fits))
        return int(read_json(file))

    def _labels(self, path: Path | None, table: Mapping[str, np.ndarray]) -> Labels:
        """Those of a file or of a column of nodes."""
        if path is not None:
            find = partial(find_ids, keys=table["keys"], slots=table["slots"], text=self.columns.text)
            return check_enough(read_labels(path, find), f"{path}: ")
        column = find_column(str(self.choice.label), list(self.nodes.columns), "--label", self.nodes.title)
        table_of_it = frame_table(pa.concat_tables(self.nodes.read(0, self.nodes.rows, [column])), self.nodes.title)
        codes, names = encode_labels(table_of_it, column)
        known, (classes, place) = np.flatnonzero(codes >= 0), np.unique(names, return_inverse=True)
        labels = Labels(known, classes, place[codes[known]])
        check_one_class(drawn_labels(labels).values.tolist())
        return check_enough(labels, f"{column}: ")

    def _score(
        self, pool: Pool, given: Labels, views: BlockViews, stored: Mapping[str, BlockArray], shards: Shards
    ) -> Scored:
        """What there is to say of all predictions, and Parquet parts, each scored by a shard."""
        weights, offsets = weights_of_rows(pool)
        needed, classes = views.needs(list(weights)), given.classes.tolist()
        inputs: dict[str, Any] = {name: stored[name] for name in needed} | dict(views.arrays)
        inputs |= {f"weights/{name}": part for name, part in weights.items()}
        inputs |= {"offsets/": offsets, "labels/nodes": given.nodes, "labels/classes": given.class_index}
        facts: dict[str, Any] = {**self.files, "id": self.columns.id, "views": dict(views.facts), "rows": list(weights)}
        facts |= {"classes": classes, "exponent": pool.exponent, "device": self.device, "rows_at_once": AT_ONCE}
        scored = shards.run(_score, self.nodes.bounds(ROWS), facts, inputs)
        nodes, sums = (sum(part[name][0] for part in scored) for name in ("nodes", "sums"))
        found = pool.prediction(np.empty((0, len(classes)), dtype=np.float32))
        labels, expected = np.bincount(given.class_index, minlength=len(classes)), pool.expected
        return {
            "graph": self.nodes.folder.name,
            "nodes": self.nodes.rows,
            "classes": [
                {"class": name, "labels": int(a), "nodes": int(b), "mean_probability": float(c / b) if b else None}
                for name, a, b, c in zip(classes, labels, nodes, sums)
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
    needed, nodes = views.needs(wanted), graph_parts(facts["folder"], "nodes", facts["nodes"])

    def scored() -> Iterator[tuple[pa.Table, np.ndarray]]:
        row = block.start
        for batch in nodes.read(block.start, block.stop, [facts["id"]]):
            found, end = [], row + len(batch)
            for first in range(row, end, facts["rows_at_once"]):
                last = min(first + facts["rows_at_once"], end)
                made = views.rows({name: block.inputs[name].rows(first, last) for name in needed}, wanted)
                logs = sum((made[name] @ part for name, part in zip(wanted, weights)), offsets)
                found.append(torch.softmax(facts["exponent"] * logs, dim=1).cpu().numpy())
            yield batch, np.concatenate(found)
            row = end

    known = learned["labels/nodes"], learned["labels/classes"]
    return _file_of(scored(), facts["id"], facts["classes"], *known, block.start)


def _file_of(
    rows: Iterable[tuple[pa.Table, np.ndarray]], key: str, classes: Sequence[Any], labelled: np.ndarray,
    class_index: np.ndarray, row: int,
) -> Arrays:  # fmt: skip
    """Tables with ids in the column ``key`` and probabilities of these nodes, from node ``row`` on, as for
    :func:`_score`."""
    file, writer, names = io.BytesIO(), None, pa.array([str(one) for one in classes])
    nodes, sums = np.zeros(len(names), dtype=np.int64), np.zeros(len(names))
    for batch, probabilities in rows:
        low, high = np.searchsorted(labelled, [row, row + len(batch)])
        table, chosen, sure = _table(probabilities, names, labelled[low:high] - row, class_index[low:high])
        nodes += np.bincount(chosen, minlength=len(names))
        sums += np.bincount(chosen, sure, minlength=len(names))
        table = table.add_column(0, key, batch[key])
        writer = writer or pq.ParquetWriter(file, table.schema)
        writer.write_table(table)
        row += len(batch)
    assert writer is not None
    writer.close()
    return {"file": np.frombuffer(file.getvalue(), dtype=np.uint8), "nodes": nodes[None], "sums": sums[None]}


def _table(
    probabilities: np.ndarray, names: Any, own: np.ndarray, own_classes: np.ndarray
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Columns of predictions of some nodes; the class of each, for the labelled ones (``own``) that which was given,
    and how likely it is."""
    count = np.arange(len(probabilities))
    chosen = probabilities.argmax(axis=1)
    chosen[own] = own_classes
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
