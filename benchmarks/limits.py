"""Measured times beside the least time that their arithmetic and their bytes take on the machine.

    python benchmarks/limits.py [--device cuda] [--out benchmarks/results/limits.json]    # ceilings of this machine; cpu and cuda are kept side by side
    python benchmarks/limits.py --page                                                   # docs/limits.png and the table of docs/scale.md

Ceilings: copies (bytes read and written), products of float32 matrices (without TF32), and fetches of rows of 256 bytes in random order among as many rows as there are nodes (benchmarks/row_fetches.py).
A stage has two floors: its operations at the rate of products, and the fewest bytes it must move at the rate of copies or, where rows lie anywhere, of fetches. One thread on the CPU.
Left out, for want of an honest count: generate, open and verify, evaluation, training with whole or capped neighbourhoods on the CPU, diffusion (visits depend on what a cache holds),
vectors among clusters, naq-plus and MAML on a GPU (bound by the host).
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marked_page import write_between

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE, PICTURE = ROOT / "benchmarks" / "results", ROOT / "docs" / "scale.md", ROOT / "docs" / "limits.png"
BEGIN, END = "<!-- limits:begin -->", "<!-- limits:end -->"
WORDS_PER_NODE, COLUMNS, STEPS, EXTRA, PASSES = 18.86, 64, 10, 16, 3
"""Of benchmarks/scale.py: different words of a node on average, columns; steps of smoothing; further columns and passes of the SVD."""
SQUARE, FIRST_LAYER = "square", "768 x 6805 x 512"
SIDE = {"cpu": 2048, "cuda": 8192}


@dataclass(frozen=True)
class Work:
    """Operations, bytes in order, and bytes of rows that lie anywhere among ``among`` of them; all of them at least."""

    operations: float
    streamed: float
    fetched: float = 0.0
    among: int = 0

    def floors(self, ceilings: dict[str, Any], product: str, fetches: dict[int, float]) -> tuple[float, float]:
        """Seconds of the operations and of the bytes; ``fetches`` are bytes a second by the rows there are."""
        moved = self.streamed / ceilings["copy"] + (self.fetched / fetches[self.among] if self.fetched else 0.0)
        return self.operations / ceilings["products"][product], moved


def words(nodes: int, entries: float) -> Work:
    """X^T (X B) in each pass and X B at the end: two operations per entry, column and product; the entries (8 bytes) are read once in each, the vectors written once."""
    columns = COLUMNS + EXTRA
    return Work(2.0 * entries * columns * (2 * PASSES + 1), 8.0 * entries * (PASSES + 1) + 4.0 * nodes * COLUMNS)


def smoothing(nodes: int, edges: int) -> Work:
    """In each step every edge adds a neighbour's row in both directions, fetched from anywhere, with an index of 4 bytes; a row is read at its start and written."""
    ends = 2.0 * edges
    streamed = STEPS * (4.0 * ends + 8.0 * nodes * COLUMNS)
    return Work(2.0 * ends * COLUMNS * STEPS, streamed, 4.0 * ends * COLUMNS * STEPS, nodes)


def closed_form(nodes: int) -> Work:
    """Two products of all rows with a d x d matrix and one Gram matrix; rows are read three times and written twice."""
    return Work(6.0 * nodes * COLUMNS**2, 5 * 4.0 * nodes * COLUMNS)


def sample_neighbors(nodes: int, searched: int = 1 << 16, clusters: int = 1024, probed: int = 24) -> Work:
    """Every row with all centres, and a sample with the members of its nearest clusters; rows are read once."""
    pairs = float(nodes) * clusters + float(searched) * nodes * probed / clusters
    return Work(2.0 * COLUMNS * pairs, 4.0 * nodes * COLUMNS)


def protonet(steps: int, rows: int = 690, columns: int = 6805, latent: int = 512) -> Work:
    """The two products of the first layer; its rows read, written and read twice, the weight read, its gradient written, Adam's four reads and three writes."""
    weight = 4.0 * columns * latent
    return Work(4.0 * rows * columns * latent * steps, steps * (4 * 4.0 * rows * columns + 9 * weight))


def euclidean(rows: int, columns: int = 100) -> Work:
    """One float32 product of all pairs, in groups of four columns; its scores are read again."""
    return Work(2.0 * rows * rows * (columns + 4), 4.0 * rows * rows)


def rows_of(results: Path = RESULTS) -> list[tuple[str, str, float, float, float]]:
    """Device, stage, measured seconds and both floors of every stage that has a count, where the ceilings of its device are known."""
    ceilings = json.loads((results / "limits.json").read_text())
    fetches = fetch_rates(results)
    found: list[tuple[str, str, float, Work, str]] = []
    for size in json.loads((results / "scale.json").read_text()):
        if not size["sparse"]:
            continue
        n, e = size["nodes"], size["edges"]
        works = {
            "words": words(n, WORDS_PER_NODE * n),
            "smoothing": smoothing(n, e),
            "neighbours": sample_neighbors(n),
            "closed form": closed_form(n),
        }
        found += [
            ("cpu", f"{stage}, {n / 1e6:g} M nodes", size["stages"][stage]["cpu_seconds"], work, SQUARE)
            for stage, work in works.items()
            if stage in size["stages"]
        ]
    device = json.loads((results / "device.json").read_text())
    steps = device["protocol"]["recorded"]
    found += [
        ("cuda", "ProtoNet, 16,000 steps", steps["training with evaluations"], protonet(steps["episodes"]), FIRST_LAYER),
        ("cuda", "Euclidean table, 2.45 M rows", device["euclidean"]["seconds"], euclidean(device["euclidean"]["rows"]), SQUARE),
    ]  # fmt: skip
    return [
        (where, stage, seconds, *work.floors(ceilings[where], product, fetches))
        for where, stage, seconds, work, product in found
        if where in ceilings
    ]


