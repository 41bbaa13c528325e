"""Asking for experiments, computing what they need, and remembering what was asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from naq.data import split_for
from naq.data.catalog import find as find_dataset
from naq.data.catalog import listing, unknown
from naq.errors import DataError, NaqError, OptionError
from naq.experiments.base import Experiment, all_experiments, get_experiment
from naq.experiments.captions import dataset_slug
from naq.experiments.paper.names import PAPER_DATASETS, paper_name
from naq.experiments.request import Request
from naq.files import read_json, write_json
from naq.graph import Graph
from naq.grid.cells import Cell
from naq.grid.datasets import DatasetCache
from naq.grid.fingerprint import identify
from naq.grid.records import Find, Record
from naq.grid.runners import Outcome, Runner, Setup
from naq.grid.store import Store
from naq.options import nearest

FORMAT = 1
STAND_IN = "debian"
"""The dataset where none of the paper's is at hand."""
GROUPS = {"all": "every table and analysis", "tables": "every table", "analyses": "every analysis"}


def names_of(name: str) -> list[str]:
    """The experiments behind a name: one, or a group of them."""
    known = all_experiments()
    if name in GROUPS:
        kind = {"tables": "table", "analyses": "analysis"}.get(name)
        return [e.name for e in known.values() if kind is None or e.kind == kind]
    if name not in known:
        raise OptionError(f"there is no table or analysis {name!r}; {nearest(name, [*known, *GROUPS])}")
    return [name]


@dataclass(frozen=True)
class Choice:
    """Datasets by the names that cells use, where they lie, and sentences on what was left out."""

    datasets: tuple[str, ...]
    paths: Mapping[str, str]
    remarks: tuple[str, ...] = ()


def choose_datasets(experiment: Experiment, given: Sequence[str], folder: str | Path | None = None) -> Choice:
    """The datasets of an experiment: those given; else the paper's that lie in ``folder`` or are at hand; else the bundled one."""
    if given:
        named: dict[str, str] = {}
        for name, place in map(_named, given):
            if named.setdefault(name, place) != place:
                raise OptionError(
                    f"two datasets are called {name!r} ({named[name] or name} and {place or name}); rename one of the files."
                )
        return Choice(tuple(named), {name: place for name, place in named.items() if place})
    if folder is not None:
        found = _in_folder(Path(folder))
        chosen = {name: found[name] for name in experiment.datasets if name in found}
        if not chosen:
            raise DataError(
                f"{folder} holds none of the graphs of {experiment.name} ({', '.join(experiment.datasets)}); "
                "give one with --dataset."
            )
        return Choice(tuple(chosen), chosen)
    here = {row["name"] for row in listing() if row["state"] != "to download"}
    at_hand = tuple(name for name in experiment.datasets if name in here)
    if at_hand:
        return Choice(at_hand, {})
    remark = f"none of the paper's datasets for {experiment.name} is at hand ({', '.join(experiment.datasets)}): {STAND_IN} stands in."
    return Choice((STAND_IN,), {}, (remark,))


def _named(text: str) -> tuple[str, str]:
    """The name a dataset has in cells, and its place unless the name says it."""
    known = find_dataset(text)
    if known is not None:
        return known.name, ""
    if text.startswith("pyg:"):
        return text, ""
    path = Path(text).expanduser()
    if not path.exists():
        raise unknown(text)
    return _name_of_file(path), str(path)


def _name_of_file(path: Path) -> str:
    paper = paper_name(path.name)
    ours = {title: name for name, title in PAPER_DATASETS.items()}
    return ours[paper] if paper is not None else dataset_slug(path.name)


def _in_folder(folder: Path) -> dict[str, str]:
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder; give one with graphs, e.g. --data data.")
    files = (path for path in folder.glob("*.npz") if not path.name.endswith(".tasks.npz"))
    found: dict[str, str] = {}
    # of dblp.npz and dblp_network.npz the shorter name is the whole graph
    for path in sorted(files, key=lambda path: (len(path.name), path.name)):
        found.setdefault(_name_of_file(path), str(path))
    return found


