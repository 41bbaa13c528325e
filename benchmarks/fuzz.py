"""Damaged files by the hundred thousand: every reader, in processes that may take 6 GB, and kills at changes of files.

    python benchmarks/fuzz.py --each 4000            # writes results/fuzz.json and the table of docs/trust.md
    python benchmarks/fuzz.py --each 100 --only graph --only pack      # writes nothing
    python benchmarks/fuzz.py --kills                # only the kills

Damage and readers are those of ``tests/file_formats.py``; a seed gives the same damage everywhere, so a fault is
repeated by its kind and seed.
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
from pathlib import Path
from typing import Any

from measuring import DOCS, RESULTS, ROOT, markdown, write_between

sys.path.insert(0, str(ROOT / "tests"))
os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}

from file_formats import FORMATS, DamagedFile
from naq.files import read_json, write_json
from naq_paper.measurements.practice import with_peak

BATCH, LIMIT = 2000, 6_000_000_000
FAULTS = ("fault", "crash")


def worker(name: str, first: int, count: int, folder: Path) -> None:
    """Some seeds of one kind; each is written down before it is tried, so that a crash has a seed."""
    file, most = DamagedFile(FORMATS[name], folder / "file"), 0
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    file.trial(first)  # what is imported and compiled at the first damage is none of its memory
    log = (folder / "log").open("a")
    for seed in range(first, first + count):
        log.write(f"{seed}\n")
        log.flush()
        found, peak = with_peak(lambda seed=seed: file.trial(seed))  # type: ignore[misc]
        most = max(most, peak or 0)
        fault = found.startswith("FAULT")
        record = {"seed": seed, "outcome": "fault" if fault else found, **({"detail": found} if fault else {})}
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
            log = Path(place) / "log"
            lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        if not lines:
            raise SystemExit(f"{name}: the worker did not start: {done.stderr[-2000:]}")
        records = [line for line in lines if isinstance(line, dict) and "seed" in line]
        if done.returncode != 0:
            detail = f"{done.returncode}: {done.stderr[-500:]}"
            records.append({"seed": lines[-1], "outcome": "crash", "detail": detail})  # a number was begun, no more
        else:
            peak = max(peak, lines[-1]["peak"])
        outcomes.update(record["outcome"] for record in records)
        faults += [{"kind": name, **record} for record in records if record["outcome"] in FAULTS]
        first = records[-1]["seed"] + 1
    return outcomes, faults, peak


def kills(points: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        some = [f"{kind}:{points}" for kind in ("run", "reproduce", "shards", "cells")]
        kinds = ["import", "import --mmap", "studio", *some]
        command = [sys.executable, str(ROOT / "tests" / "interruptions.py"), place, *kinds]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    print(done.stdout, flush=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row.pop("kind"): row for row in rows}


def write_page(result: dict[str, Any]) -> None:
    """The table of docs/trust.md, between its marks."""
    rows = []
    for name, row in result["kinds"].items():
        numbers = [row["tried"], *(row.get(word, 0) for word in ("refused", "same", "other"))]
        faults = sum(row.get(word, 0) for word in FAULTS)
        rows.append([name, *(f"{n:,}" for n in numbers), str(faults), f"{row['peak_mb']:,} MB"])
    head = ["file", "damaged", "refused", "same", "other", "faults", "memory"]
    lines = [markdown(head, rows, "|---|---:|---:|---:|---:|---:|---:|")]
    faults = sum(row.get(word, 0) for row in result["kinds"].values() for word in FAULTS)
    lines += [
        "",
        f"Together {result['tried']:,} damaged files and {faults} faults: crashes, tracebacks, long messages, "
        "other contents accepted in silence.",
    ]
    if "kills" in result:
        total = sum(row["kills"] for row in result["kills"].values())
        wrong = sum(len(row["wrong"]) for row in result["kills"].values())
        words = ", ".join(f"{kind} {row['kills']}" for kind, row in result["kills"].items())
        lines.append(
            f"{total} kills (as by `kill -9`), before changes to files ({words}): "
            f"{wrong} ended in another result or lost something."
        )
    write_between(DOCS / "trust.md", "fuzz", "\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=4000, help="damaged files of each kind")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", action="append", default=[], help="a kind; may be repeated")
    parser.add_argument("--kills", action="store_true", help="only kills at changes to files")
    parser.add_argument("--points", type=int, default=16, help="kills of each kind of work but import and studio")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        name, first, count, folder = given.worker
        worker(name, int(first), int(count), Path(folder))
        return
    results = RESULTS / "fuzz.json"
    result: dict[str, Any] = read_json(results) if given.kills else {"kinds": {}, "faults": []}
    if given.kills:
        result["kills"] = kills(given.points)
        write_json(results, result)
        write_page(result)
        return
    for first in range(given.first, given.first + given.each, BATCH):
        for name in given.only or FORMATS:
            count = max(1, int(FORMATS[name].share * min(BATCH, given.first + given.each - first)))
            outcomes, faults, peak = batch(name, first, count)
            row = result["kinds"].setdefault(name, {"tried": 0, "peak_mb": 0})
            row["tried"] += sum(outcomes.values())
            row["peak_mb"] = max(row["peak_mb"], round(peak / 1e6))
            for outcome, number in outcomes.items():
                row[outcome] = row.get(outcome, 0) + number
            result["faults"] += faults
            result["tried"] = sum(r["tried"] for r in result["kinds"].values())
            result["memory_limit_gb"] = LIMIT / 1e9
            print(f"{name:18} seeds {first} to {first + count - 1}: {dict(outcomes)}, {peak / 1e6:.0f} MB", flush=True)
            if not given.only:
                write_json(results, result)
    if not given.only:
        write_page(result)
    print(f"{result['tried']:,} damaged files, {len(result['faults'])} faults")
    for fault in result["faults"][:20]:
        print(fault)


if __name__ == "__main__":
    main()
