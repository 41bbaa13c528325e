"""What the options of NaQ episodes do: to the episodes themselves and to a ProtoNet trained on them.

    python benchmarks/episode_options.py                          everything; stopped, it resumes
    python benchmarks/episode_options.py --shares                 the episodes alone: seconds
    python benchmarks/episode_options.py --only debian apart=100  some datasets, kinds or options
    python benchmarks/episode_options.py --jobs 2/4               every 4th cell, from the 2nd: one of four processes

Every process writes what is finished so far, by all of them, to ``benchmarks/results/episode_options.json`` and
``docs/episode_options.md``; a schedule other than the default is only printed. The real graphs are looked for in
``$NAQ_SHARED_DATA`` or ``../shared/data``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import naq  # first: it sets how threads wait
from naq.errors import NaqError
from naq.files import read_json, write_atomically, write_json

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("NAQ_SHARED_DATA") or HERE.parents[1] / "shared" / "data")
RUNS = HERE / "results" / "runs" / "episode_options"
RESULTS = HERE / "results" / "episode_options.json"
TABLE = HERE.parent / "docs" / "episode_options.md"
LEARNING_RATE = {"debian": 3e-4, "coauthor_cs": 1e-4}
KINDS = ("naq-feat", "naq-diff")
OPTIONS: dict[str, dict[str, Any]] = {
    "base": {},
    "shot=3": {"shot": 3},
    "shot=5": {"shot": 5},
    "apart=10": {"apart": 10},
    "apart=100": {"apart": 100},
    "drop_overlap": {"drop_overlap": True},
}
EPISODES, EVERY, PATIENCE, SEEDS = 1280, 160, 4, 3
WAY, SHOT, DRAWN = 5, 1, 16_000


@dataclass(frozen=True)
class Cell:
    """One dataset, kind of episodes and option; without a seed its shares, with one a training."""

    dataset: str
    kind: str
    option: str
    seed: int | None = None
    episodes: int = EPISODES

    @property
    def name(self) -> str:
        parts = f"{self.dataset}-{self.kind}-{self.option}"
        return f"shares-{parts}" if self.seed is None else f"{parts}-{self.episodes}-seed{self.seed}"

    @property
    def file(self) -> Path:
        """Where this cell's numbers are once it is finished."""
        return RUNS / f"{self.name}.json" if self.seed is None else RUNS / self.name / "metrics.json"


@cache
def graph_of(dataset: str) -> naq.Graph:
    return naq.load("debian" if dataset == "debian" else DATA / f"{dataset}.npz")


def tasks_of(dataset: str) -> Path | None:
    return None if dataset == "debian" else DATA / f"{dataset}.tasks.npz"


def absent(dataset: str) -> str:
    """Why a dataset has to be skipped; empty where it is there."""
    files = [] if dataset == "debian" else [DATA / f"{dataset}.npz", DATA / f"{dataset}.tasks.npz"]
    missing = [str(file) for file in files if not file.is_file()]
    return f"skipped: {dataset} needs {' and '.join(missing)}" if missing else ""


def measure_shares(cell: Cell, device: str) -> None:
    """Facts about the episodes themselves; labels are read for these facts alone."""
    from naq.graph import resolve, weighted
    from naq.protocol.episodes import episode_options, table_for
    from naq.protocol.methods import get_method

    graph = graph_of(cell.dataset)
    read = weighted(graph, resolve(graph, "auto")).without_labels()
    options = episode_options(get_method(f"{cell.kind}/protonet"), OPTIONS[cell.option])
    table = table_for(read, cell.kind, options, RUNS / "cache", device, None)
    given: dict[str, Any] = {name: options[name] for name in ("shot", "queries", "apart", "drop_overlap")}
    seconds = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        episodes = naq.naq_episodes(table, way=WAY, count=DRAWN, seed=0, **given)
        seconds = min(seconds, time.perf_counter() - started)
    labels = graph.require_labels("comparing classes")
    write_json(
        cell.file,
        {
            "distinct_classes": episodes.distinct_class_share(labels),
            "queries_of_the_class": episodes.same_class_share(labels),
            "overlap": episodes.overlap_ratio(),
            "queries_kept": float(episodes.mask.mean()),
            "clashing": episodes.info.get("clashing"),
            "seconds": round(seconds, 4),
        },
    )