def facts_of(dataset: str, dataset_cache: DatasetCache) -> dict[str, Any]:
    """What a request and a report have to know of a dataset; JSON values."""
    graph = dataset_cache.graph(dataset)
    facts: dict[str, Any] = {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": graph.num_features,
        "classes": graph.num_classes,
        "hash": dataset_cache.data_hash(dataset),
        "tasks": None if (file := dataset_cache.tasks(dataset)) is None else file.name,
    }
    if graph.num_classes:
        homophily = graph.homophily()
        facts["homophily"] = homophily if math.isfinite(homophily) else None
    if graph.num_classes and graph.num_features:  # what can be trained has tasks
        try:
            split = split_for(dataset_cache.source(dataset), graph)
        except NaqError:
            return facts
        facts |= {"base": len(split.base), "valid": len(split.valid), "test": len(split.test)}
        facts["most_classes"] = min(facts["valid"], facts["test"])
    return facts


def usable(experiment: Experiment, dataset: str, graph: Graph) -> str:
    """A sentence where an experiment cannot run on a dataset, else ""."""
    for need, there in (("labels", graph.num_classes > 0), ("features", graph.num_features > 0)):
        if need in experiment.needs and not there:
            return f"{experiment.name} needs {need}, which {dataset} does not have: it is left out."
    return ""


@dataclass
class Plan:
    """What a folder of results was made for: requests, and where their datasets lie."""

    requests: list[Request] = field(default_factory=list)
    paths: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: str | Path) -> Plan:
        """The plan of a folder; an empty one where there is none."""
        file = Path(folder) / "plan.json"
        if not file.exists():
            return cls()
        data = read_json(file)
        try:
            if data["format"] != FORMAT:
                raise DataError(
                    f"{file} has format {data['format']!r}; expected {FORMAT}: it was made by another version."
                )
            return cls([Request.from_json(request) for request in data["requests"]], dict(data["paths"]))
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, NaqError):
                raise
            raise DataError(
                f"{file} is no plan of experiments ({error!r}); delete it and run naq reproduce again."
            ) from error

    def add(self, requests: Iterable[Request], paths: Mapping[str, str]) -> None:
        """Take in requests; one that was there already, perhaps on older data, is replaced."""
        for request in requests:
            same = [i for i, old in enumerate(self.requests) if replace(old, facts={}) == replace(request, facts={})]
            for i in reversed(same[1:]):
                del self.requests[i]
            if same:
                self.requests[same[0]] = request
            else:
                self.requests.append(request)
        self.paths |= dict(paths)

    def save(self, folder: str | Path) -> None:
        write_json(
            Path(folder) / "plan.json",
            {"format": FORMAT, "requests": [request.to_json() for request in self.requests], "paths": self.paths},
        )


def finder(store: Store, dataset_cache: DatasetCache) -> Find:
    """Looks a cell up in the store, as the data and the code are now."""

    def find(cell: Cell) -> Record | None:
        key = identify(cell, dataset_cache).key(cell)
        return store.get(key) or store.failure(key)

    return find


def cells_of(requests: Iterable[Request], find: Find) -> list[Cell]:
    """Everything that is known to be needed, each cell once."""
    found = (cell for request in requests for cell in get_experiment(request.experiment).cells(request, find))
    return list(dict.fromkeys(found))


def compute(
    requests: Sequence[Request],
    store: Store,
    runner: Runner,
    setup: Setup,
    listener: Callable[[str, Mapping[str, Any]], None] | None = None,
) -> Outcome:
    """Compute what the requests need, in rounds: which settings win decides which trainings come next."""
    dataset_cache = runner.dataset_cache(setup)
    total, tried = Outcome(), set[Cell]()
    while True:
        known: dict[Cell, Record | None] = {}
        look = finder(store, dataset_cache)

        def find(cell: Cell, known: dict[Cell, Record | None] = known, look: Find = look) -> Record | None:
            if cell not in known:
                known[cell] = look(cell)
            return known[cell]

        new = [cell for cell in cells_of(requests, find) if cell not in tried]
        if not new:
            return total
        outcome = runner.run(new, store, setup, listener)
        tried.update(new)
        for name in ("done", "skipped", "failed", "left", "busy"):
            getattr(total, name).extend(getattr(outcome, name))
        if outcome.stopped:
            total.stopped = True
            return total
