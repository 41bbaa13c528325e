"""Choosing without labels: which criterion follows true accuracy, and how many points it costs.

    python benchmarks/selection.py --data FOLDER --device cuda      all graphs and methods
    python benchmarks/selection.py --data FOLDER --quick            cora, short trainings: about a minute on a CPU
    python benchmarks/selection.py --docs                           only write the tables of docs/selection.md again

Candidates are the checkpoints of one training, or variants of the closed form. True accuracy: 400 one-shot tasks of base and validation classes
with the head ``prototype``; test classes are never looked at. ``valid`` chooses by 50 tasks of validation classes, so it knows a part of
the classes that it is judged on; ``last`` takes the last checkpoint, or the closed form as it is released, and reads nothing.
Results: benchmarks/results/selection.json.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from naq.threads import prepare_process

prepare_process()  # before torch is loaded

import torch
from scipy.stats import rankdata

import naq
from closed_form_steps import refined
from development import DATA, WAYS, source_of
from marked_page import write_between
from naq.embedders.naq_plus import NaqPlus
from naq.files import read_json, write_json
from naq.graph import weighted
from naq.heads import evaluate
from naq.io.splits import split_for
from naq.methods import get_method
from naq.neighbors import diffusion_neighbors, feature_neighbors
from naq.run.config import RunConfig
from naq.run.run import training_steps
from naq.run.tasks import EvaluationTasks, evaluation_tasks, label_free_tasks
from naq.tasks import Tasks, sample_tasks
from naq.training import Schedule, fit
from naq_paper.statistics import family, score
from selection_criteria import alpha_req, neighbor_tasks, rankme

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "selection.json"
DOCS = HERE.parent / "docs" / "selection.md"
BEGIN, END = "<!-- selection:begin -->", "<!-- selection:end -->"

CLOSED = "closed form"
BUDGETS = {"naq-feat/protonet": 1920, "naq-feat/cosmic": 960, "bgrl": 320, "sugrl": 320}
"""Episodes or epochs of each training."""
CHECKPOINTS = 16
TASKS = 400
CRITERIA = {
    "valid": "tasks of validation classes",
    "clusters": "tasks of 15 clusters",
    "clusters-50": "tasks of 50 clusters",
    "neighbours": "tasks of nearest nodes",
    "rankme": "RankMe",
    "alpha-req": "alpha-ReQ near 1",
    "last": "the last, or the released",
}
COMPARED = ("neighbours", "rankme", "alpha-req", "last", "valid")
"""What choosing by clusters is compared with; one family of differences."""


@dataclass
class Group:
    """Candidates of one method on one graph, one list per seed: names, what each criterion says, and the answers to the true tasks."""

    dataset: str
    method: str
    names: list[list[str]] = field(default_factory=list)
    values: list[list[dict[str, float]]] = field(default_factory=list)
    per_task: list[list[np.ndarray]] = field(default_factory=list)

    @property
    def trained(self) -> bool:
        return self.method != CLOSED

    def chosen(self, criterion: str) -> list[int]:
        """The first best candidate of each seed."""
        return [int(np.argmax([one[criterion] for one in values])) for values in self.values]

    def runs(self, criterion: str) -> list[np.ndarray]:
        return [answers[best] for answers, best in zip(self.per_task, self.chosen(criterion))]

    def to_json(self) -> dict[str, Any]:
        """Accuracies in percent, correlations, and the points that each criterion loses against the best candidate."""
        true = [[100 * float(one.mean()) for one in answers] for answers in self.per_task]
        best = float(np.mean([max(one) for one in true]))
        found = {}
        for name in CRITERIA:
            says = [[one[name] for one in values] for values in self.values]
            chosen = [accuracies[place] for accuracies, place in zip(true, self.chosen(name))]
            found[name] = {
                "spearman": round(float(np.mean([spearman(a, b) for a, b in zip(true, says)])), 3),
                "lost": round(best - float(np.mean(chosen)), 2),
                "chosen": [names[place] for names, place in zip(self.names, self.chosen(name))],
            }
        return {
            "dataset": self.dataset, "method": self.method, "seeds": len(true), "candidates": len(true[0]), "best": round(best, 2),
            "at_random": round(best - float(np.mean(true)), 2), "criteria": found,
            "accuracies": [dict(zip(names, np.round(one, 2).tolist())) for names, one in zip(self.names, true)],
        }  # fmt: skip


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Correlation of ranks; 0 where one side does not vary."""
    x, y = (rankdata(one) - (len(one) + 1) / 2 for one in (a, b))
    length = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / length if length > 0 else 0.0


