"""Records as measurements write them, made up, and folders of them: what experiments and reports say of results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from naq.methods import get_method
from naq.run.evaluate import OWN
from naq_paper.cells.cell import Cell, Identity, digest, versions_of
from naq_paper.cells.records import Find, Record
from naq_paper.cells.store import Store
from naq_paper.experiments import experiment
from naq_paper.experiments.folder import Requests
from naq_paper.experiments.request import Request

IDENTITY = Identity("data")
TASKS = 30
ALONE = {"logistic": 0.0, "prototype": -0.02}
TOGETHER = {"transductive": 0.03, "em": 0.02, "balanced": 0.05}
HEADS = ALONE | TOGETHER | {f"{head}/dirichlet": 0.0 for head in ("prototype", *TOGETHER)}
MEANS = {"supervised": 0.6, "naq-feat": 0.75, "naq-diff": 0.7, "g-umtra": 0.5, "smooth": 0.55}
"""Mean accuracy by the kind of episodes or the name; anything else is near 0.45."""
NO: Callable[[Cell], bool] = lambda cell: False  # noqa: E731

Which = Callable[[Cell], bool]


def drawn(text: str) -> np.random.Generator:
    """Numbers that depend on a text alone."""
    return np.random.default_rng(int(digest(text, 8), 16))


def record_for(cell: Cell, result: Mapping[str, Any] | None = None, error: str | None = None) -> Record:
    return Record(cell, IDENTITY, result, error, 1.5, {"device": "cpu"}, "2026-01-31T12:00:00Z")


_made: dict[tuple[Cell, bool], dict[str, Any]] = {}
"""Results are read again and again, and never written to."""


def finds(*, skip: Which = NO, fail: Which = NO, undefined: bool = False) -> Find:
    """A ``find`` that knows every cell but those to skip; ``undefined`` has null if a measurement may return it."""

    def find(cell: Cell) -> Record | None:
        if skip(cell):
            return None
        if fail(cell):
            return record_for(cell, error="it rains; wait.")
        if (cell, undefined) not in _made:
            _made[cell, undefined] = RESULTS[cell.measurement](cell, undefined)
        return record_for(cell, _made[cell, undefined])

    return find


def nothing(cell: Cell) -> Record | None:
    return None


def train_result(cell: Cell, undefined: bool = False, *, mean: float | None = None, tasks: str = "") -> dict[str, Any]:
    """What ``train`` returns: tasks are as hard for every method, a training has its own luck."""
    config, method = cell.config, get_method(str(cell.config["method"]))
    trained = "evaluate_every" in config
    if mean is None:
        mean = MEANS.get(method.episodes or method.name, 0.45) - (0.1 if config["perturbation"] else 0.0)
    names = list(HEADS)
    if method.solves_tasks:
        names = [OWN]
    elif getattr(method.model, "also_solves", False):
        names.append(OWN)
    unchanged = not (config["perturbation"] and config["perturbation"]["name"] == "imbalance")
    where = f"{config['way']}-way" if unchanged else f"{config['way']}-way {config['perturbation']}"

    def evaluations(shot: int) -> dict[str, Any]:
        hard = drawn(f"{where} {shot}").normal(0.0, 0.1, TASKS)
        luck = drawn(cell.text if trained else method.name).normal(0.0, 0.02, TASKS)
        found = {}
        for head in names:
            per_task = np.clip(mean + HEADS.get(head, 0.0) + 0.1 * (shot > 1) + hard + luck, 0.0, 1.0)
            found[head] = {
                "accuracy": float(per_task.mean()), "ci95": float(1.96 * per_task.std() / np.sqrt(TASKS)),
                "count": TASKS, "way": config["way"], "shot": shot, "part": "test",
                "queries": "unbalanced" if "/" in head else "balanced", "head": head.partition("/")[0],
                "transductive": head.partition("/")[0] in TOGETHER, "options": {}, "per_task": per_task.tolist(),
            }  # fmt: skip
        return found

    def fingerprint(shot: int) -> str:
        return f"{tasks or 'tasks'} {where} {shot}"

    valid = float(np.clip(mean + drawn(cell.text).normal(0.0, 0.01), 0.0, 1.0))
    facts: dict[str, Any] = {
        "reads_base_labels": method.reads_base_labels, "inductive": method.inductive, "selection": "made up",
        "nodes": 100, "edges": 200, "classes": {"base": [0, 1], "valid": [2], "test": [3]}, "zero_rows": 0.0,
        "versions": {}, "arithmetic": {},
    }  # fmt: skip
    if trained:
        facts |= {
            "best_step": 16,
            "valid_accuracy": valid,
            "stopped_early": False,
            "steps_trained": 32,
            "unit": "episodes" if method.learner is not None else "epochs",
        }
    return {
        "config": {name: value for name, value in config.items() if name != "perturbation"},
        "data": {
            "graph": "data",
            "features": "raw",
            "tasks": fingerprint(config["shot"]),
        },
        "facts": facts,
        "seconds": {"load": 0.1, "embed": 0.1, "test": 0.1, "baseline": 0.0},
        "evaluations": evaluations(config["shot"]),
        "baseline": {},
        "history": {
            "steps": [16, 32], "loss": [1.0, 0.9], "valid_accuracy": [valid, valid - 0.01], "seconds": [1.0, 2.0],
        }
        if trained
        else None,
        "perturbation": {},
    }  # fmt: skip


def overlap_result(cell: Cell, undefined: bool = False) -> dict[str, Any]:
    share = None if undefined else 0.4
    return {
        "overlap_percent": 10 * float(drawn(cell.text).random()), "standard_error": None if undefined else 0.05,
        "episodes": 16_000, "short_nodes": 0.2, "filled_queries": 0.1, "masked_queries": 0.0,
        "distinct_class_share": share, "same_class_share": share, "nodes": 100, "table": {},
    }  # fmt: skip


def class_similarity_result(cell: Cell, undefined: bool = False) -> dict[str, Any]:
    percent, share = (None, None) if undefined else (60.0, 0.4)
    means = {"pairs": 0 if undefined else 50, "similarity_percent": percent, "same_class_share": share}
    return {
        **means,
        "tails": [{"percent": p, "classes": 3, "nodes": 30, **means} for p in cell.config["tails"]],
        "classes": 30,
        "nodes": 100,
        "short_nodes": 0.2,
        "in_degrees": {
            "skewness": None if undefined else 2.5,
            "largest": 20,
            "never_chosen": 0.1,
            "gini": None if undefined else 0.5,
        },
        "table": {},
    }


def times_result(cell: Cell, undefined: bool = False) -> dict[str, Any]:
    seconds = (0.5 + drawn(cell.text).random(cell.config["repeats"])).tolist()
    one_pass = undefined or cell.config["what"] != "similarity"
    return {
        "seconds": seconds, "mean": float(np.mean(seconds)),
        "sd": None if undefined or len(seconds) < 2 else float(np.std(seconds, ddof=1)), "min": min(seconds),
        "warm_up": 2.0, "parts": "everything",
        "stages": None if one_pass else dict.fromkeys(("compute", "selection", "transfer"), seconds),
        "why_no_stages": "it is one pass." if one_pass else None, "solver": None, "computed_on": "cpu",
        "threads": {"numba": 2, "torch": 2}, "load": None if undefined else 0.3,
        "hardware": {"processor": "a processor", "cores": 2, "gpu": None}, "nodes": 100, "edges": 200,
    }  # fmt: skip


def tail_map_result(cell: Cell, undefined: bool = False) -> dict[str, Any]:
    value = None if undefined else 0.5
    return {
        "silhouette": value, "purity": value, "unit_silhouette": value,
        "unit_purity": None if undefined else float(drawn(cell.text).uniform(0.3, 0.9)), "chance_purity": value,
        "nodes": 6, "points": 6, "classes": [4, 2], "class_sizes": [2, 4], "class_names": ["small", "larger"],
        "x": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "y": [1.0, 1.0, 2.0, 2.0, 3.0, 3.0], "group": [0, 0, 1, 1, 1, 1],
        "node": [1, 2, 3, 4, 5, 6],
    }  # fmt: skip


def practice_result(cell: Cell, undefined: bool = False, *, mean: float | None = None) -> dict[str, Any]:
    """What ``practice`` returns: a draw is as hard for every method."""
    config = cell.config
    if mean is None:
        mean = {"naq-plus": 0.7, "gcn": 0.6}.get(config["peer"], 0.5)

    def answer(shot: int, shares: str) -> dict[str, Any]:
        hard = drawn(f"draw {config['seed']} {shot} {shares}").normal(0.0, 0.05)
        own = drawn(f"{cell.text} {shot} {shares}").normal(0.0, 0.005)
        accuracy = float(np.clip(mean + 0.02 * min(shot, 8) + hard + own, 0.0, 1.0))
        found = {
            "shot": shot, "shares": shares, "accuracy": accuracy, "macro_accuracy": accuracy, "calibration_error": 0.1,
            "unanswered": 0.0, "classes": 7, "left_out": [3] if shot > 5 and shares == "equal" else [], "asked": 90,
            "draw": f"{config['dataset']} {config['seed']} {shot} {shares}",
        }  # fmt: skip
        told = {"expected": 0.7, "low": 0.6, "high": 0.8, "set_coverage": 0.9, "set_size": 1.5}
        return {**found, **told} if config["peer"] == "naq-plus" else found

    return {
        "by_shot": [answer(shot, shares) for shares in ("equal", "random") for shot in config["shots"]],
        "prepare_seconds": 1.0, "seconds": 1.5, "peak_bytes": None if undefined else 2**20,
        "load": None if undefined else 0.3, "nodes": 100, "edges": 200,
    }  # fmt: skip


RESULTS: dict[str, Callable[..., dict[str, Any]]] = {
    "train": train_result, "overlap": overlap_result, "class-similarity": class_similarity_result,
    "times": times_result, "tail-map": tail_map_result, "practice": practice_result,
}  # fmt: skip
"""What each measurement returns."""


# Folders of results, as naq reproduce leaves them.

FACTS = {
    "nodes": 100, "edges": 300, "features": 16, "classes": 20, "hash": "da1a", "tasks": None, "homophily": 0.5,
    "base": 8, "valid": 6, "test": 6, "most_classes": 6,
}  # fmt: skip
MACHINE = {"device": "cpu", "processor": "Intel(R) Xeon(R)", "cores": 2, "threads": 1, "versions": {"torch": "2"}}


def make_request(experiment: str = "label-noise", dataset: str = "toy", **more: Any) -> Request:
    return Request(experiment, (dataset,), budget="quick", facts={dataset: FACTS}, **more)


def cells_of(request: Request) -> list[Cell]:
    """What is computed while nothing is finished."""
    return experiment.cells_of(experiment.expand(request, nothing))


def record(
    cell: Cell, accuracy: float = 0.5, *, data: str = "da1a", versions: str | None = None, **more: Any
) -> Record:
    """The record of a training, by the present code or by other ``versions``."""
    identity = Identity(data, versions_of(cell.measurement, cell.config) if versions is None else versions)
    given = {"error": None, "seconds": 30.0, "machine": MACHINE, "finished": "2026"} | more
    result = given.pop("result") if "result" in given else train_result(cell, mean=accuracy)
    return Record(cell, identity, result, **given)


def fill(folder: Path, requests: list[Request], make: Find = record) -> Store:
    """A folder of requests; ``make`` gives the record of a cell, or None."""
    store, kept = Store(folder), Requests.load(folder)
    store.prepare()
    kept.add(requests, {})
    kept.save(folder)
    for cell in {cell: None for request in requests for cell in cells_of(request)}:
        if (made := make(cell)) is not None:
            store.put(made)
    return store
