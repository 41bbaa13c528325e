"""The datasets that are known by name."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from naq.errors import DataError
from naq.io.download import dataset_root

BUNDLED = Path(__file__).parent / "bundled"

_GPN = "https://raw.githubusercontent.com/kaize0409/GPN_Graph-Few-shot/master/few_shot_data/"
_OGB = "https://snap.stanford.edu/ogb/data/nodeproppred/"


@dataclass(frozen=True)
class Remote:
    """One public file of a dataset.

    Args:
        sha256: published checksum, or None: then the first download is recorded and holds for later loads.
        confirmed: whether the file was seen in a public listing of its repository; otherwise the address
            follows the pattern of its neighbours.
    """

    file: str
    url: str
    sha256: str | None = None
    confirmed: bool = True


@dataclass(frozen=True)
class Dataset:
    """What is known of a dataset before it is loaded. ``edges`` are undirected, after merging."""

    name: str
    description: str
    reader: str
    home: str
    nodes: int | None = None
    edges: int | None = None
    features: int | None = None
    classes: int | None = None
    licence: str | None = None
    files: tuple[Remote, ...] = ()
    stem: str = ""
    valid_test: tuple[int, int] | None = None

    def folder(self, root: str | Path | None = None) -> Path:
        """Where its files are kept."""
        return dataset_root(root) / self.name

    def ready(self, root: str | Path | None = None) -> Path | None:
        """The graph file that needs no conversion: the bundled one, or ``<root>/<name>.npz``."""
        path = BUNDLED / f"{self.name}.npz" if self.reader == "bundled" else dataset_root(root) / f"{self.name}.npz"
        return path if path.is_file() else None


def _gpn(name: str, stem: str, confirmed: set[str], description: str, sizes: tuple[int, int, int, int]) -> Dataset:
    names = [f"{stem}{suffix}" for suffix in ("_train.mat", "_test.mat", "_network")]
    files = tuple(Remote(file, _GPN + file, confirmed=file in confirmed) for file in names)
    home = "https://github.com/kaize0409/GPN_Graph-Few-shot"
    return Dataset(name, description, "gpn", home, *sizes, files=files, stem=stem)


def _ogb(
    name: str, description: str, sizes: tuple[int, int, int, int], licence: str, split: tuple[int, int]
) -> Dataset:
    file = f"{name.removeprefix('ogbn-')}.zip"
    home = "https://ogb.stanford.edu/docs/nodeprop/"
    return Dataset(name, description, "ogb", home, *sizes, licence, (Remote(file, _OGB + file),), valid_test=split)


_CLOTHING = {"Amazon_clothing_test.mat", "Amazon_clothing_network"}
_ELECTRONICS = {"Amazon_eletronics_network"}
_G2G = "https://github.com/abojchevski/graph2gauss"
_ALL = (
    Dataset("debian", "Debian packages that depend on each other, with words of their descriptions", *("bundled",) * 2),
    _gpn("amazon-clothing", "Amazon_clothing", _CLOTHING, "Clothing products viewed together", (24_919, 91_680, 9_034, 77)),
    _gpn("amazon-electronics", "Amazon_eletronics", _ELECTRONICS, "Electronics products bought together", (42_318, 43_556, 8_669, 167)),
    _gpn("dblp", "dblp", set(), "Papers and their citations, classes are venues", (40_672, 288_270, 7_202, 137)),
    Dataset(
        "cora-full", "Papers and their citations, classes are topics", "cora-full", _G2G, 19_793, 63_421, 8_710, 70,
        files=(Remote("cora.npz", f"{_G2G}/raw/master/data/cora.npz"),),
    ),
    _ogb("ogbn-arxiv", "arXiv computer-science papers and their citations", (169_343, 1_157_799, 128, 40), "ODC-BY", (10, 15)),
    _ogb("ogbn-products", "Amazon products bought together", (2_449_029, 61_859_140, 100, 47), "Amazon", (15, 17)),
)  # fmt: skip

DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in _ALL}


def find(name: str) -> Dataset | None:
    """The dataset of this name, in any case and with ``_`` for ``-``."""
    return DATASETS.get(name.lower().replace("_", "-"))


def unknown(name: str) -> DataError:
    """The error for a name that is no dataset and no path."""
    near = difflib.get_close_matches(name.lower().replace("_", "-"), DATASETS, n=3, cutoff=0.4)
    hint = f"nearest: {', '.join(near)}" if near else f"known: {', '.join(DATASETS)}"
    return DataError(f"there is no dataset {name!r} ({hint}), and no such file; give a name, pyg:Class/name or a path.")


def listing(root: str | Path | None = None) -> list[dict[str, Any]]:
    """One row per dataset: its facts and ``state``, one of ``bundled``, ``on disk`` and ``to download``.

    Sizes that are not fixed by a publication are read from the graph file where it is on disk.
    """
    from naq.io.npz import sizes_of_file

    rows = []
    try:
        dataset_root(root)
    except DataError:  # a user without a home has no datasets on disk
        root = "."
    for dataset in DATASETS.values():
        facts: dict[str, Any] = {key: getattr(dataset, key) for key in ("nodes", "edges", "features", "classes")}
        ready = dataset.ready(root)
        if ready is not None and None in facts.values():
            facts = sizes_of_file(ready)
        state = "to download"
        if ready is not None or all((dataset.folder(root) / remote.file).is_file() for remote in dataset.files):
            state = "bundled" if dataset.reader == "bundled" else "on disk"
        row = {"name": dataset.name, "description": dataset.description, **facts, "licence": dataset.licence}
        rows.append(row | {"home": dataset.home, "state": state})
    return rows