def train(cell: Cell, device: str) -> None:
    """The protocol with a short schedule; the run folder is what is left."""
    from naq.cli.progress import show_progress

    assert cell.seed is not None
    with show_progress(cell.name) as tell:
        naq.run(
            graph_of(cell.dataset), f"{cell.kind}/protonet", way=WAY, shot=SHOT, seed=cell.seed,
            tasks=tasks_of(cell.dataset), episodes=cell.episodes, evaluate_every=min(EVERY, cell.episodes),
            patience=PATIENCE, device=device, options={"lr": LEARNING_RATE[cell.dataset]},
            episode=OPTIONS[cell.option], out=RUNS / cell.name, cache=RUNS / "cache", tell=tell,
        )  # fmt: skip


def collect(episodes: int, seeds: int) -> list[dict[str, Any]]:
    """What is finished, a row per dataset, kind and option."""
    return [_row(*cell, episodes, seeds) for cell in product(LEARNING_RATE, KINDS, OPTIONS)]


def _row(dataset: str, kind: str, option: str, episodes: int, seeds: int) -> dict[str, Any]:
    shares = Cell(dataset, kind, option).file
    files = [Cell(dataset, kind, option, seed, episodes).file for seed in range(seeds)]
    found = [read_json(file) for file in files if file.exists()]
    return {
        "dataset": dataset,
        "episodes": kind,
        "option": option,
        "shares": read_json(shares) if shares.exists() else None,
        "valid": [run["facts"]["valid_accuracy"] for run in found],
        "test": [run["evaluations"][run["config"]["head"]]["accuracy"] for run in found],
        "best_episodes": [run["facts"]["best_episodes"] for run in found],
        "seconds": [round(sum(v for k, v in run["seconds"].items() if k != "reference"), 1) for run in found],
        "devices": sorted({run["config"]["device"] for run in found}),
    }


