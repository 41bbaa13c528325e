"""Damaged files by the hundred thousand: every reader, in processes of their own that may take 6 GB, and kills at every write.

    python benchmarks/fuzz.py --each 4000            # writes benchmarks/results/fuzz.json and the table of docs/trust.md
    python benchmarks/fuzz.py --each 100 --only graph --only pack
    python benchmarks/fuzz.py --kills                # only the kills

The damage is that of ``tests/mutations.py``, the readers are those of ``tests/damaged_files.py``; a seed gives the same damage everywhere, so a
fault is repeated by its kind and seed. Results of other seeds of the same code are added to those in the file (``--add``).
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from marked_page import write_between

HERE = Path(__file__).parent
TESTS = HERE.parent / "tests"
RESULTS = HERE / "results" / "fuzz.json"
PAGE = HERE.parent / "docs" / "trust.md"
BATCH, LIMIT = 2000, 6_000_000_000
FAULTS = ("silent", "traceback", "long", "crash")


def worker(name: str, first: int, count: int, folder: Path) -> None:
    """Some seeds of one kind; each is written down before it is tried, so that a crash has a seed."""
    sys.path.insert(0, str(TESTS))
    from damaged_files import TARGETS, Bench

    bench, most = Bench(TARGETS[name], folder / "bench", measured=True), 0
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    bench.trial(first)  # what is imported and compiled at the first damage is none of its memory
    log = (folder / "log").open("a")
    for seed in range(first, first + count):
        log.write(f"{seed}\n")
        log.flush()
        trial = bench.trial(seed)
        most = max(most, bench.peak)
        record = {"seed": seed, "outcome": trial.outcome, **({"detail": trial.detail} if trial.fault else {})}
        log.write(json.dumps(record) + "\n")
    log.write(json.dumps({"peak": most}) + "\n")
    log.close()
    os._exit(0)  # what libraries do at the end of a process is no reader's


def batch(name: str, first: int, count: int) -> tuple[collections.Counter[str], list[dict[str, Any]], int]:
    """Outcomes, faults and the most memory that reading one of them took; a crash costs its own seed."""
    outcomes: collections.Counter[str] = collections.Counter()
    faults: list[dict[str, Any]] = []
    peak, last = 0, first + count
    while first < last:
        with tempfile.TemporaryDirectory() as place:
            command = [sys.executable, __file__, "--worker", name, str(first), str(last - first), place]
            done = subprocess.run(command, capture_output=True, text=True)
            lines = (Path(place) / "log").read_text().splitlines() if (Path(place) / "log").exists() else []
        begun = first - 1
        for line in lines:
            if not line.startswith("{"):
                begun = int(line)
                continue
            record = json.loads(line)
            if "peak" in record:
                peak = max(peak, record["peak"])
                continue
            outcomes[record["outcome"]] += 1
            if record["outcome"] in FAULTS:
                faults.append({"kind": name, **record})
            first = record["seed"] + 1
        if done.returncode != 0:
            if begun < first and not lines:
                raise SystemExit(f"{name}: the worker did not start: {done.stderr[-2000:]}")
            outcomes["crash"] += 1
            faults.append(
                {"kind": name, "seed": begun, "outcome": "crash", "detail": f"{done.returncode}: {done.stderr[-500:]}"}
            )
            first = begun + 1
    return outcomes, faults, peak


def kills(every: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        words = [f"{kind}:{every}" for kind in ("run", "reproduce", "shards", "studio", "cells", "import")]
        command = [sys.executable, str(TESTS / "kill_at_each_write.py"), place, *words]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    print(done.stdout, flush=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row.pop("kind"): row for row in rows}


def write_page(result: dict[str, Any]) -> None:
    """The table of docs/trust.md, between its marks."""
    lines = [
        "| file | damaged | refused | same | other | faults | memory |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, row in result["kinds"].items():
        numbers = [row["tried"], *(row.get(word, 0) for word in ("refused", "same", "other"))]
        faults = sum(row.get(word, 0) for word in FAULTS)
        lines.append(f"| {name} | {' | '.join(f'{n:,}' for n in numbers)} | {faults} | {row['peak_mb']:,} MB |")
    faults = sum(row.get(word, 0) for row in result["kinds"].values() for word in FAULTS)
    lines += [
        "",
        f"Together {result['tried']:,} damaged files and {faults} faults: crashes, tracebacks, messages that are too long, other contents accepted in silence.",
    ]
    if "kills" in result:
        total = sum(row["kills"] for row in result["kills"].values())
        wrong = sum(len(row["wrong"]) for row in result["kills"].values())
        twice = sum(len(row["twice"]) for row in result["kills"].values())
        words = ", ".join(f"{kind} {row['kills']}" for kind, row in result["kills"].items())
        lines.append(
            f"{total} kills (as by `kill -9`), before and after each file gets its name ({words}): {wrong} ended in another result or lost something, {twice} computed something twice."
        )
    write_between(PAGE, "<!-- fuzz -->", "<!-- /fuzz -->", "\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=4000, help="damaged files of each kind")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", action="append", default=[], help="a kind; may be repeated")
    parser.add_argument("--seconds", type=float, default=1e9, help="no new batch after so long")
    parser.add_argument(
        "--out", type=Path, default=RESULTS, help="another file for the results; the page stays as it is"
    )
    parser.add_argument("--add", action="store_true", help="add to what is in the file")
    parser.add_argument("--kills", action="store_true", help="only kills at each write")
    parser.add_argument("--every", type=int, default=1, help="kill at every so many points")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        name, first, count, folder = given.worker
        worker(name, int(first), int(count), Path(folder))
        return
    sys.path.insert(0, str(TESTS))
    from damaged_files import TARGETS
    from naq.files import read_json, write_json

    os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    result: dict[str, Any] = (
        read_json(given.out) if given.out.exists() and (given.add or given.kills) else {"kinds": {}, "faults": []}
    )
    if given.kills:
        result["kills"] = kills(given.every)
        write_json(given.out, result)
        write_page(result)
        return
    started = time.perf_counter()
    for first in range(given.first, given.first + given.each, BATCH):
        for name in given.only or TARGETS:
            if time.perf_counter() - started > given.seconds:
                break
            count = max(1, int(TARGETS[name].share * min(BATCH, given.first + given.each - first)))
            outcomes, faults, peak = batch(name, first, count)
            row = result["kinds"].setdefault(name, {"tried": 0, "peak_mb": 0})
            row["tried"] += sum(outcomes.values())
            row["peak_mb"] = max(row["peak_mb"], round(peak / 1e6))
            for outcome, number in outcomes.items():
                row[outcome] = row.get(outcome, 0) + number
            result["faults"] += faults
            result["tried"] = sum(r["tried"] for r in result["kinds"].values())
            result["memory_limit_gb"] = LIMIT / 1e9
            print(
                f"{name:18} seeds {first} to {first + count - 1}: {dict(outcomes)}, {peak / 1e6:.0f} MB",
                flush=True,
            )
            write_json(given.out, result)
    if given.out == RESULTS:
        write_page(result)
    print(f"{result['tried']:,} damaged files, {len(result['faults'])} faults")
    for fault in result["faults"][:20]:
        print(fault)


if __name__ == "__main__":
    main()