def fetch_rates(results: Path = RESULTS) -> dict[int, float]:
    """Bytes a second of rows in random order on the CPU, by the rows there are."""
    found = json.loads((results / "row_fetches.json").read_text())
    return {int(rows): 1e9 * one["gigabytes_per_second"] for rows, one in found.items()}


def measure(device: str) -> dict[str, Any]:
    """The ceilings: bytes and operations a second."""
    import torch

    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    cuda = device != "cpu"
    timed = _on_cuda if cuda else _best
    count = 1 << (29 if cuda else 27)  # numbers of a copy
    source = torch.ones(count, device=device)
    target = torch.empty_like(source)
    copy = 8.0 * count / timed(lambda: target.copy_(source))
    products = {}
    for name, (m, k, n) in {SQUARE: (SIDE[device],) * 3, FIRST_LAYER: (768, 6805, 512)}.items():
        a, b = torch.ones(m, k, device=device), torch.ones(k, n, device=device)
        products[name] = 2.0 * m * k * n / timed(lambda: a @ b)  # noqa: B023
    name = torch.cuda.get_device_name() if cuda else "one thread"
    facts = {
        "device": name,
        "torch": torch.__version__,
        "load_average": round(os.getloadavg()[0], 1),
        "side": SIDE[device],
    }
    return {**facts, "copy": copy, "products": products}


def _best(work: Callable[[], Any], repeats: int = 7) -> float:
    """CPU seconds, the least of some: others may use the machine."""
    work()
    found = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def _on_cuda(work: Callable[[], Any], repeats: int = 20) -> float:
    """Seconds of one call by events, after a warm-up."""
    import torch

    for _ in range(3):
        work()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(repeats):
        work()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1e3 / repeats


def table(rows: list[tuple[str, str, float, float, float]], ceilings: dict[str, Any]) -> str:
    """The ceilings in a sentence, and one line per stage."""
    text = []
    for where, made in ceilings.items():
        rates = " and ".join(
            f"{rate / 1e9:,.0f} GFLOP/s ({made['side'] if name == SQUARE else name}{' cubed' if name == SQUARE else ''})"
            for name, rate in made["products"].items()
        )
        text.append(
            f"{'CPU' if where == 'cpu' else 'GPU'} ({made['device']}): copies {made['copy'] / 1e9:,.1f} GB/s, products {rates}; load {made['load_average']}."
        )
    rates = ", ".join(f"{rate / 1e9:.1f} among {rows / 1e6:g} M" for rows, rate in fetch_rates().items())
    text.append(f"Rows of 256 bytes in random order, one thread of the CPU, GB/s: {rates}.")
    lines = ["| stage | measured, s | arithmetic, s | bytes, s | measured / larger |", "|---|---:|---:|---:|---:|"]
    for where, stage, seconds, arithmetic, moved in rows:
        ratio = seconds / max(arithmetic, moved)
        lines.append(
            f"| {'CPU' if where == 'cpu' else 'GPU'}: {stage} | {seconds:,.2f} | {arithmetic:,.2f} | {moved:,.2f} | {ratio:.1f} |"
        )
    return "\n".join([*text, "", *lines])


def draw(rows: list[tuple[str, str, float, float, float]], picture: Path = PICTURE) -> None:
    """One line per stage: what was measured, and both floors."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(10, 1.6 + 0.42 * len(rows)), layout="constrained")
    places = [number + 0.8 * (row[0] != "cpu") for number, row in enumerate(rows)]
    for place, (_, _, seconds, arithmetic, moved) in zip(places, rows, strict=True):
        axes.plot([max(arithmetic, moved), seconds], [place, place], color="#c0c0c0", linewidth=2, zorder=1)
        axes.annotate(f"{seconds / max(arithmetic, moved):.1f} x", (1.01, place), xycoords=("axes fraction", "data"), va="center", fontsize=13)  # fmt: skip
    for column, label, mark, colour in (
        (2, "measured", "o", "#1f4e79"),
        (3, "least time of the arithmetic", "|", "#b3541e"),
        (4, "least time of the bytes", "d", "#3a7d44"),
    ):
        axes.plot([row[column] for row in rows], places, mark, color=colour, label=label, markersize=15 if mark == "|" else 8, markeredgewidth=3 if mark == "|" else 1)  # fmt: skip
    axes.set_yticks(places, [f"{'CPU' if row[0] == 'cpu' else 'GPU'}: {row[1]}" for row in rows], fontsize=13)
    axes.set(xscale="log", xlabel="seconds")
    axes.xaxis.label.set_size(13)
    axes.tick_params(axis="x", labelsize=13)
    axes.invert_yaxis()
    axes.grid(axis="x", color="#e6e6e6")
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.legend(loc="outside upper left", ncols=3, frameon=False, fontsize=13)
    axes.set_title("right: measured / larger of the two", loc="right", fontsize=12)
    figure.savefig(picture, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "limits.json")
    given = parser.parse_args()
    if given.page:
        rows = rows_of()
        draw(rows)
        write_between(PAGE, BEGIN, END, table(rows, json.loads((RESULTS / "limits.json").read_text())))
        return
    from naq.files import write_json

    known = json.loads(given.out.read_text()) if given.out.exists() else {}
    write_json(given.out, {**known, given.device: measure(given.device)})
    print(given.out.read_text())


if __name__ == "__main__":
    main()