def markdown(rows: Sequence[dict[str, Any]], episodes: int, seeds: int) -> str:
    """The table of the documentation."""
    clashing = sum((row["shares"] or {}).get("clashing") or 0 for row in rows)
    trained = sum(len(row["valid"]) for row in rows)
    lines = [
        "# Options of NaQ episodes, measured",
        "",
        "Written by `python benchmarks/episode_options.py`; the numbers are in `benchmarks/results/episode_options.json`.",
        "",
        f"The episodes: {DRAWN:,} of {WAY} ways with 10 queries per class. *Classes differ*: episodes whose first supports have "
        f"{WAY} different true classes; *right queries*: queries with the true class of their support; labels are read for these two "
        "columns only. *Overlap*: 1 - distinct queries / queries. *Seconds*: drawing the episodes from their table, best of three. "
        f"Episodes that `apart` left with supports near each other: {clashing:,}.",
        "",
        f"The training: ProtoNet, {episodes:,} episodes, an evaluation every {EVERY}, stopped after {PATIENCE} without a new best; "
        f"{WAY}-way {SHOT}-shot tasks, logistic head, learning rate "
        + " and ".join(f"{rate:g} on {name}" for name, rate in LEARNING_RATE.items())
        + f". Accuracies are mean ± standard deviation over {seeds} seeds. An option is to be chosen by the validation column.",
        "",
        f"Trainings finished: {trained} of {len(rows) * seeds}.",
        *_verdict(rows),
    ]
    for dataset in LEARNING_RATE:
        lines += [
            "",
            f"## {dataset}",
            "",
            "| episodes | option | classes differ % | right queries % | overlap % | queries kept % | seconds "
            "| validation % | test % |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        lines += [_line(row) for row in rows if row["dataset"] == dataset]
    return "\n".join(lines) + "\n"


def _verdict(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Options against ``base``, seed by seed, on validation tasks: better or worse with every seed, or neither."""
    better, worse, neither = [], [], []
    for row in rows:
        base = next(
            r for r in rows if (r["dataset"], r["episodes"], r["option"]) == (row["dataset"], row["episodes"], "base")
        )
        gains = [100 * (ours - theirs) for ours, theirs in zip(row["valid"], base["valid"])]
        if row["option"] == "base" or not gains:
            continue
        text = f"`{row['option']}` for {row['episodes']} on {row['dataset']} ({sum(gains) / len(gains):+.1f})"
        (better if min(gains) > 0 else worse if max(gains) < 0 else neither).append(text)
    if not (better or worse or neither):
        return []
    return [
        "",
        "Against `base` with the same seeds, in points of validation accuracy:",
        "",
        *(
            f"- {title}: {', '.join(found) or 'none'}."
            for title, found in (
                ("better with every seed", better),
                ("worse with every seed", worse),
                ("neither", neither),
            )
        ),
        "",
        "None is on by default; each stays an option.",
    ]


def _line(row: dict[str, Any]) -> str:
    shares = row["shares"]
    cells = [f"`{row['episodes']}`", f"`{row['option']}`"]
    names = ("distinct_classes", "queries_of_the_class", "overlap", "queries_kept")
    cells += [f"{100 * shares[name]:.2f}" if shares else "" for name in names]
    cells += [f"{shares['seconds']:.3f}" if shares else "", _spread(row["valid"]), _spread(row["test"])]
    return "| " + " | ".join(cells) + " |"


def _spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation in percent, with the number of values where it is one."""
    if not values:
        return ""
    if len(values) == 1:
        return f"{100 * values[0]:.2f} (one seed)"
    return f"{100 * statistics.mean(values):.2f} ± {100 * statistics.stdev(values):.2f}"


def cells(words: Sequence[str], seeds: int, episodes: int, shares_only: bool) -> Iterator[Cell]:
    """Shares first, then trainings, seed by seed; a word restricts its own axis alone."""
    axes = [[w for w in axis if w in words] or list(axis) for axis in (LEARNING_RATE, KINDS, OPTIONS)]
    for seed in [None, *([] if shares_only else range(seeds))]:
        for dataset, kind, option in product(*axes):
            yield Cell(dataset, kind, option, seed, episodes)


def share(text: str) -> tuple[int, int]:
    """``2/4``: the second of four."""
    part, _, parts = text.partition("/")
    if not (part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"{text!r} is no share; expected e.g. 2/4, the second of four")
    return int(part), int(parts)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shares", action="store_true", help="the episodes alone, no training")
    parser.add_argument("--only", nargs="+", default=[], help=", ".join((*LEARNING_RATE, *KINDS, *OPTIONS)))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--episodes", type=int, default=EPISODES, help="another schedule is printed, not written")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=share, default=(1, 1), metavar="I/N", help="take every N-th cell, from the I-th")
    given = parser.parse_args(words)
    unknown = set(given.only) - {*LEARNING_RATE, *KINDS, *OPTIONS}
    if unknown or given.seeds < 1 or given.episodes < 1:
        parser.error(f"--only does not know {sorted(unknown)}" if unknown else "--seeds and --episodes start at 1")
    for why in filter(None, map(absent, LEARNING_RATE)):
        print(why, flush=True)
    here = [c for c in cells(given.only, given.seeds, given.episodes, given.shares) if not absent(c.dataset)]
    for cell in here[given.jobs[0] - 1 :: given.jobs[1]]:
        if not cell.file.exists():
            started = time.perf_counter()
            try:
                (measure_shares if cell.seed is None else train)(cell, given.device)
            except NaqError as error:
                print(f"episode_options: {cell.name}: {error}", file=sys.stderr)
                return 2
            print(f"{cell.name}: {time.perf_counter() - started:.1f} s", flush=True)
    rows = collect(given.episodes, given.seeds)
    text = markdown(rows, given.episodes, given.seeds)
    if given.episodes == EPISODES:
        write_json(RESULTS, {"episodes": EPISODES, "evaluate_every": EVERY, "patience": PATIENCE, "rows": rows})
        write_atomically(TABLE, lambda path: path.write_text(text, encoding="utf-8"))
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
