"""How often the marks of a table are wrong, and which differences they find.

    python benchmarks/significance.py                    with the variances of the stored reports and with equal ones
    python benchmarks/significance.py --repeats 400      quicker

Columns of methods are drawn with given variances of tasks, of methods by tasks, of seeds and of the rest, and judged by
:func:`naq_paper.statistics.compare`. ``error`` is the share of columns of equal methods in which any mark says
otherwise; ``own seeds, Satterthwaite`` is the share with any false pair by Holm's rule over the p of each difference
alone. ``power`` is the share of methods that are worse by so much, and marked so. ``paper`` and ``default`` have the
variances of the reports under these two profiles, each method with the variance over seeds of one of theirs; ``equal``
has one for all. Large tables are drawn less often than small ones; every row says how often.
Results: benchmarks/results/significance.json; ``python tools/pages.py reproduction`` writes the tables.
"""

from __future__ import annotations

import argparse
import collections
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from measuring import RESULTS
from naq.files import write_json
from naq.random import stream
from naq_paper.experiments.folder import read_pack
from naq_paper.statistics import LEVEL, Score, compare, detectable, difference, score

RECORDS = {"paper": RESULTS / "reproduction.zip", "default": RESULTS / "reproduction_default.zip"}
"""Packed reports by the profile they were computed under."""
TASKS = 500
BASELINE = "smooth"
SHIFTS = (0.03, 0.05, 0.1)


@dataclass(frozen=True)
class Variances:
    """Standard deviations; ``seeds`` has one or several, drawn from for each method."""

    tasks: float
    method_by_task: float
    seeds: tuple[float, ...]
    rest: float


EQUAL = Variances(0.14, 0.06, (0.012,), 0.1)


def column(variances: Variances, methods: int, seeds: int, repeat: int, shift: float = 0.0) -> dict[str, Score]:
    """Scores of methods with the same true mean, or every second one worse by ``shift``; the last is the baseline."""
    random = stream(0, f"significance {variances} {methods} {seeds} {shift}", repeat)
    hard = 0.6 + random.normal(0, variances.tasks, TASKS)
    found = {}
    for method in range(methods - 1):
        own = hard + random.normal(0, variances.method_by_task, TASKS) - (shift if method % 2 else 0.0)
        luck = random.normal(0, random.choice(variances.seeds), (seeds, 1))
        found[f"m{method}"] = score(own + luck + random.normal(0, variances.rest, (seeds, TASKS)), "t")
    found[BASELINE] = score([hard + random.normal(0, variances.method_by_task, TASKS)], "t", trained=False)
    return found


def simulate(variances: Variances, methods: int, seeds: int, repeats: int) -> dict[str, Any]:
    """Error and power for one size of table."""
    false = alone = single = 0.0
    for repeat in range(repeats):
        drawn = column(variances, methods, seeds, repeat)
        marks = compare(drawn, BASELINE).values()
        false += any(one.mark in ("▲", "▼") or one.against in ("s+", "s-") for one in marks)
        p = np.array([difference(drawn[a], drawn[b]).p for a, b in combinations(drawn, 2)])
        alone += float(p.min() * len(p) < LEVEL)
        single += float(np.mean(p < LEVEL))
    some = max(1, repeats // 5)
    power, against = {}, {}
    for shift in SHIFTS:
        found = []
        for repeat in range(some):
            standings = compare(column(variances, methods, seeds, repeat, shift), BASELINE)
            worse = [standings[f"m{method}"] for method in range(1, methods - 1, 2)]
            found.append((np.mean([s.mark == "▼" for s in worse]), np.mean([s.against == "s-" for s in worse])))
        best, baseline = np.mean(found, axis=0)
        power[f"{100 * shift:g}"], against[f"{100 * shift:g}"] = round(float(best), 3), round(float(baseline), 3)
    medians = [detectable(column(variances, methods, seeds, repeat)) or 0.0 for repeat in range(some)]
    return {
        "methods": methods,
        "seeds": seeds,
        "repeats": repeats,
        "error": round(false / repeats, 4),
        "error, own seeds, Satterthwaite": round(alone / repeats, 4),
        "error of a single difference": round(single / repeats, 4),
        "power against the best by points": power,
        "power against the baseline by points": against,
        "detectable, points": round(100 * float(np.median(medians)), 1),
    }


def stored(path: Path) -> Variances:
    """The variances of methods in a packed report: trainings on unchanged data, in the settings with most methods."""
    runs: dict[tuple[Any, ...], dict[str, dict[int, list[float]]]] = {}
    for record in read_pack(path)[1]:
        config, result = record.cell.config, record.result
        if not result or "evaluations" not in result or config.get("perturbation"):
            continue
        for shot, found in {config["shot"]: result["evaluations"], **(result.get("also") or {})}.items():
            head = config["head"] if config["head"] in found else next(iter(found))
            setting = json.dumps({**config, "seed": None}, sort_keys=True)
            where = runs.setdefault((config["dataset"], config["way"], int(shot), config["method"]), {})
            where.setdefault(setting, {})[config["seed"]] = found[head]["per_task"]
    tables: dict[tuple[Any, ...], list[np.ndarray]] = collections.defaultdict(list)
    for (dataset, way, shot, method), settings in runs.items():
        whole = [np.array(list(found.values())) for found in settings.values() if len(found) >= 3]
        if whole and method != BASELINE:
            tables[dataset, way, shot].append(max(whole, key=lambda y: float(y.mean())))
    most = max(map(len, tables.values()))
    return _variances([found for found in tables.values() if len(found) > most / 2])


def _variances(tables: Sequence[list[np.ndarray]]) -> Variances:
    """By the mean squares of two-way tables, medians over pairs of methods; seeds keep the values of all methods."""
    tasks, by_task, seeds, rest = [], [], [], []
    for runs in tables:
        scores = [score(y, "t") for y in runs]
        for s in scores:
            assert s.rest is not None and s.spread is not None
            rest.append(s.rest)
            seeds.append(max(0.0, s.spread**2 - s.rest / s.runs.shape[1]))
        for a, b in combinations(scores, 2):
            assert a.rest is not None and b.rest is not None
            tasks.append(float(np.cov(a.per_task, b.per_task)[0, 1]))
            by_task.append((float(np.var(a.per_task - b.per_task, ddof=1)) - a.rest / a.seeds - b.rest / b.seeds) / 2)
    middle = [float(np.sqrt(np.median(values))) for values in (tasks, by_task, rest)]
    return Variances(middle[0], middle[1], tuple(sorted(round(v**0.5, 4) for v in seeds)), middle[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--repeats", type=int, default=2000, help="columns of four methods; of more, fewer; power takes a fifth of them"
    )
    parser.add_argument("--methods", type=int, nargs="+", default=[4, 12, 30])
    parser.add_argument("--seeds", type=int, nargs="+", default=[2, 3, 5])
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    kept: dict[str, Any] = {"tasks": TASKS}
    with ProcessPoolExecutor(given.workers) as pool:
        for name, variances in {**{name: stored(path) for name, path in RECORDS.items()}, "equal": EQUAL}.items():
            jobs = [
                pool.submit(simulate, variances, methods, seeds, max(200, int(min(1, 4 / methods) * given.repeats)))
                for methods in given.methods
                for seeds in given.seeds
            ]
            kept[name] = {"standard deviations": asdict(variances), "columns": []}
            for job in jobs:
                kept[name]["columns"].append(job.result())
                print(name, job.result(), flush=True)
                write_json(RESULTS / "significance.json", kept)


if __name__ == "__main__":
    main()