class Judge:
    """What all candidates on one graph are judged by."""

    def __init__(self, graph: naq.Graph, source: EvaluationTasks, way: int, device: str) -> None:
        split, bare = source.split, graph.without_labels()
        self.true = sample_tasks(
            graph, way=way, shot=1, queries=8, count=TASKS, seed=1, classes=split.base + split.valid, part="valid"
        )
        near = [feature_neighbors(bare, 10, cache=None, device=device), diffusion_neighbors(bare, 10, cache=None)]
        self.sets: dict[str, Tasks] = {
            "valid": source.valid,
            "clusters": label_free_tasks(graph, way, device=device),
            "clusters-50": label_free_tasks(graph, way, device=device, clusters=50),
            "neighbours": neighbor_tasks(near, way=way),
        }

    def __call__(self, group: Group, name: str, vectors: np.ndarray | torch.Tensor) -> None:
        """Add a candidate to the last seed of the group."""
        rows = torch.as_tensor(vectors).detach()
        host = rows.cpu().numpy()
        found = {kind: evaluate(host, tasks, "prototype").accuracy for kind, tasks in self.sets.items()}
        found |= {"rankme": rankme(rows), "alpha-req": alpha_req(rows)}
        released = variant_name() == name if not group.trained else len(group.names[-1])
        group.names[-1].append(name)
        group.values[-1].append({**found, "last": float(released)})
        group.per_task[-1].append(evaluate(host, self.true, "prototype").per_task)


def new_seed(group: Group) -> Group:
    for lists in (group.names, group.values, group.per_task):
        lists.append([])  # type: ignore[attr-defined]
    return group


def variant_name(**given: Any) -> str:
    form = {**NaqPlus.defaults, **given}
    return (
        f"d {form['dim']}, steps {form['steps']}, k {form['neighbors']}, gamma {form['shrink']:g}, p {form['power']:g}"
    )


def variants(quick: bool) -> Iterator[dict[str, Any]]:
    """Of the closed form: a grid of gamma and p, then one other choice at a time."""
    for shrink in (0.5,) if quick else (0.05, 0.5, 5.0):
        for power in (1.0, 1.25, 1.5, 1.75, 2.0):
            yield {"shrink": shrink, "power": power}
    yield from ({"dim": dim} for dim in ((64,) if quick else (64, 128, 256, 512)))
    yield from ({"steps": steps} for steps in ((0, 2) if quick else (0, 2, 5, 20)))
    yield from ({"neighbors": k} for k in (() if quick else (3, 30)))


def closed_form(graph: naq.Graph, judge: Judge, device: str, quick: bool) -> Group:
    group, start = new_seed(Group(graph.name, CLOSED)), {}
    for given in variants(quick):
        shape = {name: given[name] for name in ("dim", "steps") if name in given}
        rest: dict[str, Any] = {
            name: given.get(name, NaqPlus.defaults[name]) for name in ("neighbors", "pairs", "shrink", "power")
        }
        key = tuple(shape.items())
        if key not in start:
            start[key] = NaqPlus(graph.without_labels(), device=device, **shape).smoothed()
        judge(group, variant_name(**given), refined(start[key], device=device, **rest))
    return group


