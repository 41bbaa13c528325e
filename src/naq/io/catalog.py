"""The datasets that are known by name: ``datasets.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from naq.errors import DataError
from naq.io.download import dataset_root
from naq.options import did_you_mean

BUNDLED = Path(__file__).parent / "bundled"
MEASURED_UP_TO = 100 << 20
"""Bytes of a file that is read to list datasets."""


@dataclass(frozen=True)
class Remote:
    """One public file of a dataset.

    Args:
        sha256: published checksum, or None: then the first download is recorded and holds for later loads.
        mirror: another address, tried if the first fails.
    """

    file: str
    url: str
    sha256: str | None = None
    mirror: str = ""


@dataclass(frozen=True)
class Dataset:
    """What is known of a dataset before it is loaded. ``edges`` are undirected, after merging.

    Args:
        files: that are downloaded; a dataset that is neither bundled nor of PyG and has none is put in place by hand.
        stem: the name that PyG has for it.
        split: numbers of base, validation and test classes.
        homophily: share of edges that join nodes of one class.
        hash: of the graph that the published results were computed on.
    """

    name: str
    nodes: int
    edges: int
    features: int
    classes: int
    description: str
    reader: str
    home: str = ""
    licence: str | None = None
    files: tuple[Remote, ...] = ()
    stem: str = ""
    split: Sequence[int] | None = None
    homophily: float | None = None
    hash: str = ""

    def folder(self, root: str | Path | None = None) -> Path:
        """Where its files are kept."""
        return dataset_root(root) / self.name

    def ready(self, root: str | Path | None = None) -> Path | None:
        """The graph file that needs no conversion: the bundled one, or ``<root>/<name>.npz``."""
        return self.find_file(".npz", root)

    def find_file(self, ending: str, root: str | Path | None = None) -> Path | None:
        """The file in the root, or among those bundled, that is called as the dataset, with ``-`` or ``_``."""
        folder = BUNDLED if self.reader == "bundled" else dataset_root(root)
        paths = [folder / f"{name}{ending}" for name in (self.name, self.name.replace("-", "_"))]
        return next((path for path in paths if path.is_file()), None)


SIZES = ("nodes", "edges", "features", "classes")


def _dataset(name: str, sizes: list[int], base: str = "", mirror: str = "", **facts: Any) -> Dataset:
    files = tuple(Remote(file, base + file, mirror=mirror and mirror + file) for file in facts.pop("files", ()))
    facts |= zip(SIZES, sizes, strict=True)
    return Dataset(name, files=files, **facts)


with Path(__file__).with_name("datasets.toml").open("rb") as _file:
    DATASETS = {name: _dataset(name, **facts) for name, facts in tomllib.load(_file).items()}


def find(name: str) -> Dataset | None:
    """The dataset of this name, in any case and with ``_`` for ``-``."""
    return DATASETS.get(name.lower().replace("_", "-"))


def unknown(name: str) -> DataError:
    """The error for a name that is neither a dataset nor a path."""
    expected = f"expected a path, pyg:Class/name or one of {', '.join(DATASETS)}."
    near = did_you_mean(name.lower().replace("_", "-"), DATASETS, expected)
    return DataError(f"there is neither a dataset nor a file {name!r}; {near}")


def listing(root: str | Path | None = None, *, measure: bool = False) -> list[dict[str, Any]]:
    """One row per dataset: its facts and ``state``: ``bundled``, ``on disk``, ``to download`` or ``by hand``.

    ``measure`` reads graph files up to ``MEASURED_UP_TO`` bytes and adds to the state what they have; ``as ours`` is
    the graph of the published results.
    """
    rows = []
    try:
        dataset_root(root)
    except DataError:  # a user without a home has no datasets on disk
        root = "."
    for dataset in DATASETS.values():
        state, ready = "to download" if dataset.files or dataset.reader == "pyg" else "by hand", dataset.ready(root)
        downloaded = [(dataset.folder(root) / remote.file).is_file() for remote in dataset.files]
        if ready or (downloaded and all(downloaded)):
            state = "bundled" if dataset.reader == "bundled" else "on disk"
        if measure and ready and state == "on disk" and ready.stat().st_size <= MEASURED_UP_TO:
            state = f"{state}: {_measured(dataset, ready)}"
        keys = ("name", "description", *SIZES, "homophily", "licence", "home")
        split = None if dataset.split is None else "/".join(map(str, dataset.split))
        rows.append({key: getattr(dataset, key) for key in keys} | {"split": split, "state": state})
    return rows


def _measured(dataset: Dataset, path: Path) -> str:
    from naq.io.npz import read_graph

    try:
        graph = read_graph(path)
    except DataError as error:
        return str(error)
    if graph.hash == dataset.hash:
        return "as ours"
    found = {key: getattr(graph, f"num_{key}") for key in SIZES}
    other = [f"{value:,} {key}" for key, value in found.items() if value != getattr(dataset, key)]
    homophily = f", homophily {graph.homophily():.2f}" if graph.num_classes else ""
    return (f"differs: {', '.join(other)}" if other else "the sizes listed") + homophily
