"""Tasks and class splits that go with a dataset."""

from __future__ import annotations

from pathlib import Path

from naq.errors import DataError, TaskError
from naq.graph import Graph
from naq.io.catalog import Dataset, find
from naq.io.download import dataset_root
from naq.io.readers import READERS, find_reader
from naq.tasks import ClassSplit, split_classes, split_of_file
from naq.tasks.tasks import class_sizes

ENOUGH_NODES = 13
"""5 shots and 8 queries, the largest setting of the paper."""

FEWEST_CLASSES = 6


def tasks_path(source: str | Path, *, root: str | Path | None = None) -> Path | None:
    """The task file that goes with a dataset name or a path, or None.

    Bundled for ``debian``; ``<root>/<name>.tasks.npz`` for the other names; ``X.tasks.npz`` next to ``X.npz``.
    """
    dataset = find(source) if isinstance(source, str) else None
    if dataset is not None:
        return dataset.find_file(".tasks.npz", root)
    if isinstance(source, str) and source.startswith("pyg:"):
        return None
    place = Path(source).expanduser().absolute()
    path = place.with_name(f"{place.name.removesuffix('.npz')}.tasks.npz") if place.name else place
    try:
        return path if path.is_file() else None
    except (OSError, ValueError):  # a name that no file can have
        return None


def split_for(source: str | Path, graph: Graph, *, seed: int = 0, root: str | Path | None = None) -> ClassSplit:
    """Base, validation and test classes of a dataset.

    In this order: the split of its task file; the paper's rule for its datasets and files in GPN's layout; a
    drawn split. Only what is drawn depends on ``seed``. Drawn: of the C classes with 13 nodes or more, max(2,
    0.3 C) for testing and max(2, 0.25 C) for validation, rounded, the rest base; C must be 6 or more.

    For the OGB graphs the paper gives the number of classes of each part (arxiv 10 validation and 15 test,
    products 15 and 17) but not which: those are drawn.
    """
    tasks = tasks_path(source, root=root)
    if tasks is not None:
        return split_of_file(tasks, graph)
    dataset = find(source) if isinstance(source, str) else None
    if dataset is not None and dataset.files:
        return _paper_split(dataset, graph, seed, root)
    if dataset is None and not str(source).startswith("pyg:"):
        path = Path(source).expanduser()
        reader = find_reader(path)
        split = None if reader is None else reader.split(path, graph)
        if split is not None:
            return split
    return drawn_split(graph, seed)


def drawn_split(graph: Graph, seed: int = 0) -> ClassSplit:
    """A split of any labelled graph; see :func:`split_for`."""
    usable = int((class_sizes(graph) >= ENOUGH_NODES).sum())
    if usable < FEWEST_CLASSES:
        raise TaskError(
            f"graph {graph.name!r} has {usable} classes with {ENOUGH_NODES} nodes or more, and a split "
            f"into base, validation and test classes needs {FEWEST_CLASSES}; "
            "give a task file, or label more nodes."
        )
    valid, test = max(2, round(0.25 * usable)), max(2, round(0.3 * usable))
    return split_classes(graph, valid=valid, test=test, seed=seed, min_nodes=ENOUGH_NODES)


def _paper_split(dataset: Dataset, graph: Graph, seed: int, root: str | Path | None) -> ClassSplit:
    if dataset.reader == "ogb" and dataset.split is not None:
        _, valid, test = dataset.split
        return split_classes(graph, valid=valid, test=test, seed=seed, min_nodes=ENOUGH_NODES)
    try:
        split = READERS.find(dataset.reader)().split(dataset.folder(root) / dataset.files[0].file, graph)
    except DataError as error:
        raise DataError(
            f"the class split of {dataset.name} is in its .mat files ({error}); put them there, or a "
            f"{dataset.name}.tasks.npz into {dataset_root(root)}."
        ) from error
    return drawn_split(graph, seed) if split is None else split
