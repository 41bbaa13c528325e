r"""Large random graphs with power-law degrees, planted classes and features that know them, streamed to a graph folder.

    python benchmarks/generate.py --nodes 10000000 --edges 100000000 --out try

Every draw is a hash of (seed, what, number), so the graph depends on its arguments alone: not on threads, pieces or order.

- Classes have unequal sizes. The members of a class are numbered from the one with the most edges on: member r of m has an
  expected degree proportional to :math:`(r + r_0 m)^{-1/(\gamma - 1)}`, a power law with exponent :math:`\gamma`;
  :math:`r_0` keeps the largest near :math:`\sqrt{2 M}`, above which pairs would repeat.
- An edge starts at a member of a class drawn by size and ends, with probability ``within``, in the same class, else in any.
  Repeats and loops are dropped.
- Dense features are the class's centre plus ``noise`` times a normal deviate. Sparse ones count words: half of a node's words
  are of its class's own list, half are of a common list where word w has frequency proportional to :math:`1/\sqrt{w}`.
- A keyed permutation of the numbers (a Feistel network) hides all this: hubs and classes lie anywhere.

Memory: some pieces of 64 MiB, whatever the size of the graph. Edges are sorted by way of files, one per range of rows.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np

from generator_draws import LONGEST, Plan, by_bucket, classes_of, dense_rows, edge_ends, rows_of, word_rows
from naq.errors import NaqError, OptionError
from naq.options import check_whole
from naq.random import stream, word
from naq_scale.array_folder import ArrayFile, FolderWriter, new_folder
from naq_scale.mapped import FORMAT, VERSION, facts_of, index_type

PIECE = 1 << 22
"""Edges drawn at once."""
BUCKET_ENTRIES = 1 << 23
"""Entries of the adjacency that are sorted at once, about: 64 MiB."""
ROWS_AT_ONCE = 1 << 15


def generate(
    out: str | Path,
    nodes: int,
    edges: int,
    *,
    classes: int = 20,
    features: int = 64,
    sparse: bool = False,
    exponent: float = 2.5,
    within: float = 0.8,
    noise: float = 5.0,
    seed: int = 0,
) -> Path:
    """Write a random graph as a folder that :func:`naq.load` maps.

    Args:
        out: the folder.
        nodes, edges: how many; loops and repeats are dropped, so that a few edges fewer remain.
        classes: planted; every class has a share of at least half of 1 / classes.
        features: columns.
        sparse: counts of words in place of dense numbers.
        exponent: of the degrees, more than 2.
        within: probability that an edge stays in its class.
        noise: of dense features, as a multiple of the spread of the class centres.
        seed: of everything.

    Example:
        >>> import naq
        >>> naq.load(generate("/tmp/doc-generated", 1000, 5000, features=8))  # doctest: +SKIP
        Graph('doc-generated', nodes=1,000, edges=4,772, features=8, classes=20)
    """
    nodes, edges = check_whole("nodes", nodes, 2), check_whole("edges", edges, 1)
    classes, features = check_whole("classes", classes), check_whole("features", features)
    if classes * 2 > nodes:
        raise OptionError(f"classes is {classes}, but there are {nodes:,} nodes; give two nodes or more per class.")
    if nodes * nodes >= 2**63:
        raise OptionError(f"nodes is {nodes:,}; expected at most {math.isqrt(2**63 - 1):,}.")
    if not exponent > 2.0:
        raise OptionError(f"exponent is {exponent!r}; expected more than 2, e.g. 2.5.")
    if not 0.0 <= within <= 1.0:
        raise OptionError(f"within is {within!r}; expected a probability, e.g. 0.8.")
    plan = _plan(nodes, edges, classes, exponent, within, seed)
    with new_folder(out, FORMAT, VERSION) as writer:
        written = _write_edges(writer, plan, edges)
        if sparse:
            _write_words(writer, plan, features)
        else:
            _write_dense(writer, plan, features, noise, seed)
        labels = writer.array("labels", np.int64)
        for start in range(0, nodes, ROWS_AT_ONCE):
            labels.append(classes_of(plan, start, min(nodes, start + ROWS_AT_ONCE)))
        writer.put("class_names", np.array([f"class-{number:03d}" for number in range(classes)]))
        writer.facts |= facts_of(Path(out).name, nodes, written, features)
    return Path(out)


def _plan(nodes: int, edges: int, classes: int, exponent: float, within: float, seed: int) -> Plan:
    share = 0.5 / classes + 0.5 * stream(seed, "generator/classes").dirichlet(np.full(classes, 5.0))
    bounds = np.concatenate([[0], np.round(np.cumsum(share) * nodes)]).astype(np.int64)
    bounds[-1] = nodes
    slope = 1.0 - 1.0 / (exponent - 1.0)
    stubs = 2.0 * edges
    low, high = 1e-15, 1.0
    for _ in range(200):
        middle = math.sqrt(low * high)
        largest = stubs * ((middle + 1.0 / nodes) ** slope - middle**slope) / ((1.0 + middle) ** slope - middle**slope)
        low, high = (middle, high) if largest > math.sqrt(stubs) else (low, middle)
    bits = max(1, (max(2, nodes) - 1).bit_length() + 1 >> 1)
    return Plan(nodes, bounds, high, slope, within, word(seed, "generator"), bits)


def _write_edges(writer: FolderWriter, plan: Plan, edges: int) -> int:
    """The adjacency; how many edges there are."""
    n = plan.nodes
    count = max(1, -(-2 * edges // BUCKET_ENTRIES))
    rows = -(-n // count)
    count = -(-n // rows)
    files = [(writer.folder / f"bucket-{number}.tmp").open("wb") for number in range(count)]
    try:
        for start in range(0, edges, PIECE):
            keys = edge_ends(plan, start, min(edges, start + PIECE))
            sorted_keys, bounds = by_bucket(keys, np.int64(n), np.int64(rows), count)
            for file, low, high in zip(files, bounds[:-1], bounds[1:]):
                file.write(sorted_keys[low:high].data)
    finally:
        for file in files:
            file.close()
    indptr = writer.array("adj_indptr", index_type(2 * edges))
    indices = writer.array("adj_indices", index_type(n))
    indptr.append(np.zeros(1, dtype=np.int64))
    total = 0
    for number, file in enumerate(files):
        total += _write_bucket(Path(file.name), indptr, indices, n, number * rows, min(n, (number + 1) * rows), total)
    return total // 2


def _write_bucket(file: Path, indptr: ArrayFile, indices: ArrayFile, n: int, first: int, stop: int, total: int) -> int:
    keys = np.fromfile(file, dtype=np.int64)
    file.unlink()
    keys.sort()
    columns = np.empty(len(keys), dtype=indices.dtype)
    ends = np.zeros(stop - first, dtype=np.int64)
    kept = rows_of(keys, np.int64(n), np.int64(first), columns, ends)
    indices.append(columns[:kept])
    indptr.append(total + np.cumsum(ends))
    return kept


def _write_dense(writer: FolderWriter, plan: Plan, width: int, noise: float, seed: int) -> None:
    centres = stream(seed, "generator/centres").standard_normal((len(plan.bounds) - 1, width)).astype(np.float32)
    file = writer.array("attr", np.float32, (width,))
    key = word(seed, "generator/noise")
    for start in range(0, plan.nodes, ROWS_AT_ONCE):
        stop = min(plan.nodes, start + ROWS_AT_ONCE)
        block = np.empty((stop - start, width), dtype=np.float32)
        dense_rows(plan, centres, np.float32(noise), key, start, block)
        file.append(block)


def _write_words(writer: FolderWriter, plan: Plan, width: int) -> None:
    indptr = writer.array("attr_indptr", index_type(plan.nodes * LONGEST))
    indices, data = writer.array("attr_indices", np.int32), writer.array("attr_data", np.float32)
    indptr.append(np.zeros(1, dtype=np.int64))
    total = 0
    for start in range(0, plan.nodes, ROWS_AT_ONCE):
        height = min(plan.nodes, start + ROWS_AT_ONCE) - start
        columns = np.empty((height, LONGEST), dtype=np.int32)
        counts = np.empty((height, LONGEST), dtype=np.float32)
        lengths = np.empty(height, dtype=np.int64)
        word_rows(plan, width, start, columns, counts, lengths)
        there = np.arange(LONGEST) < lengths[:, None]
        indices.append(columns[there])
        data.append(counts[there])
        indptr.append(total + np.cumsum(lengths))
        total += int(lengths.sum())


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a random graph with power-law degrees and planted classes.")
    parser.add_argument("--nodes", type=int, required=True, help="how many nodes")
    parser.add_argument("--edges", type=int, required=True, help="how many edges; repeats among them are dropped")
    parser.add_argument("--out", type=Path, required=True, help="graph folder to write")
    parser.add_argument("--classes", type=int, default=20, help="planted classes")
    parser.add_argument("--features", type=int, default=64, help="columns of features")
    parser.add_argument("--sparse", action="store_true", help="counts of words in place of dense features")
    parser.add_argument("--seed", type=int, default=0, help="of everything")
    given = vars(parser.parse_args())
    started, out = time.perf_counter(), given["out"]
    try:
        generate(**given)
    except NaqError as error:
        parser.error(str(error))
    size = sum(file.stat().st_size for file in out.iterdir())
    print(f"Written: {out} ({size / 1e9:.2f} GB) in {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