def checkpoints(
    group: Group, graph: naq.Graph, source: EvaluationTasks, judge: Judge, way: int, seed: int, device: str, budget: int
) -> None:
    """One training, judged at every evaluation."""
    length = {"epochs": budget} if get_method(group.method).in_epochs else {"episodes": budget}
    config = RunConfig.resolve(group.method, way=way, seed=seed, head="prototype", device=device, **length)
    steps = training_steps(config, weighted(graph, config.features or "raw"), source, listener=lambda *_: None)
    model: Any = steps.model
    new_seed(group)

    def look() -> float:
        with torch.no_grad():
            judge(group, f"checkpoint {len(group.names[-1]) + 1}", model.encode_all())
        return 0.0

    fit(steps, look, Schedule(max(1, budget // CHECKPOINTS)))


def budgets_of(quick: bool) -> dict[str, int]:
    return {method: budget // (8 if quick else 1) for method, budget in BUDGETS.items()}


Unit = tuple[str, str, int]
"""A graph, a method and a seed: what one process computes at a time."""


def units_of(names: Sequence[str], seeds: int, quick: bool) -> list[Unit]:
    """The closed form once, every training with every seed."""
    return [
        (name, method, seed)
        for name in names
        for method, count in ((CLOSED, 1), *((method, seeds) for method in budgets_of(quick)))
        for seed in range(count)
    ]


def on_unit(unit: Unit, data: Path, device: str, quick: bool) -> Group:
    """A group with one seed."""
    name, method, seed = unit
    mark, place = time.perf_counter(), source_of(name, data)
    graph = naq.load(place)
    split = split_for(place, graph)
    way = min(WAYS[name], len(split.valid), len(split.test))
    source = evaluation_tasks(graph, place, None, way=way, shot=1)
    judge = Judge(graph, source, way, device)
    if method == CLOSED:
        group = closed_form(graph, judge, device, quick)
    else:
        group = Group(graph.name, method)
        checkpoints(group, graph, source, judge, way, seed, device, budgets_of(quick)[method])
    print(f"{name}: {method}, seed {seed}: {time.perf_counter() - mark:.0f} s", flush=True)
    return group


def merged(found: Sequence[Group]) -> list[Group]:
    """One group per graph and method, seeds in their order."""
    groups: dict[tuple[str, str], Group] = {}
    for one in found:
        group = groups.setdefault((one.dataset, one.method), Group(one.dataset, one.method))
        group.names += one.names
        group.values += one.values
        group.per_task += one.per_task
    return list(groups.values())


def result(groups: Sequence[Group], budgets: Mapping[str, int]) -> dict[str, Any]:
    """What is stored: every group, and choosing by clusters against the other criteria as one family of differences."""
    pairs = {
        (group.dataset, group.method, other): tuple(
            score(group.runs(name), f"{group.dataset} true", trained=group.trained) for name in ("clusters", other)
        )
        for group in groups
        for other in COMPARED
    }
    compared = [
        {
            "dataset": dataset, "method": method, "against": other, "points": round(100 * one.difference.mean, 2), "ci95": round(100 * one.difference.ci95, 2),
            "p": None if one.p is None else round(one.p, 5), "significant": one.significant,
        }
        for (dataset, method, other), one in family(pairs).items()
    ]  # fmt: skip
    longest = ", ".join(
        f"{budget:,} {'epochs' if get_method(name).in_epochs else 'episodes'} of {name}"
        for name, budget in budgets.items()
    )
    return {"tasks": TASKS, "longest": longest, "groups": [group.to_json() for group in groups], "compared": compared}


def docs_table(kept: dict[str, Any]) -> str:
    """Correlation and points lost by criterion and method, over graphs; then what clusters gain or lose against each other criterion."""
    methods = list(dict.fromkeys(group["method"] for group in kept["groups"]))
    graphs = list(dict.fromkeys(group["dataset"] for group in kept["groups"]))
    lines = [
        f"Graphs: {', '.join(graphs)}; seeds of a training: {max(group['seeds'] for group in kept['groups'])}; checkpoints: up to {kept['longest']}. Each entry: mean Spearman correlation with true accuracy / mean points lost against the best candidate (the most lost on one graph).", "",
        "| chosen by | " + " | ".join(methods) + " | all |", "|---|" + "---:|" * (len(methods) + 1),
    ]  # fmt: skip

    def entry(criterion: str, groups: list[dict[str, Any]]) -> str:
        found = [group["criteria"][criterion] for group in groups]
        rho, lost = (float(np.mean([one[what] for one in found])) for what in ("spearman", "lost"))
        follows = "-" if criterion == "last" else f"{rho:+.2f}"
        return f"{follows} / {lost:.2f} ({max(one['lost'] for one in found):.2f})"

    def of(method: str) -> list[dict[str, Any]]:
        return [group for group in kept["groups"] if group["method"] == method]

    for criterion, words in CRITERIA.items():
        cells = [entry(criterion, of(method)) for method in methods] + [entry(criterion, kept["groups"])]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    drawn = [float(np.mean([group["at_random"] for group in groups])) for groups in (*map(of, methods), kept["groups"])]
    lines += [f"| at random | {' | '.join(f'{one:.2f}' for one in drawn)} |", ""]
    lines += [
        f"Clusters against another criterion, graph by graph and method by method ({len(kept['compared'])} differences, one family):", "",
        "| against | significantly better | significantly worse | no significant difference | mean difference, points |", "|---|---:|---:|---:|---:|",
    ]  # fmt: skip
    for other in COMPARED:
        found = [one for one in kept["compared"] if one["against"] == other]
        better, worse = (sum(one["significant"] and sign * one["points"] > 0 for one in found) for sign in (1, -1))
        mean = float(np.mean([one["points"] for one in found]))
        tested = sum(one["p"] is not None for one in found)
        lines.append(f"| {CRITERIA[other]} | {better} | {worse} | {tested - better - worse} | {mean:+.2f} |")
    if any(one["p"] is None for one in kept["compared"]):
        lines += [
            "",
            "Methods with one training have no variance over seeds, so nothing is claimed of them: only the closed form is counted.",
        ]
    return "\n".join(lines)


def write_docs(kept: dict[str, Any]) -> None:
    write_between(DOCS, BEGIN, END, docs_table(kept))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("datasets", nargs="*", help=f"of {', '.join(WAYS)}; all by default")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the graphs that are not bundled")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=3, help="of the trainings")
    parser.add_argument("--workers", type=int, default=1, help="trainings at a time, one process each")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="cora, one seed, short trainings, few variants; writes nothing without --out",
    )
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--out", type=Path, help="where the results go; by default benchmarks/results/selection.json")
    given = parser.parse_args()
    if given.docs:
        write_docs(read_json(RESULTS))
        return
    names = given.datasets or (["cora"] if given.quick else list(WAYS))
    units = units_of(names, 1 if given.quick else given.seeds, given.quick)
    work = partial(on_unit, data=given.data, device=given.device, quick=given.quick)
    if given.workers > 1:
        with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
            found = list(pool.map(work, units))
    else:
        found = list(map(work, units))
    kept = result(merged(found), budgets_of(given.quick))
    if given.out or not given.quick:
        write_json(given.out or RESULTS, kept)
    print(docs_table(kept))


if __name__ == "__main__":
    main()
