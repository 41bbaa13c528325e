"""Any single-graph dataset of PyG by its class name, e.g. ``pyg:Planetoid/Cora``."""

from __future__ import annotations

import difflib
import inspect
from pathlib import Path
from typing import Any

from naq.errors import DataError, GraphError
from naq.graph import Graph

PREFIX = "pyg:"


def read_pyg(source: str, root: Path, *, download: bool = True) -> Graph:
    """``pyg:Class`` or ``pyg:Class/name``; PyG keeps its own files under ``root/pyg``."""
    title, _, sub = source.removeprefix(PREFIX).partition("/")
    kind = _dataset_class(title)
    folder = root / "pyg" / title / sub.replace("/", "_")
    if not download and "root" in _arguments(kind) and not folder.is_dir():
        raise DataError(f"{source} is not in {folder} and downloading is switched off; allow it once.")
    options = {_name_argument(kind, source): sub} if sub else {}
    if "root" in _arguments(kind):
        options["root"] = str(folder)
    try:
        dataset = kind(**options)
    except TypeError as error:
        hint = f"write pyg:{title}/NAME" if not sub else "see PyG's documentation of this dataset"
        raise DataError(f"{source} cannot be made with these arguments ({error}); {hint}.") from error
    except OSError as error:
        raise DataError(f"{source} could not be downloaded to {folder} ({error}); check the network.") from error
    except Exception as error:  # each dataset class fails in its own way: assertions, parse errors, missing packages
        raise DataError(f"{source} could not be read by PyG ({type(error).__name__}: {error}).") from error
    return graph_of(dataset, source)


def graph_of(dataset: Any, source: str) -> Graph:
    """The one graph of a PyG dataset."""
    from torch_geometric.data import Data

    if len(dataset) != 1:
        raise DataError(f"{source} holds {len(dataset):,} graphs; expected a dataset of one graph.")
    data = dataset[0]
    if not isinstance(data, Data):
        raise DataError(f"{source} holds a {type(data).__name__}; expected one homogeneous graph (Data).")
    try:
        return Graph.from_pyg(data, name=source.removeprefix(PREFIX).rpartition("/")[2])
    except GraphError as error:
        raise DataError(f"{source}: {error}") from error


def _dataset_class(title: str) -> Any:
    from torch_geometric import datasets
    from torch_geometric.data import Dataset

    kind = getattr(datasets, title, None) if title in datasets.__all__ else None
    if not (inspect.isclass(kind) and issubclass(kind, Dataset)):
        near = difflib.get_close_matches(title, datasets.__all__, n=3, cutoff=0.5)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        raise DataError(f"PyG has no dataset {title!r}{hint}; write pyg:Class/name, e.g. pyg:Planetoid/Cora.")
    return kind


def _arguments(kind: Any) -> list[str]:
    return list(inspect.signature(kind.__init__).parameters)


def _name_argument(kind: Any, source: str) -> str:
    """PyG's classes call the choice of a sub-dataset ``name``, a few by another word."""
    for word in ("name", "city", "subset", "category", "lang", "region"):
        if word in _arguments(kind):
            return word
    raise DataError(f"{source}: this PyG dataset takes no name; write {source.partition('/')[0]}.")
