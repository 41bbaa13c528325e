"""``load``: a graph from a name or a path."""

from __future__ import annotations

import contextlib
import zipfile
from pathlib import Path

from naq.data.catalog import BUNDLED, Dataset, find, unknown
from naq.data.download import dataset_root, obtain
from naq.data.npz import read_graph, save_graph
from naq.errors import DataError
from naq.graph import Graph

_FORMATS = "a graph npz, NAME_train.mat with its companions, an OGB zip, or a folder of either"


def load(name_or_path: str | Path, *, root: str | Path | None = None, download: bool = True) -> Graph:
    """A graph by name or from a file.

    Args:
        name_or_path: a name of :data:`naq.data.DATASETS`, ``pyg:Class`` or ``pyg:Class/name`` for a dataset
            of PyG, or a path: a graph npz, a ``.mat`` file or folder in GPN's layout, a folder or zip of
            OGB's raw files. A name wins over a file of the same name; write ``./name`` for the file.
        root: where datasets are kept; else the environment variable ``NAQ_DATA``, else ``~/.cache/naq/data``.
        download: whether a missing public file may be fetched.

    The graph's ``source`` is the name, or the path made absolute.
    """
    if isinstance(name_or_path, str):
        if name_or_path.startswith("pyg:"):
            from naq.data.pyg import read_pyg

            return read_pyg(name_or_path, dataset_root(root), download=download).with_source(name_or_path)
        dataset = find(name_or_path)
        if dataset is not None:
            return _load_named(dataset, root, download).with_source(dataset.name)
    path = Path(name_or_path).expanduser()
    if _exists(name_or_path, path):
        return read_path(path).with_source(str(path.absolute()))
    if path.suffix in (".npz", ".mat", ".zip") or isinstance(name_or_path, Path) or "/" in name_or_path:
        raise DataError(f"{path} does not exist; expected {_FORMATS}.")
    raise unknown(name_or_path)


def _exists(given: str | Path, path: Path) -> bool:
    try:
        return given != "" and path.exists()
    except OSError:  # a name too long to be a file
        return False


def read_path(path: Path) -> Graph:
    """A graph from an existing file or folder, by its layout."""
    from naq.data import gpn, ogb

    if path.suffix == ".npz":
        return read_graph(path)
    if ogb.is_ogb(path):
        return ogb.read_ogb(path)
    if (path.is_dir() and not gpn.stems(path)) or (path.is_file() and not is_gpn(path)):
        raise DataError(f"{path} is not in a format that can be read; expected {_FORMATS}.")
    return gpn.read_gpn(*gpn.locate(path))


def is_gpn(path: Path) -> bool:
    """Whether a path is, or holds, files in GPN's layout."""
    from naq.data import gpn

    return bool(gpn.stems(path)) if path.is_dir() else path.suffix == ".mat" or path.name.endswith("_network")


def _load_named(dataset: Dataset, root: str | Path | None, download: bool) -> Graph:
    ready = dataset.ready(root)
    if ready is not None:
        return read_graph(ready, name=dataset.name)
    if dataset.reader == "bundled":
        raise DataError(f"{BUNDLED / dataset.name}.npz is missing from this installation; install naq again.")
    folder = dataset.folder(root)
    files = [
        obtain(remote.url, folder / remote.file, sha256=remote.sha256, download=download) for remote in dataset.files
    ]
    if dataset.reader == "gpn":
        from naq.data.gpn import read_gpn

        return read_gpn(folder, dataset.stem, name=dataset.name)
    if dataset.reader == "cora-full":
        from naq.data.cora_full import read_cora_full

        return read_cora_full(files[0], name=dataset.name)
    from naq.data.ogb import read_ogb

    graph = read_ogb(files[0], name=dataset.name)
    # Text takes minutes to read, this file seconds. Where it cannot be written, only that time is lost.
    with contextlib.suppress(DataError):
        save_graph(dataset_root(root) / f"{dataset.name}.npz", graph, compression=zipfile.ZIP_STORED)
    return graph
