"""The datasets of a request: those that were given, else the paper's that are available; and what is known of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from naq.errors import DataError, NaqError, OptionError
from naq.io import split_for
from naq.io.catalog import find as find_dataset
from naq.io.catalog import listing, unknown
from naq.options import did_you_mean
from naq_paper.cells.datasets import DatasetCache
from naq_paper.experiments.captions import dataset_slug
from naq_paper.experiments.experiment import EXPERIMENTS, Experiment, expand
from naq_paper.experiments.names import PAPER_DATASETS, paper_name
from naq_paper.experiments.request import Request

STAND_IN = "debian"
"""The dataset if none of the paper's is available."""
KINDS = {"tables": "table", "analyses": "analysis"}
GROUPS = {
    "all": "every table and analysis",
    "tables": "every table",
    "analyses": "every analysis",
    "beyond": "NaQ in closed form: docs/beyond.md",
}


def experiments_of(name: str) -> list[str]:
    """The experiments behind a name: one, or a group of them."""
    if name in GROUPS:
        return [each for each, one in EXPERIMENTS.items() if name in ("all", one.group) or KINDS.get(name) == one.kind]
    if name not in EXPERIMENTS:
        raise OptionError(f"{name!r} is not a table or an analysis; {did_you_mean(name, [*EXPERIMENTS, *GROUPS])}")
    return [name]


def make_requests(
    names: Sequence[str],
    dataset_cache: DatasetCache,
    *,
    given: Sequence[str] = (),
    folder: Path | None = None,
    remark: Callable[[str], None] = lambda sentence: None,
    **settings: Any,
) -> list[Request]:
    """One request per experiment, with its datasets and what is known of them; the cache learns their paths.

    Args:
        names: of experiments and of groups of them.
        given: datasets by name or path; by default the paper's in ``folder`` or available ones, else the bundled one.
        remark: called with a sentence for everything that is left out.
        settings: as those of :class:`Request`.
    """
    wanted = list(dict.fromkeys(known for name in names for known in experiments_of(name)))
    if folder is not None and not folder.is_dir():
        raise OptionError(f"--data is {folder}, which is not a folder; give one with graphs as npz files.")
    requests: list[Request] = []
    facts: dict[str, dict[str, Any]] = {}
    for name in wanted:
        Request(name, (), **settings)  # checked before a graph is loaded
        experiment = EXPERIMENTS[name]
        try:
            paths = choose_datasets(experiment, given, folder, remark)
        except DataError as error:
            if given or len(wanted) == 1:
                raise
            remark(f"{name} is left out: {error}")
            continue
        dataset_cache.paths |= {dataset: path for dataset, path in paths.items() if path}
        whys = {dataset: unusable(experiment, dataset, dataset_cache, facts, settings) for dataset in paths}
        for why in filter(None, whys.values()):
            remark(f"{why}: it is left out.")
        kept = [dataset for dataset, why in whys.items() if not why]
        if kept:
            requests.append(Request(name, tuple(kept), facts={each: facts[each] for each in kept}, **settings))
    if not requests:
        raise OptionError(f"nothing to do: no dataset fits {', '.join(names)}; see 'naq list experiments'.")
    return requests


def choose_datasets(
    experiment: Experiment, given: Sequence[str], folder: Path | None, remark: Callable[[str], None]
) -> dict[str, str]:
    """The datasets of an experiment by the names that cells use, and the path of each that is not a name."""
    if given:
        named: dict[str, str] = {}
        for name, path in map(_named, given):
            if named.setdefault(name, path) != path:
                both = f"{named[name] or name} and {path or name}"
                raise OptionError(f"two datasets are called {name!r} ({both}); rename one of the files.")
        return named
    papers = ", ".join(experiment.datasets)
    states = {row["name"]: row["state"] for row in listing()}
    if folder is None:
        here = {name: "" for name, state in states.items() if state in ("bundled", "on disk")}
    else:
        here = {name: "" for name, state in states.items() if state == "bundled"} | _in_folder(folder)
    chosen = {name: here[name] for name in experiment.datasets if name in here}
    if chosen:
        return chosen
    if folder is not None:
        raise DataError(f"{folder} holds none of the graphs of {experiment.name} ({papers}); give one with --dataset.")
    remark(f"none of the paper's datasets for {experiment.name} is available ({papers}): {STAND_IN} is used instead.")
    return {STAND_IN: ""}


def unusable(
    experiment: Experiment,
    dataset: str,
    dataset_cache: DatasetCache,
    facts: dict[str, Any],
    settings: Mapping[str, Any],
) -> str:
    """Why an experiment cannot run on a dataset, else ""; notes the dataset's facts."""
    graph = dataset_cache.graph(dataset)
    for need, there in (("labels", graph.num_classes > 0), ("features", graph.num_features > 0)):
        if need in experiment.needs and not there:
            return f"{experiment.name} needs {need}, which {dataset} does not have"
    facts[dataset] = facts.get(dataset) or dataset_facts(dataset, dataset_cache)
    request = Request(experiment.name, (dataset,), facts={dataset: facts[dataset]}, **settings)
    [study] = expand(request, lambda cell: None)
    return "" if study.groups else f"{experiment.name} has no setting that the classes of {dataset} can fill"


def dataset_facts(dataset: str, dataset_cache: DatasetCache) -> dict[str, Any]:
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
        # a task file of test tasks alone has no validation classes
        facts["most_classes"] = min(facts["valid"] or facts["test"], facts["test"])
    return facts


def _named(text: str) -> tuple[str, str]:
    """The name of a dataset in cells, and its path; "" for one that is loaded by its name."""
    known = find_dataset(text)
    if known is not None or text.startswith("pyg:"):
        return known.name if known is not None else text, ""
    path = Path(text).expanduser()
    if not path.exists():
        raise unknown(text)
    return _name_of_file(path), str(path)


def _name_of_file(path: Path) -> str:
    paper = paper_name(path.name)
    ours = {title: name for name, title in PAPER_DATASETS.items()}
    return ours[paper] if paper is not None else dataset_slug(path.name)


def _in_folder(folder: Path) -> dict[str, str]:
    files = (path for path in folder.glob("*.npz") if not path.name.endswith(".tasks.npz"))
    found: dict[str, str] = {}
    # of dblp.npz and dblp_network.npz the shorter name is the whole graph
    for path in sorted(files, key=lambda path: (len(path.name), path.name)):
        found.setdefault(_name_of_file(path), str(path))
    return found
