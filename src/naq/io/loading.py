"""``load``: a graph from a name, from a dataset of PyG, or from a path."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from naq.errors import DataError
from naq.files import recover
from naq.graph import Graph
from naq.io.catalog import BUNDLED, Dataset, find, unknown
from naq.io.download import dataset_root, obtain
from naq.io.npz import read_graph, save_graph
from naq.io.readers import READERS, find_reader

if TYPE_CHECKING:
    from naq.errors import Listener
    from naq.io.tables import Choice, Imported

_SUFFIXES = (".npz", ".mat", ".zip", ".csv", ".tsv", ".gz", ".txt", ".parquet", ".graphml")


def load(
    name_or_path: str | Path,
    *,
    nodes: str | Path | None = None,
    label: str | None = None,
    ignore: Sequence[str] = (),
    root: str | Path | None = None,
    download: bool = True,
    verify: bool = False,
) -> Graph:
    """A graph by name or from a file.

    Args:
        name_or_path: a name of :data:`naq.io.DATASETS`, ``pyg:Class`` or ``pyg:Class/name`` for a dataset
            of PyG, or a path: a graph npz, a graph folder (``naq import --mmap``), a ``.mat`` file or folder in GPN's
            layout, a folder or zip of OGB's raw files, an edge list as text or Parquet, a GraphML file. A name wins
            over a file of the same name; write ``./name`` for the file.
        nodes: the table of nodes of an edge list; without it, nodes are those that edges name and have no features.
        label, ignore: the column of classes in it, and columns that are not read.
        root: where datasets are kept; else the environment variable ``NAQ_DATA``, else ``~/.cache/naq/data``.
        download: whether a missing public file may be fetched.
        verify: read a graph folder through once and compare its checksums; :mod:`naq_scale.mapped` says what is checked
            without.

    The graph's ``source`` is the name, or the path made absolute.
    """
    if verify:
        path = _expand(name_or_path)
        if (reader := find_reader(path)) is None:
            raise DataError(f"verify is True, but {name_or_path} is not a graph folder; leave verify out.")
        return reader.read_verified(path).with_source(str(path.absolute()))
    if nodes is not None or label is not None or ignore:
        from naq.io.tables import Choice
        from naq.io.tables.importing import warn_of_losses

        return warn_of_losses(load_tables(name_or_path, nodes, Choice(label=label, ignore=tuple(ignore))))
    if isinstance(name_or_path, str):
        if name_or_path.startswith("pyg:"):
            from naq.io.pyg import read_pyg

            return read_pyg(name_or_path, dataset_root(root), download=download).with_source(name_or_path)
        dataset = find(name_or_path)
        if dataset is not None:
            return _load_named(dataset, root, download).with_source(dataset.name)
    path = _expand(name_or_path)
    if _exists(name_or_path, path):
        return read_path(path).with_source(str(path.absolute()))
    if path.suffix in _SUFFIXES or isinstance(name_or_path, Path) or "/" in name_or_path:
        raise DataError(f"{path} does not exist; expected {_formats()}.")
    raise unknown(name_or_path)


def load_tables(
    edges: str | Path, nodes: str | Path | None, choice: Choice, listener: Listener | None = None
) -> Imported:
    """What :func:`load` reads from an edge list with a table of nodes, or from GraphML, with the report."""
    from naq.io.tables.importing import import_tables
    from naq.io.tables.reading import is_graphml, is_table

    path = _expand(edges)
    if not is_table(path) and (nodes is not None or not is_graphml(path)):
        given = {"nodes": nodes} | vars(choice) | {"keep": None}
        flags = [f"--{name.replace('_', '-')}" for name, value in given.items() if value not in (None, ())]
        are, them = ("is", "it") if len(flags) == 1 else ("are", "them")
        what = f"{' and '.join(flags)} {are} given, but {edges} is not an edge list in a table"
        raise DataError(f"{what}; leave {them} out.")
    found = import_tables(path, nodes, choice, listener=listener)
    return found._replace(graph=found.graph.with_source(str(path.absolute())))


def _expand(given: str | Path) -> Path:
    try:
        return Path(given).expanduser()
    except RuntimeError:  # ~ of a user without a home
        return Path(given)


def _exists(given: str | Path, path: Path) -> bool:
    try:
        if given != "" and not path.exists():
            recover(path)
        return given != "" and path.exists()
    except (OSError, ValueError):  # a name too long to be a file, or with a zero byte
        return False


def read_path(path: Path) -> Graph:
    """A graph from an existing file or folder, by its layout."""
    if (reader := find_reader(path)) is not None:
        return reader.read(path)
    from naq.io.tables.reading import check_known_format

    check_known_format(path)
    raise DataError(f"{path} is not in a format that can be read; expected {_formats()}.")


def _formats() -> str:
    return ", ".join(reader.expects for reader in READERS.values() if reader.expects) + ", or a folder of such files"


def _load_named(dataset: Dataset, root: str | Path | None, download: bool) -> Graph:
    ready = dataset.ready(root)
    if ready is not None:
        return read_graph(ready, name=dataset.name)
    if dataset.reader == "bundled":
        raise DataError(f"{BUNDLED / dataset.name}.npz is missing from this installation; install naq again.")
    folder, here = dataset.folder(root), f"put {dataset.name}.npz into {dataset_root(root)}"
    if dataset.reader == "pyg":
        try:
            from naq.io.pyg import read_pyg

            return read_pyg(f"pyg:{dataset.stem}", dataset_root(root), download=download, name=dataset.name)
        except DataError as error:
            raise DataError(f"{str(error).removesuffix('.')}; or {here}.") from error
    if not dataset.files:
        raise DataError(f"{dataset.name} cannot be downloaded; {here}.")
    files = [
        obtain(one.url, folder / one.file, sha256=one.sha256, download=download, mirror=one.mirror)
        for one in dataset.files
    ]
    reader = READERS.find(dataset.reader)()
    graph = reader.read(files[0], dataset.name)
    if reader.slow:
        # Reading the npz takes seconds. Where it cannot be written, only that time is lost.
        with contextlib.suppress(DataError):
            save_graph(dataset_root(root) / f"{dataset.name}.npz", graph, compression=zipfile.ZIP_STORED)
    return graph
